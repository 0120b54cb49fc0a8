/* test_materialised.c: the tree that stores its vertices has, after any history, the vertices that its definition
 * gives, and draws what the daemon's sampler draws. */
#include "tests/unit/sampler/family.h"

#define HISTORIES 1000
#define EVENTS 60
#define DRAWS 30000    /* of each sampler in a comparison */
#define COMPARISONS 25 /* for all jobs, and as many for some of them */

/* ── the vertices ────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Every level's vertices are Sj \ S(j-1) and Dj \ Sj, worked out from the masks. */
static void check_vertices(const struct family *family)
{
    const struct materialised *tree = family->tree;
    unsigned above = 0, n_in = 0;
    for (unsigned job = 0; job < FAMILY_JOBS; job++)
        n_in += family->jobs[job].in;
    assert_int_equal(tree->n, n_in);
    for (unsigned at = 0; at < tree->n; at++) {
        const struct level *level = &tree->levels[at];
        unsigned suffix = ~0u, left = family->jobs[level->job].left;
        for (unsigned i = at; i < tree->n; i++)
            suffix &= family->jobs[tree->levels[i].job].left;
        assert_true(family->jobs[level->job].in);
        assert_int_equal(mask_of(level->common.ids), suffix & ~above);
        assert_int_equal(mask_of(level->own.ids), left & ~suffix);
        assert_int_equal(level->common.count, weight_of(suffix & ~above));
        assert_int_equal(level->own.count, weight_of(left & ~suffix));
        above = suffix;
        struct idset *whole = materialised_left(tree, level->job);
        assert_int_equal(mask_of(whole), left);
        idset_destroy(whole);
    }
}

/* Insertions of smaller and larger jobs, deletions, rounds, samples that change hands, sizes that change their order
 * and the ends of epochs all leave the vertices of the definition. */
static void test_vertices_are_those_of_the_definition(void **state)
{
    (void)state;
    uint64_t seed = test_seed(60);
    unsigned smaller = 0, larger = 0, deletions = 0, flips = 0, epochs = 0;
    for (uint64_t i = 0; i < HISTORIES; i++) {
        struct family family = make_family(seed + i);
        for (unsigned event = 0; event < EVENTS; event++) {
            play_event(&family);
            check_vertices(&family);
            struct pick picks[JOBS_MAX];
            materialised_round(family.tree, &family.rng, picks);
            assert_false(out_of_order(&family));
            check_vertices(&family);
        }
        smaller += family.smaller;
        larger += family.larger;
        deletions += family.deletions;
        flips += family.flips;
        epochs += family.epochs;
        materialised_destroy(family.tree);
    }
    assert_true(smaller > 1000 && larger > 1000 && deletions > 1000 && flips > 1000 && epochs > 1000);
}

/* D1 = {0, 1}, D2 = {1, 2, 3}, D3 = {0, 1, 2, 4}, and D2 is deleted: sample 0 was in the leaf of D1, and goes up into
 * the root, since all jobs that are left have it. */
static void test_deletion_lifts_what_has_become_common(void **state)
{
    (void)state;
    struct family family = make_family(1);
    static const unsigned masks[] = {1 | 2, 2 | 4 | 8, 1 | 2 | 4 | 16};
    for (unsigned job = 0; job < 3; job++)
        insert_job(&family, job, masks[job]);
    assert_int_equal(mask_of(family.tree->levels[0].common.ids), 2);
    delete_job(&family, 1);
    assert_int_equal(mask_of(family.tree->levels[0].common.ids), 1 | 2);
    check_vertices(&family);
    materialised_destroy(family.tree);
}

/* ── the daemon's sampler beside it ──────────────────────────────────────────────────────────────────────────────── */

/* The sampler with the same jobs at the same point of their epochs: what they no longer have is taken. */
static struct sampler *sampler_like(const struct family *family, uint64_t seed)
{
    struct sampler *sampler = sampler_create(seed);
    for (unsigned job = 0; job < FAMILY_JOBS; job++) {
        const struct family_job *state = &family->jobs[job];
        if (!state->in)
            continue;
        struct idset *view = idset_of(state->view);
        add_view(sampler, job, view, SHUFFLE_DEPENDENT);
        idset_destroy(view);
        sampler_start_epoch(sampler, job, 0);
        for (unsigned i = 0; i < FAMILY_IDS; i++)
            if ((state->view & ~state->left) >> i & 1)
                sampler_take(sampler, job, family_ids[i]);
    }
    return sampler;
}

