/* test_prepare_regional.c: what is decoded in part, or at a fraction, is what the whole gives. Set LARDER_TEST_IMAGES
 * to a folder to run over its JPEGs too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/check.h"
#include "prepare_fixture.h"

/* Proves: decoding only what a crop needs changes no pixel, for every kind of chroma sampling, odd sizes included. */
static void test_regional(void **state)
{
    (void)state;
    static const struct jpeg_form forms[] = {
        {3, 1, 1, false, 90, 0, 0}, {3, 2, 1, false, 90, 0, 0}, {3, 2, 2, false, 80, 0, 0}, {3, 1, 2, false, 80, 0, 0},
        {3, 4, 1, false, 80, 0, 0}, {3, 2, 2, true, 75, 0, 0},  {3, 2, 1, true, 75, 0, 0},  {3, 2, 2, false, 80, 1, 0},
        {1, 1, 1, false, 90, 0, 0}, {3, 4, 2, false, 80, 0, 0}, {3, 1, 1, true, 75, 0, 0},
    };
    static const uint32_t sizes[][2] = {{160, 120}, {97, 131}, {32, 32}, {61, 128}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            uint8_t *pixels = picture(sizes[s][0], sizes[s][1], (unsigned)forms[i].components, i);
            struct encoded jpeg = encode_jpeg(pixels, sizes[s][0], sizes[s][1], &forms[i]);
            char name[64];
            snprintf(name, sizeof name, "form %zu size %zu", i, s);
            check_regional(&jpeg, name);
            encoded_free(&jpeg);
            free(pixels);
        }
    }
}

/* Proves: the same for WebP, lossy (whose chroma is halved too) and lossless. */
static void test_regional_webp(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{160, 120}, {97, 131}, {1, 1}, {2, 37}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint8_t *pixels = picture(sizes[s][0], sizes[s][1], 3, s);
        for (int lossless = 0; lossless < 2; lossless++) {
            struct encoded webp = encode_vips(pixels, sizes[s][0], sizes[s][1], 3, 8,
                                              lossless ? ".webp[lossless]" : ".webp[Q=70]");
            struct made whole = prepare(&webp, center_crop(sizes[s][0], sizes[s][1]), 0);
            assert_int_equal(whole.rc, 0);
            compare_regional(&webp, whole.pixels, sizes[s][0], sizes[s][1], "webp");
            free(whole.pixels);
            encoded_free(&webp);
        }
        free(pixels);
    }
}

/* Proves: images of one pixel in some direction are no special case. */
static void test_tiny(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{1, 1}, {1, 400}, {400, 1}, {2, 3}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint8_t *pixels = picture(sizes[s][0], sizes[s][1], 3, s);
        struct encoded jpeg = encode_jpeg(pixels, sizes[s][0], sizes[s][1],
                                          &(struct jpeg_form){3, 2, 2, false, 90, 0, 0});
        check_regional(&jpeg, "tiny");
        encoded_free(&jpeg);
        free(pixels);
    }
}

static double mean_difference(const struct made *a, const struct made *b)
{
    double sum = 0;
    for (uint64_t i = 0; i < a->bytes; i++)
        sum += abs(a->pixels[i] - b->pixels[i]);
    return sum / (double)a->bytes;
}

/* Proves: decoding a JPEG at a fraction, where asked for, gives nearly the same picture in the same place; and the same
 * where there is too little to shrink, or no JPEG. */
