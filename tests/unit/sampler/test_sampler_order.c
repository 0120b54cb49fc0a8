/* test_sampler_order.c: a job's orders over many epochs: a sample is as often at one place as at another, and followed
 * as often by one as by another, whatever its neighbours are and do. Built twice, as test_sampler_law.c is. */
#include "tests/unit/sampler/helpers.h"

#define SMALL 129    /* whole orders of so many */
#define LARGE 65537u /* the beginnings of orders of so many */
#define BEGINNING 256
#define SMALL_EPOCHS 8000
#define LARGE_EPOCHS 3000
#define CLASSES 16 /* of ids, in the pairs of beginnings */
#define JOBS 4

struct range {
    sample_id first, end;
};

/* The first n_draws of an epoch's order of `size` samples, each less the first id. */
typedef void order_fn(void *context, uint32_t epoch, sample_id *order, uint32_t size, uint32_t n_draws);

struct verdict {
    double places_z, pairs_z;
};

/* ── the checks ──────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Cells of pairs: with a probability each, so that those of equal ids, or of unequal classes, have their own. */
static double pairs_z(const uint32_t *counts, const double *probabilities, size_t n, uint32_t total)
{
    double statistic = 0, cells = 0;
    for (size_t i = 0; i < n; i++) {
        double expected = probabilities[i] * total;
        if (expected == 0) {
            assert_int_equal(counts[i], 0);
            continue;
        }
        statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
        cells++;
    }
    return chi_square_z(statistic, cells - 1);
}

/* Whole orders: how often each sample is at each place. Each epoch is a permutation, whose table has (n - 1)² free
 * cells that vary n / (n - 1) times as much as independent ones. Of the pairs of neighbours one place an epoch is
 * taken, so that the counts are independent. */
static struct verdict judge_whole(order_fn *draw_order, void *context)
{
    static uint32_t places[SMALL][SMALL], pairs[SMALL * SMALL];
    static double probabilities[SMALL * SMALL];
    memset(places, 0, sizeof places);
    memset(pairs, 0, sizeof pairs);
    for (uint32_t epoch = 0; epoch < SMALL_EPOCHS; epoch++) {
        sample_id order[SMALL];
        uint32_t at = epoch % (SMALL - 1);
        draw_order(context, epoch, order, SMALL, SMALL);
        for (unsigned i = 0; i < SMALL; i++)
            places[order[i]][i]++;
        pairs[order[at] * SMALL + order[at + 1]]++;
    }
    double statistic = 0, expected = (double)SMALL_EPOCHS / SMALL;
    for (unsigned i = 0; i < SMALL; i++)
        for (unsigned j = 0; j < SMALL; j++) {
            statistic += (places[i][j] - expected) * (places[i][j] - expected) / expected;
            probabilities[i * SMALL + j] = i == j ? 0 : 1.0 / (SMALL * (SMALL - 1.0));
        }
    return (struct verdict){
        .places_z = chi_square_z(statistic * (SMALL - 1) / SMALL, (SMALL - 1.0) * (SMALL - 1)),
        .pairs_z = pairs_z(pairs, probabilities, SMALL * SMALL, SMALL_EPOCHS),
    };
}

static double class_size(unsigned class)
{
    return (double)((LARGE * (class + 1) + CLASSES - 1) / CLASSES - (LARGE * class + CLASSES - 1) / CLASSES);
}

/* Beginnings: how often each sample is in one (drawn without putting back: the counts vary (1 - BEGINNING / LARGE)
 * times as much as with), and which class of ids follows which, in pairs that do not overlap. */
