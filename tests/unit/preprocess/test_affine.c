/* test_affine: affine maps, in every version that this processor runs, against the same pixel by pixel. */
#include <math.h>
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
#include "preprocess/affine.h"
#include "preprocess/scratch.h"
#include "preprocess/simd.h"

static uint64_t seed = 20261127;

static struct image random_image(struct rng *rng, uint32_t width, uint32_t height, struct scratch *scratch)
{
    struct image image;
    CHECK(scratch_image(scratch, width, height, &image) == 0);
    for (uint32_t y = 0; y < height; y++) {
        for (size_t i = 0; i < image.stride; i++)
            image_row(&image, y)[i] = (uint8_t)random_u64(rng);
    }
    return image;
}

static double spread(struct rng *rng, double most)
{
    return most * (2 * random_unit(rng) - 1);
}

/* Maps of all kinds: those that operators make, and others, right to and past the ends of what fixed point holds. */
static struct affine random_map(struct rng *rng, uint32_t width, uint32_t height)
{
    struct affine affine;
    double far = random_below(rng, 8) ? 1 : 1e3;
    switch (random_below(rng, 8)) {
    case 0: return affine_move((int32_t)spread(rng, width * 1.2), (int32_t)spread(rng, height * 1.2));
    case 1: return affine_shear(spread(rng, 1), 0);
    case 2: return affine_shear(0, spread(rng, 1));
    case 3:
        return affine_rotation(random_below(rng, 2) ? 90.0 * (double)random_below(rng, 4) : 360 * random_unit(rng),
                               width / 2.0, height / 2.0, false, &width, &height);
    case 4: /* scale only */
        affine = (struct affine){{spread(rng, 2), 0, spread(rng, width), 0, spread(rng, 2), spread(rng, height)}};
        return affine;
    case 5: /* scale only, to whole pixels and halves of them */
        affine = (struct affine){{(double)random_below(rng, 3) - 1, 0, floor(spread(rng, 2.0 * width)) / 2, 0,
                                  (double)random_below(rng, 3) - 1, floor(spread(rng, 2.0 * height)) / 2}};
        return affine;
    default:
        for (int i = 0; i < 6; i++)
            affine.m[i] = i % 3 == 2 ? spread(rng, far * (i < 3 ? width : height)) : spread(rng, 2);
        if (random_below(rng, 3) == 0)
            affine.m[random_below(rng, 2) ? 1 : 3] = 0;
        if (random_below(rng, 6) == 0)
            affine.m[random_below(rng, 2) ? 0 : 4] = 0;
        return affine;
    }
}

static uint32_t random_size(struct rng *rng)
{
    return 1 + (uint32_t)random_below(rng, random_below(rng, 8) ? 60 : random_below(rng, 2) ? 3 : 700);
}

/* An image with odd gaps between its rows, which belong to `bytes` as well. */
static struct image make_out(uint32_t width, uint32_t height, size_t gap, size_t *bytes)
{
    struct image out = {.stride = (size_t)width * IMAGE_CHANNELS + gap, .width = width, .height = height};
    *bytes = out.stride * (height - 1) + (size_t)width * IMAGE_CHANNELS;
    out.data = xmalloc(*bytes);
    memset(out.data, 0xa5, *bytes);
    return out;
}

/* Proves: every version gives the bytes of every filter pixel by pixel, with any map, size and fill, and writes nothing
 * else. */
static void test_versions(void **state)
{
    (void)state;
    struct rng rng;
    random_seed(&rng, seed);
    for (int i = 0; i < 6000; i++) {
        struct scratch scratch;
        scratch_init(&scratch, 64 << 20, NULL);
        struct image in = random_image(&rng, random_size(&rng), random_size(&rng), &scratch);
        struct affine affine = random_map(&rng, in.width, in.height);
        enum filter filter = (enum filter)random_below(&rng, FILTER_BICUBIC + 1);
        uint8_t fill[IMAGE_CHANNELS] = {(uint8_t)random_u64(&rng), 7, 7};
        fill[0] = random_below(&rng, 2) ? 7 : fill[0];
        uint32_t width = random_size(&rng), height = random_size(&rng);
        size_t gap = random_below(&rng, 8), bytes;
        struct image expected = make_out(width, height, gap, &bytes);
        by_pixel_affine(&affine, filter, fill, &in, &expected);
        for (int simd = 0; simd < SIMD_VERSIONS; simd++) {
            if (!simd_use((enum simd)simd))
                continue;
            struct image got = make_out(width, height, gap, &bytes);
            affine_apply(&affine, filter, fill, &in, &got);
            if (memcmp(expected.data, got.data, bytes) != 0)
                fail_msg("seed %llu, case %d: filter %d, %u x %u to %u x %u: %s differs", (unsigned long long)seed, i,
                         filter, in.width, in.height, width, height, simd_name());
            free(got.data);
        }
        free(expected.data);
        scratch_free(&scratch);
    }
    simd_select();
}

int main(int argc, char **argv)
{
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 0);
    simd_select();
    printf("seed %llu, chosen here: %s\n", (unsigned long long)seed, simd_name());
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_versions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
