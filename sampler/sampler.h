/* sampler.h: which samples next, and for which jobs together. No I/O, no clock; one owner thread (the engine).
 *
 * Dependent jobs of a round draw by JOADER's dependent sampling: uniform for each alone, common as often as the paper's
 * conditional probabilities allow; dependent_priv.h explains and proves it. All the calls below are cheap (about 0.1 µs
 * a job), but for those that say so.
 *
 * The sampler holds each job's remaining set R_j. A round takes the jobs that need a pick now and answers with picks: a
 * sample and the set S of jobs it is drawn for. Each job of the round that has something left is in exactly one pick,
 * and the pick has left R_j for every j in S. For one job alone a draw is uniform over R_j (`strict`: the next of a
 * permutation of (seed, epoch); `none`: the next in the view's given order). */
#ifndef LARDER_SAMPLER_SAMPLER_H
#define LARDER_SAMPLER_SAMPLER_H

#include "common/error.h"
#include "common/types.h"
#include "sampler/idset.h"

struct sampler;

struct pick {
    sample_id id;
    struct jobset jobs;
};

struct sampler_job {
    enum shuffle_mode shuffle;
    uint64_t seed;             /* `strict` only */
    const struct idset *view;  /* borrowed for the call: the sampler keeps its own copy; not empty */
    /* The view's ids in the dataset's order, idset_count(view) of them: what `none` delivers and `strict` permutes, so that
     * neither depends on how ids were given. `strict` without one permutes the ids ascending. Borrowed for
     * the call. */
    const sample_id *order;
};

int sampler_create(uint64_t seed, struct sampler **out);
void sampler_destroy(struct sampler *sampler); /* accepts NULL */

/* sampler_add_job puts a job into place `job` (< JOBS_MAX, free). Its remaining set is empty until an epoch starts.
 * LARDER_ENOMEM. Linear in the view's ids' range (bits: about 0.2 ms for two million). */
int sampler_add_job(struct sampler *sampler, unsigned job, const struct sampler_job *desc, struct error *err);
void sampler_remove_job(struct sampler *sampler, unsigned job);

/* sampler_start_epoch puts the whole view back: R_j = view, whatever was left before. Cannot fail. Copies a bit an id;
 * `strict` writes out the sorted view as well (a millisecond per million ids). */
void sampler_start_epoch(struct sampler *sampler, unsigned job, uint32_t epoch);

bool sampler_wants(const struct sampler *sampler, unsigned job, sample_id id); /* id ∈ R_j */
uint64_t sampler_remaining(const struct sampler *sampler, unsigned job);       /* |R_j| */
uint64_t sampler_bytes(const struct sampler *sampler);                         /* memory it holds */

/* sampler_each_left calls visit for each id of R_j, ascending; sampler_each_viewed for each of the view. The work goes by
 * their number, not by the ids' range; visit leaves the sampler as it is. */
typedef void sampler_visit(void *context, sample_id id);
void sampler_each_left(const struct sampler *sampler, unsigned job, sampler_visit *visit, void *context);
void sampler_each_viewed(const struct sampler *sampler, unsigned job, sampler_visit *visit, void *context);

/* sampler_round draws one pick for each job of `need` that has something left. picks has room for jobset_count(need).
 * Returns the number of picks. */
size_t sampler_round(struct sampler *sampler, const struct jobset *need, struct pick *picks);

/* sampler_take removes id, which must be in R_j, for one job: what redirection and joining a prepared instance use.
 * sampler_put_back undoes a pick for one job: id, which must not be in R_j, is in it again. Both are refused (CHECK)
 * for `strict` and `none`, whose order is fixed. */
void sampler_take(struct sampler *sampler, unsigned job, sample_id id);
void sampler_put_back(struct sampler *sampler, unsigned job, sample_id id);

#endif
