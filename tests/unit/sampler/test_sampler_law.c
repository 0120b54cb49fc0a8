/* test_sampler_law.c: the distribution of a round: uniform for each job, common as the paper says. Built twice: with
 * the sampler as it is, and with one that always counts intersections (DEPENDENT_TRIES 0), so that both ways are
 * judged. */
#include "tests/unit/sampler/helpers.h"

#define JOBS 4

struct range {
    sample_id first, end;
};

/* ── uniform first draws ─────────────────────────────────────────────────────────────────────────────────────────── */

typedef sample_id draw_fn(void *context, struct rng *rng);

/* The check that must pass a right sampler and fail a wrong one: count draws of [0, size) and compare. */
static double first_draw_z(draw_fn *draw, void *context, uint32_t size, uint64_t seed)
{
    uint32_t draws = size > 10000 ? 6 * size : 100 * size;
    struct rng rng;
    uint32_t *counts = calloc(size, sizeof *counts);
    assert_non_null(counts);
    random_seed(&rng, seed);
    for (uint32_t i = 0; i < draws; i++) {
        sample_id id = draw(context, &rng);
        assert_in_range(id, 0, size - 1);
        counts[id]++;
    }
    double z = uniform_z(counts, size);
    free(counts);
    return z;
}

struct drawn_job {
    struct sampler *sampler;
    unsigned job, n_jobs;
    sample_id first;
};

/* A round in which the others take part now and then. */
static sample_id draw_right(void *context, struct rng *rng)
{
    const struct drawn_job *drawn = context;
    struct jobset need = {{random_u64(rng) & ((UINT64_C(1) << drawn->n_jobs) - 1)}};
    sample_id ids[JOBS];
    jobset_add(&need, drawn->job);
    peek_round(drawn->sampler, &need, ids, drawn->n_jobs);
    return ids[drawn->job] - drawn->first;
}

/* Block first, as the published implementation does: blocks of 128, each as likely as the other. */
static sample_id draw_block_first(void *context, struct rng *rng)
{
    uint32_t size = *(uint32_t *)context, blocks = (size + 127) / 128;
    uint32_t block = (uint32_t)random_below(rng, blocks);
    uint32_t here = block + 1 < blocks ? 128 : size - block * 128;
    return block * 128 + (uint32_t)random_below(rng, here);
}

/* A sampler that picks a block first is found out by the very check that ours passes below. */
static void test_the_check_finds_block_first(void **state)
{
    (void)state;
    uint64_t seed = test_seed(10);
    const uint32_t sizes[] = {129, 1000, 65537};
    for (size_t i = 0; i < 3; i++) {
        uint32_t size = sizes[i];
        assert_true(first_draw_z(draw_block_first, &size, size, seed + i) > CHI_Z);
    }
}

/* Each job's first draw is uniform, for sizes that fill no block, with nested, crossing, equal and disjoint neighbours
 * that take part or not. */
static void test_first_draw_is_uniform(void **state)
{
    (void)state;
    uint64_t seed = test_seed(11);
    static const struct range families[][JOBS] = {
        {{0, 129}, {0, 60}, {64, 129}, {40, 80}},               /* nested */
        {{0, 129}, {100, 260}, {50, 170}, {128, 150}},          /* crossing */
        {{0, 129}, {0, 129}, {0, 129}, {0, 128}},               /* equal, and all but one */
        {{0, 129}, {200, 300}, {129, 140}, {1000000, 1000050}}, /* disjoint */
        {{65400, 65600}, {65536, 65700}, {65000, 65537}, {65400, 65601}},
        {{0, 65537}, {65000, 70000}, {0, 65536}, {4095, 4097}},
    };
    for (size_t family = 0; family < sizeof families / sizeof *families; family++) {
        struct sampler *sampler = sampler_create(seed + family);
        for (unsigned job = 0; job < JOBS; job++)
            start_range(sampler, job, families[family][job].first, families[family][job].end);
        for (unsigned job = 0; job < JOBS; job++) {
            struct drawn_job drawn = {sampler, job, JOBS, families[family][job].first};
            uint32_t size = families[family][job].end - drawn.first;
            double z = first_draw_z(draw_right, &drawn, size, seed + family * JOBS + job);
            if (z > CHI_Z)
                fail_msg("family %zu, job %u: z = %.2f", family, job, z);
        }
        sampler_destroy(sampler);
    }
}

