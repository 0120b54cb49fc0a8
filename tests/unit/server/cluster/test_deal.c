/* test_deal.c: proves that for every shape of a view and every number of ranks the shares of an epoch are disjoint,
 * cover the view and are as equal as can be; that computing one again gives the same; that chunks and samples are
 * placed uniformly; and that no more random numbers are drawn than for the chunks and two cut ones. Of multisets, that
 * each turn of a sample goes to one rank, that only ends of runs part the turns of a sample, and that copies come to
 * different ranks. Of what is left of an epoch, the same, and that with the same ranks most stays where it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "tests/unit/server/cluster/deal_shapes.h"

static uint64_t draws;

uint64_t __real_random_below(struct rng *rng, uint64_t bound);
uint64_t __wrap_random_below(struct rng *rng, uint64_t bound);
uint64_t __wrap_random_below(struct rng *rng, uint64_t bound)
{
    draws++;
    return __real_random_below(rng, bound);
}

/* All shapes, worlds of 1 to 16, with and without drop_last. */
static void test_shares(void **state)
{
    (void)state;
    struct shape *shape = xmalloc(sizeof *shape);
    for (enum kind kind = 0; kind < KINDS; kind++) {
        make_shape(shape, kind);
        struct deal *deal = deal_of(shape);
        for (uint32_t world_size = 1; world_size <= 16; world_size++) {
            for (int drop_last = 0; drop_last < 2; drop_last++)
                check_world(shape, deal, world_size, drop_last);
        }
        deal_destroy(deal);
    }
    free(shape);
}

/* Epochs that are begun anew several times by random worlds: each sample goes to one rank once, and all are dealt. */
static void test_rests(void **state)
{
    (void)state;
    struct shape *shape = xmalloc(sizeof *shape);
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct rng rng;
        make_shape(shape, kind);
        random_seed_keys(&rng, seed, kind, 1, 0);
        struct deal *deal = deal_of(shape);
        struct idset *gone = begin_set();
        for (uint32_t round = 0; round < 8; round++) {
            struct deal_ranks world = {1 + (uint32_t)random_below(&rng, 16), 0, 1, random_below(&rng, 2)};
            take_some(shape, deal, &world, random_below(&rng, 12), &rng, gone);
        }
        take_some(shape, deal, &(struct deal_ranks){5, 0, 1, false}, UINT64_MAX, &rng, gone);
        assert_int_equal(idset_count(gone), shape->count);
        idset_destroy(gone);
        deal_destroy(deal);
    }
    free(shape);
}

/* With the same ranks, each of which took as many samples, each has the rest of what it had. */
static void test_rest_stays(void **state)
{
    (void)state;
    struct shape *shape = xmalloc(sizeof *shape);
    make_shape(shape, KIND_EVEN);
    struct deal *deal = deal_of(shape);
    struct idset *gone = begin_set();
    struct rng rng;
    random_seed(&rng, seed);
    take_some(shape, deal, &(struct deal_ranks){4, 0, 1, true}, 100, &rng, gone);
    assert_int_equal(idset_count(gone), 400);
    for (uint32_t rank = 0; rank < 4; rank++) {
        const struct deal_ranks one = {4, rank, 1, true};
        struct idset *share = share_of(shape, deal, 3, &one), *rest, *left;
        assert_int_equal(deal_share(deal, seed, 3, gone, &one, &rest), 0);
        assert_int_equal(idset_difference(share, gone, &left), 0);
        assert_true(idset_equal(left, rest));
        idset_destroy(share);
        idset_destroy(rest);
        idset_destroy(left);
    }
    idset_destroy(gone);
    deal_destroy(deal);
    free(shape);
}

/* A run of whole chunks has nothing but whole chunks, and one that cuts draws for the chunks and two cut ones only. */
static void test_cost(void **state)
{
    (void)state;
    struct shape *shape = xmalloc(sizeof *shape);
    make_shape(shape, KIND_EVEN);
    struct deal *deal = deal_of(shape);
    for (uint32_t world_size = 1; world_size <= 16; world_size++) {
        for (uint32_t rank = 0; rank < world_size; rank++) {
            draws = 0;
            struct idset *share = share_of(shape, deal, 1, &(struct deal_ranks){world_size, rank, 1, false});
            bool whole = 64 % world_size == 0;
            assert_in_range(draws, 63, whole ? 63 : 63 + 2 * 15);
            idset_destroy(share);
        }
    }
    deal_destroy(deal);
    free(shape);
}

