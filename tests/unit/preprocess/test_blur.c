/* test_blur: gaussian_blur, in every version that this processor runs, against the same pixel by pixel. */
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
#include "preprocess/pipeline_priv.h"
#include "preprocess/simd.h"

static uint64_t seed = 20261127;

/* Blurs through the operator. Gives the bytes of the result and of what follows it. */
static uint8_t *blur(const struct image *in, uint32_t kernel_width, uint32_t kernel_height, double sigma, size_t bytes)
{
    char json[200];
    struct pipeline *pipeline = NULL;
    struct scratch scratch;
    snprintf(json, sizeof json, "[{\"gaussian_blur\": {\"kernel_size\": [%u, %u], \"sigma\": [%.17g, %.17g]}}]",
             kernel_width, kernel_height, sigma, sigma);
    CHECK(pipeline_parse_open(json, strlen(json), &pipeline, NULL) == 0);
    scratch_init(&scratch, 64 << 20, NULL);
    struct op_plan plan = {.real = {sigma}};
    struct image out = *in;
    out.data = xmalloc(bytes);
    memcpy(out.data, in->data, bytes);
    CHECK(pipeline->ops[0].kind->apply(pipeline->ops[0].values, &plan, in, &out, &scratch) == 0);
    scratch_free(&scratch);
    pipeline_unref(&pipeline);
    return out.data;
}

static uint32_t random_kernel(struct rng *rng, uint32_t below)
{
    uint32_t most = 1 + (below - 1) * 2; /* half of it is below `below` */
    uint32_t kernel = 1 + 2 * (uint32_t)random_below(rng, random_below(rng, 4) ? 16 : 60);
    return kernel < most ? kernel : most;
}

/* Proves: every version gives the bytes of the sums pixel by pixel, with any size, kernel and sigma, those included
 * whose weights are zero or almost, and writes nothing else. */
static void test_versions(void **state)
{
    (void)state;
    struct rng rng;
    random_seed(&rng, seed);
    for (int i = 0; i < 400; i++) {
        uint32_t width = 1 + (uint32_t)random_below(&rng, 90), height = 1 + (uint32_t)random_below(&rng, 60);
        uint32_t kernel_width = random_kernel(&rng, width), kernel_height = random_kernel(&rng, height);
        double sigma = exp(log(1e-3) + random_unit(&rng) * log(i % 2 ? 1e6 : 1e4));
        struct image in = {.stride = (size_t)width * IMAGE_CHANNELS + random_below(&rng, 8), width, height};
        size_t bytes = in.stride * (height - 1) + (size_t)width * IMAGE_CHANNELS;
        bool extremes = random_below(&rng, 4) == 0;
        in.data = xmalloc(bytes);
        for (size_t j = 0; j < bytes; j++)
            in.data[j] = extremes ? (uint8_t)(0 - (random_u64(&rng) & 1)) : (uint8_t)random_u64(&rng);
        struct image expected = in;
        expected.data = xmalloc(bytes);
        memcpy(expected.data, in.data, bytes);
        by_pixel_blur(&in, kernel_width, kernel_height, sigma, &expected);
        for (int simd = 0; simd < SIMD_VERSIONS; simd++) {
            if (!simd_use((enum simd)simd))
                continue;
            uint8_t *got = blur(&in, kernel_width, kernel_height, sigma, bytes);
            if (memcmp(expected.data, got, bytes) != 0)
                fail_msg("seed %llu, case %d: %u x %u pixels, kernel %u x %u, sigma %.17g: %s differs",
                         (unsigned long long)seed, i, width, height, kernel_width, kernel_height, sigma, simd_name());
            free(got);
        }
        free(expected.data);
        free(in.data);
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
