/* Bags of ids against plain counts, at random, and their flat form. LARDER_TEST_SEED chooses the numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/random.h"
#include "sampler/bag.h"

enum { IDS = 300, STEPS = 4000 };

static uint64_t seed_of_test(void)
{
    const char *text = getenv("LARDER_TEST_SEED");
    return text ? strtoull(text, NULL, 10) : 1;
}

static void assert_is(const struct bag *bag, const uint32_t *times)
{
    uint64_t count = 0, some = 0;
    struct idset *ids;
    for (sample_id id = 0; id < IDS; id++) {
        assert_int_equal(bag_times(bag, id), times[id]);
        assert_int_equal(bag_has(bag, id), times[id] > 0);
        count += times[id];
        some += times[id] > 0;
    }
    assert_int_equal(bag_count(bag), count);
    assert_int_equal(bag_ids(bag, &ids), 0);
    assert_int_equal(idset_count(ids), some);
    idset_destroy(ids);
}

static sample_id doubled(const void *context, sample_id id)
{
    return *(const sample_id *)context - 2 * id;
}

/* assert_forms: a copy, another numbering, and the flat form and back are the same bag. */
static void assert_forms(const struct bag *bag, const uint32_t *times)
{
    const sample_id most = 2 * IDS;
    struct bag *copy, *other, *back;
    struct idset *flat;
    assert_int_equal(bag_copy(bag, &copy), 0);
    assert_is(copy, times);
    assert_int_equal(bag_renumber(bag, doubled, &most, &other), 0);
    for (sample_id id = 0; id < IDS; id++)
        assert_int_equal(bag_times(other, most - 2 * id), times[id]);
    assert_int_equal(bag_flat(bag, IDS, &flat), 0);
    assert_int_equal(bag_of_flat(flat, IDS, &back), 0);
    assert_is(back, times);
    idset_destroy(flat);
    bag_destroy(copy);
    bag_destroy(other);
    bag_destroy(back);
}

static void test_counts(void **state)
{
    (void)state;
    uint32_t times[IDS] = {0};
    struct rng rng;
    struct bag *bag;
    random_seed(&rng, seed_of_test());
    assert_int_equal(bag_create(&bag), 0);
    for (int step = 0; step < STEPS; step++) {
        sample_id id = (sample_id)random_below(&rng, IDS);
        if (random_below(&rng, 2) && times[id]) {
            bag_take(bag, id);
            times[id]--;
        } else {
            times[id] = (uint32_t)random_below(&rng, random_below(&rng, 50) ? 5 : UINT64_C(1) << 32);
            assert_int_equal(bag_put(bag, id, times[id]), 0);
        }
        if (step % 100 == 0)
            assert_is(bag, times);
        if (step % 1000 == 0)
            assert_forms(bag, times);
    }
    assert_is(bag, times);
    bag_destroy(bag);
}

/* A bag in which no id is twice is its set in the flat form, too, so that a node that knows no others reads it. */
static void test_sets(void **state)
{
    (void)state;
    struct idset *ids, *flat;
    struct bag *bag, *other;
    uint32_t times[IDS] = {0};
    assert_int_equal(idset_from_range(7, 60, &ids), 0);
    assert_int_equal(bag_of_set(ids, &bag), 0);
    assert_int_equal(bag_put(bag, 7, 9), 0);
    assert_int_equal(bag_put(bag, 7, 1), 0); /* planes that are empty again count for nothing */
    assert_int_equal(bag_flat(bag, IDS, &flat), 0);
    assert_true(idset_equal(flat, ids));
    assert_int_equal(bag_create(&other), 0);
    assert_int_equal(bag_put(other, 100, 3), 0);
    assert_int_equal(bag_put_all(bag, other), 0);
    for (sample_id id = 7; id < 60; id++)
        times[id] = 1;
    times[100] = 3;
    assert_is(bag, times);
    idset_destroy(ids);
    idset_destroy(flat);
    bag_destroy(bag);
    bag_destroy(other);
}

/* What does not fit into 32 bits is told, and so is a set that is no bag's. */
static void test_limits(void **state)
{
    (void)state;
    struct bag *bag, *none = NULL;
    struct idset *flat = NULL, *far;
    assert_int_equal(bag_create(&bag), 0);
    assert_int_equal(bag_put(bag, 0, 4), 0);
    assert_int_equal(bag_flat(bag, UINT32_C(1) << 31, &flat), LARDER_ELIMIT);
    assert_int_equal(bag_flat(bag, UINT32_C(1) << 30, &flat), 0);
    assert_true(idset_contains(flat, UINT32_C(1) << 31));
    assert_int_equal(idset_from_range(320, 321, &far), 0);
    assert_int_equal(bag_of_flat(far, 10, &none), LARDER_EINVAL);
    assert_int_equal(bag_of_flat(far, 0, &none), LARDER_EINVAL);
    assert_int_equal(bag_of_flat(far, 11, &none), 0);
    assert_int_equal(bag_times(none, 1), UINT32_C(1) << 29);
    idset_destroy(flat);
    idset_destroy(far);
    bag_destroy(bag);
    bag_destroy(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
