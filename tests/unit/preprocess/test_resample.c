/* test_resample: the vector versions against the portable one, and both against sums written out here. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/random.h"
#include "preprocess/resample.h"
#include "preprocess/simd.h"

static uint64_t seed = 20240607;

static struct image random_image(struct scratch *scratch, struct rng *rng, uint32_t width, uint32_t height)
{
    struct image image;
    CHECK(scratch_image(scratch, width, height, &image) == 0);
    bool extremes = random_below(rng, 4) == 0; /* sums at their limits */
    for (uint32_t y = 0; y < height; y++) {
        for (size_t i = 0; i < image.stride; i++)
            image_row(&image, y)[i] = extremes ? (uint8_t)(0 - (random_u64(rng) & 1)) : (uint8_t)random_u64(rng);
    }
    return image;
}

static uint32_t up_to(struct rng *rng, uint32_t max)
{
    return 1 + (uint32_t)random_below(rng, max);
}

/* A geometry of random crop, size, window and flips: mostly small, sometimes steep. */
static struct geometry random_geometry(struct rng *rng, uint32_t width, uint32_t height)
{
    struct geometry geometry;
    geometry_start(&geometry, width, height);
    struct rect box = {.width = up_to(rng, width), .height = up_to(rng, height)};
    box.x = (uint32_t)random_below(rng, width - box.width + 1);
    box.y = (uint32_t)random_below(rng, height - box.height + 1);
    geometry_crop(&geometry, box);
    uint32_t full_width = up_to(rng, 90), full_height = up_to(rng, 90);
    struct resizing how = {(enum filter)random_below(rng, FILTER_MASK + 1), random_below(rng, 8) != 0, false};
    CHECK(geometry_resize(&geometry, full_width, full_height, how));
    struct rect window = {.width = up_to(rng, full_width), .height = up_to(rng, full_height)};
    window.x = (uint32_t)random_below(rng, full_width - window.width + 1);
    window.y = (uint32_t)random_below(rng, full_height - window.height + 1);
    geometry_crop(&geometry, window);
    geometry.mirror_x = random_u64(rng) & 1;
    geometry.mirror_y = random_u64(rng) & 1;
    return geometry;
}

static uint8_t *run(const struct geometry *geometry, const struct image *source)
{
    struct scratch scratch;
    scratch_init(&scratch, 64 << 20, NULL);
    size_t row = (size_t)geometry->window.width * IMAGE_CHANNELS;
    uint8_t *pixels = xmalloc(row * geometry->window.height + 1);
    pixels[row * geometry->window.height] = 0xa5; /* nothing is written past the end */
    struct image out = {pixels, row, geometry->window.width, geometry->window.height};
    CHECK(resample(geometry, source, 0, 0, &out, &scratch) == 0);
    CHECK(pixels[row * geometry->window.height] == 0xa5);
    scratch_free(&scratch);
    return pixels;
}

/* Proves: every vector version this processor runs gives the portable version's bytes, for any geometry and filter. */
static void test_versions_agree(void **state)
{
    (void)state;
    struct rng rng;
    random_seed(&rng, seed);
    for (int i = 0; i < 1500; i++) {
        struct scratch scratch;
        scratch_init(&scratch, 64 << 20, NULL);
        uint32_t width = up_to(&rng, i % 50 ? 150 : 3000), height = up_to(&rng, i % 50 == 1 ? 3000 : 150);
        struct image source = random_image(&scratch, &rng, width, height);
        struct geometry geometry = random_geometry(&rng, width, height);
        assert_true(simd_use(SIMD_PORTABLE));
        uint8_t *expected = run(&geometry, &source);
        for (int simd = SIMD_AVX2; simd < SIMD_VERSIONS; simd++) {
            if (!simd_use((enum simd)simd))
                continue;
            uint8_t *got = run(&geometry, &source);
            if (memcmp(expected, got, (size_t)geometry.window.width * geometry.window.height * IMAGE_CHANNELS) != 0)
                fail_msg("seed %llu, case %d: %s differs from portable", (unsigned long long)seed, i, simd_name());
            free(got);
        }
        free(expected);
        scratch_free(&scratch);
    }
    simd_select();
    print_message("chosen here: %s\n", simd_name());
}

/* Proves: bilinear resizing is the triangle filter, widened by the ratio, cut and renormalised at the borders, within
 * the two roundings to 8 bits. */
static void test_triangle(void **state)
{
    (void)state;
    enum { IN = 50, OUT = 17 };
    struct scratch scratch;
    struct rng rng;
    scratch_init(&scratch, 1 << 24, NULL);
    random_seed(&rng, seed);
    struct image source = random_image(&scratch, &rng, IN, IN);
    struct geometry geometry;
    geometry_start(&geometry, IN, IN);
    assert_true(geometry_resize(&geometry, OUT, OUT, (struct resizing){FILTER_BILINEAR, true, false}));
    uint8_t *got = run(&geometry, &source);
    double scale = (double)IN / OUT;
    for (int y = 0; y < OUT; y++) {
        for (int x = 0; x < OUT; x++) {
            double sum = 0, weights = 0, cx = (x + 0.5) * scale, cy = (y + 0.5) * scale;
            for (int v = 0; v < IN; v++) {
                for (int u = 0; u < IN; u++) {
                    double w = fmax(0, 1 - fabs(u + 0.5 - cx) / scale) * fmax(0, 1 - fabs(v + 0.5 - cy) / scale);
                    sum += w * image_row(&source, (uint32_t)v)[u * 3];
                    weights += w;
                }
            }
            assert_true(fabs(sum / weights - got[(y * OUT + x) * 3]) <= 1.01);
        }
    }
    free(got);
    scratch_free(&scratch);
}

