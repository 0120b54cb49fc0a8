/* materialised_priv.h: the dependent sampling tree in the form of its paper (JOADER, NeurIPS 2022, section 4), with
 * every vertex stored as a roaring bitmap.
 *
 * The daemon does not use this form: it walks the same tree without storing it (dependent_priv.h). This one is the
 * reference. The tests compare both outcome by outcome, and `larder_bench tree --materialised` compares what they
 * cost. docs/internals/tree.md has a picture, docs/internals/measured/tree.md the figures.
 *
 * The tree. Jobs are in ascending order of |D|, and Sj is the intersection of Dj … Dn. Job j's level has two vertices:
 * `common` is the inner vertex Sj \ S(j-1), and `own` is the leaf Dj \ Sj. The next level hangs below `common`. The
 * last job has no leaf: its `common` is the tree's last vertex, and its `own` stays empty. So Dj is the union of all
 * `common` down to level j and of `own` of level j, and no two of these share an id.
 *
 * Why it is not what the daemon uses. Each insertion goes through the bitmaps of all smaller jobs. Each pick moves ids
 * between vertices. Above all, a round in which only some jobs need a sample has no place in the tree: the
 * intersection of jobs 1 and 3 is no union of its vertices. For the law of these jobs alone the others must be deleted
 * before the round and inserted after it.
 *
 * Two things differ from the paper's text. Its deletion merges two vertices and stops there; the jobs before the
 * deleted one then hold ids in leaves that all jobs after them have in common. Sharing falls below the definition, so
 * deletion here lifts these ids as well. And the paper does not say what happens when sizes change their order: here
 * a job that has become smaller than the one before it is deleted and inserted again.
 *
 * One owner thread. Where memory runs out the process stops: this is for benches and tests. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_SAMPLER_MATERIALISED_PRIV_H
#define LARDER_TESTS_BENCH_VIRTUAL_SAMPLER_MATERIALISED_PRIV_H

#include "common/random.h"
#include "common/types.h"
#include "sampler/idset.h"
#include "sampler/sampler.h"

struct vertex {
    struct idset *ids;
    uint64_t count; /* number of ids; CRoaring would add it up for each walk */
};

struct level {
    unsigned job;
    struct vertex common, own;
};

struct materialised {
    unsigned n;
    struct level levels[JOBS_MAX]; /* from the root; ascending by |D| since the last round began */
};

struct materialised *materialised_create(void);
void materialised_destroy(struct materialised *tree); /* accepts NULL */

/* materialised_insert puts a job, which is not in the tree yet, where its size belongs. It copies `left`. */
void materialised_insert(struct materialised *tree, unsigned job, const struct idset *left);
/* materialised_delete takes a job out. */
void materialised_delete(struct materialised *tree, unsigned job);

/* materialised_left returns what a job has left, as a new set that the caller destroys. */
struct idset *materialised_left(const struct materialised *tree, unsigned job);
uint64_t materialised_bytes(const struct materialised *tree);

/* materialised_round draws one sample for every job of the tree that has something left, and returns the number of
 * picks; picks has room for one a job. Nothing leaves the tree: the caller removes the picks. */
size_t materialised_round(struct materialised *tree, struct rng *rng, struct pick *picks);

/* materialised_remove takes id from all of `jobs`, each of which has it left. */
void materialised_remove(struct materialised *tree, sample_id id, const struct jobset *jobs);
/* materialised_add gives id back to a job that does not have it. */
void materialised_add(struct materialised *tree, unsigned job, sample_id id);

#endif
