#include "server/workers/fetch.h"

#include <stdlib.h>
#include <time.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "server/storage/origins.h"

_Static_assert(FETCH_CLASSES_MAX == ORIGIN_CLASSES_MAX, "they are the same classes");

enum { STARVED_MS_MIN = 5, STARVED_MS_MAX = 200 };

#define STARVED_LOG_NS (10 * CLOCK_NS_PER_S)

static void sleep_ms(uint32_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (ms && nanosleep(&left, &left) != 0)
        ;
}

static uint32_t count_starved(const struct sample_read *reads, uint32_t n)
{
    uint32_t starved = 0;
    for (uint32_t i = 0; i < n; i++)
        starved += reads[i].err.code == LARDER_ELIMIT;
    return starved;
}

static void read_starved_again(const struct dataset *dataset, struct sample_read *reads, uint32_t n)
{
    struct sample_read *again = xcalloc(n, sizeof *again);
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (reads[i].err.code == LARDER_ELIMIT)
            again[count++] = reads[i];
    }
    dataset_read_many(dataset, again, count, 0);
    for (uint32_t i = n; i-- > 0;) {
        if (reads[i].err.code == LARDER_ELIMIT)
            reads[i] = again[--count];
    }
    free(again);
}

static void log_starved(struct fetch *fetch, const char *text)
{
    uint64_t now_ns = clock_now_ns(), last_ns = atomic_load_explicit(&fetch->starved_ns, memory_order_relaxed);
    if ((last_ns && now_ns - last_ns < STARVED_LOG_NS) ||
        !atomic_compare_exchange_strong_explicit(&fetch->starved_ns, &last_ns, now_ns, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    log_warn(
        "msg=\"reads wait until a file descriptor is free: raise the limit on open files (ulimit -n, LimitNOFILE=)\""
        " err=\"%s\"",
        text);
}

/* read_source reads samples. If no file descriptor is free, the samples are not at fault: they are read when there is
 * one again. It returns the time that it spent waiting, and leaves samples unread only when the workers are stopped. */
static uint64_t read_source(struct fetch *fetch, const struct fetch_read *read, struct sample_read *reads, uint32_t n)
{
    uint64_t waited_ns = 0, until_ns = read->until_ns;
    uint32_t wait_ms = STARVED_MS_MIN;
    if (fetch->delay_ms && until_ns) /* else a long delay would leave all samples but one */
        until_ns += fetch->delay_ms * CLOCK_NS_PER_MS;
    sleep_ms(fetch->delay_ms);
    dataset_read_many(read->dataset, reads, n, until_ns);
    for (uint32_t starved; (starved = count_starved(reads, n)) && !atomic_load(&fetch->stopping);) {
        uint32_t i = 0;
        while (reads[i].err.code != LARDER_ELIMIT)
            i++;
        log_starved(fetch, reads[i].err.text);
        uint64_t began_ns = clock_now_ns();
        sleep_ms(wait_ms);
        waited_ns += clock_now_ns() - began_ns;
        read_starved_again(read->dataset, reads, n);
        wait_ms = count_starved(reads, n) < starved ? STARVED_MS_MIN : wait_ms * 2;
        wait_ms = wait_ms < STARVED_MS_MAX ? wait_ms : STARVED_MS_MAX;
    }
    return waited_ns;
}

/* fetch_rest reads from the source what is not done. */
static uint64_t fetch_rest(struct fetch *fetch, const struct fetch_read *wanted, const struct origins_read *read,
                           uint32_t n)
{
    struct sample_read *rest = xcalloc(n, sizeof *rest);
    uint64_t bytes = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < read->count; i++) {
        if (read->done[i])
            continue;
        bytes += dataset_size(read->dataset, read->reads[i].index);
        rest[count++] = read->reads[i];
    }
    struct origins_source source = origins_source_begin(fetch->origins, read->device, bytes);
    uint64_t began_ns = clock_now_ns();
    uint64_t waited_ns = read_source(fetch, wanted, rest, count);
    for (uint32_t i = read->count; i-- > 0;) {
        if (!read->done[i])
            read->reads[i] = rest[--count];
    }
    free(rest);
    origins_source_end(fetch->origins, source, read,
                       (double)(clock_now_ns() - began_ns - waited_ns) / (double)CLOCK_NS_PER_S);
    return waited_ns;
}

uint64_t fetch_samples(struct fetch *fetch, const struct fetch_read *wanted, struct fetch_classed *classed)
{
    *classed = (struct fetch_classed){.class = 0};
    if (!fetch->origins)
        return read_source(fetch, wanted, wanted->reads, wanted->count);
    struct origins_read read = {.dataset = wanted->dataset,
                                .device = wanted->device,
                                .reads = wanted->reads,
                                .done = xcalloc(wanted->count + 1, sizeof(bool)),
                                .count = wanted->count};
    uint64_t began_ns = clock_now_ns();
    struct origins_classed came = origins_read_classes(fetch->origins, &read);
    if (came.samples > 0)
        *classed = (struct fetch_classed){came.class, came.samples, clock_now_ns() - began_ns};
    uint64_t waited_ns = came.samples < read.count ? fetch_rest(fetch, wanted, &read, read.count - came.samples) : 0;
    free(read.done);
    return waited_ns;
}
