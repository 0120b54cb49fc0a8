/* test_idset.c: id sets agree with plain arrays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>
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

/* Random sets of runs, scattered ids and dense stretches. */
static struct idset *random_set(struct rng *rng)
{
    struct idset *set;
    assert_int_equal(idset_create(&set), 0);
    for (uint64_t patches = random_below(rng, 6); patches; patches--) {
        uint64_t first = random_below(rng, 5) ? random_below(rng, 400000) : UINT32_MAX - random_below(rng, 70000);
        uint64_t step = 1 + random_below(rng, 4) * random_below(rng, 40), count = 1 + random_below(rng, 20000);
        for (uint64_t i = 0; i < count && first + i * step <= UINT32_MAX; i++)
            idset_add(set, (sample_id)(first + i * step));
    }
    return set;
}

/* A dense page takes its bits, 8 KiB; a scattered id about two bytes; both a little more. */
static void test_bytes(void **state)
{
    (void)state;
    struct idset *dense, *scattered;
    assert_int_equal(idset_create(&dense), 0);
    assert_int_equal(idset_create(&scattered), 0);
    for (sample_id id = 0; id < 65536; id += 2)
        idset_add(dense, id);
    for (sample_id id = 0; id < 65536; id += 64)
        idset_add(scattered, id);
    assert_in_range(idset_bytes(dense), 8192, 8192 + 256);
    assert_in_range(idset_bytes(scattered), 2048, 2048 + 256);
    idset_destroy(dense);
    idset_destroy(scattered);
}

/* Union, intersection and difference agree with membership, and leave their sources alone; in place they give the
 * same. */
static void test_combinations(void **state)
{
    (void)state;
    struct rng rng;
    random_seed(&rng, 2);
    for (int round = 0; round < 50; round++) {
        struct idset *a = random_set(&rng), *b = random_set(&rng), *both, *any, *less;
        assert_int_equal(idset_union(a, b, &any), 0);
        assert_int_equal(idset_intersection(a, b, &both), 0);
        assert_int_equal(idset_difference(a, b, &less), 0);
        assert_int_equal(idset_count(both), idset_intersection_count(a, b));
        assert_int_equal(idset_count(any), idset_count(a) + idset_count(b) - idset_count(both));
        assert_int_equal(idset_count(less), idset_count(a) - idset_count(both));
        for (int i = 0; i < 2000; i++) {
            sample_id id = (sample_id)random_below(&rng, 500000);
            bool in_a = idset_contains(a, id), in_b = idset_contains(b, id);
            assert_int_equal(idset_contains(any, id), in_a || in_b);
            assert_int_equal(idset_contains(both, id), in_a && in_b);
            assert_int_equal(idset_contains(less, id), in_a && !in_b);
        }
        struct idset *grown, *shrunk;
        assert_int_equal(idset_copy(a, &grown), 0);
        assert_int_equal(idset_copy(a, &shrunk), 0);
        idset_add_all(grown, b);
        idset_remove_all(shrunk, b);
        assert_true(idset_equal(grown, any) && idset_equal(shrunk, less));
        idset_destroy(grown);
        idset_destroy(shrunk);
        idset_destroy(a);
        idset_destroy(b);
        idset_destroy(any);
        idset_destroy(both);
        idset_destroy(less);
    }
}

static void rebuild(void *context, uint32_t page, const uint64_t *words)
{
    for (uint32_t i = 0; i < 65536; i++)
        if (words[i / 64] >> (i % 64) & 1)
            idset_add(context, page * 65536 + i);
}

/* Pages and the serial form hold exactly the set, whatever it is made of, the empty one included. */
static void test_pages_and_serial_form(void **state)
{
    (void)state;
    struct rng rng;
    random_seed(&rng, 3);
    for (int round = 0; round < 100; round++) {
        struct idset *set = random_set(&rng), *again, *read;
        struct error err;
        uint8_t *bytes;
        size_t len;
        assert_int_equal(idset_create(&again), 0);
        assert_int_equal(idset_each_page(set, rebuild, again), 0);
        assert_true(idset_equal(set, again));
        assert_int_equal(idset_write(set, &bytes, &len), 0);
        assert_int_equal(idset_read(bytes, len, &read, &err), 0);
        assert_true(idset_equal(set, read));
        free(bytes);
        idset_destroy(read);
        idset_destroy(again);
        idset_destroy(set);
    }
}

static uint8_t *serial_of_example(size_t *len)
{
    struct idset *set;
    uint8_t *bytes;
    assert_int_equal(idset_from_range(10, 2000, &set), 0);
    idset_add(set, 70000);
    idset_add(set, 70002);
    assert_int_equal(idset_write(set, &bytes, len), 0);
    idset_destroy(set);
    return bytes;
}

/* Every flipped bit and every shorter length is refused. */
static void test_damage_is_refused(void **state)
{
    (void)state;
    size_t len;
    struct idset *set = NULL;
    struct error err;
    uint8_t *bytes = serial_of_example(&len);
    for (size_t bit = 0; bit < len * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_true(idset_read(bytes, len, &set, &err) != 0);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t shorter = 0; shorter < len; shorter++)
        assert_true(idset_read(bytes, shorter, &set, &err) != 0);
    assert_null(set);
    free(bytes);
}

/* A liar who knows how the checksum is made gets nothing through: no wrong count, no wrong length, no other spelling.
 * */
static void test_lies_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint8_t value;
    } lies[] = {
        {4, 2},               /* version */
        {6, 1},               /* reserved */
        {8, 200},             /* ids in all */
        {16, 1},              /* fewer pages */
        {16, 3},              /* more pages */
        {26, 1},              /* another kind */
        {26, 9},              /* no kind */
        {28, 0},              /* no runs */
        {28, 2},              /* more runs than there are */
        {31, 255},  {32, 11}, /* another first: then the count is wrong */
        {34, 0},              /* last before first */
        {36, 0},              /* page numbers that do not ascend */
        {44, 0x72},           /* ids that are equal */
        {44, 0x73},           /* ids that descend */
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        size_t len;
        struct idset *set = NULL;
        struct error err = {0};
        uint8_t *bytes = serial_of_example(&len);
        uint8_t before = bytes[lies[i].at];
        bytes[lies[i].at] = lies[i].value;
        uint64_t hash = XXH3_64bits(bytes, len - 8);
        memcpy(bytes + len - 8, &hash, 8);
        if (before != lies[i].value && idset_read(bytes, len, &set, &err) == 0)
            fail_msg("byte %zu as %u got through", lies[i].at, lies[i].value);
        assert_null(set);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_make_and_copy),         cmocka_unit_test(test_against_flags),
        cmocka_unit_test(test_combinations),          cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_pages_and_serial_form), cmocka_unit_test(test_damage_is_refused),
        cmocka_unit_test(test_lies_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
