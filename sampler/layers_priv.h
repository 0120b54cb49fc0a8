/* layers_priv.h: what is left of a multiset: sets of ids, laid one over the other.
 *
 * A sample that has c draws left is in the first c layers, up to LAYERS_SINGLE of them: each stands for one draw. What
 * it has beyond is in the layers above as the bits of a number: layer LAYERS_SINGLE + b stands for 2^b draws. So the
 * first layer has each sample that has any draw left, and a multiset of any size needs few layers.
 *
 * A layer that is chosen in proportion to the draws that it stands for, and a uniform draw from it, make a draw that is
 * uniform over all draws that are left: a sample comes in proportion to how many it has. So each job of a round draws
 * from one of its layers, and the jobs of the round share draws as they do from whole remaining sets. */
#ifndef LARDER_SAMPLER_LAYERS_PRIV_H
#define LARDER_SAMPLER_LAYERS_PRIV_H

#include "sampler/multiset.h"
#include "sampler/remaining_priv.h"

#define LAYERS_SINGLE 8
#define LAYERS_MAX (LAYERS_SINGLE + 32)

struct layers {
    const struct multiset *multiset;    /* borrowed */
    struct remaining *sets[LAYERS_MAX]; /* the first one is borrowed */
    unsigned n;
    uint64_t count; /* draws that are left */
};

/* layers_begin keeps the first layer, which the caller owns. Nothing is left until layers_fill. layers_end frees the
 * others. */
void layers_begin(struct layers *layers, const struct multiset *multiset, struct remaining *first);
void layers_end(struct layers *layers);
void layers_clear(struct layers *layers); /* nothing is left */
/* layers_fill has of each sample so many draws left, in the order of multiset_ids, and room for `most` of any. On
 * LARDER_ENOMEM nothing is left. */
int layers_fill(struct layers *layers, const uint32_t *counts, uint32_t most);
uint64_t layers_bytes(const struct layers *layers); /* without the first */
/* layers_choose returns a layer for a draw, by a number that is uniform over all of 64 bits. Some draw is left. Of two
 * jobs with equal layers the same number chooses the same one. */
struct remaining *layers_choose(const struct layers *layers, uint64_t number);
/* layers_times returns how many draws of the id are left. layers_change says how many are left from now on, of no more
 * than there is room for. */
uint64_t layers_times(const struct layers *layers, sample_id id);
void layers_change(struct layers *layers, sample_id id, uint64_t times);

#endif
