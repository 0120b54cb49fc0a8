/* test_multiset.c: multisets, and draws from what is left of them. */
#include "tests/unit/sampler/helpers.h"

#include "sampler/multiset.h"

#define COUNT 200u

static sample_id ids[COUNT];

/* multiset.c takes its random numbers here, and so they are counted. */
static uint64_t numbers_taken;

uint64_t counted_u64(struct rng *rng);
uint64_t counted_below(struct rng *rng, uint64_t bound);

uint64_t counted_u64(struct rng *rng)
{
    numbers_taken++;
    return random_u64(rng);
}

uint64_t counted_below(struct rng *rng, uint64_t bound)
{
    numbers_taken++;
    return random_below(rng, bound);
}

static int make_ids(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT; i++)
        ids[i] = 5 + 37 * (i * 7 % COUNT); /* not ascending, and with gaps */
    return 0;
}

static struct multiset *made(struct multiset_spec spec)
{
    struct multiset *multiset = NULL;
    struct error err;
    spec.ids = ids;
    spec.count = spec.count ? spec.count : COUNT;
    assert_int_equal(multiset_create(&spec, &multiset, &err), 0);
    return multiset;
}

static uint64_t draw_epoch(const struct multiset *multiset, uint32_t epoch, uint32_t *counts)
{
    uint64_t sum = 0;
    uint32_t count;
    multiset_ids(multiset, &count);
    assert_int_equal(multiset_epoch(multiset, epoch, counts), 0);
    for (uint32_t i = 0; i < count; i++)
        sum += counts[i];
    assert_int_equal(sum, multiset_draws(multiset));
    return sum;
}

/* Repeat has each sample so often. Balanced has of each class, and within it of each sample, as many as of every other,
 * give or take one; which ones get one more differs from epoch to epoch. */
static void test_repeat_and_balanced(void **state)
{
    (void)state;
    int32_t labels[COUNT];
    uint32_t counts[COUNT], before[COUNT] = {0}, differ = 0;
    struct multiset *multiset = made((struct multiset_spec){.kind = MULTISET_REPEAT, .copies = 5});
    draw_epoch(multiset, 3, counts);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(counts[i], 5);
    assert_true(multiset_is_together(multiset));
    multiset_destroy(multiset);
    for (uint32_t i = 0; i < COUNT; i++) /* 3 samples of class 9, 67 of class 4, 130 of class 0 */
        labels[i] = i % 67 == 0 ? 9 : i % 3 == 0 ? 4 : 0;
    multiset = made((struct multiset_spec){.kind = MULTISET_BALANCED, .draws = 1000, .labels = labels});
    for (uint32_t epoch = 0; epoch < 20; epoch++) {
        uint32_t of_class[10] = {0}, least[10], most[10] = {0};
        memset(least, 0xff, sizeof least);
        draw_epoch(multiset, epoch, counts);
        for (uint32_t i = 0; i < COUNT; i++) {
            of_class[labels[i]] += counts[i];
            least[labels[i]] = counts[i] < least[labels[i]] ? counts[i] : least[labels[i]];
            most[labels[i]] = counts[i] > most[labels[i]] ? counts[i] : most[labels[i]];
        }
        for (int label = 0; label < 10; label++) {
            assert_true(!most[label] || (of_class[label] >= 333 && of_class[label] <= 334));
            assert_true(!most[label] || most[label] - least[label] <= 1);
        }
        differ += memcmp(counts, before, sizeof counts) != 0;
        memcpy(before, counts, sizeof counts);
    }
    assert_int_equal(differ, 20);
    multiset_destroy(multiset);
}

/* Weights' draws are in proportion to the weights, whatever their scale; what has none is not drawn. Seed and epoch say
 * which ones they are. */
