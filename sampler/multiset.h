/* multiset.h: how often each sample comes in an epoch, where an epoch is not the view with each sample once.
 *
 * An epoch is a multiset of the view's positions. Which one it is depends on the multiset, its seed and the number of
 * the epoch alone, and on the order of the samples, not on their ids: so each daemon works out the same one.
 *
 *   repeat    each sample `copies` times; they are dealt together, one after the other
 *   weights   `draws` draws with replacement, each in proportion to the samples' weights
 *   balanced  `draws` draws, of each class as many as of every other, give or take one; and within a class of each
 *             sample as many as of every other, give or take one
 *   given     each sample as often as `counts` says, in every epoch: what a home gives of another node's epoch
 *
 * Pure. A multiset does not change once it is made, and any thread may read it. */
#ifndef LARDER_SAMPLER_MULTISET_H
#define LARDER_SAMPLER_MULTISET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/types.h"

#define MULTISET_COPIES_MAX 64
#define MULTISET_DRAWS_MAX UINT32_MAX

enum multiset_kind { MULTISET_NONE, MULTISET_REPEAT, MULTISET_WEIGHTS, MULTISET_BALANCED, MULTISET_GIVEN };

/* What to make one of. All is borrowed for the call. */
struct multiset_spec {
    enum multiset_kind kind;
    uint32_t copies;        /* repeat: 2 … MULTISET_COPIES_MAX */
    uint64_t draws;         /* weights, balanced: 1 … MULTISET_DRAWS_MAX; 0: as many as the view has samples */
    uint64_t seed;          /* weights, balanced */
    const sample_id *ids;   /* the view's samples, in the dataset's order */
    const double *weights;  /* one for each of ids: finite, 0 or more, and not all 0 */
    const int32_t *labels;  /* balanced: one for each of ids */
    const uint32_t *counts; /* given: one for each of ids, not all 0; they sum up to MULTISET_DRAWS_MAX at most */
    bool together;          /* given: the copies of a sample, MULTISET_COPIES_MAX at most, are dealt together */
    uint32_t count;         /* of ids, ≥ 1 */
};

struct multiset;

/* multiset_create checks the spec and makes a multiset of it. LARDER_EINVAL, LARDER_ENOMEM. */
int multiset_create(const struct multiset_spec *spec, struct multiset **out, struct error *err);
void multiset_destroy(struct multiset *multiset); /* accepts NULL */

uint64_t multiset_draws(const struct multiset *multiset); /* of each epoch */
/* multiset_is_together tells whether the copies of a sample are dealt together. */
bool multiset_is_together(const struct multiset *multiset);
/* multiset_digest returns a number that tells multisets apart. It is the same in each daemon. */
uint64_t multiset_digest(const struct multiset *multiset);
/* multiset_ids returns the samples, in the dataset's order, and how many they are. */
const sample_id *multiset_ids(const struct multiset *multiset, uint32_t *count);
/* multiset_epoch writes how often each of the samples comes in an epoch, in the order of multiset_ids. `room` has a
 * number for each. LARDER_ENOMEM. The time is linear in samples. Many draws by weight add a few bits of random
 * numbers each: 10^8 draws of 10^6 samples take .2 s. */
int multiset_epoch(const struct multiset *multiset, uint32_t epoch, uint32_t *room);

#endif
