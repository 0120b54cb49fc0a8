/* test_memory: what preparing allocates, and what it keeps. LARDER_MEMORY_IMAGES says how many images to go through
 * (2,000 unless set; 100,000 for the full measurement). */
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
#include "images.h"
#include "preprocess/prepare.h"

static const struct prepare_limits limits = {.pixels_max = 4000000, .scans_max = 64};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_CALLS 0
#elif defined(__has_feature)
#define COUNTS_CALLS !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define COUNTS_CALLS 1
#endif

static unsigned long calls;

#if COUNTS_CALLS
/* glibc's own names; the shared libraries call these too. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *ptr, size_t size);
void *__libc_memalign(size_t align, size_t size);

void *malloc(size_t size)
{
    calls++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    calls++;
    return __libc_calloc(count, size);
}

void *realloc(void *ptr, size_t size)
{
    calls++;
    return __libc_realloc(ptr, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    calls++;
    return __libc_memalign(align, size);
}
#endif

#define N_IMAGES 24

static struct encoded images[N_IMAGES];

/* Mixed sizes, sampling and processes; every fourth PNG, every eighth WebP. */
static void make_images(void)
{
    struct rng rng;
    random_seed(&rng, 77);
    for (uint32_t i = 0; i < N_IMAGES; i++) {
        uint32_t width = 40 + (uint32_t)random_below(&rng, 500), height = 40 + (uint32_t)random_below(&rng, 500);
        uint8_t *pixels = picture(width, height, 3, i);
        struct jpeg_form form = {3, 1 + (int)(i % 2), 1 + (int)(i / 2 % 2), i % 3 == 0, 85, 0, 0};
        if (i % 4 == 3)
            images[i] = encode_vips(pixels, width, height, 3, 8, i % 8 == 7 ? ".webp" : ".png");
        else
            images[i] = encode_jpeg(pixels, width, height, &form);
        free(pixels);
    }
}

static struct pipeline *parse(const char *json)
{
    struct pipeline *pipeline = NULL;
    CHECK(pipeline_parse(json, strlen(json), &pipeline, NULL) == 0);
    return pipeline;
}

static void run(struct prepare_scratch *scratch, const struct pipeline *pipeline, uint8_t *dst, size_t image,
                uint64_t instance)
{
    struct prepare_output output = {.pipeline = pipeline, .key = {1, image, instance}, .dst = dst};
    enum bad_reason reason;
    CHECK(prepare_sample(scratch, images[image].data, images[image].len_bytes, &output, 1, &reason, NULL) == 0);
}

/* Whether the image's decoder takes all its memory from scratch memory. */
static bool takes_scratch(size_t image)
{
    return image % 8 != 7; /* WebP */
}

/* Proves: once warm, preparing a JPEG or a PNG calls malloc not once, whatever the operators. */
static void test_no_allocation(void **state)
{
    (void)state;
    if (!COUNTS_CALLS) {
        print_message("a sanitizer has its own malloc: calls are not counted\n");
        skip();
    }
    struct pipeline *pipeline = parse(
        "[{\"random_resized_crop\": {\"size\": 128}}, \"random_horizontal_flip\", {\"color_jitter\": {\"hue\": 0.1}}, "
        "\"rand_augment\", {\"to_dtype\": {\"dtype\": \"float32\", \"scale\": true}}, \"random_erasing\"]");
    struct prepare_scratch *scratch;
    CHECK(prepare_scratch_create(&limits, &scratch) == 0);
    uint8_t *dst = malloc(pipeline_layout(pipeline)->bytes);
    unsigned long before = 0;
    for (uint64_t round = 0; round < 40; round++) {
        if (round == 20)
            before = calls;
        for (size_t i = 0; i < N_IMAGES; i++) {
            if (takes_scratch(i))
                run(scratch, pipeline, dst, i, round);
        }
    }
    assert_int_equal(calls - before, 0);
    free(dst);
    prepare_scratch_destroy(scratch);
    pipeline_unref(&pipeline);
}

static unsigned long resident_kib(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%*u %lu", &pages) == 1);
    fclose(file);
    return pages * 4;
}

