/* test_blocks.c: memory that is given back is taken again, and all together stays within the bound. */
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/blocks.h"
#include "common/random.h"

#define KB ((size_t)1 << 10)
#define MB ((size_t)1 << 20)

enum { HELD = 64, ROUNDS = 20000, THREADS = 4 };

/* keeps tells whether this build keeps blocks at all. */
static bool keeps(void)
{
    blocks_keep(MB);
    blocks_give(blocks_take(100 * KB));
    bool does = blocks_kept() > 0;
    blocks_keep(0);
    assert_int_equal(blocks_kept(), 0);
    return does;
}

static void a_block_serves_the_next_of_its_size(void **state)
{
    (void)state;
    if (!keeps())
        skip();
    blocks_keep(MB);
    char *block = blocks_take(110000);
    memset(block, 1, 110000);
    blocks_give(block);
    assert_in_range(blocks_kept(), 110000, 110000 + 8 * KB);
    assert_ptr_equal(blocks_take(109000), block);
    assert_int_equal(blocks_kept(), 0);
    blocks_give(block);
    char *longer = blocks_take(130000), *shorter = blocks_take(90000); /* what is left would be too much in vain */
    assert_ptr_not_equal(longer, block);
    assert_ptr_not_equal(shorter, block);
    blocks_give(longer);
    blocks_give(shorter);
    blocks_keep(0);
    assert_int_equal(blocks_kept(), 0);
}

static void small_and_none_are_as_ever(void **state)
{
    (void)state;
    blocks_keep(MB);
    blocks_give(NULL);
    for (size_t bytes = 0; bytes < 64 * KB; bytes += 1000)
        blocks_give(blocks_take(bytes));
    assert_int_equal(blocks_kept(), 0);
    blocks_keep(0);
}

static void the_oldest_goes_when_there_are_too_many(void **state)
{
    (void)state;
    if (!keeps())
        skip();
    blocks_keep(MB);
    void *blocks[4];
    for (size_t i = 0; i < 4; i++)
        blocks[i] = blocks_take((200 + 40 * i) * KB);
    for (size_t i = 0; i < 4; i++)
        blocks_give(blocks[i]); /* 1,040 KB */
    assert_in_range(blocks_kept(), 840 * KB, MB);
    for (size_t i = 1; i < 4; i++)
        assert_ptr_equal(blocks_take((200 + 40 * i) * KB), blocks[i]);
    assert_int_equal(blocks_kept(), 0);
    void *more = blocks_take(900 * KB); /* in use are more than the bound: nothing is kept */
    blocks_give(blocks[1]);
    assert_int_equal(blocks_kept(), 0);
    for (size_t i = 2; i < 4; i++)
        blocks_give(blocks[i]);
    blocks_give(more);
    assert_in_range(blocks_kept(), 1, MB);
    blocks_keep(0);
    assert_int_equal(blocks_kept(), 0);
}

struct holding {
    unsigned char *at;
    size_t bytes;
    unsigned char mark;
};

/* takes_and_gives has each block hold a pattern of its own until it is given back. Returns a block that had another. */
static void *takes_and_gives(void *seed)
{
    struct rng random;
    struct holding held[HELD] = {{0}};
    void *wrong = NULL;
    random_seed(&random, (uint64_t)(uintptr_t)seed);
    for (int round = 0; round < ROUNDS; round++) {
        size_t i = random_below(&random, HELD);
        if (held[i].at) {
            if (held[i].at[0] != held[i].mark || held[i].at[held[i].bytes - 1] != held[i].mark)
                wrong = held[i].at;
            blocks_give(held[i].at);
            held[i].at = NULL;
            continue;
        }
        held[i].bytes = 1 + random_below(&random, 300 * KB);
        held[i].at = blocks_take(held[i].bytes);
        held[i].mark = (unsigned char)round;
        if (malloc_usable_size(held[i].at) < held[i].bytes)
            wrong = held[i].at;
        held[i].at[0] = held[i].at[held[i].bytes - 1] = held[i].mark;
    }
    for (size_t i = 0; i < HELD; i++)
        blocks_give(held[i].at);
    return wrong;
}

static void threads_have_blocks_of_their_own(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    blocks_keep(8 * MB);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, takes_and_gives, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    assert_in_range(blocks_kept(), 0, 8 * MB);
    blocks_keep(0);
    assert_int_equal(blocks_kept(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_serves_the_next_of_its_size),
        cmocka_unit_test(small_and_none_are_as_ever),
        cmocka_unit_test(the_oldest_goes_when_there_are_too_many),
        cmocka_unit_test(threads_have_blocks_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
