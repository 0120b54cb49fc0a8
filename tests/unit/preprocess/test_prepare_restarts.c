/* test_prepare_restarts.c: what is prepared from a JPEG with restart markers is what the same image gives without. Set
 * LARDER_TEST_IMAGES to a folder to run over its JPEGs too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "common/check.h"
#include "prepare_fixture.h"
#include "preprocess/command_files.h"

#define IMAGES_BYTES_MAX ((uint64_t)4 << 30)
#define EVERY_IMAGE 10 /* one of so many real images is taken */

static const char *const pipelines[] = {
    "[{\"random_resized_crop\": {\"size\": 64}}, \"random_horizontal_flip\"]",
    "[{\"random_resized_crop\": {\"size\": 20, \"dct_scaling\": true}}]",
    "[{\"random_resized_crop\": {\"size\": 9, \"scale\": [0.5, 1], \"dct_scaling\": true}}]",
    "[{\"random_crop\": {\"size\": [40, 31], \"pad_if_needed\": true}}]",
    "[{\"center_crop\": {\"size\": 7}}]",
};

static void compare(const struct encoded *plain, const struct encoded *marked, uint64_t draws, const char *name)
{
    for (size_t p = 0; p < sizeof pipelines / sizeof *pipelines; p++) {
        for (uint64_t draw = 0; draw < draws; draw++) {
            struct made a = prepare(plain, pipelines[p], draw), b = prepare(marked, pipelines[p], draw);
            if (a.rc || b.rc)
                fail_msg("%s: %s%s", name, a.err.text, b.err.text);
            if (memcmp(a.pixels, b.pixels, a.bytes) != 0)
                fail_msg("%s: %s draw %d differs between an image and the same with restart markers", name,
                         pipelines[p], (int)draw);
            free(a.pixels);
            free(b.pixels);
        }
    }
}

/* Proves: for every kind of chroma sampling, grey and CMYK, progressive sources, odd sizes, at full size and at a
 * fraction: restart markers after any number of MCUs change no pixel. */
static void test_forms(void **state)
{
    (void)state;
    static const struct jpeg_form forms[] = {
        {3, 1, 1, false, 90, 0, 0}, {3, 2, 1, false, 90, 0, 0}, {3, 2, 2, false, 80, 0, 0}, {3, 1, 2, false, 80, 0, 0},
        {3, 4, 1, false, 80, 0, 0}, {3, 2, 2, true, 75, 0, 0},  {3, 2, 1, true, 75, 0, 0},  {1, 1, 1, false, 90, 0, 0},
        {3, 4, 2, false, 80, 0, 0}, {4, 1, 1, false, 80, 0, 0}, {1, 1, 1, true, 80, 0, 0},  {1, 2, 2, false, 80, 0, 0},
    };
    static const uint32_t sizes[][2] = {{160, 120}, {97, 131}, {17, 18}, {1, 1}, {2, 300}, {300, 2}};
    static const unsigned intervals[] = {1, 2, 5, 7, 13, 20};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            uint8_t *pixels = picture(sizes[s][0], sizes[s][1], (unsigned)forms[f].components, f + s);
            struct encoded plain = encode_jpeg(pixels, sizes[s][0], sizes[s][1], &forms[f]);
            for (size_t i = 0; i < sizeof intervals / sizeof *intervals; i++) {
                struct encoded marked = mark_jpeg(&plain, intervals[i]);
                char name[64];
                snprintf(name, sizeof name, "form %zu size %zu interval %u", f, s, intervals[i]);
                compare(&plain, &marked, 8, name);
                encoded_free(&marked);
            }
            encoded_free(&plain);
            free(pixels);
        }
    }
}

/* Proves: what libjpeg forgives (bytes too many before a marker, fill bytes) gives the same pixels; markers that are
 * not what they should be make a bad sample. */
static void test_lies(void **state)
{
    (void)state;
    uint8_t *pixels = picture(160, 120, 3, 5);
    struct encoded plain = encode_jpeg(pixels, 160, 120, &(struct jpeg_form){3, 2, 2, false, 80, 0, 0});
    struct encoded marked = mark_jpeg(&plain, 5);
    size_t at = 0;
    while (marked.data[at] != 0xff || marked.data[at + 1] != JPEG_RST0 + 1)
        at++;
    struct encoded longer = {xmalloc(marked.len_bytes + 2), marked.len_bytes + 2};
    memcpy(longer.data, marked.data, at);
    memset(longer.data + at, 0xff, 2);
    memcpy(longer.data + at + 2, marked.data + at, marked.len_bytes - at);
    compare(&plain, &longer, 8, "fill bytes");
    memset(longer.data + at, 0x55, 2);
    compare(&plain, &longer, 8, "bytes too many");
    encoded_free(&longer);

    marked.data[at + 1] = JPEG_RST0 + 5;
    struct made made = prepare(&marked, center_crop(160, 120), 0);
    assert_int_equal(made.rc, LARDER_EFORMAT);
    assert_int_equal(made.reason, BAD_CORRUPT);
    free(made.pixels);
    made = prepare(&plain, center_crop(160, 120), 0); /* and the next image is none the worse for it */
    assert_int_equal(made.rc, 0);
    free(made.pixels);
    encoded_free(&marked);
    encoded_free(&plain);
    free(pixels);
}

/* Proves: the same as the first test, for real photographs. */
static void test_real_images(void **state)
{
    (void)state;
    const char *folder = getenv("LARDER_TEST_IMAGES");
    if (!folder) {
        print_message("LARDER_TEST_IMAGES is not set: real images are not tested\n");
        skip();
    }
    struct command_files files;
    struct error err;
    if (command_files_read(folder, IMAGES_BYTES_MAX, &files, &err))
        fail_msg("%s", err.text);
    unsigned count = 0;
    for (size_t i = 0; i < files.count; i += EVERY_IMAGE) {
        const struct command_file *file = &files.items[i];
        if (file->len_bytes < 3 || memcmp(file->data, "\xff\xd8\xff", 3) != 0)
            continue;
        struct encoded plain = {file->data, file->len_bytes}, marked = mark_jpeg(&plain, 1 + (unsigned)(i / 10 % 6));
        compare(&plain, &marked, 4, file->path);
        encoded_free(&marked);
        count++;
    }
    command_files_free(&files);
    print_message("%u real images\n", count);
    assert_true(count > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_lies),
        cmocka_unit_test(test_real_images),
    };
    return cmocka_run_group_tests(tests, prepare_begin, prepare_end);
}
