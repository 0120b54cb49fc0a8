/* test_color: the changes of colour, in every version that this processor runs, against the same pixel by pixel.
 *
 * test_color [--all] [SEED]: with --all, hue, saturation and grey for all 2^24 colours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "by_pixel.h"
#include "common/check.h"
#include "common/random.h"
#include "preprocess/color.h"
#include "preprocess/simd.h"

static uint64_t seed = 20261127;
static bool all_colors;

enum what {
    HUE,
    SATURATION,
    BRIGHTNESS,
    CONTRAST,
    SHARPNESS,
    GREY,
    SOLARIZE,
    POSTERIZE,
    EQUALIZE,
    AUTOCONTRAST,
    WHATS
};

/* An image somewhere in memory whose every byte is compared: the gaps between rows too. */
struct picture {
    uint8_t *memory;
    size_t bytes;
    struct image image;
};

static struct picture make_picture(struct rng *rng, uint32_t width, uint32_t height)
{
    size_t before = random_below(rng, 8), stride = (size_t)width * IMAGE_CHANNELS + random_below(rng, 8);
    struct picture picture = {.bytes = before + stride * (height - 1) + (size_t)width * IMAGE_CHANNELS};
    picture.memory = xmalloc(picture.bytes);
    picture.image = (struct image){picture.memory + before, stride, width, height};
    uint64_t levels = random_below(rng, 4) ? 256 : 1 + random_below(rng, 20), lowest = random_below(rng, 257 - levels);
    for (size_t i = 0; i < picture.bytes; i++)
        picture.memory[i] = (uint8_t)(lowest + random_below(rng, levels));
    return picture;
}

static struct picture copy_picture(const struct picture *picture)
{
    struct picture copy = *picture;
    copy.memory = xmalloc(copy.bytes);
    memcpy(copy.memory, picture->memory, copy.bytes);
    copy.image.data = copy.memory + (picture->image.data - picture->memory);
    return copy;
}

static void change(enum what what, double factor, const struct image *image)
{
    struct scratch scratch;
    switch (what) {
    case HUE: color_hue(image, factor); break;
    case SATURATION: color_saturation(image, factor); break;
    case BRIGHTNESS: color_brightness(image, factor); break;
    case CONTRAST: color_contrast(image, factor); break;
    case SHARPNESS:
        scratch_init(&scratch, 64 << 20, NULL);
        CHECK(color_sharpness(image, factor, &scratch) == 0);
        scratch_free(&scratch);
        break;
    case GREY: color_grayscale(image); break;
    case SOLARIZE: color_solarize(image, factor); break;
    case POSTERIZE: color_posterize(image, (int)factor); break;
    case EQUALIZE: color_equalize(image); break;
    default: color_autocontrast(image); break;
    }
}

static void change_by_pixel(enum what what, double factor, const struct image *image)
{
    switch (what) {
    case HUE: by_pixel_hue(image, factor); break;
    case SATURATION: by_pixel_saturation(image, factor); break;
    case BRIGHTNESS: by_pixel_brightness(image, factor); break;
    case CONTRAST: by_pixel_contrast(image, factor); break;
    case SHARPNESS: by_pixel_sharpness(image, factor); break;
    case GREY: by_pixel_grayscale(image); break;
    case SOLARIZE: by_pixel_solarize(image, factor); break;
    case POSTERIZE: by_pixel_posterize(image, (int)factor); break;
    case EQUALIZE: by_pixel_equalize(image); break;
    default: by_pixel_autocontrast(image); break;
    }
}

static double random_factor(struct rng *rng, enum what what)
{
    double unit = random_unit(rng);
    switch (what) {
    case HUE: return unit - 0.5;
    case SOLARIZE: return random_below(rng, 2) ? unit * 256 : (double)random_below(rng, 257);
    case POSTERIZE: return (double)random_below(rng, 9);
    default: return random_below(rng, 4) ? 2 * unit : random_below(rng, 2) ? (double)random_below(rng, 3) : 100 * unit;
    }
}

static uint32_t random_size(struct rng *rng)
{
    return 1 + (uint32_t)random_below(rng, random_below(rng, 8) ? 70 : random_below(rng, 2) ? 3 : 1200);
}

/* Proves: every version gives the bytes of every change, pixel by pixel, at any size, stride and place in memory, and
 * touches nothing else. */
