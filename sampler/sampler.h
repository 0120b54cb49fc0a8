/* sampler.h: the sampler decides which samples come next, and for which jobs together. It does no I/O and reads no
 * clock. One thread owns it (the engine's).
 *
 * Dependent jobs of a round draw by JOADER's dependent sampling. Each draw is uniform for the job alone, and common
 * as often as the paper's conditional probabilities allow; dependent_priv.h explains and proves it. The calls below
 * take about 0.1 µs a job, unless they say otherwise.
 *
 * The sampler holds each job's remaining set R_j. A round takes the jobs that need a pick now and answers with
 * picks: a sample and the set S of jobs it is drawn for. Each job of the round that has something left is in exactly
 * one pick, and the pick has left R_j for every j in S. For one job alone a draw is uniform over R_j. A `strict` job
 * gets the next of a permutation that seed and epoch determine; a `none` job the next in the view's given order.
 *
 * R_j may be a multiset: then each sample has as many draws as it is in it. A draw is uniform over all draws that are
 * left, or over the samples that have one left where their copies are dealt together (multiset.h). */
#ifndef LARDER_SAMPLER_SAMPLER_H
#define LARDER_SAMPLER_SAMPLER_H

#include "common/error.h"
#include "common/types.h"
#include "sampler/idset.h"
#include "sampler/multiset.h"

#define SAMPLER_SOME 64

struct sampler;

struct pick {
    sample_id id;
    struct jobset jobs;
};

struct sampler_job {
    enum shuffle_mode shuffle;
    uint64_t seed;            /* `strict` only */
    const struct idset *view; /* not empty; borrowed for the call, the sampler keeps its own copy */
    /* The view's ids in the dataset's order, idset_count(view) of them, borrowed for the call. `none` delivers this
     * order and `strict` permutes it, so that neither depends on how ids were given. NULL: `strict` permutes the
     * ascending ids. */
    const sample_id *order;
    /* `strict`, `none`: the job gets the positions of the order whose remainder by `stride` is one of `ranks` from
     * `first` on; first + ranks ≤ stride. stride 0: all of them. */
    struct sampler_part {
        uint32_t stride, first, ranks;
    } part;
    /* What an epoch is; borrowed until the job is removed. NULL: the view. Dependent jobs only. */
    const struct multiset *multiset;
};

struct sampler *sampler_create(uint64_t seed);
void sampler_destroy(struct sampler *sampler); /* accepts NULL */

/* sampler_add_job puts a job into place `job` (< JOBS_MAX, free). Its remaining set is empty until an epoch starts.
 * LARDER_ENOMEM. Linear in the view's ids' range (bits: about 0.2 ms for two million). */
int sampler_add_job(struct sampler *sampler, unsigned job, const struct sampler_job *desc, struct error *err);
void sampler_remove_job(struct sampler *sampler, unsigned job);

/* sampler_start_epoch puts the whole view back: R_j = view, or the job's part of it, whatever was left before. It
 * cannot fail. It copies one bit for each id. For `strict` it also writes out the sorted view, which takes a
 * millisecond per million ids. For a part of a `strict` order it shuffles all of it, which takes tens of
 * milliseconds. */
void sampler_start_epoch(struct sampler *sampler, unsigned job, uint32_t epoch);

/* sampler_start_rest is sampler_start_epoch for a job that gets a part of an order, where something of the epoch was
 * taken before. `gone` is called once for each sample of the order, the first one first, and tells whether it was
 * taken. The part is then one of the order without those. */
struct sampler_rest {
    bool (*gone)(void *context);
    void *context;
};
void sampler_start_rest(struct sampler *sampler, unsigned job, uint32_t epoch, const struct sampler_rest *rest);

/* sampler_start_multiset is for a job that has a multiset. It comes after sampler_start_epoch, which leaves such a job
 * nothing: R_j has each sample as often as `counts` says, in the order of multiset_ids. That is the epoch's multiset,
 * or what the job gets of it. A sample may be put back until it has `most` draws, or as many as any has here. It takes
 * tens of milliseconds for a million samples. LARDER_ENOMEM: nothing is left. */
