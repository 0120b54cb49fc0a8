/* governor_scene.h: what the governor's unit tests have in common. LARDER_SEED sets the random tests' seed. */
#ifndef LARDER_TESTS_UNIT_SERVER_GOVERNOR_GOVERNOR_SCENE_H
#define LARDER_TESTS_UNIT_SERVER_GOVERNOR_GOVERNOR_SCENE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

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

#endif
