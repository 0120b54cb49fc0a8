/* test_jpeg_planes.c: JPEGs in planes: there, back again, and damaged. Takes a seed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/little_endian.h"
#include "common/random.h"
#include "prepare_fixture.h"
#include "preprocess/decode/exif.h"
#include "preprocess/decode/jpeg_planes.h"
#include "preprocess/decode/jpeg_rewrite.h"

static uint64_t seed = 1;

static struct encoded rewrite(const struct encoded *jpeg)
{
    struct encoded made = {0};
    made.data = jpeg_rewrite(jpeg->data, jpeg->len_bytes, JPEG_REWRITE_MCUS, &made.len_bytes);
    return made;
}

static struct encoded make_planes(const struct encoded *jpeg)
{
    struct encoded made = {0};
    made.data = jpeg_rewrite_in_planes(jpeg->data, jpeg->len_bytes, &made.len_bytes);
    return made;
}

/* A picture as a JPEG with restart markers, and in planes. */
static void make_both(uint32_t width, uint32_t height, const struct jpeg_form *form, struct encoded *marked,
                      struct encoded *planes)
{
    uint8_t *pixels = picture(width, height, (unsigned)form->components, width + height);
    struct encoded plain = encode_jpeg(pixels, width, height, form);
    *marked = rewrite(&plain);
    assert_non_null(marked->data);
    *planes = make_planes(marked);
    assert_non_null(planes->data);
    encoded_free(&plain);
    free(pixels);
}

static void compare(const struct encoded *a, const struct encoded *b, const char *json, const char *name)
{
    for (uint64_t draw = 0; draw < 6; draw++) {
        struct made x = prepare(a, json, draw), y = prepare(b, json, draw);
        if (x.rc || y.rc)
            fail_msg("%s: %s%s", name, x.err.text, y.err.text);
        if (memcmp(x.pixels, y.pixels, x.bytes) != 0)
            fail_msg("%s: %s draw %d differs in planes", name, json, (int)draw);
        free(x.pixels);
        free(y.pixels);
    }
}

static const struct jpeg_form forms[] = {
    {3, 1, 1, false, 90, 0, 0},  {3, 2, 1, false, 99, 0, 0}, {3, 2, 2, false, 80, 0, 0}, {3, 1, 2, false, 30, 0, 0},
    {3, 4, 1, false, 80, 0, 0},  {3, 4, 2, false, 80, 0, 0}, {1, 1, 1, false, 90, 0, 0}, {3, 2, 2, true, 75, 0, 3},
    {3, 1, 1, false, 100, 0, 0}, {3, 2, 2, false, 5, 0, 0},
};

/* Proves: for each sampling of chroma and grey, for odd sizes and qualities, the same pixels come of any crop, at full
 * size and at a fraction; the orientation is kept; and what comes back is the same JPEG byte by byte. */
static void test_forms(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{160, 120}, {97, 131}, {17, 18}, {1, 1}, {2, 300}, {300, 2}, {64, 64}};
    static const char *const pipelines[] = {
        "[{\"random_resized_crop\": {\"size\": 64}}, \"random_horizontal_flip\"]",
        "[{\"random_resized_crop\": {\"size\": 9, \"scale\": [0.5, 1], \"dct_scaling\": true}}]",
        "[{\"random_crop\": {\"size\": [40, 31], \"pad_if_needed\": true}}]",
    };
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            struct encoded marked, planes;
            char name[64];
            snprintf(name, sizeof name, "form %zu size %zu", f, s);
            make_both(sizes[s][0], sizes[s][1], &forms[f], &marked, &planes);
            assert_true(jpeg_planes_is(planes.data, planes.len_bytes));
            assert_false(jpeg_planes_is(marked.data, marked.len_bytes));
            assert_int_equal(exif_orientation(planes.data, planes.len_bytes),
                             forms[f].orientation ? forms[f].orientation : EXIF_UPRIGHT);
            for (size_t p = 0; p < sizeof pipelines / sizeof *pipelines; p++)
                compare(&marked, &planes, pipelines[p], name);
            compare(&marked, &planes, center_crop(sizes[s][0], sizes[s][1]), name);
            struct encoded back = rewrite(&planes);
            assert_int_equal(back.len_bytes, marked.len_bytes);
            assert_memory_equal(back.data, marked.data, back.len_bytes);
            encoded_free(&back);
            encoded_free(&marked);
            encoded_free(&planes);
        }
    }
}

/* Proves: whatever a JPEG is, with restart markers or progressive, the planes made of it are those made of what it is
 * with restart rows; and of planes none are made. */
static void test_made_of_any(void **state)
{
    (void)state;
    static const struct jpeg_form any[] = {{3, 2, 2, false, 80, 0, 0},  {3, 2, 1, true, 70, 0, 6},
                                           {3, 1, 2, false, 80, 1, 0},  {3, 4, 2, true, 90, 0, 0},
                                           {3, 2, 2, false, 80, -3, 3}, {1, 1, 1, true, 80, 0, 0}};
    static const uint32_t sizes[][2] = {{97, 131}, {1, 1}, {33, 8}, {160, 120}};
    for (size_t i = 0; i < sizeof any / sizeof *any; i++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            uint32_t width = sizes[s][0], height = sizes[s][1];
            uint8_t *pixels = picture(width, height, (unsigned)any[i].components, i + s);
            struct encoded jpeg = encode_jpeg(pixels, width, height, &any[i]), marked = rewrite(&jpeg);
            struct encoded planes = make_planes(&jpeg), again = make_planes(&marked);
            assert_non_null(planes.data);
            assert_int_equal(planes.len_bytes, again.len_bytes);
            assert_memory_equal(planes.data, again.data, again.len_bytes);
            assert_null(make_planes(&planes).data);
            encoded_free(&again);
            encoded_free(&planes);
            encoded_free(&marked);
            encoded_free(&jpeg);
            free(pixels);
        }
    }
}

