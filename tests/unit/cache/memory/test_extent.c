/* The arena's allocator and the order of eviction, against plain models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/memory/extent.h"
#include "cache/memory/residency.h"
#include "common/random.h"

enum { UNITS = 4096, SLOTS = 600 };

static uint64_t seed = 20240611;

/* A place inside a free block is cut out of it, whatever is before and behind, and merges again. */
static void test_a_block_at_a_place(void **state)
{
    (void)state;
    for (uint64_t before = 0; before <= 2; before++) {
        for (uint64_t behind = 0; behind <= 2; behind++) {
            struct extents *extents;
            uint32_t owner;
            assert_int_equal(extents_create((before + 3 + behind) * EXTENT_ALIGN, &extents), 0);
            uint32_t block = extent_alloc_at(extents, extent_first(extents), before * EXTENT_ALIGN, 3 * EXTENT_ALIGN,
                                             7);
            assert_int_equal(extent_offset(extents, block), before * EXTENT_ALIGN);
            assert_int_equal(extents_used_bytes(extents), 3 * EXTENT_ALIGN);
            extent_set_owner(extents, block, 9);
            assert_true(extent_owner(extents, block, &owner) && owner == 9);
            extents_check(extents);
            extent_free(extents, block);
            extents_check(extents);
            assert_int_equal(extent_next(extents, extent_first(extents)), EXTENT_NONE);
            extents_destroy(extents);
        }
    }
}

/* A block that is cut in two is two blocks of its owner, which are freed one by one. */
static void test_a_cut_block(void **state)
{
    (void)state;
    for (int first = 0; first <= 1; first++) {
        struct extents *extents;
        uint32_t owner = 0;
        assert_int_equal(extents_create(4 * EXTENT_ALIGN, &extents), 0);
        uint32_t block = extent_alloc(extents, 3 * EXTENT_ALIGN, 7);
        uint32_t rest = extent_split(extents, block, EXTENT_ALIGN);
        assert_int_equal(extent_bytes(extents, block), EXTENT_ALIGN);
        assert_int_equal(extent_bytes(extents, rest), 2 * EXTENT_ALIGN);
        assert_int_equal(extent_offset(extents, rest), EXTENT_ALIGN);
        assert_true(extent_owner(extents, rest, &owner) && owner == 7);
        assert_int_equal(extents_used_bytes(extents), 3 * EXTENT_ALIGN);
        extents_check(extents);
        extent_free(extents, first ? block : rest);
        extents_check(extents);
        extent_free(extents, first ? rest : block);
        extents_check(extents);
        assert_int_equal(extents_used_bytes(extents), 0);
        extents_destroy(extents);
    }
}

/* Random allocations and frees never overlap, never leave the arena, and keep every record consistent. */
static void test_random_blocks_never_overlap(void **state)
{
    (void)state;
    struct rng rng;
    struct extents *extents;
    static uint16_t owner_of[UNITS]; /* 0: free */
    uint32_t blocks[SLOTS];
    bool used[SLOTS] = {false};
    random_seed(&rng, seed);
    memset(owner_of, 0, sizeof owner_of);
    assert_int_equal(extents_create((uint64_t)UNITS * EXTENT_ALIGN + 17, &extents), 0);
    for (int step = 0; step < 60000; step++) {
        uint32_t slot = (uint32_t)random_below(&rng, SLOTS);
        if (used[slot]) {
            uint64_t first = extent_offset(extents, blocks[slot]) / EXTENT_ALIGN;
            for (uint64_t u = first; u < first + extent_bytes(extents, blocks[slot]) / EXTENT_ALIGN; u++) {
                assert_int_equal(owner_of[u], slot + 1);
                owner_of[u] = 0;
            }
            extent_free(extents, blocks[slot]);
            used[slot] = false;
        } else {
            uint64_t bytes = 1 + random_below(&rng, 40 * EXTENT_ALIGN);
            blocks[slot] = extent_alloc(extents, bytes, slot);
            if (blocks[slot] == EXTENT_NONE)
                continue;
            used[slot] = true;
            uint64_t first = extent_offset(extents, blocks[slot]) / EXTENT_ALIGN;
            assert_int_equal(extent_offset(extents, blocks[slot]) % EXTENT_ALIGN, 0);
            assert_true(extent_bytes(extents, blocks[slot]) == extent_round(bytes));
            for (uint64_t u = first; u < first + extent_bytes(extents, blocks[slot]) / EXTENT_ALIGN; u++) {
                assert_true(u < UNITS);
                assert_int_equal(owner_of[u], 0);
                owner_of[u] = (uint16_t)(slot + 1);
            }
        }
        if (step % 64 == 0)
            extents_check(extents);
    }
    extents_destroy(extents);
}

/* Blocks of one size fill the arena to its last byte, and after freeing everything one block takes
 * it all: nothing leaks. */