/* The sum of squares over the mean, for `rows` rows whose `columns` cells each have the same mean. */
static double chi_square(const uint32_t *cells, uint32_t count, double mean)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += (cells[i] - mean) * (cells[i] - mean) / mean;
    return sum;
}

/* 16 chunks go to 4 ranks, 4 each. Over epochs each chunk is with each rank equally often: both margins are fixed, so
 * 15/16 of the sum is chi-square with 45 degrees of freedom. 8 samples of one chunk go to 2 ranks: 7/8 of the sum has 7
 * degrees. The limits are passed by chance about once in a million seeds; the seed is fixed. */
static void test_uniform(void **state)
{
    (void)state;
    enum { EPOCHS = 4000 };
    struct shape *shape = xmalloc(sizeof *shape);
    make_shape(shape, KIND_EVEN);
    shape->count = 16 * 16;
    struct deal *chunks = deal_of(shape), *one;
    assert_int_equal(deal_create(shape->ids, shape->chunk_of, 8, 1, &one), 0);
    uint32_t placed[16 * 4] = {0}, cut[8 * 2] = {0};
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        for (uint32_t rank = 0; rank < 4; rank++) {
            struct idset *share = share_of(shape, chunks, epoch, &(struct deal_ranks){4, rank, 1, true});
            for (uint32_t c = 0; c < 16; c++)
                placed[c * 4 + rank] += idset_contains(share, shape->ids[c * 16]);
            idset_destroy(share);
        }
        struct idset *half;
        assert_int_equal(deal_share(one, seed, epoch, NULL, &(struct deal_ranks){2, 1, 1, true}, &half), 0);
        for (uint32_t i = 0; i < 8; i++)
            cut[i * 2 + idset_contains(half, shape->ids[i])]++;
        idset_destroy(half);
    }
    double of_chunks = chi_square(placed, 64, EPOCHS / 4.0) * 15 / 16,
           of_samples = chi_square(cut, 16, EPOCHS / 2.0) * 7 / 8;
    printf("seed %llu: chi-square %.1f of 45 degrees, %.1f of 7\n", (unsigned long long)seed, of_chunks, of_samples);
    assert_true(of_chunks < 105.6 && of_samples < 41.9);
    deal_destroy(chunks);
    deal_destroy(one);
    free(shape);
}

static void test_draws(void **state)
{
    (void)state;
    struct shape *shape = xmalloc(sizeof *shape);
    for (enum kind kind = 0; kind < KINDS; kind++) {
        make_shape(shape, kind);
        struct deal *deal = numbers_of(shape);
        for (enum times times = 0; times < TIMES; times++) {
            uint32_t counts[SAMPLES_MAX];
            make_counts(shape, times, counts);
            for (uint32_t world_size = 1; world_size <= 8; world_size++) {
                for (int drop_last = 0; drop_last < 2; drop_last++)
                    check_draws(shape, deal, counts, world_size, drop_last, times == TIMES_THREE && world_size >= 3);
            }
        }
        deal_destroy(deal);
    }
    free(shape);
}

/* A node with whole groups of ranks has all copies of its samples, but for the two that its run cuts: it reads each of
 * its chunks for all of them. Other nodes have no more copies of a sample than ranks. */
static void test_draws_by_node(void **state)
{
    (void)state;
    struct shape *shape = xmalloc(sizeof *shape);
    make_shape(shape, KIND_EVEN);
    struct deal *deal = numbers_of(shape);
    for (uint32_t copies = 2; copies <= 5; copies++) {
        for (uint32_t here = 1; here <= 8; here++) {
            for (uint32_t nodes = 1; nodes <= 4; nodes++) {
                uint32_t counts[SAMPLES_MAX], own[SAMPLES_MAX], parted = 0;
                for (uint32_t i = 0; i < shape->count; i++)
                    counts[i] = copies;
                draws_of(shape, deal, &(struct deal_ranks){nodes * here, nodes / 2 * here, here, false}, counts, own);
                for (uint32_t i = 0; i < shape->count; i++) {
                    parted += own[i] > 0 && own[i] < copies;
                    assert_true(own[i] <= here || nodes * here < copies);
                }
                if (here == 8 || (here == 4 && copies <= 4) || (here == 2 && copies == 2))
                    assert_true(parted <= 2);
            }
        }
    }
    deal_destroy(deal);
    free(shape);
}

