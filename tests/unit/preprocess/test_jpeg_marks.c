/* test_jpeg_marks.c: what is remembered of JPEGs, within its bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "preprocess/decode/jpeg_marks.h"

#define ROOM 100

static struct jpeg_marks *make_marks(uint64_t bytes)
{
    struct jpeg_marks *marks = NULL;
    assert_int_equal(jpeg_marks_create(bytes, 1, &marks), 0);
    return marks;
}

static struct jpeg_marks_key key_of(const struct jpeg_marks *marks, uint32_t n)
{
    return jpeg_marks_key(marks, (const uint8_t *)&n, sizeof n);
}

/* The n-th JPEG's segments. */
static void fill(struct huffman_mark to[ROOM], uint32_t n)
{
    for (uint32_t i = 0; i < ROOM; i++)
        to[i] = (struct huffman_mark){.bits = n * ROOM + i, .dc = {(int16_t)n, (int16_t)i}};
}

static void keep(struct jpeg_marks *marks, uint32_t n, uint32_t count)
{
    struct huffman_mark mine[ROOM];
    fill(mine, n);
    jpeg_marks_keep(marks, key_of(marks, n), mine, count, ROOM);
}

/* How many of the n-th JPEG's are known; they are its own. */
static uint32_t find(struct jpeg_marks *marks, uint32_t n)
{
    struct huffman_mark expected[ROOM], found[ROOM];
    fill(expected, n);
    uint32_t count = jpeg_marks_find(marks, key_of(marks, n), found, ROOM);
    assert_true(count <= ROOM);
    if (count)
        assert_memory_equal(found, expected, count * sizeof *found);
    return count;
}

/* Proves: what bytes are known by depends on the seed. */
static void test_seed(void **state)
{
    (void)state;
    struct jpeg_marks *marks[2];
    struct jpeg_marks_key keys[2];
    uint8_t bytes[300] = {0};
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(jpeg_marks_create(1 << 20, i, &marks[i]), 0);
        keys[i] = jpeg_marks_key(marks[i], bytes, sizeof bytes);
        jpeg_marks_destroy(marks[i]);
    }
    assert_true(keys[0].low != keys[1].low && keys[0].high != keys[1].high);
}

/* Proves: what was kept is found, more of it replaces less and not the other way round, and other bytes are unknown. */
static void test_kept(void **state)
{
    (void)state;
    struct jpeg_marks *marks = make_marks(1 << 20);
    struct huffman_mark found[ROOM];
    assert_int_equal(find(marks, 1), 0);
    keep(marks, 1, 10);
    keep(marks, 2, ROOM);
    assert_int_equal(find(marks, 1), 10);
    keep(marks, 1, 60);
    keep(marks, 1, 5);
    assert_int_equal(find(marks, 1), 60);
    assert_int_equal(find(marks, 2), ROOM);
    assert_int_equal(find(marks, 3), 0);
    assert_int_equal(jpeg_marks_find(marks, key_of(marks, 1), found, ROOM - 1), 0); /* no such JPEG can be */
    jpeg_marks_destroy(marks);
}

/* Proves: whatever is kept, memory stays within its bound; when it is full, most of what it has stays there while
 * others come once, and those that come often get in. */
static void test_bound(void **state)
{
    (void)state;
    const uint64_t bytes = 256 << 10;
    const uint32_t few = (uint32_t)(bytes / (2 * ROOM * sizeof(struct huffman_mark)));
    struct jpeg_marks *marks = make_marks(bytes);
    uint32_t left = 0, came = 0;
    for (uint32_t n = 0; n < few; n++)
        keep(marks, n, ROOM);
    for (uint32_t n = 0; n < few; n++)
        assert_int_equal(find(marks, n), ROOM);
    for (uint32_t n = few; n < 3 * few; n++) {
        keep(marks, n, ROOM);
        assert_true(jpeg_marks_bytes(marks) <= bytes);
    }
    for (uint32_t n = 0; n < few; n++)
        left += find(marks, n) > 0;
    assert_true(left > few / 2);
    for (uint32_t round = 0; round < 100; round++) {
        for (uint32_t n = 3 * few; n < 3 * few + 10; n++)
            keep(marks, n, ROOM);
    }
    for (uint32_t n = 3 * few; n < 3 * few + 10; n++)
        came += find(marks, n) > 0;
    assert_true(came >= 8);
    jpeg_marks_destroy(marks);
}

/* Proves: where there is room for nothing, nothing is kept. */
static void test_no_room(void **state)
{
    (void)state;
    struct jpeg_marks *marks = make_marks(0);
    keep(marks, 1, ROOM);
    assert_int_equal(find(marks, 1), 0);
    jpeg_marks_destroy(marks);
    jpeg_marks_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_seed), cmocka_unit_test(test_kept),
                                       cmocka_unit_test(test_bound), cmocka_unit_test(test_no_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
