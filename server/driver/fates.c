/* fates.c: the observer that tells the driver's owner which of this node's jobs come, fail and end. */
#include <stdlib.h>

#include "common/check.h"
#include "common/clock.h"
#include "server/driver/driver_priv.h"

static bool is_own(const struct driver *driver, uint32_t place)
{
    const struct registration *reg = driver->tables.jobs[place].reg;
    return driver->config.told && reg && !reg->guest.number;
}

/* What a job has had is known while the engine has it: the last time is before its last client is gone. */
void driver_fates_event(void *ctx, const struct engine_event *event)
{
    struct driver *driver = ctx;
    if (event->type != ENGINE_JOB_GONE || !is_own(driver, event->job_gone.job))
        return;
    struct driver_job *job = &driver->tables.jobs[event->job_gone.job];
    size_t n = engine_job_statuses(driver->engine, clock_now_ns(), driver->rows, JOBS_MAX);
    if (!job->last)
        job->last = xcalloc(1, sizeof *job->last);
    for (size_t i = 0; i < n; i++) {
        if (driver->rows[i].job == event->job_gone.job)
            *job->last = driver->rows[i];
    }
}

static enum driver_end end_of(const struct driver *driver, const struct driver_job *job)
{
    if (job->cancelled)
        return DRIVER_CANCELLED;
    for (uint32_t rank = 0; rank < job->reg->asked.world_size; rank++) {
        if (job->ranks[rank].lost)
            return driver->halted ? DRIVER_STOPPED : DRIVER_LOST;
    }
    return DRIVER_SAID_BYE;
}

void driver_fates_action(void *ctx, const struct engine_action *action)
{
    struct driver *driver = ctx;
    struct driver_told told = {.place = action->job, .now_ns = clock_now_ns()};
    struct error err;
    switch (action->type) {
    case ENGINE_JOB_ADDED:
        if (!driver->adding.reg || action->job_added.attached || driver->adding.reg->guest.number ||
            !driver->config.told)
            return;
        told.fate = DRIVER_CAME;
        told.text = driver->adding.reg->name;
        break;
    case ENGINE_JOB_ERROR:
        if (!is_own(driver, action->job) || driver->tables.jobs[action->job].cancelled)
            return;
        err = driver_job_error(driver, action);
        told.fate = DRIVER_FAILED;
        told.text = err.text;
        break;
    case ENGINE_JOB_ENDED:
        if (!is_own(driver, action->job))
            return;
        told.fate = DRIVER_ENDED;
        told.end = end_of(driver, &driver->tables.jobs[action->job]);
        told.last = driver->tables.jobs[action->job].last;
        break;
    default: return;
    }
    driver->config.told(driver->config.ctx, &told);
}