static void test_weights(void **state)
{
    (void)state;
    double weights[COUNT], total = 0, statistic = 0;
    uint32_t counts[COUNT], sums[COUNT] = {0}, other[COUNT], kinds = 0;
    uint64_t seed = test_seed(21);
    for (uint32_t i = 0; i < COUNT; i++)
        total += weights[i] = i % 10 == 0 ? 0 : 1e-30 * (1 + i % 7);
    struct multiset_spec spec = {.kind = MULTISET_WEIGHTS, .draws = 3000, .seed = seed, .weights = weights};
    struct multiset *multiset = made(spec), *again = made(spec);
    for (uint32_t epoch = 0; epoch < 50; epoch++) {
        draw_epoch(multiset, epoch, counts);
        for (uint32_t i = 0; i < COUNT; i++)
            sums[i] += counts[i];
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        double expected = 50 * 3000 * weights[i] / total;
        assert_true(weights[i] > 0 || sums[i] == 0);
        statistic += weights[i] > 0 ? (sums[i] - expected) * (sums[i] - expected) / expected : 0;
        kinds += weights[i] > 0;
    }
    assert_true(chi_square_z(statistic, kinds - 1) < CHI_Z);
    draw_epoch(again, 49, other);
    assert_memory_equal(counts, other, sizeof counts);
    assert_int_equal(multiset_digest(multiset), multiset_digest(again));
    draw_epoch(again, 48, other);
    assert_memory_not_equal(counts, other, sizeof counts);
    multiset_destroy(again);
    spec.seed++;
    again = made(spec);
    assert_int_not_equal(multiset_digest(multiset), multiset_digest(again));
    multiset_destroy(again);
    multiset_destroy(multiset);
}

/* Many draws are as spread as draws made one by one: in each epoch, over samples of which some have no weight, some
 * little and one half of all, and whose sum is no power of 2. */
static void test_many_draws(void **state)
{
    (void)state;
    enum { DRAWS = 200000, EPOCHS = 50 };
    double weights[COUNT], total = 0, statistic = 0, freedom = 0;
    uint32_t counts[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        total += weights[i] = i % 10 == 0 ? 0 : i == 77 ? 700 : 1 + i % 7;
    struct multiset *multiset = made(
        (struct multiset_spec){.kind = MULTISET_WEIGHTS, .draws = DRAWS, .seed = test_seed(25), .weights = weights});
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        draw_epoch(multiset, epoch, counts);
        freedom--;
        for (uint32_t i = 0; i < COUNT; i++) {
            double expected = DRAWS * weights[i] / total;
            assert_true(weights[i] > 0 || counts[i] == 0);
            statistic += weights[i] > 0 ? (counts[i] - expected) * (counts[i] - expected) / expected : 0;
            freedom += weights[i] > 0;
        }
    }
    assert_true(fabs(chi_square_z(statistic, freedom)) < CHI_Z);
    multiset_destroy(multiset);
}

