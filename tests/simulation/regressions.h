/* regressions.h: seeds that found something once. Whoever changes how scenarios are drawn replaces them, or drops them
 * where a test of its own shows the same. */
#ifndef LARDER_SIMULATION_REGRESSIONS_H
#define LARDER_SIMULATION_REGRESSIONS_H

#include <stdbool.h>
#include <stdint.h>

static const struct {
    const char *what;
    uint64_t seed;
    bool tight;
} regressions[] = {
    {"a sample is dealt to a rank that has left the epoch", 185, false},
    {"a rank leaves an epoch before it begins, and dies", 724, false},
    {"a rank dies after its share with batches in its hands, while another is ahead", 11993, false},
    {"a job's place is free, and its empty lists name the first entry of another job", 7, false},
    {"a pick is shared, and the instance begun for one job counts no want of the next", 27, false},
    {"free space is in pieces, and a substitute at the head of a queue finds no room", 4607, false},
    {"the same, with a batch of several slots", 6045, false},
    {"what is ready for a stopped client lies between the pieces of free space", 25628, false},
    {"free space is in pieces, and two jobs that wait have each a part of what they need", 9186, false},
    {"free space is in pieces about a sample that is ready, and the rest of its batch finds no room", 51314, false},
    {"a sample that cannot be read is read ahead for ever", 241, false},
    {"free space is in pieces between batches that clients hold while they wait for the next", 15738, false},
    {"the same, and the job that waits has nothing yet", 57860, false},
    {"the same, in a later epoch", 188, true},
    {"the same, among jobs with several ranks", 430, true},
    {"in the round of a pick for ranks, what is ready for them makes way for another job's", 61424, true},
    {"no slot is long enough for a job that comes, until what is being prepared is ready", 1243, false},
    {"a bad sample is planned again, by a rank that comes back, and counts as another", 4233, false},
    {"a bad sample fills a rank's share up, goes back with it, and counts as another", 4472, false},
    {"the same, until limits.bad fails the job", 4115, true},
};

#endif
