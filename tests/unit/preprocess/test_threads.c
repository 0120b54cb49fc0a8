/* test_threads: preparing in several threads at once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "images.h"
#include "preprocess/prepare.h"
#include "preprocess/scratch_budget.h"

#define N_THREADS 4
#define N_IMAGES 6
#define N_ROUNDS 30
#define INSTANCE 1000 /* which is compared */

#define BUDGET_BYTES (64 << 20)

static struct prepare_limits limits = {.pixels_max = 4000000, .scans_max = 64};
static struct encoded images[N_IMAGES];
static struct pipeline *pipeline;
static uint8_t *expected[N_IMAGES];

static void make_images(void)
{
    static const char *const suffixes[] = {".png", ".webp", ".tif[compression=deflate]"};
    for (uint32_t i = 0; i < N_IMAGES; i++) {
        uint8_t *pixels = picture(200 + i, 150, 3, i);
        images[i] = i < 3 ? encode_jpeg(pixels, 200 + i, 150, &(struct jpeg_form){3, 2, 2, i == 1, 85, 0, 0})
                          : encode_vips(pixels, 200 + i, 150, 3, 8, suffixes[i - 3]);
        free(pixels);
    }
    images[2].len_bytes /= 2; /* a bad one among them */
}

static int prepare(struct prepare_scratch *scratch, size_t image, uint64_t instance, uint8_t *dst)
{
    struct prepare_output output = {.pipeline = pipeline, .key = {1, image, instance}, .dst = dst};
    enum bad_reason reason;
    struct error err;
    return prepare_sample(scratch, images[image].data, images[image].len_bytes, &output, 1, &reason, &err);
}

static void *work(void *wrong)
{
    size_t bytes = pipeline_layout(pipeline)->bytes;
    uint8_t *dst = xmalloc(bytes);
    for (int round = 0; round < N_ROUNDS; round++) {
        struct prepare_scratch *scratch; /* anew: workers come and go */
        CHECK(prepare_scratch_create(&limits, &scratch) == 0);
        struct pipeline *mine = pipeline_ref(pipeline);
        for (size_t i = 0; i < N_IMAGES; i++) {
            prepare(scratch, i, (uint64_t)round, dst); /* other crops, of which more is remembered */
            int rc = prepare(scratch, i, INSTANCE, dst);
            if (expected[i] ? rc != 0 || memcmp(dst, expected[i], bytes) != 0 : rc == 0)
                ++*(int *)wrong;
        }
        pipeline_unref(&mine);
        prepare_scratch_destroy(scratch);
    }
    free(dst);
    return NULL;
}

/* Proves: threads beside each other, each with its scratch, make what one thread makes, in every format. They have a
 * budget together, which remembers where MCUs of JPEGs begin; the one thread remembers nothing. */
static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[N_THREADS];
    int wrong[N_THREADS] = {0};
    for (int i = 0; i < N_THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, &wrong[i]) == 0);
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(wrong[i], 0);
    }
}

int main(void)
{
    static const char json[] = "[{\"random_resized_crop\": {\"size\": 64}}, \"rand_augment\"]";
    prepare_init();
    CHECK(pipeline_parse(json, sizeof json - 1, &pipeline, NULL) == 0);
    make_images();
    struct prepare_scratch *scratch;
    CHECK(prepare_scratch_create(&limits, &scratch) == 0);
    for (size_t i = 0; i < N_IMAGES; i++) {
        expected[i] = xmalloc(pipeline_layout(pipeline)->bytes);
        if (prepare(scratch, i, INSTANCE, expected[i])) {
            free(expected[i]);
            expected[i] = NULL;
        }
    }
    prepare_scratch_destroy(scratch);
    CHECK(expected[0] && !expected[2]);
    CHECK(scratch_budget_create(BUDGET_BYTES, N_THREADS, &limits.budget) == 0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < N_IMAGES; i++) {
        free(expected[i]);
        encoded_free(&images[i]);
    }
    scratch_budget_destroy(limits.budget);
    pipeline_unref(&pipeline);
    return failed;
}