/* 10^8 draws take far fewer random numbers than there are draws, because an epoch begins while other jobs wait. */
static void test_many_draws_are_quick(void **state)
{
    (void)state;
    enum { DRAWS = 100000000 };
    double weights[COUNT];
    uint32_t counts[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        weights[i] = 1 + i % 7;
    struct multiset *multiset = made(
        (struct multiset_spec){.kind = MULTISET_WEIGHTS, .draws = DRAWS, .seed = 5, .weights = weights});
    numbers_taken = 0;
    draw_epoch(multiset, 0, counts);
    assert_in_range(numbers_taken, DRAWS / 64, DRAWS / 4);
    multiset_destroy(multiset);
}

/* A seed draws the same on each machine. Up to 65,536 draws are those of earlier versions, whose states go on. */
static void test_same_everywhere(void **state)
{
    (void)state;
    const uint64_t draws[] = {3000, 1000000};
    const uint64_t hashes[] = {UINT64_C(0x1404d1aa338b0646), UINT64_C(0xfae598bdb4171508)};
    const uint64_t digests[] = {UINT64_C(0xaaecf6b9a6fefe17), UINT64_C(0xa8bdc00fd239c68e)};
    double weights[COUNT];
    uint32_t counts[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        weights[i] = i % 10 == 0 ? 0 : 1 + i % 7;
    for (unsigned at = 0; at < 2; at++) {
        uint64_t hash = 0;
        struct multiset *multiset = made(
            (struct multiset_spec){.kind = MULTISET_WEIGHTS, .draws = draws[at], .seed = 9, .weights = weights});
        draw_epoch(multiset, 5, counts);
        for (uint32_t i = 0; i < COUNT; i++)
            hash = hash * 31 + counts[i];
        assert_true(hash == hashes[at]);
        assert_true(multiset_digest(multiset) == digests[at]);
        multiset_destroy(multiset);
    }
}

/* What a home is told to give: each sample as often as it was told, in each epoch. */
static void test_given(void **state)
{
    (void)state;
    uint32_t given[COUNT], counts[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        given[i] = i % 5;
    struct multiset *multiset = made((struct multiset_spec){.kind = MULTISET_GIVEN, .counts = given});
    struct multiset *together = made((struct multiset_spec){.kind = MULTISET_GIVEN, .counts = given, .together = true});
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        draw_epoch(multiset, epoch, counts);
        assert_memory_equal(counts, given, sizeof counts);
    }
    assert_true(multiset_is_together(together) && !multiset_is_together(multiset));
    multiset_destroy(together);
    given[0]++;
    together = made((struct multiset_spec){.kind = MULTISET_GIVEN, .counts = given});
    assert_int_not_equal(multiset_digest(multiset), multiset_digest(together));
    multiset_destroy(together);
    multiset_destroy(multiset);
}

/* One sample whose weight is nearly all, and one sample alone; of few draws and of many. */
static void test_extreme_weights(void **state)
{
    (void)state;
    enum { MANY = 1000000 };
    double weights[COUNT] = {[3] = 1e300, [4] = 1e-300, [5] = 1e290};
    uint32_t counts[COUNT];
    struct multiset *multiset = made((struct multiset_spec){.kind = MULTISET_WEIGHTS, .weights = weights});
    assert_int_equal(multiset_draws(multiset), COUNT);
    draw_epoch(multiset, 0, counts);
    assert_int_equal(counts[3], COUNT);
    multiset_destroy(multiset);
    multiset = made((struct multiset_spec){.kind = MULTISET_WEIGHTS, .weights = weights + 3, .count = 1, .draws = 9});
    draw_epoch(multiset, 0, counts);
    assert_int_equal(counts[0], 9);
    multiset_destroy(multiset);
    multiset = made((struct multiset_spec){.kind = MULTISET_WEIGHTS, .weights = weights, .draws = MANY});
    draw_epoch(multiset, 0, counts);
    assert_int_equal(counts[3] + counts[5], MANY);
    multiset_destroy(multiset);
    multiset = made(
        (struct multiset_spec){.kind = MULTISET_WEIGHTS, .weights = weights + 3, .count = 1, .draws = MANY});
    draw_epoch(multiset, 0, counts);
    assert_int_equal(counts[0], MANY);
    multiset_destroy(multiset);
}

static void refused(struct multiset_spec spec, const char *text)
{
    struct multiset *multiset = NULL;
    struct error err;
    spec.ids = ids;
    spec.count = COUNT;
    assert_int_equal(multiset_create(&spec, &multiset, &err), LARDER_EINVAL);
    assert_non_null(strstr(err.text, text));
}

static void test_refused(void **state)
{
    (void)state;
    double weights[COUNT] = {0};
    int32_t labels[COUNT] = {[7] = -1};
    refused((struct multiset_spec){.kind = MULTISET_REPEAT, .copies = 1}, "repeat is 1, not 2 to 64");
    refused((struct multiset_spec){.kind = MULTISET_BALANCED, .labels = labels}, "sample 7 of the subset has no class");
    refused((struct multiset_spec){.kind = MULTISET_WEIGHTS, .weights = weights}, "some must be above 0");
    refused((struct multiset_spec){.kind = MULTISET_WEIGHTS, .weights = weights, .draws = UINT64_C(1) << 32},
            "an epoch has 4294967296 draws");
    uint32_t counts[COUNT] = {[5] = 65};
    refused((struct multiset_spec){.kind = MULTISET_GIVEN, .counts = counts, .together = true},
            "65 copies of a sample");
    counts[5] = 0;
    refused((struct multiset_spec){.kind = MULTISET_GIVEN, .counts = counts}, "an epoch has 0 draws");
    weights[9] = NAN;
    refused((struct multiset_spec){.kind = MULTISET_WEIGHTS, .weights = weights}, "the weight of sample 9");
    weights[9] = -1;
    refused((struct multiset_spec){.kind = MULTISET_WEIGHTS, .weights = weights}, "the weight of sample 9");
}

/* ── draws ── */

static void add(struct sampler *sampler, unsigned job, const struct multiset *multiset, uint32_t epoch)
{
    uint32_t counts[COUNT];
    struct idset *view;
    struct error err;
    assert_int_equal(idset_create(&view), 0);
    idset_add_many(view, ids, COUNT);
    struct sampler_job desc = {.shuffle = SHUFFLE_DEPENDENT, .view = view, .multiset = multiset};
    assert_int_equal(sampler_add_job(sampler, job, &desc, &err), 0);
    idset_destroy(view);
    sampler_start_epoch(sampler, job, epoch);
    assert_int_equal(sampler_remaining(sampler, job), 0);
    draw_epoch(multiset, epoch, counts);
    assert_int_equal(sampler_start_multiset(sampler, job, counts, 0), 0);
    assert_int_equal(sampler_remaining(sampler, job), multiset_draws(multiset));
}

/* Weights under which samples come 0 times to thousands of times. */
static struct multiset *skewed(uint64_t draws)
{
    double weights[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        weights[i] = i % 5 == 0 ? 0 : pow(1.08, i);
    return made((struct multiset_spec){.kind = MULTISET_WEIGHTS, .draws = draws, .seed = 3, .weights = weights});
}

/* An epoch's draws are the multiset, each sample as often as it is in it, though some are put back now and then. */
static void test_exactly_as_often(void **state)
{
    (void)state;
    uint32_t counts[COUNT], drawn[37 * COUNT + 6] = {0};
    struct multiset *multiset = skewed(20000);
    struct sampler *sampler = sampler_create(test_seed(22));
    struct jobset need = jobs_below(1);
    struct rng rng;
    random_seed(&rng, 1);
    draw_epoch(multiset, 4, counts);
    add(sampler, 0, multiset, 4);
    while (sampler_remaining(sampler, 0)) {
        sample_id id;
        assert_int_equal(round_of(sampler, &need, &id, 1), 1);
        uint32_t left = random_below(&rng, 4) ? 0 : sampler_take_draws(sampler, 0, id);
        if (left)
            sampler_put_back(sampler, 0, id, left);
        if (random_below(&rng, 4) == 0)
            sampler_put_back(sampler, 0, id, 1);
        else
            drawn[id]++;
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(drawn[ids[i]], counts[i]);
        assert_false(sampler_wants(sampler, 0, ids[i]));
    }
    sampler_destroy(sampler);
    multiset_destroy(multiset);
}

/* A draw is a sample in proportion to the draws that it has left, with another job beside it that has other draws left;
 * and of copies that are dealt together, each sample as likely as every other. */
static void test_law(void **state)
{
    (void)state;
    enum { DRAWS = 200000 };
    for (int together = 0; together < 2; together++) {
        uint32_t counts[COUNT], drawn[37 * COUNT + 6] = {0};
        double statistic = 0, freedom = -1;
        struct multiset *multiset = together ? made((struct multiset_spec){.kind = MULTISET_REPEAT, .copies = 3})
                                             : skewed(30000);
        struct multiset *other = skewed(1000);
        struct sampler *sampler = sampler_create(test_seed(23));
        struct jobset need = jobs_below(2);
        draw_epoch(multiset, 0, counts);
        add(sampler, 0, multiset, 0);
        add(sampler, 1, other, 1);
        for (uint32_t i = 0; i < DRAWS; i++) {
            sample_id got[2];
            peek_round(sampler, &need, got, 2);
            drawn[got[0]]++;
        }
        for (uint32_t i = 0; i < COUNT; i++) {
            double expected = together ? (double)DRAWS / COUNT
                                       : (double)DRAWS * counts[i] / (double)multiset_draws(multiset);
            statistic += expected > 0 ? (drawn[ids[i]] - expected) * (drawn[ids[i]] - expected) / expected : 0;
            freedom += expected > 0;
            assert_true(expected > 0 || drawn[ids[i]] == 0);
        }
        assert_true(chi_square_z(statistic, freedom) < CHI_Z);
        sampler_destroy(sampler);
        multiset_destroy(multiset);
        multiset_destroy(other);
    }
}

/* Jobs with one multiset that are in step draw the same from beginning to end. */
static void test_equal_jobs_share_all(void **state)
{
    (void)state;
    struct multiset *multiset = skewed(5000);
    struct sampler *sampler = sampler_create(test_seed(24));
    struct jobset need = jobs_below(4);
    for (unsigned job = 0; job < 4; job++)
        add(sampler, job, multiset, 2);
    for (uint32_t i = 0; i < 5000; i++) {
        sample_id got[4];
        assert_int_equal(round_of(sampler, &need, got, 4), 1);
        assert_true(got[0] == got[1] && got[1] == got[2] && got[2] == got[3]);
    }
    assert_int_equal(sampler_remaining(sampler, 3), 0);
    sampler_destroy(sampler);
    multiset_destroy(multiset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repeat_and_balanced),  cmocka_unit_test(test_weights),
        cmocka_unit_test(test_many_draws),           cmocka_unit_test(test_many_draws_are_quick),
        cmocka_unit_test(test_same_everywhere),      cmocka_unit_test(test_given),
        cmocka_unit_test(test_extreme_weights),      cmocka_unit_test(test_refused),
        cmocka_unit_test(test_exactly_as_often),     cmocka_unit_test(test_law),
        cmocka_unit_test(test_equal_jobs_share_all),
    };
    return cmocka_run_group_tests(tests, make_ids, NULL);
}
