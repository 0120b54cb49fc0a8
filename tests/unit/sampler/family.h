/* family.h: a few jobs on a few ids, kept twice: in the materialised tree and as plain bit masks that go through the
 * same history. What the tests of the law and of the tree's shape share. */
#ifndef LARDER_TESTS_SAMPLER_FAMILY_H
#define LARDER_TESTS_SAMPLER_FAMILY_H

#include "tests/unit/sampler/helpers.h"

#include "tests/bench/virtual/sampler/materialised_priv.h"

#define FAMILY_JOBS 4
#define FAMILY_IDS 6
#define FAMILY_OUTCOMES 2401 /* (FAMILY_IDS + 1) to the power of FAMILY_JOBS: an id or nothing for each job */

/* At the start, across a block's end, across a page's end, far off. */
static const sample_id family_ids[FAMILY_IDS] = {0, 4095, 4096, 65535, 65536, 3000000};

struct family_job {
    bool in;             /* in the tree */
    unsigned view, left; /* masks over family_ids */
};

struct family {
    struct materialised *tree;
    struct rng rng;
    struct family_job jobs[FAMILY_JOBS];
    /* What the tests count to know that a history had it. */
    unsigned smaller, larger, deletions, flips, epochs;
};

static inline unsigned weight_of(unsigned set)
{
    return (unsigned)__builtin_popcount(set);
}

static inline unsigned index_of_id(sample_id id)
{
    unsigned at = 0;
    while (at < FAMILY_IDS && family_ids[at] != id)
        at++;
    assert_in_range(at, 0, FAMILY_IDS - 1);
    return at;
}

static inline struct idset *idset_of(unsigned mask)
{
    struct idset *set;
    assert_int_equal(idset_create(&set), 0);
    for (unsigned i = 0; i < FAMILY_IDS; i++)
        if (mask >> i & 1)
            idset_add(set, family_ids[i]);
    return set;
}

/* Which of the ids are in a set; there are no others in it. */
static inline unsigned mask_of(const struct idset *set)
{
    unsigned mask = 0;
    for (unsigned i = 0; i < FAMILY_IDS; i++)
        mask |= (unsigned)idset_contains(set, family_ids[i]) << i;
    assert_int_equal(idset_count(set), weight_of(mask));
    return mask;
}

/* An outcome of a round as a number: what each job got, a digit a job, 0 for nothing. */
static inline size_t outcome_of(const struct pick *picks, size_t n_picks)
{
    size_t outcome = 0;
    for (size_t i = 0; i < n_picks; i++)
        JOBSET_EACH(job, &picks[i].jobs) {
            size_t digit = index_of_id(picks[i].id) + 1;
            for (unsigned below = 0; below < job; below++)
                digit *= FAMILY_IDS + 1;
            outcome += digit;
        }
    return outcome;
}

static inline struct family make_family(uint64_t seed)
{
    struct family family = {.tree = materialised_create()};
    random_seed(&family.rng, seed);
    return family;
}

static inline void insert_job(struct family *family, unsigned job, unsigned left)
{
    bool smallest = true;
    for (unsigned other = 0; other < FAMILY_JOBS; other++)
        smallest &= !family->jobs[other].in || weight_of(left) <= weight_of(family->jobs[other].left);
    *(smallest ? &family->smaller : &family->larger) += 1;
    struct idset *set = idset_of(left);
    materialised_insert(family->tree, job, set);
    idset_destroy(set);
    family->jobs[job].in = true;
    family->jobs[job].left = left;
}

static inline void delete_job(struct family *family, unsigned job)
{
    materialised_delete(family->tree, job);
    family->jobs[job].in = false;
    family->deletions++;
}

static inline void remove_sample(struct family *family, sample_id id, const struct jobset *jobs)
{
    materialised_remove(family->tree, id, jobs);
    JOBSET_EACH(job, jobs) {
        assert_true(family->jobs[job].left >> index_of_id(id) & 1);
        family->jobs[job].left &= ~(1u << index_of_id(id));
    }
}

/* A round whose picks leave the sets of their jobs. */
static inline void play_picks(struct family *family)
{
    struct pick picks[JOBS_MAX];
    size_t n_picks = materialised_round(family->tree, &family->rng, picks);
    for (size_t i = 0; i < n_picks; i++)
        remove_sample(family, picks[i].id, &picks[i].jobs);
}

/* One job gets a sample that was not drawn for it, or gives one back that it had. */
static inline void play_exchange(struct family *family, unsigned job)
{
    struct family_job *state = &family->jobs[job];
    unsigned at = (unsigned)random_below(&family->rng, FAMILY_IDS);
    struct jobset alone = {{0}};
    jobset_add(&alone, job);
    if (!(state->view >> at & 1))
        return;
    if (state->left >> at & 1) {
        remove_sample(family, family_ids[at], &alone);
    } else {
        materialised_add(family->tree, job, family_ids[at]);
        state->left |= 1u << at;
    }
}

static inline bool out_of_order(const struct family *family)
{
    for (unsigned at = 1; at < family->tree->n; at++)
        if (weight_of(family->jobs[family->tree->levels[at].job].left) <
            weight_of(family->jobs[family->tree->levels[at - 1].job].left))
            return true;
    return false;
}

/* Anything that can happen to a tree. */
static inline void play_event(struct family *family)
{
    unsigned job = (unsigned)random_below(&family->rng, FAMILY_JOBS);
    struct family_job *state = &family->jobs[job];
    uint64_t dice = random_below(&family->rng, 100);
    if (!state->in) {
        state->view = 1u << random_below(&family->rng, FAMILY_IDS); /* at least one */
        state->view |= (unsigned)random_below(&family->rng, 1u << FAMILY_IDS);
        insert_job(family, job, state->view);
    } else if (dice < 10) {
        delete_job(family, job);
    } else if (dice < 40 && state->left != state->view) { /* an epoch ends: all of the view is left again */
        delete_job(family, job);
        insert_job(family, job, state->view);
        family->epochs++;
    } else if (dice < 85) {
        play_exchange(family, job);
    } else {
        play_picks(family);
    }
    family->flips += out_of_order(family);
}

#endif