static struct verdict judge_beginnings(order_fn *draw_order, void *context)
{
    static uint32_t seen[LARGE];
    uint32_t pairs[CLASSES * CLASSES] = {0};
    double probabilities[CLASSES * CLASSES], statistic = 0, expected = (double)LARGE_EPOCHS * BEGINNING / LARGE;
    memset(seen, 0, sizeof seen);
    for (uint32_t epoch = 0; epoch < LARGE_EPOCHS; epoch++) {
        sample_id order[BEGINNING];
        draw_order(context, epoch, order, LARGE, BEGINNING);
        for (unsigned i = 0; i < BEGINNING; i++)
            seen[order[i]]++;
        for (unsigned i = 0; i < BEGINNING; i += 2)
            pairs[order[i] * CLASSES / LARGE * CLASSES + order[i + 1] * CLASSES / LARGE]++;
    }
    for (unsigned i = 0; i < LARGE; i++)
        statistic += (seen[i] - expected) * (seen[i] - expected) / expected;
    for (unsigned i = 0; i < CLASSES; i++)
        for (unsigned j = 0; j < CLASSES; j++)
            probabilities[i * CLASSES + j] = class_size(i) * (class_size(j) - (i == j)) /
                                             ((double)LARGE * (LARGE - 1.0));
    double freedom = LARGE - 1, spread = (1 - (double)BEGINNING / LARGE) * LARGE / freedom;
    return (struct verdict){
        .places_z = chi_square_z(statistic / spread, freedom),
        .pairs_z = pairs_z(pairs, probabilities, CLASSES * CLASSES, LARGE_EPOCHS * BEGINNING / 2),
    };
}

/* ── wrong samplers ──────────────────────────────────────────────────────────────────────────────────────────────── */

struct wrong {
    struct rng rng;
    bool gone[LARGE];
};

/* A block first, then a sample of it, as the published implementation does: blocks of 128, each as likely as another
 * while it has a sample left. */
static void block_first(void *context, uint32_t epoch, sample_id *order, uint32_t size, uint32_t n_draws)
{
    struct wrong *wrong = context;
    uint32_t blocks = (size + 127) / 128, left[LARGE / 128 + 1];
    (void)epoch;
    memset(wrong->gone, 0, sizeof wrong->gone);
    for (uint32_t block = 0; block < blocks; block++)
        left[block] = block + 1 < blocks ? 128 : size - block * 128;
    for (uint32_t i = 0; i < n_draws; i++) {
        uint32_t block;
        do
            block = (uint32_t)random_below(&wrong->rng, blocks);
        while (left[block] == 0);
        uint32_t rank = (uint32_t)random_below(&wrong->rng, left[block]--), id = block * 128;
        while (wrong->gone[id] || rank--)
            id++;
        wrong->gone[id] = true;
        order[i] = id;
    }
}

/* Uniform but for this: a tenth of the draws takes the sample behind the last one, if it is still there. */
static void goes_on(void *context, uint32_t epoch, sample_id *order, uint32_t size, uint32_t n_draws)
{
    struct wrong *wrong = context;
    (void)epoch;
    memset(wrong->gone, 0, sizeof wrong->gone);
    for (uint32_t i = 0; i < n_draws; i++) {
        uint32_t id = i ? order[i - 1] + 1 : 0;
        if (i == 0 || id == size || wrong->gone[id] || random_below(&wrong->rng, 10))
            do
                id = (uint32_t)random_below(&wrong->rng, size);
            while (wrong->gone[id]);
        wrong->gone[id] = true;
        order[i] = id;
    }
}

/* The checks that the sampler passes below find out one that picks a block first, and one with a liking for runs. */
static void test_the_checks_find_wrong_orders(void **state)
{
    (void)state;
    static struct wrong wrong;
    random_seed(&wrong.rng, test_seed(40));
    assert_true(judge_whole(block_first, &wrong).places_z > CHI_Z);
    assert_true(judge_beginnings(block_first, &wrong).places_z > CHI_Z);
    assert_true(judge_whole(goes_on, &wrong).pairs_z > CHI_Z);
    assert_true(judge_beginnings(goes_on, &wrong).pairs_z > CHI_Z);
}

/* ── the sampler ─────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Job 0 is watched; of its neighbours 1 runs at half its speed, 2 when the dice say so, 3 joins and leaves. */
struct watched {
    const struct range *views; /* JOBS of them */
    struct sampler *sampler;
    struct rng rng;
    bool joined;
    uint32_t others_epoch;
};

static void change_neighbours(struct watched *watched)
{
    if (random_below(&watched->rng, 64) == 0) {
        if (watched->joined)
            sampler_remove_job(watched->sampler, 3);
        else
            start_range(watched->sampler, 3, watched->views[3].first, watched->views[3].end);
        watched->joined = !watched->joined;
    }
    for (unsigned job = 1; job < 3 + (unsigned)watched->joined; job++)
        if (sampler_remaining(watched->sampler, job) == 0)
            sampler_start_epoch(watched->sampler, job, ++watched->others_epoch);
}

