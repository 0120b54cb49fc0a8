/* test_idset.c: id sets agree with plain arrays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/random.h"
#include "sampler/idset.h"

/* Making, copying and comparing: a copy is equal to its source and independent of it. */
static void test_make_and_copy(void **state)
{
    (void)state;
    const sample_id ids[] = {0, 1, 5, 65535, 65536, 4294967294u};
    struct idset *set, *copy, *range;
    assert_int_equal(idset_from_sorted(ids, 6, &set), 0);
    assert_int_equal(idset_count(set), 6);
    assert_int_equal(idset_copy(set, &copy), 0);
    assert_true(idset_equal(set, copy));
    idset_remove(copy, 5);
    assert_false(idset_equal(set, copy));
    assert_true(idset_contains(set, 5));
    assert_int_equal(idset_intersection_count(set, copy), 5);

    assert_int_equal(idset_from_range(3, UINT64_C(1) << 32, &range), 0);
    assert_int_equal(idset_count(range), (UINT64_C(1) << 32) - 3);
    assert_int_equal(idset_intersection_count(set, range), 4);
    idset_destroy(range);
    assert_int_equal(idset_from_range(7, 7, &range), 0);
    assert_int_equal(idset_count(range), 0);

    idset_destroy(range);
    idset_destroy(copy);
    idset_destroy(set);
    idset_destroy(NULL);
}

/* Random additions and removals leave the same members, in the same ranks, as a plain table of flags. */
static void test_against_flags(void **state)
{
    (void)state;
    enum { UNIVERSE = 200000, STEPS = 300000 };
    struct rng rng;
    random_seed(&rng, 1);
    unsigned char *flags = calloc(UNIVERSE, 1);
    sample_id *ids = malloc(UNIVERSE * sizeof *ids);
    struct idset *set;
    assert_non_null(flags);
    assert_non_null(ids);
    assert_int_equal(idset_create(&set), 0);
    for (int step = 0; step < STEPS; step++) {
        sample_id id = (sample_id)random_below(&rng, UNIVERSE);
        assert_int_equal(idset_contains(set, id), flags[id]);
        flags[id] = random_below(&rng, 3) != 0;
        if (flags[id])
            idset_add(set, id);
        else
            idset_remove(set, id);
    }
    uint64_t count = 0;
    for (sample_id id = 0; id < UNIVERSE; id++) {
        sample_id at_rank;
        if (!flags[id])
            continue;
        if (count % 97 == 0) {
            assert_true(idset_select(set, count, &at_rank));
            assert_int_equal(at_rank, id);
        }
        ids[count++] = id;
    }
    assert_int_equal(idset_count(set), count);
    sample_id beyond;
    assert_false(idset_select(set, count, &beyond));
    struct idset *same;
    assert_int_equal(idset_from_sorted(ids, count, &same), 0);
    assert_true(idset_equal(set, same));
    idset_to_array(set, ids);
    for (uint64_t i = 0; i < count; i++)
        assert_true(flags[ids[i]] && (i == 0 || ids[i - 1] < ids[i]));
    idset_destroy(same);
    idset_destroy(set);
    free(ids);
    free(flags);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_make_and_copy), cmocka_unit_test(test_against_flags)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
