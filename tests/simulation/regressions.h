/* regressions.h: seeds that found something once. Whoever changes how scenarios are drawn replaces them, or drops them
 * where a test of its own shows the same. */
#ifndef LARDER_SIMULATION_REGRESSIONS_H
#define LARDER_SIMULATION_REGRESSIONS_H

#include <stdint.h>

#include "tests/simulation/scenario.h"

static const struct {
    const char *what;
    uint64_t seed;
    unsigned kind; /* enum scenario_kind */
} regressions[] = {
    {"a sample is dealt to a rank that has left the epoch", 185, 0},
    {"a rank leaves an epoch before it begins, and dies", 724, 0},
    {"a rank dies after its share with batches in its hands, while another is ahead", 11993, 0},
    {"a job's place is free, and its empty lists name the first entry of another job", 7, 0},
    {"a pick is shared, and the instance begun for one job counts no want of the next", 27, 0},
    {"free space is in pieces, and a substitute at the head of a queue finds no room", 4607, 0},
    {"the same, with a batch of several slots", 6045, 0},
    {"what is ready for a stopped client lies between the pieces of free space", 25628, 0},
    {"free space is in pieces, and two jobs that wait have each a part of what they need", 9186, 0},
    {"free space is in pieces about a sample that is ready, and the rest of its batch finds no room", 51314, 0},
    {"a sample that cannot be read is read ahead for ever", 241, 0},
    {"free space is in pieces between batches that clients hold while they wait for the next", 15738, 0},
    {"the same, and the job that waits has nothing yet", 57860, 0},
    {"the same, in a later epoch", 188, SCENARIO_TIGHT},
    {"the same, among jobs with several ranks", 430, SCENARIO_TIGHT},
    {"in the round of a pick for ranks, what is ready for them makes way for another job's", 61424, SCENARIO_TIGHT},
    {"no slot is long enough for a job that comes, until what is being prepared is ready", 1243, 0},
    {"a bad sample is planned again, by a rank that comes back, and counts as another", 4233, 0},
    {"a bad sample fills a rank's share up, goes back with it, and counts as another", 4472, 0},
    {"the same, until limits.bad fails the job", 4115, SCENARIO_TIGHT},
    {"an epoch is restored with batches of another size, under drop_last", 1986, SCENARIO_RESTARTS},
    {"the same, with several ranks", 2115, SCENARIO_RESTARTS},
    {"a rank that is behind asks for an epoch of which nothing is left", 2555, SCENARIO_RESTARTS},
    {"a source is away a second time, and what was waited before counts", 50073, SCENARIO_RESTARTS},
    {"little is left of an epoch, and what fills it up is bad", 79579, SCENARIO_RESTARTS},
    {"a source is away, and a sample that is given up was to show whether it answers", 942848, 0},
    {"what a job waits for in vain goes back as unneeded, and is reserved again, for ever", 1013857, SCENARIO_TIGHT},
    {"a job is cancelled, and its client asks in the same moment", 971145, 0},
    {"a sample fails its job, whose client asks for the next epoch in the same moment", 50006919, 0},
    {"the last rank that stood still leaves at once, and another waits for it", 911465, SCENARIO_TIGHT},
    {"the whole arena had no room for what a job waits for, and part of it went back: it waits for more, for ever",
     1090005272, SCENARIO_TIGHT},
    {"all of the arena is there in pieces, goes back as unneeded, and is reserved again, for ever", 310169575, 0},
    {"a sample is bad again and again, and its rank seems to starve between", 400000840, SCENARIO_TIGHT},
    {"a source is probed, its jobs leave and others come, and then the probe fails", 120024336, SCENARIO_RESTARTS},
    {"a sample is bad in one dataset, another's job waits for it, and it is read ahead for ever", 100066718,
     SCENARIO_TIGHT},
    {"free space is in pieces between what is ready behind the sample that finds no room", 100042884, SCENARIO_TIGHT},
    {"the same, and another comes while that one waits", 220012972, SCENARIO_RESTARTS},
    {"a rank takes its last batch again, and its state says that what it left is behind it", 120048718,
     SCENARIO_RESTARTS},
    {"a state is asked for, and before the answer a rank goes that has released its batches out of order", 12874,
     SCENARIO_RESTARTS},
    {"an entry gives good substitutes up for want of room, and gets bad ones now and then", 800031295, SCENARIO_TIGHT},
    {"a rank leaves an epoch, and further copies of a sample come to one that has had it", 7554, SCENARIO_MULTISETS},
    {"all samples that an epoch draws are bad, and most of the view is not", 7063, SCENARIO_MULTISETS | SCENARIO_TIGHT},
};

#endif
