/* times.c: the observer that counts how long things take, for the metrics. */
#include "common/clock.h"
#include "server/driver/driver_priv.h"

void driver_times_action(void *ctx, const struct engine_action *action)
{
    struct driver *driver = ctx;
    if (action->type != ENGINE_DELIVER || action->deliver.count == 0)
        return;
    struct driver_job *job = &driver->tables.jobs[action->job];
    struct driver_rank *rank = &job->ranks[action->rank];
    uint64_t now_ns = clock_now_ns();
    histogram_add(&job->waits, (double)action->deliver.stall_ns / (double)CLOCK_NS_PER_S);
    if (rank->delivered_ns)
        histogram_add(&job->intervals, (double)(now_ns - rank->delivered_ns) / (double)CLOCK_NS_PER_S);
    rank->delivered_ns = now_ns;
}

void driver_times_read(void *ctx, const struct worker_read *read)
{
    struct driver *driver = ctx;
    if (read->took_ns) /* 0: it was not begun */
        histogram_add(&driver->loads, (double)read->took_ns / (double)CLOCK_NS_PER_S);
}

void driver_times_prepared(void *ctx, const struct worker_cost *cost)
{
    struct driver *driver = ctx;
    if (cost->took_ns)
        histogram_add(&driver->preparations, (double)cost->took_ns / (double)CLOCK_NS_PER_S);
}
