/* test_remaining.c: a rank finds its id in sets of any shape: what makes a draw exactly uniform. */
#include "tests/unit/sampler/helpers.h"

#include "sampler/remaining_priv.h"

#define DENSE 700000u /* 171 blocks: several groups, the last not full */
#define ALL_BITS UINT32_C(0xffffffff)

static struct remaining *refilled(const struct idset *view)
{
    struct remaining *set;
    assert_int_equal(remaining_create(view, &set), 0);
    assert_int_equal(set->count, 0);
    remaining_refill(set);
    assert_int_equal(set->count, idset_count(view));
    return set;
}

/* Every rank has its id: the rank-th of what is left. */
static void check_ranks(const struct remaining *set, const sample_id *ids, size_t n_ids)
{
    assert_int_equal(set->count, n_ids);
    for (size_t rank = 0; rank < n_ids; rank++)
        if (remaining_select(set, rank) != ids[rank])
            fail_msg("rank %zu gives %u, not %u", rank, remaining_select(set, rank), ids[rank]);
}

/* Removes about a third, one by one or with `at_once` as a set, and checks all ranks. Puts the view back and checks
 * again. */
static void check_removed(const sample_id *ids, size_t n_ids, uint64_t seed, bool at_once)
{
    struct idset *view, *removed;
    struct rng rng;
    size_t n_left = 0;
    sample_id *left = malloc(n_ids * sizeof *left);
    assert_non_null(left);
    random_seed(&rng, seed);
    assert_int_equal(idset_from_sorted(ids, n_ids, &view), 0);
    assert_int_equal(idset_create(&removed), 0);
    struct remaining *set = refilled(view);
    check_ranks(set, ids, n_ids);
    for (size_t i = 0; i < n_ids; i++) {
        if (random_below(&rng, 3) == 0)
            idset_add(removed, ids[i]);
        else
            left[n_left++] = ids[i];
        if (!at_once && idset_contains(removed, ids[i]))
            remaining_remove(set, ids[i]);
    }
    if (at_once)
        assert_int_equal(remaining_remove_all(set, removed), 0);
    for (size_t i = 0; i < n_ids; i++)
        assert_int_equal(remaining_has(set, ids[i]), !idset_contains(removed, ids[i]));
    check_ranks(set, left, n_left);
    remaining_refill(set);
    check_ranks(set, ids, n_ids);
    remaining_destroy(set);
    idset_destroy(removed);
    idset_destroy(view);
    free(left);
}

static void check_shape(const sample_id *ids, size_t n_ids, uint64_t seed)
{
    check_removed(ids, n_ids, seed, false);
    check_removed(ids, n_ids, seed, true);
}

/* A dense range over several groups of blocks that begins and ends inside a block. */
static void test_dense(void **state)
{
    (void)state;
    sample_id *ids = malloc(DENSE * sizeof *ids);
    assert_non_null(ids);
    for (uint32_t i = 0; i < DENSE; i++)
        ids[i] = 5000 + i;
    check_shape(ids, DENSE, test_seed(50));
    free(ids);
}

/* A few ids in each of hundreds of blocks far apart, up to the largest id there is. */
static void test_sparse(void **state)
{
    (void)state;
    sample_id ids[3 * 400];
    size_t n_ids = 0;
    for (uint32_t i = 0; i < 400; i++) {
        uint32_t first = (uint32_t)((uint64_t)i * ALL_BITS / 400);
        ids[n_ids++] = first;
        ids[n_ids++] = first + 1 + i;
        ids[n_ids++] = first + 5000;
    }
    ids[n_ids - 1] = SAMPLE_NONE - 1;
    check_shape(ids, n_ids, test_seed(51));
}

/* One id, wherever it is. */
static void test_single(void **state)
{
    (void)state;
    static const sample_id single[] = {0, 63, 64, 4095, 4096, 65535, 65536, SAMPLE_NONE - 1};
    for (size_t i = 0; i < sizeof single / sizeof *single; i++) {
        struct idset *view;
        assert_int_equal(idset_from_sorted(&single[i], 1, &view), 0);
        struct remaining *set = refilled(view);
        check_ranks(set, &single[i], 1);
        assert_false(remaining_has(set, single[i] ^ 1));
        remaining_remove(set, single[i]);
        assert_int_equal(set->count, 0);
        assert_false(remaining_has(set, single[i]));
        remaining_add(set, single[i]);
        check_ranks(set, &single[i], 1);
        remaining_destroy(set);
        idset_destroy(view);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_sparse),
        cmocka_unit_test(test_single),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