static void test_changes(void **state)
{
    (void)state;
    struct rng rng;
    random_seed(&rng, seed);
    for (int i = 0; i < 4000; i++) {
        enum what what = (enum what)(i % WHATS);
        struct picture picture = make_picture(&rng, random_size(&rng), 1 + (uint32_t)random_below(&rng, 12));
        struct picture expected = copy_picture(&picture);
        double factor = random_factor(&rng, what);
        change_by_pixel(what, factor, &expected.image);
        for (int simd = 0; simd < SIMD_VERSIONS; simd++) {
            if (!simd_use((enum simd)simd))
                continue;
            struct picture got = copy_picture(&picture);
            change(what, factor, &got.image);
            if (memcmp(expected.memory, got.memory, got.bytes) != 0)
                fail_msg("seed %llu, case %d: change %d by %.17g differs in %s", (unsigned long long)seed, i, what,
                         factor, simd_name());
            free(got.memory);
        }
        free(expected.memory);
        free(picture.memory);
    }
    simd_select();
}

/* Proves: adjustments done together give the bytes of one after the other, in any order and number. */
static void test_together(void **state)
{
    static const enum what alone[] = {BRIGHTNESS, CONTRAST, SATURATION, HUE}; /* in enum color_what's order */
    (void)state;
    struct rng rng;
    random_seed(&rng, seed + 1);
    for (int i = 0; i < 1000; i++) {
        struct picture picture = make_picture(&rng, random_size(&rng), 1 + (uint32_t)random_below(&rng, 8));
        struct picture expected = copy_picture(&picture);
        struct color_adjustment adjustments[COLOR_ADJUSTMENTS_MAX];
        uint32_t count = (uint32_t)random_below(&rng, COLOR_ADJUSTMENTS_MAX + 1);
        for (uint32_t j = 0; j < count; j++) {
            enum color_what what = (enum color_what)random_below(&rng, COLOR_HUE + 1);
            adjustments[j] = (struct color_adjustment){what, random_factor(&rng, alone[what])};
            change_by_pixel(alone[what], adjustments[j].factor, &expected.image);
        }
        for (int simd = 0; simd < SIMD_VERSIONS; simd++) {
            if (!simd_use((enum simd)simd))
                continue;
            struct picture got = copy_picture(&picture);
            color_adjust(&got.image, adjustments, count);
            if (memcmp(expected.memory, got.memory, got.bytes) != 0)
                fail_msg("seed %llu, case %d: %s differs", (unsigned long long)seed, i, simd_name());
            free(got.memory);
        }
        free(expected.memory);
        free(picture.memory);
    }
    simd_select();
}

/* A square of colours that have one red in common: all of them, or some drawn at random. */
static void fill_square(const struct image *square, uint32_t red, struct rng *rng)
{
    for (uint32_t y = 0; y < square->height; y++) {
        for (uint32_t x = 0; x < square->width; x++) {
            uint8_t *pixel = image_row(square, y) + (size_t)x * IMAGE_CHANNELS;
            pixel[0] = (uint8_t)red;
            pixel[1] = (uint8_t)(all_colors ? y : random_below(rng, 256));
            pixel[2] = (uint8_t)(all_colors ? x : random_below(rng, 256));
        }
    }
}

static void compare_square(enum what what, double factor, uint32_t red, struct rng *rng)
{
    enum { SIDE = 256 };
    static uint8_t before[SIDE * SIDE * 3], expected[SIDE * SIDE * 3], got[SIDE * SIDE * 3];
    struct image image = {before, SIDE * 3, SIDE, all_colors ? SIDE : 4};
    size_t bytes = image.stride * image.height;
    fill_square(&image, red, rng);
    memcpy(expected, before, bytes);
    image.data = expected;
    change_by_pixel(what, factor, &image);
    for (int simd = 0; simd < SIMD_VERSIONS; simd++) {
        if (!simd_use((enum simd)simd))
            continue;
        memcpy(got, before, bytes);
        image.data = got;
        change(what, factor, &image);
        if (memcmp(expected, got, bytes) != 0)
            fail_msg("seed %llu: change %d by %.17g differs in %s at red %u", (unsigned long long)seed, what, factor,
                     simd_name(), red);
    }
}

/* Proves: hue, saturation and grey are those of the same pixel by pixel, for each colour. */
static void test_colors(void **state)
{
    static const struct {
        enum what what;
        double factor;
    } cases[] = {{HUE, 0},          {HUE, 0.1},        {HUE, -0.1},         {HUE, 0.5},  {HUE, -0.5},
                 {HUE, 0.3337},     {SATURATION, 0},   {SATURATION, 0.613}, {GREY, 0},   {SATURATION, 1.4},
                 {SATURATION, 1.8}, {SATURATION, 7.3}, {SATURATION, 100},   {HUE, 0.004}};
    (void)state;
    struct rng rng;
    random_seed(&rng, seed + 2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (uint32_t red = 0; red < 256; red++)
            compare_square(cases[i].what, cases[i].factor, red, &rng);
    }
    simd_select();
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--all") == 0)
            all_colors = true;
        else
            seed = strtoull(argv[i], NULL, 0);
    }
    simd_select();
    printf("seed %llu, chosen here: %s\n", (unsigned long long)seed, simd_name());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_colors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
