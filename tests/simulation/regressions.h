/* regressions.h: seeds that found something once. Whoever changes how scenarios are drawn replaces them, or drops them where
 * a test of its own shows the same. */
#ifndef LARDER_SIMULATION_REGRESSIONS_H
#define LARDER_SIMULATION_REGRESSIONS_H

#include <stdint.h>

static const struct {
    const char *what;
    uint64_t seed;
} regressions[] = {
    {"the first seed", 1},
};

#endif