int sampler_start_multiset(struct sampler *sampler, unsigned job, const uint32_t *counts, uint32_t most);

bool sampler_wants(const struct sampler *sampler, unsigned job, sample_id id); /* id ∈ R_j */
uint64_t sampler_remaining(const struct sampler *sampler, unsigned job);       /* |R_j|: the draws that are left */
uint64_t sampler_bytes(const struct sampler *sampler);                         /* memory that it holds */

/* sampler_each_left calls visit for each id of R_j, sampler_each_viewed for each id of the view, in ascending order.
 * The time that this takes depends on their number, not on the ids' range. visit does not change the sampler. */
typedef void sampler_visit(void *context, sample_id id);
void sampler_each_left(const struct sampler *sampler, unsigned job, sampler_visit *visit, void *context);
void sampler_each_viewed(const struct sampler *sampler, unsigned job, sampler_visit *visit, void *context);

/* A copy of what is left to a job: a bit for each id, from first_id on. */
struct sampler_left {
    sample_id first_id; /* a multiple of 64 */
    size_t n_words;
    uint64_t *words; /* malloc'ed */
    uint64_t count;  /* bits that are set */
};

/* sampler_copy_left copies R_j of a dependent job. Its time is that of copying a bit an id. LARDER_EINVAL: the job is
 * `strict` or `none`; LARDER_ELIMIT: its ids range too far; LARDER_ENOMEM. sampler_left_clear frees a copy. */
int sampler_copy_left(const struct sampler *sampler, unsigned job, struct sampler_left *out);
void sampler_left_clear(struct sampler_left *left);

/* sampler_tree returns the sizes of the dependent sampling tree's vertices (the paper's section 4) for n jobs, whose
 * sets ascend by count. Job i and all that follow it have shared[i] samples in common that job i - 1 has not; own[i]
 * samples are in job i's leaf. shared[n - 1] is 0. Pure; any thread. LARDER_ENOMEM. */
int sampler_tree(const struct sampler_left *lefts, size_t n, uint64_t *shared, uint64_t *own);

/* sampler_round draws one pick for each job of `need` that has something left. picks has room for jobset_count(need)
 * of them. It returns the number of picks. */
size_t sampler_round(struct sampler *sampler, const struct jobset *need, struct pick *picks);

/* sampler_places writes into at[id] the place, from 0, that each id has among those that the job gets in the order of
 * this epoch. `at` has room for all of the view's, and stays as it is elsewhere. The job is `strict` or `none`.
 * LARDER_ENOMEM. */
int sampler_places(const struct sampler *sampler, unsigned job, uint32_t epoch, uint32_t *at);

/* sampler_take removes id, or one of its draws, from R_j; it must be there. Redirection uses it, and a job that joins a
 * prepared instance. sampler_take_draws removes all draws of id that are there, and returns how many. sampler_put_back
 * undoes so many picks for one job: they are in R_j again. If that is no multiset, id must not be there, and draws is 1
 * at most. All CHECK that the job is not `strict` or `none`, whose order is fixed. */
void sampler_take(struct sampler *sampler, unsigned job, sample_id id);
uint32_t sampler_take_draws(struct sampler *sampler, unsigned job, sample_id id);
void sampler_put_back(struct sampler *sampler, unsigned job, sample_id id, uint32_t draws);

/* These two resume an epoch. sampler_take_all removes the ids, all of which must be in R_j, from R_j of a dependent
 * job. On LARDER_ENOMEM it has removed none. Its time is that of copying one bit for each id. sampler_draw_some draws
 * the next n samples of a `strict` or `none` job outside of a round; at least n must be left, and n is SAMPLER_SOME at
 * most. For large views it takes a fraction of the time of n rounds. */
int sampler_take_all(struct sampler *sampler, unsigned job, const struct idset *ids);
void sampler_draw_some(struct sampler *sampler, unsigned job, sample_id *ids, size_t n);

/* sampler_first returns the sample at a position of the epoch's order, or of its rest, of a job that gets a part of a
 * `strict` or `none` order; position < the part's stride, and modulo the samples of that. */
sample_id sampler_first(const struct sampler *sampler, unsigned job, uint64_t position);

#endif