/* Proves: what resample_needs leaves out has no influence, and what it names suffices. */
static void test_needs(void **state)
{
    (void)state;
    struct rng rng;
    random_seed(&rng, seed + 1);
    for (int i = 0; i < 300; i++) {
        struct scratch scratch;
        scratch_init(&scratch, 64 << 20, NULL);
        uint32_t width = up_to(&rng, 200), height = up_to(&rng, 200);
        struct image source = random_image(&scratch, &rng, width, height);
        struct geometry geometry = random_geometry(&rng, width, height);
        struct rect needs = resample_needs(&geometry);
        uint8_t *whole = run(&geometry, &source);
        struct image part;
        CHECK(scratch_image(&scratch, needs.width, needs.height, &part) == 0);
        for (uint32_t y = 0; y < needs.height; y++)
            memcpy(image_row(&part, y), image_row(&source, needs.y + y) + (size_t)needs.x * 3, (size_t)needs.width * 3);
        size_t row = (size_t)geometry.window.width * 3;
        struct image out = {xmalloc(row * geometry.window.height), row, geometry.window.width, geometry.window.height};
        CHECK(resample(&geometry, &part, needs.x, needs.y, &out, &scratch) == 0);
        assert_memory_equal(whole, out.data, row * geometry.window.height);
        free(out.data);
        free(whole);
        scratch_free(&scratch);
    }
}

/* One side alone, of a whole image. */
static struct image one_side(const struct image *source, uint32_t width, uint32_t height, enum filter filter,
                             struct scratch *scratch)
{
    struct geometry geometry;
    struct image out;
    geometry_start(&geometry, source->width, source->height);
    CHECK(geometry_resize(&geometry, width, height, (struct resizing){filter, true, false}));
    CHECK(scratch_image(scratch, width, height, &out) == 0);
    CHECK(resample(&geometry, source, 0, 0, &out, scratch) == 0);
    return out;
}

static bool same_pixels(const struct image *a, const struct image *b)
{
    for (uint32_t y = 0; y < a->height; y++) {
        if (memcmp(image_row(a, y), image_row(b, y), (size_t)a->width * IMAGE_CHANNELS) != 0)
            return false;
    }
    return true;
}

/* Proves: both passes are those of a resize of one side alone, and columns go first where the height shrinks by more
 * than twice as many pixels as the width, to the pixel; both orders occur, and differ. */
static void test_order(void **state)
{
    static const uint32_t sizes[][4] = {/* width and height, before and after */
                                        {60, 90, 60, 40}, {60, 90, 50, 70}, {60, 90, 50, 69}, {60, 90, 80, 89},
                                        {60, 90, 80, 90}, {60, 90, 80, 99}, {60, 90, 20, 9},  {60, 90, 20, 10},
                                        {9, 300, 224, 7}, {300, 9, 7, 8},   {50, 40, 49, 38}, {50, 40, 49, 37}};
    enum { N = sizeof sizes / sizeof *sizes };
    (void)state;
    struct rng rng;
    random_seed(&rng, seed + 2);
    uint32_t columns_first = 0, differ = 0;
    for (uint32_t i = 0; i < N * SIMD_VERSIONS * 2; i++) {
        const uint32_t *size = sizes[i % N];
        enum filter filter = i / N % 2 ? FILTER_LANCZOS : FILTER_BILINEAR;
        struct scratch scratch;
        if (!simd_use((enum simd)(i / N / 2)))
            continue;
        scratch_init(&scratch, 64 << 20, NULL);
        struct image source = random_image(&scratch, &rng, size[0], size[1]);
        struct image wide = one_side(&source, size[2], size[1], filter, &scratch);
        struct image rows = one_side(&wide, size[2], size[3], filter, &scratch);
        struct image tall = one_side(&source, size[0], size[3], filter, &scratch);
        struct image columns = one_side(&tall, size[2], size[3], filter, &scratch);
        struct image both = one_side(&source, size[2], size[3], filter, &scratch);
        int rows_less = (int)(size[1] - size[3]), columns_less = (int)(size[0] - size[2]);
        bool first = rows_less > 0 && rows_less > 2 * columns_less;
        assert_true(same_pixels(&both, first ? &columns : &rows));
        columns_first += first;
        differ += !same_pixels(&rows, &columns);
        scratch_free(&scratch);
    }
    assert_true(columns_first > N / 4 && differ > N / 2);
    simd_select();
}

int main(int argc, char **argv)
{
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 0);
    simd_select();
    printf("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions_agree),
        cmocka_unit_test(test_triangle),
        cmocka_unit_test(test_needs),
        cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