/* ── the joint law ───────────────────────────────────────────────────────────────────────────────────────────────── */

#define SMALL 5 /* ids of the small universe */

/* The paper's recursion, literally, on sets as bit masks: adds to law[] the probability of every outcome; outcome is
 * base-SMALL digits, a job each. jobs: those still to draw, ascending by size of their sets. */
struct law {
    double probability[SMALL * SMALL * SMALL * SMALL];
    unsigned n_jobs;
};

static unsigned weight(unsigned set)
{
    return (unsigned)__builtin_popcount(set);
}

static size_t digit(unsigned job)
{
    size_t value = 1;
    while (job--)
        value *= SMALL;
    return value;
}

static void paper_law(struct law *law, const unsigned *jobs, unsigned n, const unsigned *sets, size_t outcome, double p)
{
    if (n == 0) {
        law->probability[outcome] += p;
        return;
    }
    unsigned common = ~0u, rest_sets[JOBS];
    for (unsigned i = 0; i < n; i++)
        common &= sets[jobs[i]];
    for (unsigned job = 0; job < law->n_jobs; job++)
        rest_sets[job] = sets[job] & ~common;

    unsigned alone = rest_sets[jobs[0]]; /* the first chooses its difference */
    for (unsigned id = 0; id < SMALL; id++)
        if (alone >> id & 1)
            paper_law(law, jobs + 1, n - 1, rest_sets, outcome + id * digit(jobs[0]), p / weight(sets[jobs[0]]));

    double reach = p * weight(common) / weight(sets[jobs[0]]); /* the first k jobs choose the intersection, no more */
    for (unsigned k = 1; common && k <= n; k++) {
        double next = k < n ? (double)weight(sets[jobs[k - 1]]) / weight(sets[jobs[k]]) : 0;
        for (unsigned id = 0; id < SMALL && next < 1; id++) {
            if (!(common >> id & 1))
                continue;
            size_t shared = outcome;
            for (unsigned i = 0; i < k; i++)
                shared += id * digit(jobs[i]);
            paper_law(law, jobs + k, n - k, rest_sets, shared, reach * (1 - next) / weight(common));
        }
        reach *= next;
    }
}

/* Sets of pairwise different sizes, so that the order of the jobs is no matter of choice. */
static bool different_sizes(const unsigned *sets, unsigned n)
{
    unsigned seen = 0;
    for (unsigned job = 0; job < n; job++) {
        unsigned size = 1u << weight(sets[job]);
        if (size == 1 || (seen & size))
            return false;
        seen |= size;
    }
    return true;
}

static void check_joint_law(const unsigned *sets, unsigned n, uint64_t seed, uint32_t rounds)
{
    struct sampler *sampler = sampler_create(seed);
    struct law law = {.n_jobs = n};
    unsigned jobs[JOBS], n_sorted = 0;
    for (unsigned size = 1; size <= SMALL; size++)
        for (unsigned job = 0; job < n; job++)
            if (weight(sets[job]) == size)
                jobs[n_sorted++] = job;
    paper_law(&law, jobs, n, sets, 0, 1);

    for (unsigned job = 0; job < n; job++) {
        struct idset *view;
        assert_int_equal(idset_create(&view), 0);
        for (unsigned id = 0; id < SMALL; id++)
            if (sets[job] >> id & 1)
                idset_add(view, id);
        add_view(sampler, job, view, SHUFFLE_DEPENDENT);
        idset_destroy(view);
        sampler_start_epoch(sampler, job, 0);
    }
    size_t n_outcomes = digit(n);
    uint32_t counts[SMALL * SMALL * SMALL * SMALL] = {0};
    struct jobset need = jobs_below(n);
    for (uint32_t i = 0; i < rounds; i++) {
        sample_id ids[JOBS];
        size_t outcome = 0;
        peek_round(sampler, &need, ids, n);
        for (unsigned job = 0; job < n; job++)
            outcome += ids[job] * digit(job);
        counts[outcome]++;
    }
    double statistic = 0, cells = 0, rest = 0, rest_count = 0;
    for (size_t i = 0; i < n_outcomes; i++) {
        double expected = law.probability[i] * rounds;
        if (expected == 0)
            assert_int_equal(counts[i], 0);
        if (expected < 5) { /* rare outcomes go together */
            rest += expected;
            rest_count += counts[i];
            continue;
        }
        statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
        cells++;
    }
    if (rest >= 5) {
        statistic += (rest_count - rest) * (rest_count - rest) / rest;
        cells++;
    }
    if (cells > 1 && chi_square_z(statistic, cells - 1) > CHI_Z)
        fail_msg("sets %#x %#x %#x %#x: chi-square %.1f over %.0f outcomes", sets[0], sets[1], n > 2 ? sets[2] : 0,
                 n > 3 ? sets[3] : 0, statistic, cells);
    sampler_destroy(sampler);
}