static void test_dct_scaling(void **state)
{
    (void)state;
    uint8_t *pixels = picture(640, 480, 3, 3);
    struct encoded jpeg = encode_jpeg(pixels, 640, 480, &(struct jpeg_form){3, 2, 2, false, 90, 0, 0}),
                   png = encode_vips(pixels, 640, 480, 3, 8, ".png");
#define SCALED(size, yes)                                                                        \
    "[{\"random_resized_crop\": {\"size\": " size ", \"scale\": [0.5, 1], \"dct_scaling\": " yes \
    "}}, \"random_horizontal_flip\"]"
    for (uint64_t instance = 0; instance < 20; instance++) {
        struct made small = prepare(&jpeg, SCALED("40", "false"), instance),
                    scaled = prepare(&jpeg, SCALED("40", "true"), instance);
        struct made elsewhere = prepare(&jpeg, SCALED("40", "false"), instance + 100);
        struct made large = prepare(&jpeg, SCALED("250", "false"), instance),
                    same = prepare(&jpeg, SCALED("250", "true"), instance);
        struct made other = prepare(&png, SCALED("40", "true"), instance),
                    plain = prepare(&png, SCALED("40", "false"), instance);
        assert_true(small.rc == 0 && scaled.rc == 0 && large.rc == 0 && same.rc == 0 && other.rc == 0 && plain.rc == 0);
        double moved = mean_difference(&small, &elsewhere);
        assert_true(mean_difference(&small, &scaled) > 0 && mean_difference(&small, &scaled) < 2 && moved > 10);
        assert_true(mean_difference(&large, &same) == 0 && mean_difference(&other, &plain) == 0);
        free(small.pixels), free(scaled.pixels), free(elsewhere.pixels), free(large.pixels), free(same.pixels),
            free(other.pixels), free(plain.pixels);
    }
    encoded_free(&jpeg);
    encoded_free(&png);
    free(pixels);
}

/* Proves: long and thin images, up to the longest that JPEG holds, are prepared as others are. */
static void test_long(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{65000, 3}, {3, 65000}, {1, 10000}, {65500, 1}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint8_t *pixels = picture(sizes[s][0], sizes[s][1], 3, s);
        struct encoded jpeg = encode_jpeg(pixels, sizes[s][0], sizes[s][1],
                                          &(struct jpeg_form){3, 2, 2, false, 60, 0, 0});
        uint32_t width, height;
        uint8_t *decoded = decode_plain(&jpeg, &width, &height);
        struct encoded png = encode_vips(decoded, width, height, 3, 8, ".png");
        for (uint64_t instance = 0; instance < 6; instance++) {
            const char *json = instance % 2 ? "[{\"random_resized_crop\": {\"size\": 40}}]"
                                            : "[{\"random_crop\": {\"size\": [60, 70], \"pad_if_needed\": true}}, "
                                              "{\"resize\": {\"size\": [9, 200]}}]";
            struct made a = prepare(&jpeg, json, instance), b = prepare(&png, json, instance);
            if (a.rc || b.rc)
                fail_msg("%u x %u: %s%s", width, height, a.err.text, b.err.text);
            assert_memory_equal(a.pixels, b.pixels, a.bytes);
            free(a.pixels);
            free(b.pixels);
        }
        encoded_free(&jpeg);
        encoded_free(&png);
        free(decoded);
        free(pixels);
    }
}

static struct encoded read_file(const char *path)
{
    struct encoded encoded = {0};
    FILE *file = fopen(path, "rb");
    CHECK(file);
    struct stat st;
    CHECK(fstat(fileno(file), &st) == 0);
    encoded = (struct encoded){xmalloc((size_t)st.st_size), (size_t)st.st_size};
    CHECK(fread(encoded.data, 1, encoded.len_bytes, file) == encoded.len_bytes);
    fclose(file);
    return encoded;
}

/* Proves: real photographs decode by regions to the pixels of their full decode. */
static void test_real_images(void **state)
{
    (void)state;
    const char *folder = getenv("LARDER_TEST_IMAGES");
    if (!folder) {
        print_message("LARDER_TEST_IMAGES is not set: real images are not tested\n");
        skip();
    }
    char command[4200];
    snprintf(command, sizeof command, "find -L '%s' -iname '*.jp*g' | sort | awk 'NR %% 10 == 1'", folder);
    FILE *list = popen(command, "r");
    CHECK(list);
    char path[4096];
    unsigned count = 0;
    while (fgets(path, sizeof path, list)) {
        path[strcspn(path, "\n")] = '\0';
        struct encoded encoded = read_file(path);
        check_regional(&encoded, path);
        encoded_free(&encoded);
        count++;
    }
    pclose(list);
    print_message("%u real images\n", count);
    assert_true(count > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regional),    cmocka_unit_test(test_regional_webp), cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_dct_scaling), cmocka_unit_test(test_long),          cmocka_unit_test(test_real_images),
    };
    return cmocka_run_group_tests(tests, prepare_begin, prepare_end);
}
