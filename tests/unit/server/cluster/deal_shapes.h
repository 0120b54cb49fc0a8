/* deal_shapes.h: views of datasets for tests of deals, and what must hold of every deal of them. */
#ifndef TESTS_UNIT_SERVER_CLUSTER_DEAL_SHAPES_H
#define TESTS_UNIT_SERVER_CLUSTER_DEAL_SHAPES_H

#include "common/random.h"
#include "server/cluster/deal.h"

enum { SAMPLES_MAX = 4096 };

/* The seed of all deals and draws. */
extern uint64_t seed;

/* A view of a dataset that lies in chunks. */
struct shape {
    const char *name;
    uint32_t count, n_chunks;
    bool chunked;
    sample_id ids[SAMPLES_MAX];
    uint32_t chunk_of[SAMPLES_MAX];
};

enum kind { KIND_EMPTY, KIND_ONE, KIND_ONE_CHUNK, KIND_EVEN, KIND_RAGGED, KIND_SPARSE, KIND_MIXED, KIND_SINGLE, KINDS };

/* How often samples come: each three times, each up to five times, one in nine of them up to a hundred, once, never. */
enum times { TIMES_THREE, TIMES_FEW, TIMES_RARE, TIMES_ONCE, TIMES_NEVER, TIMES };

/* The ids are no ascending function of the index, as when several datasets share samples. */
void make_shape(struct shape *shape, enum kind kind);
/* deal_of deals the view's samples by their ids, numbers_of by their numbers in the view. The caller destroys them. */
struct deal *deal_of(const struct shape *shape);
/* share_of returns the share of an epoch that the ranks have; the caller destroys it. */
struct idset *share_of(const struct shape *shape, const struct deal *deal, uint32_t epoch,
                       const struct deal_ranks *ranks);
/* check_world asserts that the shares of all ranks are disjoint, of the view, equal up to one, and together all but
 * what is dropped; and that neighbours get together what each gets alone. */
void check_world(const struct shape *shape, const struct deal *deal, uint32_t world_size, bool drop_last);
/* begin_set makes an empty set. */
struct idset *begin_set(void);
/* take_some asserts the same of the shares of all ranks of what is not gone. Then `gone` has `most` random samples of
 * each share too, or all of it if that has no more. */
void take_some(const struct shape *shape, const struct deal *deal, const struct deal_ranks *world, uint64_t most,
               struct rng *rng, struct idset *gone);
/* make_counts makes how often each sample comes, and returns the sum. */
uint32_t make_counts(const struct shape *shape, enum times times, uint32_t *counts);
struct deal *numbers_of(const struct shape *shape);
/* draws_of sets `out` to how often the ranks get each sample of a multiset. */
void draws_of(const struct shape *shape, const struct deal *deal, const struct deal_ranks *ranks,
              const uint32_t *counts, uint32_t *out);
/* check_draws asserts that the draws of all ranks are the multiset, but for what is dropped; that neighbours get
 * together what each gets alone; and that two neighbours have turns of one common sample at most. But `apart`: no rank
 * has two turns of a sample. */
void check_draws(const struct shape *shape, const struct deal *deal, const uint32_t *counts, uint32_t world_size,
                 bool drop_last, bool apart);

#endif