/* Proves: memory stays flat over many images of all formats, damaged ones among them. */
static void test_flat(void **state)
{
    (void)state;
    const char *wanted = getenv("LARDER_MEMORY_IMAGES");
    unsigned long count = wanted ? strtoul(wanted, NULL, 10) : 2000;
    struct pipeline *pipeline = parse("[{\"random_resized_crop\": {\"size\": 96}}]");
    struct prepare_scratch *scratch;
    CHECK(prepare_scratch_create(&limits, &scratch) == 0);
    uint8_t *dst = malloc(pipeline_layout(pipeline)->bytes);
    unsigned long warm = 0, most = 0;
    for (unsigned long i = 0; i < count; i++) {
        struct encoded image = images[i % N_IMAGES];
        struct prepare_output output = {.pipeline = pipeline, .key = {1, 2, i}, .dst = dst};
        size_t len = i % 5 == 4 ? image.len_bytes * (i % 7) / 8 : image.len_bytes;
        enum bad_reason reason;
        (void)prepare_sample(scratch, image.data, len, &output, 1, &reason, NULL);
        if (i == count / 4)
            warm = resident_kib();
        if (i > count / 4 && i % 100 == 0)
            most = resident_kib() > most ? resident_kib() : most;
    }
    print_message("%lu images: resident %lu KiB when warm, %lu KiB at most after\n", count, warm, most);
    if (COUNTS_CALLS)
        assert_true(most <= warm + 1024 + warm / 50);
    free(dst);
    prepare_scratch_destroy(scratch);
    pipeline_unref(&pipeline);
}

/* Proves: an image that needs more memory than allowed is a bad sample, and the next one is not. libjpeg reads a
 * progressive JPEG of four inks, and keeps all coefficients; of others a row is in memory. */
static void test_limit(void **state)
{
    (void)state;
    struct prepare_limits tight = limits;
    tight.memory_max = 400000;
    struct prepare_scratch *scratch;
    CHECK(prepare_scratch_create(&tight, &scratch) == 0);
    struct pipeline *pipeline = parse("[{\"center_crop\": {\"size\": 64}}]");
    uint8_t *dst = malloc(pipeline_layout(pipeline)->bytes), *pixels = picture(700, 700, 4, 1);
    struct encoded inks = encode_jpeg(pixels, 700, 700, &(struct jpeg_form){4, 1, 1, true, 80, 0, 0});
    struct encoded progressive = encode_jpeg(pixels, 700, 700, &(struct jpeg_form){3, 1, 1, true, 80, 0, 0});
    struct encoded baseline = encode_jpeg(pixels, 700, 700, &(struct jpeg_form){3, 1, 1, false, 80, 0, 0});
    struct prepare_output output = {.pipeline = pipeline, .dst = dst};
    enum bad_reason reason = BAD_NONE;
    struct error err;
    assert_int_equal(prepare_sample(scratch, inks.data, inks.len_bytes, &output, 1, &reason, &err), LARDER_ENOMEM);
    assert_int_equal(reason, BAD_NO_MEMORY);
    assert_non_null(strstr(err.text, "more memory than is allowed"));
    assert_int_equal(prepare_sample(scratch, baseline.data, baseline.len_bytes, &output, 1, &reason, &err), 0);
    assert_int_equal(prepare_sample(scratch, progressive.data, progressive.len_bytes, &output, 1, &reason, &err), 0);
    encoded_free(&inks);
    encoded_free(&progressive);
    encoded_free(&baseline);
    free(pixels);
    free(dst);
    prepare_scratch_destroy(scratch);
    pipeline_unref(&pipeline);
}

/* Proves: a progressive JPEG with more scans than allowed is refused, and one with as many is not. */
static void test_scans(void **state)
{
    (void)state;
    uint8_t *pixels = picture(64, 64, 3, 1), *dst = malloc(16 * 16 * 3);
    /* libjpeg's script: 10 scans */
    struct encoded jpeg = encode_jpeg(pixels, 64, 64, &(struct jpeg_form){3, 1, 1, true, 80, 0, 0});
    struct pipeline *pipeline = parse("[{\"center_crop\": {\"size\": 16}}]");
    struct prepare_output output = {.pipeline = pipeline, .dst = dst};
    for (uint32_t scans = 9; scans <= 10; scans++) {
        struct prepare_limits few = {.pixels_max = 1000000, .scans_max = scans};
        struct prepare_scratch *scratch;
        enum bad_reason reason = BAD_NONE;
        CHECK(prepare_scratch_create(&few, &scratch) == 0);
        int rc = prepare_sample(scratch, jpeg.data, jpeg.len_bytes, &output, 1, &reason, NULL);
        assert_int_equal(rc, scans < 10 ? LARDER_ELIMIT : 0);
        assert_int_equal(reason, scans < 10 ? BAD_TOO_LARGE : BAD_NONE);
        prepare_scratch_destroy(scratch);
    }
    encoded_free(&jpeg);
    free(pixels);
    free(dst);
    pipeline_unref(&pipeline);
}

int main(void)
{
    prepare_init();
    make_images();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_allocation),
        cmocka_unit_test(test_flat),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_scans),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < N_IMAGES; i++)
        encoded_free(&images[i]);
    return failed;
}