/* What several jobs draw together has exactly the paper's probabilities, computed from its recursion on plain sets. */
static void test_joint_law_is_the_papers(void **state)
{
    (void)state;
    struct rng rng;
    uint64_t seed = test_seed(12);
    random_seed(&rng, seed);
    for (int families = 0; families < 40;) {
        unsigned n = 2 + (unsigned)random_below(&rng, JOBS - 1), sets[JOBS] = {0};
        for (unsigned job = 0; job < n; job++)
            sets[job] = (unsigned)random_below(&rng, 1u << SMALL);
        if (!different_sizes(sets, n))
            continue;
        check_joint_law(sets, n, seed + (uint64_t)families, 60000);
        families++;
    }
}

/* ── sharing ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Two jobs' draws are common with probability |I| / max(|D1|, |D2|). */
static void test_share_of_two(void **state)
{
    (void)state;
    uint64_t seed = test_seed(13);
    static const struct range pairs[][2] = {
        {{0, 1000}, {0, 1000}}, {{0, 1000}, {0, 100}}, {{0, 1000}, {500, 1500}}, {{0, 129}, {1, 130}},
        {{0, 50}, {40, 5000}},  {{0, 10}, {20, 30}},   {{0, 70000}, {3, 70000}}, {{0, 70000}, {5, 70005}},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const struct range *a = &pairs[i][0], *b = &pairs[i][1];
        struct sampler *sampler = sampler_create(seed + i);
        start_range(sampler, 0, a->first, a->end);
        start_range(sampler, 1, b->first, b->end);
        struct jobset need = jobs_below(2);
        const double rounds = 100000;
        double size_a = a->end - a->first, size_b = b->end - b->first, common = 0;
        double shared = fmax(0, fmin(a->end, b->end) - fmax(a->first, b->first));
        double p = shared / fmax(size_a, size_b);
        for (int round = 0; round < (int)rounds; round++) {
            sample_id ids[2];
            common += peek_round(sampler, &need, ids, 2) == 1;
        }
        double sigma = sqrt(rounds * p * (1 - p));
        if (fabs(common - rounds * p) > SHARE_Z * sigma + 1e-9)
            fail_msg("pair %zu: %.0f common picks of %.0f, expected %.0f", i, common, rounds, rounds * p);
        sampler_destroy(sampler);
    }
}

/* On equal sets at the same speed every pick is common to all jobs, through whole epochs. */
static void test_equal_sets_share_all(void **state)
{
    (void)state;
    struct sampler *sampler = sampler_create(test_seed(14));
    for (unsigned job = 0; job < JOBS; job++)
        start_range(sampler, job, 60000, 70000);
    struct jobset need = jobs_below(JOBS);
    for (uint32_t epoch = 1; epoch < 4; epoch++) {
        sample_id ids[JOBS];
        for (int i = 0; i < 10000; i++)
            assert_int_equal(round_of(sampler, &need, ids, JOBS), 1);
        assert_int_equal(round_of(sampler, &need, ids, JOBS), 0);
        for (unsigned job = 0; job < JOBS; job++)
            sampler_start_epoch(sampler, job, epoch);
    }
    sampler_destroy(sampler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_check_finds_block_first), cmocka_unit_test(test_first_draw_is_uniform),
        cmocka_unit_test(test_joint_law_is_the_papers),     cmocka_unit_test(test_share_of_two),
        cmocka_unit_test(test_equal_sets_share_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
