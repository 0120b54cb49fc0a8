/* test_block.c: a block says the same with the processor's own words and without them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/cpu.h"
#include "common/random.h"
#include "sampler/block_priv.h"

enum { BITS = BLOCK_WORDS * 64, BLOCKS = 200 };

/* One bit in 1, 2, 4, … 64 is set, in some blocks none. */
static void draw(struct rng *rng, uint64_t words[BLOCK_WORDS], unsigned thin)
{
    for (unsigned i = 0; i < BLOCK_WORDS; i++) {
        words[i] = UINT64_MAX;
        for (unsigned k = 0; k < thin; k++)
            words[i] &= random_u64(rng);
    }
}

static bool has(const uint64_t *words, unsigned bit)
{
    return words[bit / 64] >> bit % 64 & 1;
}

static void check_block(const uint64_t *words)
{
    uint32_t rank = 0;
    for (unsigned bit = 0; bit < BITS; bit++) {
        if (has(words, bit))
            assert_int_equal(block_select(words, rank++), bit);
    }
    assert_int_equal(block_count(words), rank);
    assert_int_equal(block_empty(words), rank == 0);
}

static void check_intersection(const uint64_t *a, const uint64_t *b)
{
    uint64_t both[BLOCK_WORDS];
    memcpy(both, a, sizeof both);
    uint32_t count = block_intersect(both, b), left = 0;
    for (unsigned bit = 0; bit < BITS; bit++) {
        assert_int_equal(has(both, bit), has(a, bit) && has(b, bit));
        left += has(a, bit) && has(b, bit);
    }
    assert_int_equal(count, left);
}

static void check_all(void)
{
    struct rng rng;
    random_seed_keys(&rng, 1, 0, 0, 0);
    for (unsigned i = 0; i < BLOCKS; i++) {
        uint64_t a[BLOCK_WORDS], b[BLOCK_WORDS];
        draw(&rng, a, i % 16);
        draw(&rng, b, i / 16 % 3);
        check_block(a);
        check_intersection(a, b);
    }
}

static void test_processor(void **state)
{
    (void)state;
    check_all();
}

/* What other processors run, such as AMD's before Zen 3. */
static void test_plain(void **state)
{
    (void)state;
    unsigned features = cpu_features;
    cpu_features = 0;
    check_all();
    cpu_features = features;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_processor), cmocka_unit_test(test_plain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
