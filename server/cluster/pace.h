/* pace.h: how a job gets on with one of its homes, and whether it is faster without it. Pure; one thread owns it.
 *
 * While a job stands still, it stands still for one home alone, or for others as well. Where all are alike, each is the
 * last as often as another. So the evidence against a home is a sum of signed times: for as long as the job stood still
 * for it alone, less as long as it stood still otherwise, and less what it would have taken to prepare here what came
 * from it meanwhile. The home is slow if this sum is PACE_DEVIATIONS times what chance would make of these times, the
 * root of the sum of their squares. If each time is as likely to speak for the home as against it, the sum is so large
 * at a given time with a probability of at most exp(-PACE_DEVIATIONS^2 / 2), which is 1 in 90, whatever the times are
 * (Hoeffding); and if one time in three speaks against it, in 400 times once in 10,000 runs (test_pace). So one hold-up
 * is never enough, however long it is, and nine alike are.
 *
 * A slow home is left for the rest of the epoch and for the next one, the second time for two more, then for four, and
 * so on. The evidence stays until it was asked in a whole epoch. */
#ifndef LARDER_SERVER_CLUSTER_PACE_H
#define LARDER_SERVER_CLUSTER_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define PACE_DEVIATIONS 3

struct pace {
    double sum_s, squares; /* the evidence: the signed times, and their squares */
    bool left;             /* It is not asked in this epoch. */
    uint32_t pause;        /* whole epochs without it when it was left last; 0: it was not */
    uint64_t again;        /* the first epoch that asks it again */
};

/* pace_saw adds a signed time, in seconds. It returns whether the home is slow now, and the time speaks against it. */
bool pace_saw(struct pace *pace, double signed_s);
/* pace_begin: an epoch begins. pace_leave: the home is left in it. Epochs ascend. */
void pace_begin(struct pace *pace, uint64_t epoch);
void pace_leave(struct pace *pace, uint64_t epoch);

#endif
