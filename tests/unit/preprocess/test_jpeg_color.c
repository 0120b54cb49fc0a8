/* test_jpeg_color.c: the pixels of small JPEGs: the vector version against plain C, and both against libjpeg's. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/random.h"
#include "prepare_fixture.h"
#include "preprocess/decode/jpeg_color.h"

#define WIDTH_MAX 150
#define PADDED (WIDTH_MAX + JPEG_COLOR_COLUMNS + JPEG_COLOR_BEHIND)

static void fill(struct rng *rng, uint8_t *row)
{
    uint64_t kind = random_below(rng, 4); /* of four, one has nothing but extremes, and one next to none */
    for (int i = 0; i < PADDED; i++)
        row[i] = kind == 0   ? (uint8_t)(0 - (random_u64(rng) & 1))
                 : kind == 1 ? (uint8_t)(126 + random_below(rng, 5))
                             : (uint8_t)random_u64(rng);
}

/* Proves: what this processor's version makes of any rows equals what plain C makes of them, for each width, and it
 * writes no more than whole multiples of columns. */
static void test_versions(void **state)
{
    (void)state;
    struct rng rng;
    random_seed(&rng, 20261126);
    uint8_t rows[5][PADDED], expected[PADDED * 3], made[PADDED * 3];
    for (uint32_t round = 0; round < 20000; round++) {
        uint32_t width = 1 + round % WIDTH_MAX;
        for (int i = 0; i < 5; i++)
            fill(&rng, rows[i]);
        for (int i = 1; i < 5; i++)
            rows[i][(width + 1) / 2] = rows[i][(width - 1) / 2];
        struct jpeg_color_row row = {rows[0], {rows[1], rows[2]}, {rows[3], rows[4]}};
        size_t written = (width + JPEG_COLOR_COLUMNS - 1) / JPEG_COLOR_COLUMNS * JPEG_COLOR_COLUMNS * 3;
        memset(made, 0x5a, sizeof made);
        jpeg_color_row_portable(&row, width, expected);
        jpeg_color_row(&row, width, made);
        assert_memory_equal(made, expected, (size_t)width * 3);
        for (size_t i = written; i < sizeof made; i++)
            assert_int_equal(made[i], 0x5a);
    }
}

static void check_whole(const struct encoded *jpeg, uint32_t width, uint32_t height)
{
    uint32_t w, h;
    uint8_t *expected = decode_plain(jpeg, &w, &h);
    struct made made = prepare(jpeg, center_crop(width, height), 0);
    if (made.rc)
        fail_msg("%u x %u: %s", width, height, made.err.text);
    assert_true(w == width && h == height && made.bytes == (uint64_t)width * height * 3);
    if (memcmp(made.pixels, expected, made.bytes) != 0)
        fail_msg("%u x %u: not libjpeg's pixels", width, height);
    free(made.pixels);
    free(expected);
}

/* Proves: small JPEGs have libjpeg's pixels, whatever their sides, with and without restart markers; also those just
 * below and above the sizes and samplings that planes are made of. */
static void test_small(void **state)
{
    (void)state;
    static const struct jpeg_form forms[] = {{3, 2, 2, false, 90, 0, 0},  {3, 2, 2, false, 30, 0, 0},
                                             {3, 2, 2, false, 75, -1, 0}, {3, 2, 2, true, 75, 0, 0},
                                             {3, 2, 1, false, 75, 0, 0},  {3, 1, 1, false, 75, 0, 0}};
    for (uint32_t width = 1; width <= 131; width++) {
        uint32_t height = 1 + width * 37 % 131;
        uint8_t *pixels = picture(width, height, 3, width);
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
            struct encoded jpeg = encode_jpeg(pixels, width, height, &forms[i]);
            check_whole(&jpeg, width, height);
            encoded_free(&jpeg);
        }
        free(pixels);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_versions), cmocka_unit_test(test_small)};
    return cmocka_run_group_tests(tests, prepare_begin, prepare_end);
}
