/* deal.h: deals the samples of an epoch to the ranks of a job on several nodes. All functions are pure, so every node
 * computes the same result, and nothing needs to be sent.
 *
 * A dependent job's view is dealt by chunks. Its chunks are permuted by a stream keyed with the seed and the epoch, and
 * the samples inside a chunk by one keyed with the chunk too. This sequence is cut into one run a rank. So all chunks
 * except those at the ends of a run lie whole in it. A run is the set of samples that a rank gets, not their order.
 * If the ranks had a part of the epoch before, the rest of the sequence is cut into runs.
 *
 * Where an epoch is a multiset, a sample has as many places beside each other in the sequence as it comes in the epoch.
 * So all turns of a sample are with one rank, unless they lie at the end of a run. But where all samples come equally
 * often, and no oftener than there are ranks, the turns of each are with different ranks, which are neighbours.
 *
 * Deals at home (deal_at_home) let nodes keep what they have in memory. Their chunks have one order in all epochs, and
 * the epoch permutes only a part of it. A chunk's home is the rank in whose run it lies before that. Homes depend on
 * the dataset and the view alone, not on the seed: so trainings that cut the order alike share at each node. Nor do
 * they depend on who is there, so nodes that believe different nodes to be there deal alike.
 *
 * A `strict` or `none` job needs no deal: rank r gets the positions r, r + world_size, … of its order. */
#ifndef LARDER_SERVER_CLUSTER_DEAL_H
#define LARDER_SERVER_CLUSTER_DEAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/types.h"
#include "sampler/idset.h"

struct deal; /* a view, by chunks */

/* Some neighbouring ranks of a job. */
struct deal_ranks {
    uint32_t world_size;     /* ≥ 1 */
    uint32_t first, n_ranks; /* first + n_ranks ≤ world_size */
    bool drop_last;          /* all ranks get equally many samples, and fewer than world_size go to none */
};

/* deal_create sorts a view by chunks. ids are its samples, each once, ascending by their index in the dataset. Indexes
 * are the same on all nodes; ids need not be. chunk_of[i] is the chunk of ids[i], below n_chunks. NULL: each sample is
 * a chunk of its own, and n_chunks is ignored. Everything is borrowed for the call. The caller destroys *out.
 * LARDER_ENOMEM. */
int deal_create(const sample_id *ids, const uint32_t *chunk_of, uint32_t count, uint32_t n_chunks, struct deal **out);
void deal_destroy(struct deal *deal); /* accepts NULL */

/* deal_at_home has every epoch deal chunks to their homes, but for `mix` of DEAL_MIX_ALL of them, drawn anew for each
 * epoch, which change places with each other. */
#define DEAL_MIX_ALL 1000000
void deal_at_home(struct deal *deal, uint32_t mix);

/* deal_count returns how many of `count` samples these ranks get, in every epoch. */
uint32_t deal_count(uint32_t count, const struct deal_ranks *ranks);

/* deal_share returns the samples that these ranks get in an epoch of a dependent job. `gone` has the samples of the
 * view that all ranks of the job together had before the epoch was begun anew, perhaps by other ranks at other nodes;
 * NULL: none. Then the sequence is what it was without them, and is cut again: with the same ranks most chunks stay
 * where they were. Its time is that of permuting the chunks, of permuting two of them inside, of looking for each
 * sample in `gone`, and of adding the samples to a set. The caller destroys *out. LARDER_ENOMEM. */
int deal_share(const struct deal *deal, uint64_t seed, uint32_t epoch, const struct idset *gone,
               const struct deal_ranks *ranks, struct idset **out);

/* deal_draws leaves in `counts` how often each sample comes to these ranks in an epoch that is a multiset. The deal's
 * ids are the numbers 0 … count - 1, by which `counts` is indexed, and the view's order. `counts` has how often each
 * comes in the epoch. They sum up to UINT32_MAX at most, and the ranks get deal_count of that sum. LARDER_ENOMEM. */
int deal_draws(const struct deal *deal, uint64_t seed, uint32_t epoch, const struct deal_ranks *ranks,
               uint32_t *counts);

#endif