static void sampled(void *context, uint32_t epoch, sample_id *order, uint32_t size, uint32_t n_draws)
{
    struct watched *watched = context;
    sampler_start_epoch(watched->sampler, 0, epoch);
    assert_int_equal(sampler_remaining(watched->sampler, 0), size);
    for (uint32_t i = 0; i < n_draws; i++) {
        sample_id ids[JOBS];
        change_neighbours(watched);
        uint64_t dice = random_u64(&watched->rng);
        struct jobset need = {{1 | (i % 2 ? 2u : 0) | (dice & 1 ? 4u : 0) | (watched->joined && dice & 6 ? 8u : 0)}};
        round_of(watched->sampler, &need, ids, JOBS);
        order[i] = ids[0] - watched->views[0].first;
        assert_in_range(order[i], 0, size - 1);
    }
    assert_int_equal(sampler_remaining(watched->sampler, 0), size - n_draws);
}

static void judge_views(const struct range *views, uint64_t seed)
{
    struct watched watched = {.views = views, .sampler = sampler_create(seed)};
    random_seed(&watched.rng, ~seed);
    for (unsigned job = 0; job < 3; job++)
        start_range(watched.sampler, job, views[job].first, views[job].end);
    bool small = views[0].end - views[0].first == SMALL;
    struct verdict verdict = small ? judge_whole(sampled, &watched) : judge_beginnings(sampled, &watched);
    if (verdict.places_z > CHI_Z || verdict.pairs_z > CHI_Z)
        fail_msg("[%u, %u): places z = %.2f, pairs z = %.2f", views[0].first, views[0].end, verdict.places_z,
                 verdict.pairs_z);
    sampler_destroy(watched.sampler);
}

/* For 129 samples across the end of a block, and for 65,537, with nested, crossing and disjoint neighbours at mixed
 * speeds of which one joins and leaves, orders are uniform. */
static void test_orders_are_uniform(void **state)
{
    (void)state;
    uint64_t seed = test_seed(41);
    static const struct range families[][JOBS] = {
        {{4000, 4129}, {4000, 4060}, {4064, 4129}, {3990, 4140}},       /* nested */
        {{4000, 4129}, {4100, 4260}, {3950, 4070}, {4090, 4128}},       /* crossing */
        {{4000, 4129}, {4000, 4129}, {4000, 4128}, {9000, 9100}},       /* equal, all but one, and disjoint */
        {{100, 65637}, {100, 30000}, {0, 66000}, {4095, 4097}},         /* nested */
        {{100, 65637}, {65000, 90000}, {101, 65638}, {200000, 200100}}, /* crossing, and disjoint */
    };
    for (size_t family = 0; family < sizeof families / sizeof *families; family++)
        judge_views(families[family], seed + family);
}

static void strict(void *context, uint32_t epoch, sample_id *order, uint32_t size, uint32_t n_draws)
{
    struct jobset need = jobs_below(1);
    sampler_start_epoch(context, 0, epoch);
    assert_int_equal(sampler_remaining(context, 0), size);
    for (uint32_t i = 0; i < n_draws; i++)
        round_of(context, &need, &order[i], 1);
}

/* Strict orders are uniform over epochs as well. */
static void test_strict_orders_are_uniform(void **state)
{
    (void)state;
    uint64_t seed = test_seed(42);
    struct sampler *sampler = sampler_create(seed);
    struct idset *view;
    struct error err;
    assert_int_equal(idset_from_range(0, SMALL, &view), 0);
    struct sampler_job desc = {.shuffle = SHUFFLE_STRICT, .seed = seed, .view = view};
    assert_int_equal(sampler_add_job(sampler, 0, &desc, &err), 0);
    struct verdict verdict = judge_whole(strict, sampler);
    assert_true(verdict.places_z < CHI_Z && verdict.pairs_z < CHI_Z);
    idset_destroy(view);
    sampler_destroy(sampler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_checks_find_wrong_orders),
        cmocka_unit_test(test_orders_are_uniform),
        cmocka_unit_test(test_strict_orders_are_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
