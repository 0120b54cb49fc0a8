/* governor_scene.h: what the governor's unit tests have in common. LARDER_SEED sets the random tests' seed. */
#ifndef LARDER_TESTS_UNIT_SERVER_GOVERNOR_GOVERNOR_SCENE_H
#define LARDER_TESTS_UNIT_SERVER_GOVERNOR_GOVERNOR_SCENE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/governor/governor.h"

static inline uint64_t seed(void)
{
    const char *text = getenv("LARDER_SEED");
    uint64_t value = text ? strtoull(text, NULL, 10) : 7;
    print_message("LARDER_SEED=%llu\n", (unsigned long long)value);
    return value;
}

static inline bool near(double a, double b, double part)
{
    return a > b * (1 - part) && a < b * (1 + part);
}

/* Tasks at `threads`, when more than `peak` threads help no more and each beyond costs a little. */
static inline double true_rate(uint32_t threads, uint32_t peak)
{
    return threads <= peak ? 100.0 * threads : 100.0 * peak - 8.0 * (threads - peak);
}

static inline struct governor *make(uint32_t workers, uint32_t reads)
{
    struct governor *governor;
    struct governor_limits limits = {.workers = workers, .reads = reads, .tau_s = 0.010, .share = 0.5};
    assert_int_equal(governor_create(&limits, &governor), 0);
    return governor;
}

static inline void begin(struct governor *governor, uint32_t queue, uint32_t job, double weight)
{
    const struct governor_queue desc = {.job = job, .source = 0, .weight = weight};
    governor_queue_begin(governor, queue, &desc);
}

static inline void load(struct governor *governor, uint32_t queue, double seconds, uint32_t samples)
{
    governor_loaded(governor, queue, &(struct governor_read){seconds, samples, 1 + queue, 0});
}

static inline void prepare(struct governor *governor, uint32_t queue, uint32_t busy, double seconds)
{
    governor_prepared(governor, queue,
                      &(struct governor_preparation){.busy = busy, .encoded_bytes = 1000, .seconds = seconds});
}

#endif