/* Counts outcomes of first draws for the jobs of the tree, from the tree and from the sampler. */
static void count_outcomes(struct family *family, struct sampler *sampler, uint32_t *tree_counts, uint32_t *counts)
{
    struct jobset need = {{0}};
    struct pick picks[JOBS_MAX];
    for (unsigned at = 0; at < family->tree->n; at++)
        jobset_add(&need, family->tree->levels[at].job);
    for (unsigned i = 0; i < DRAWS; i++) {
        tree_counts[outcome_of(picks, materialised_round(family->tree, &family->rng, picks))]++;
        size_t n_picks = sampler_round(sampler, &need, picks);
        counts[outcome_of(picks, n_picks)]++;
        for (size_t pick = 0; pick < n_picks; pick++)
            JOBSET_EACH(job, &picks[pick].jobs)
                sampler_put_back(sampler, job, picks[pick].id, 1);
    }
}

/* How unlike each other two samples of the same number of outcomes are: chi-square of homogeneity, rare outcomes taken
 * together. */
static double unlike_z(const uint32_t *a, const uint32_t *b)
{
    double statistic = 0, cells = 0, rare_a = 0, rare_b = 0;
    for (size_t i = 0; i < FAMILY_OUTCOMES; i++) {
        double sum = (double)a[i] + b[i], apart = (double)a[i] - b[i];
        if (sum < 20) {
            rare_a += a[i];
            rare_b += b[i];
            continue;
        }
        statistic += apart * apart / sum;
        cells++;
    }
    if (rare_a + rare_b >= 20) {
        statistic += (rare_a - rare_b) * (rare_a - rare_b) / (rare_a + rare_b);
        cells++;
    }
    return cells > 1 ? chi_square_z(statistic, cells - 1) : 0;
}

/* Two or more jobs of pairwise different sizes: where sizes are equal, either order of the jobs is right and gives
 * another law (test_law_exact.c compares those as well). */
static bool comparable(const struct family *family, unsigned jobs)
{
    unsigned sizes = 0, n = 0;
    for (unsigned job = 0; job < FAMILY_JOBS; job++) {
        if (!(jobs >> job & 1))
            continue;
        unsigned size = 1u << weight_of(family->jobs[job].left);
        if (!family->jobs[job].in || size == 1 || (sizes & size))
            return false;
        sizes |= size;
        n++;
    }
    return n >= 2;
}

/* A round of the given jobs: the others are deleted from the tree, the sampler leaves them out. */
static void compare(struct family *family, unsigned jobs, uint64_t seed)
{
    static uint32_t tree_counts[FAMILY_OUTCOMES], counts[FAMILY_OUTCOMES];
    memset(tree_counts, 0, sizeof tree_counts);
    memset(counts, 0, sizeof counts);
    struct sampler *sampler = sampler_like(family, seed);
    unsigned out = 0;
    for (unsigned job = 0; job < FAMILY_JOBS; job++)
        if (family->jobs[job].in && !(jobs >> job & 1)) {
            delete_job(family, job);
            out |= 1u << job;
        }
    count_outcomes(family, sampler, tree_counts, counts);
    double z = unlike_z(tree_counts, counts);
    if (z > CHI_Z)
        fail_msg("%#x %#x %#x %#x, jobs %#x: the tree and the sampler draw differently: z = %.1f", family->jobs[0].left,
                 family->jobs[1].left, family->jobs[2].left, family->jobs[3].left, jobs, z);
    for (unsigned job = 0; job < FAMILY_JOBS; job++)
        if (out >> job & 1)
            insert_job(family, job, family->jobs[job].left);
    sampler_destroy(sampler);
}

/* Which sample goes to which jobs together has the same distribution in the tree and in the sampler, for rounds of all
 * jobs and of some, at any point of a history. Each of the 50 comparisons fails by chance once in a million. */
static void test_the_sampler_draws_like_the_tree(void **state)
{
    (void)state;
    uint64_t seed = test_seed(61);
    struct family family = make_family(seed);
    for (unsigned of_all = 0, of_some = 0; of_all < COMPARISONS || of_some < COMPARISONS;) {
        unsigned in = 0, jobs = (unsigned)random_below(&family.rng, 1u << FAMILY_JOBS);
        play_event(&family);
        for (unsigned job = 0; job < FAMILY_JOBS; job++)
            in |= (unsigned)family.jobs[job].in << job;
        bool all = jobs == in;
        if ((jobs & ~in) || !comparable(&family, jobs) || (all ? of_all : of_some) == COMPARISONS)
            continue;
        compare(&family, jobs, seed + of_all + of_some);
        *(all ? &of_all : &of_some) += 1;
    }
    materialised_destroy(family.tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vertices_are_those_of_the_definition),
        cmocka_unit_test(test_deletion_lifts_what_has_become_common),
        cmocka_unit_test(test_the_sampler_draws_like_the_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