/* Where each sample comes once, the deal is that of the samples. */
static void test_draws_once(void **state)
{
    (void)state;
    struct shape *shape = xmalloc(sizeof *shape);
    make_shape(shape, KIND_MIXED);
    struct deal *deal = numbers_of(shape);
    const struct deal_ranks ranks = {3, 1, 1, false};
    uint32_t counts[SAMPLES_MAX], own[SAMPLES_MAX];
    make_counts(shape, TIMES_ONCE, counts);
    draws_of(shape, deal, &ranks, counts, own);
    struct idset *share = share_of(shape, deal, 3, &ranks);
    for (uint32_t i = 0; i < shape->count; i++)
        assert_int_equal(own[i], idset_contains(share, i));
    idset_destroy(share);
    deal_destroy(deal);
    free(shape);
}

/* 8 samples of one chunk, 3 times each, go to 2 ranks: 4 whole samples to each. So a third of how often a sample comes
 * to a rank is as in test_uniform, with the same limit. The turns of a sample that is in two runs are parted anywhere:
 * of 8 samples twice each that go to 16 ranks each rank gets one turn. */
static void test_draws_uniform(void **state)
{
    (void)state;
    enum { EPOCHS = 4000 };
    struct shape *shape = xmalloc(sizeof *shape);
    make_shape(shape, KIND_ONE_CHUNK);
    shape->count = 8;
    struct deal *deal = numbers_of(shape);
    uint32_t cut[8 * 2] = {0};
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        uint32_t counts[8] = {3, 3, 3, 3, 3, 3, 3, 3};
        assert_int_equal(deal_draws(deal, seed, epoch, &(struct deal_ranks){2, 1, 1, true}, counts), 0);
        for (uint32_t i = 0; i < 8; i++) {
            assert_true(counts[i] == 0 || counts[i] == 3);
            cut[i * 2 + (counts[i] > 0)]++;
        }
    }
    double of_samples = chi_square(cut, 16, EPOCHS / 2.0) * 7 / 8;
    printf("seed %llu: chi-square %.1f of 7 degrees\n", (unsigned long long)seed, of_samples);
    assert_true(of_samples < 41.9);
    for (uint32_t rank = 0; rank < 16; rank++) {
        uint32_t counts[8] = {2, 2, 2, 2, 2, 2, 2, 2}, sum = 0;
        assert_int_equal(deal_draws(deal, seed, 0, &(struct deal_ranks){16, rank, 1, true}, counts), 0);
        for (uint32_t i = 0; i < 8; i++)
            sum += counts[i];
        assert_int_equal(sum, 1);
    }
    deal_destroy(deal);
    free(shape);
}

/* Another seed, another epoch: another deal. Ids do not matter, only the dataset's order does. */
static void test_keys(void **state)
{
    (void)state;
    struct shape *shape = xmalloc(sizeof *shape);
    make_shape(shape, KIND_MIXED);
    struct deal *deal = deal_of(shape), *other;
    const struct deal_ranks ranks = {3, 1, 1, true};
    struct idset *share, *epoch, *seeded, *elsewhere;
    assert_int_equal(deal_share(deal, 1, 1, NULL, &ranks, &share), 0);
    assert_int_equal(deal_share(deal, 1, 2, NULL, &ranks, &epoch), 0);
    assert_int_equal(deal_share(deal, 2, 1, NULL, &ranks, &seeded), 0);
    assert_false(idset_equal(share, epoch) || idset_equal(share, seeded) || idset_equal(epoch, seeded));
    sample_id indices[SAMPLES_MAX];
    for (uint32_t i = 0; i < shape->count; i++)
        indices[i] = i;
    assert_int_equal(deal_create(indices, shape->chunk_of, shape->count, shape->n_chunks, &other), 0);
    assert_int_equal(deal_share(other, 1, 1, NULL, &ranks, &elsewhere), 0);
    for (uint32_t i = 0; i < shape->count; i++)
        assert_int_equal(idset_contains(elsewhere, i), idset_contains(share, shape->ids[i]));
    idset_destroy(share);
    idset_destroy(epoch);
    idset_destroy(seeded);
    idset_destroy(elsewhere);
    deal_destroy(deal);
    deal_destroy(other);
    deal_destroy(NULL);
    free(shape);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 0);
    printf("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rests),      cmocka_unit_test(test_rest_stays),    cmocka_unit_test(test_shares),
        cmocka_unit_test(test_cost),       cmocka_unit_test(test_uniform),       cmocka_unit_test(test_draws),
        cmocka_unit_test(test_draws_once), cmocka_unit_test(test_draws_by_node), cmocka_unit_test(test_draws_uniform),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
