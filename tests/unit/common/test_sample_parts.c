/* test_sample_parts.c: the head of a sample of several parts comes out as it went in, and no other is believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/random.h"
#include "common/sample_parts.h"
#include "common/types.h"

static struct sample_parts two(uint64_t first, uint64_t second)
{
    return (struct sample_parts){.n = 2,
                                 .parts = {{.name = "image", .bytes = first}, {.name = "mask", .bytes = second}}};
}

/* What is written is read again, and each part lies behind the one before it. */
static void goes_round(void **state)
{
    (void)state;
    struct sample_parts parts = two(7, 5), read;
    uint8_t bytes[SAMPLE_PARTS_HEAD_MAX + 12] = {0};
    uint64_t len = sample_parts_place(&parts);
    assert_int_equal(len, 16 + 2 * 32 + 12);
    sample_parts_write(&parts, bytes);
    assert_true(sample_parts_are(bytes, len));
    assert_int_equal(sample_parts_read(bytes, len, &read, NULL), 0);
    assert_int_equal(read.n, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_string_equal(read.parts[i].name, parts.parts[i].name);
        assert_int_equal(read.parts[i].bytes, parts.parts[i].bytes);
        assert_int_equal(read.parts[i].offset, parts.parts[i].offset);
    }
    assert_false(sample_parts_are("\x93LRDPRT", 7));
    assert_false(sample_parts_are("\xff\xd8\xff\xe0 and what else a JPEG has", 30));
}

/* Whatever bytes of the head are changed, and wherever the sample is cut, what is read lies within it. */
static void foreign_heads(void **state)
{
    (void)state;
    struct sample_parts parts = two(7, 5), read;
    struct rng rng;
    size_t len = sample_parts_place(&parts);
    random_seed(&rng, 3);
    for (int i = 0; i < 20000; i++) {
        size_t cut = i % 3 ? len : random_below(&rng, len + 1);
        uint8_t *bytes = calloc(1, cut + 1), whole[SAMPLE_PARTS_HEAD_MAX + 12] = {0};
        sample_parts_write(&parts, whole);
        for (uint64_t changes = random_below(&rng, 4); changes > 0; changes--)
            whole[random_below(&rng, 80)] = (uint8_t)random_below(&rng, 256);
        memcpy(bytes, whole, cut);
        if (sample_parts_are(bytes, cut) && sample_parts_read(bytes, cut, &read, NULL) == 0) {
            assert_in_range(read.n, 1, SAMPLE_PARTS_MAX);
            const struct sample_part *last = &read.parts[read.n - 1];
            assert_int_equal(last->offset + last->bytes, cut);
        }
        free(bytes);
    }
}

/* Heads that are wrong in one thing are refused. */
static void wrong_heads(void **state)
{
    (void)state;
    struct sample_parts parts = two(7, 5), read;
    uint8_t bytes[SAMPLE_PARTS_HEAD_MAX + 12] = {0}, spoilt[sizeof bytes];
    size_t len = sample_parts_place(&parts);
    sample_parts_write(&parts, bytes);
    static const struct {
        size_t at;
        const char *bytes;
        size_t count;
    } cases[] = {{8, "\0", 1},     {8, "\x11", 1},     {8, "\3", 1},
                 {16, "Image", 5}, {48, "image\0", 6}, {16, "abcdefghijklmnopqrstuvwx", 24},
                 {40, "\x08", 1},  {40, "\6", 1},      {40, "\xff\xff\xff\xff\xff\xff\xff\xff", 8},
                 {72, "\x0d", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(spoilt, bytes, sizeof bytes);
        memcpy(spoilt + cases[i].at, cases[i].bytes, cases[i].count);
        assert_int_equal(sample_parts_read(spoilt, len, &read, NULL), LARDER_EFORMAT);
    }
    assert_int_equal(sample_parts_read(bytes, len - 1, &read, NULL), LARDER_EFORMAT);
    assert_int_equal(sample_parts_read(bytes, len + 1, &read, NULL), LARDER_EFORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_round),
        cmocka_unit_test(foreign_heads),
        cmocka_unit_test(wrong_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