/* Proves: the same of a JPEG whose blocks outside of the image are not what libjpeg would write there. */
static void test_cut(void **state)
{
    (void)state;
    uint8_t *pixels = picture(64, 48, 3, 1);
    struct encoded jpeg = encode_jpeg(pixels, 64, 48, &(struct jpeg_form){3, 2, 2, false, 90, 0, 0});
    size_t at = 2;
    while (jpeg.data[at + 1] != 0xc0)
        at += 2 + ((size_t)jpeg.data[at + 2] << 8 | jpeg.data[at + 3]);
    jpeg.data[at + 6] -= 9; /* the height, which leaves the number of MCUs as it is, and so does the width */
    jpeg.data[at + 8] -= 12;
    struct encoded marked = rewrite(&jpeg), planes = make_planes(&jpeg), again = make_planes(&marked);
    assert_non_null(planes.data);
    assert_int_equal(planes.len_bytes, again.len_bytes);
    assert_memory_equal(planes.data, again.data, again.len_bytes);
    compare(&jpeg, &planes, center_crop(52, 39), "cut");
    encoded_free(&again);
    encoded_free(&planes);
    encoded_free(&marked);
    encoded_free(&jpeg);
    free(pixels);
}

/* Proves: what cannot be in planes is said to be so: CMYK, no JPEG, a part of one. */
static void test_refused(void **state)
{
    (void)state;
    uint8_t *pixels = picture(160, 120, 4, 1);
    struct encoded cmyk = encode_jpeg(pixels, 160, 120, &(struct jpeg_form){4, 1, 1, false, 80, -4, 0});
    assert_null(make_planes(&cmyk).data);
    struct encoded jpeg = encode_jpeg(pixels, 160, 120, &(struct jpeg_form){3, 2, 2, false, 80, -4, 0});
    for (size_t bytes = 0; bytes < jpeg.len_bytes; bytes += 1 + bytes / 16)
        assert_null(make_planes(&(struct encoded){jpeg.data, bytes}).data);
    encoded_free(&jpeg);
    encoded_free(&cmyk);
    free(pixels);
}

/* Prepares a crop of the middle; gives whether it could be. */
static bool prepares(const struct encoded *planes)
{
    struct made made = prepare(planes, center_crop(16, 16), 0);
    if (made.rc)
        assert_int_equal(made.rc, LARDER_EFORMAT);
    free(made.pixels);
    return made.rc == 0;
}

/* Proves: a file that is shorter or longer, or whose lengths do not add up, is a bad sample, wherever the rectangle
 * lies. What else may be changed in it makes a bad sample or other pixels, and the next image is none the worse. */
static void test_damaged(void **state)
{
    (void)state;
    struct encoded marked, planes;
    struct rng rng;
    struct planes_file file;
    random_seed(&rng, seed);
    make_both(160, 120, &forms[2], &marked, &planes);
    assert_true(prepares(&planes));
    for (size_t bytes = 1; bytes < planes.len_bytes; bytes += 1 + bytes / 8)
        assert_false(prepares(&(struct encoded){planes.data, planes.len_bytes - bytes}));
    struct encoded longer = {xcalloc(1, planes.len_bytes + 1), planes.len_bytes + 1};
    memcpy(longer.data, planes.data, planes.len_bytes);
    assert_false(prepares(&longer));
    encoded_free(&longer);

    assert_true(planes_file_open(&file, planes.data, planes.len_bytes));
    uint8_t *lengths = planes.data + (file.lengths - planes.data);
    put_u16(lengths, (uint16_t)(get_u16(lengths) + 1));
    assert_false(prepares(&planes));
    put_u16(lengths + 2, (uint16_t)(get_u16(lengths + 2) - 1)); /* they add up again, but are lies */
    struct made made = prepare(&planes, center_crop(160, 120), 0);
    assert_int_equal(made.rc, LARDER_EFORMAT);
    assert_int_equal(made.reason, BAD_CORRUPT);
    free(made.pixels);
    put_u16(lengths, (uint16_t)(get_u16(lengths) - 1));
    put_u16(lengths + 2, (uint16_t)(get_u16(lengths + 2) + 1));
    assert_true(prepares(&planes));

    for (int i = 0; i < 2000; i++) {
        size_t at = (size_t)random_below(&rng, planes.len_bytes);
        uint8_t true_value = planes.data[at];
        planes.data[at] ^= (uint8_t)(1u << random_below(&rng, 8));
        made = prepare(&planes, center_crop(160, 120), 0);
        free(made.pixels);
        struct encoded back = rewrite(&planes);
        encoded_free(&back);
        planes.data[at] = true_value;
    }
    compare(&marked, &planes, center_crop(160, 120), "after all damage");
    encoded_free(&marked);
    encoded_free(&planes);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),   cmocka_unit_test(test_made_of_any), cmocka_unit_test(test_cut),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, prepare_begin, prepare_end);
}
