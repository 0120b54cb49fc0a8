/* regressions.h: seeds that found something once. Whoever changes how scenarios are drawn replaces them, or drops them
 * where a test of its own shows the same. */
#ifndef LARDER_SIMULATION_REGRESSIONS_H
#define LARDER_SIMULATION_REGRESSIONS_H

#include <stdint.h>

static const struct {
    const char *what;
    uint64_t seed;
} regressions[] = {
    {"a sample is dealt to a rank that has left the epoch", 185},
    {"a rank leaves an epoch before it begins, and dies", 724},
    {"a rank dies after its share with batches in its hands, while another is ahead", 11993},
    {"a job's place is free, and its empty lists name the first entry of another job", 7},
    {"a pick is shared, and the instance begun for one job counts no want of the next", 27},
    {"free space is in pieces, and a substitute at the head of a queue finds no room", 4607},
    {"the same, with a batch of several slots", 6045},
    {"what is ready for a stopped client lies between the pieces of free space", 25628},
    {"free space is in pieces, and two jobs that wait have each a part of what they need", 9186},
    {"free space is in pieces about a sample that is ready, and the rest of its batch finds no room", 51314},
    {"a sample that cannot be read is read ahead for ever", 241},
};

#endif