static void test_equal_blocks_fill_it_and_merge(void **state)
{
    (void)state;
    struct extents *extents;
    uint32_t blocks[64];
    assert_int_equal(extents_create(64 * 1024, &extents), 0);
    for (int i = 0; i < 64; i++) {
        blocks[i] = extent_alloc(extents, 1024, (uint32_t)i);
        assert_int_not_equal(blocks[i], EXTENT_NONE);
    }
    assert_int_equal(extent_alloc(extents, 1, 0), EXTENT_NONE);
    assert_int_equal(extents_used_bytes(extents), 64 * 1024);
    for (int i = 0; i < 64; i += 2)
        extent_free(extents, blocks[i]);
    assert_int_equal(extent_alloc(extents, 1025, 0), EXTENT_NONE); /* free, but in pieces */
    for (int i = 1; i < 64; i += 2)
        extent_free(extents, blocks[i]);
    extents_check(extents);
    uint32_t all = extent_alloc(extents, 64 * 1024, 7);
    assert_int_not_equal(all, EXTENT_NONE);
    uint32_t owner = 0;
    assert_true(extent_owner(extents, all, &owner));
    assert_int_equal(owner, 7);
    extents_destroy(extents);
    assert_int_equal(extents_create(EXTENT_ALIGN - 1, &extents), LARDER_EINVAL);
}

/* The only piece that is long enough is found behind any number of slightly shorter ones of the same list. */
static void test_fit_behind_shorter_ones(void **state)
{
    (void)state;
    enum { SHORTER = 100, BYTES = 1000 * EXTENT_ALIGN };
    struct extents *extents;
    uint32_t shorter[SHORTER];
    assert_int_equal(extents_create(BYTES + EXTENT_ALIGN + (uint64_t)SHORTER * BYTES, &extents), 0);
    uint32_t longest = extent_alloc(extents, BYTES, 1);
    extent_alloc(extents, EXTENT_ALIGN, 2); /* keeps the pieces apart */
    for (int i = 0; i < SHORTER; i++) {
        shorter[i] = extent_alloc(extents, BYTES - EXTENT_ALIGN, 3);
        extent_alloc(extents, EXTENT_ALIGN, 4);
    }
    extent_free(extents, longest);
    for (int i = 0; i < SHORTER; i++)
        extent_free(extents, shorter[i]);
    uint32_t found = extent_alloc(extents, BYTES, 5);
    assert_int_not_equal(found, EXTENT_NONE);
    assert_int_equal(extent_offset(extents, found), 0);
    extents_check(extents);
    extents_destroy(extents);
}

/* The victim is always an unpinned resident of the lowest want, the least recently touched of those first. */
static void test_victim_is_least_wanted_unpinned(void **state)
{
    (void)state;
    enum { N = 200 };
    struct rng rng;
    struct residency *residency = residency_create();
    bool present[N] = {false};
    uint32_t pins[N], want[N];
    uint64_t touched[N], now = 0;
    random_seed(&rng, seed + 1);
    for (int step = 0; step < 50000; step++) {
        uint32_t r = (uint32_t)random_below(&rng, N);
        now++;
        if (!present[r]) {
            want[r] = (uint32_t)random_below(&rng, 5) * 64; /* 256 is the largest */
            pins[r] = 1;
            present[r] = true;
            residency_add(residency, r, want[r]);
        } else {
            switch (random_below(&rng, 4)) {
            case 0:
                residency_pin(residency, r);
                pins[r]++;
                break;
            case 1:
                if (pins[r]) {
                    residency_unpin(residency, r);
                    if (--pins[r] == 0)
                        touched[r] = now;
                }
                break;
            case 2: {
                uint32_t to = (uint32_t)random_below(&rng, 257);
                if (to != want[r])
                    touched[r] = now;
                want[r] = to;
                residency_set_want(residency, r, to);
                break;
            }
            default: residency_remove(residency, r); present[r] = false;
            }
        }
        uint32_t best = RESIDENT_NONE;
        for (uint32_t i = 0; i < N; i++) {
            if (present[i] && !pins[i] &&
                (best == RESIDENT_NONE || want[i] < want[best] ||
                 (want[i] == want[best] && touched[i] < touched[best])))
                best = i;
        }
        assert_int_equal(residency_victim(residency), best);
    }
    uint32_t seen = 0, last_want = 0, expected = 0;
    for (uint32_t i = 0; i < N; i++)
        expected += present[i] && !pins[i];
    for (uint32_t r = residency_victim(residency); r != RESIDENT_NONE; r = residency_victim_after(residency, r)) {
        assert_true(want[r] >= last_want);
        last_want = want[r];
        seen++;
    }
    assert_int_equal(seen, expected);
    residency_destroy(residency);
}

int main(void)
{
    const char *given = getenv("LARDER_TEST_SEED");
    if (given)
        seed = strtoull(given, NULL, 0);
    printf("seed %llu (LARDER_TEST_SEED sets it)\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_at_a_place),          cmocka_unit_test(test_a_cut_block),
        cmocka_unit_test(test_random_blocks_never_overlap), cmocka_unit_test(test_equal_blocks_fill_it_and_merge),
        cmocka_unit_test(test_fit_behind_shorter_ones),     cmocka_unit_test(test_victim_is_least_wanted_unpinned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
