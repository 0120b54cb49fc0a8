/* test_client.c: the C library with the real daemon: usage: system_client LARDERD MAKE_IMAGES
 * The daemon runs on a private socket and folder with a small set of images made for the test. */
#include <larder/larder.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock.h"
#include "real_daemon.h"

#define SAMPLES 90u
#define CLASSES 3u
#define BATCH_SIZE 8u
#define BATCHES ((SAMPLES + BATCH_SIZE - 1) / BATCH_SIZE)
#define SIDE 48u
#define SAMPLE_BYTES (SIDE * SIDE * 3u)
#define NEXT_TIMEOUT_MS 60000 /* a sanitizer's build on a busy machine */

static struct real real;

static int set_up(void **state)
{
    (void)state;
    real_make(&real, SAMPLES, CLASSES);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    real_remove(&real);
    return 0;
}

static int start_daemon(void **state)
{
    (void)state;
    real_start(&real);
    return 0;
}

static int stop_daemon(void **state)
{
    (void)state;
    return real_stop(&real);
}

static struct larder_loader *open_with(const char *pipeline, uint32_t prefetch, uint32_t shuffle)
{
    struct larder_loader *loader = NULL;
    struct larder_options options;
    larder_options_init(&options);
    options.socket = real.socket;
    options.dataset = real.dataset;
    options.pipeline = pipeline;
    options.batch_size = BATCH_SIZE;
    options.prefetch = prefetch;
    options.shuffle = shuffle;
    if (larder_open(&options, &loader) != 0)
        fail_msg("%s", larder_last_error(NULL));
    return loader;
}

static struct larder_loader *open_loader(uint32_t prefetch, uint32_t shuffle)
{
    return open_with("[{\"resize\": {\"size\": [48, 48]}}]", prefetch, shuffle);
}

/* count_batch marks the batch's samples as seen, and checks each against its label and its copy. */
static void count_batch(struct larder_loader *loader, struct larder_batch *batch, uint8_t *seen)
{
    static uint8_t copy[BATCH_SIZE * SAMPLE_BYTES];
    assert_int_equal(larder_batch_copy(batch, copy, sizeof copy), 0);
    for (uint32_t i = 0; i < larder_batch_count(batch); i++) {
        struct larder_sample sample;
        assert_int_equal(larder_batch_sample(batch, i, &sample), 0);
        assert_true(sample.index < SAMPLES);
        assert_int_equal(sample.len_bytes, SAMPLE_BYTES);
        assert_memory_equal(sample.data, copy + i * SAMPLE_BYTES, SAMPLE_BYTES);
        assert_non_null(larder_class_name(loader, sample.label));
        seen[sample.index]++;
    }
}

#define VIEWS                                                                                                         \
    "{\"views\": [{\"name\": \"whole\", \"steps\": [{\"resize\": {\"size\": [48, 48]}}]}, {\"count\": 2, \"steps\": " \
    "[{\"random_crop\": {\"size\": [9, 7]}}, {\"to_dtype\": {\"dtype\": \"float32\"}}, {\"layout\": {\"layout\": "    \
    "\"CHW\"}}]}]}"
#define SMALL_BYTES (9u * 7u * 3u * 4u)

/* check_fields compares what the loader says of its samples' views with VIEWS. */
static void check_fields(const struct larder_loader *loader)
{
    static const char *const names[] = {"whole", "view_1", "view_2"};
    struct larder_field field;
    struct larder_info info;
    assert_int_equal(larder_field_count(loader), 3);
    assert_int_equal(larder_field_get(loader, 3, &field), LARDER_EINVAL);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(larder_field_get(loader, i, &field), 0);
        assert_string_equal(field.name, names[i]);
        assert_int_equal(field.offset, i == 0 ? 0 : SAMPLE_BYTES + (i - 1) * ((SMALL_BYTES + 63) / 64 * 64));
        assert_int_equal(field.bytes, i == 0 ? SAMPLE_BYTES : SMALL_BYTES);
        assert_int_equal(field.height, i == 0 ? SIDE : 9);
        assert_int_equal(field.width, i == 0 ? SIDE : 7);
        assert_int_equal(field.channels, 3);
        assert_int_equal(field.dtype, i == 0 ? LARDER_UINT8 : LARDER_FLOAT32);
        assert_int_equal(field.layout, i == 0 ? LARDER_HWC : LARDER_CHW);
    }
    assert_int_equal(larder_info_get(loader, &info), 0);
    assert_int_equal(info.height, 0);
    assert_int_equal(info.sample_bytes, field.offset + field.bytes);
}

/* check_view compares a field of a batch's samples, copied, with what the samples have at its place. */
static void check_view(const struct larder_loader *loader, const struct larder_batch *batch, uint32_t number)
{
    static uint8_t copy[BATCH_SIZE * SAMPLE_BYTES];
    struct larder_field field;
    struct larder_sample sample;
    assert_int_equal(larder_field_get(loader, number, &field), 0);
    assert_int_equal(larder_batch_copy_field(batch, number, copy, field.bytes * larder_batch_count(batch) - 1),
                     LARDER_ELIMIT);
    assert_int_equal(larder_batch_copy_field(batch, number, copy, field.bytes * larder_batch_count(batch)), 0);
    for (uint32_t i = 0; i < larder_batch_count(batch); i++) {
        assert_int_equal(larder_batch_sample(batch, i, &sample), 0);
        assert_memory_equal(copy + i * field.bytes, (const uint8_t *)sample.data + field.offset, field.bytes);
    }
}

static int next(struct larder_loader *loader, struct larder_batch **out)
{
    int rc = larder_next(loader, NEXT_TIMEOUT_MS, out);
    if (rc && rc != LARDER_EEND && rc != LARDER_EQUOTA)
        fail_msg("%s", larder_last_error(loader));
    return rc;
}

static void finish_epoch(struct larder_loader *loader, uint8_t *seen)
{
    struct larder_batch *batch = NULL;
    while (next(loader, &batch) == 0) {
        count_batch(loader, batch, seen);
        assert_int_equal(larder_batch_release(&batch), 0);
    }
    for (uint32_t i = 0; i < SAMPLES; i++)
        assert_int_equal(seen[i], 1);
}

/* Every sample comes once an epoch, with every shuffle, also after an epoch that was left early and one in which as
 * much was held as is allowed. */
static void each_sample_once(void **state)
{
    (void)state;
    for (uint32_t shuffle = LARDER_SHUFFLE_DEPENDENT; shuffle <= LARDER_SHUFFLE_NONE; shuffle++) {
        struct larder_loader *loader = open_loader(3, shuffle);
        struct larder_info info;
        assert_int_equal(larder_info_get(loader, &info), 0);
        assert_int_equal(info.n_samples, SAMPLES);
        assert_int_equal(info.n_batches, BATCHES);
        assert_int_equal(info.n_classes, CLASSES);
        assert_int_equal(info.sample_bytes, SAMPLE_BYTES);
        for (uint32_t epoch = 0; epoch < 6; epoch++) {
            uint8_t seen[SAMPLES] = {0};
            struct larder_batch *held[BATCHES];
            uint32_t n_held = 0;
            assert_int_equal(larder_start_epoch(loader, epoch), 0);
            while (epoch % 3 == 1 && next(loader, &held[n_held]) == 0)
                count_batch(loader, held[n_held++], seen);
            if (epoch % 3 == 1)
                assert_int_equal(n_held, info.held_max < BATCHES ? info.held_max : BATCHES);
            while (n_held)
                assert_int_equal(larder_batch_release(&held[--n_held]), 0);
            if (epoch % 3 == 2) {
                struct larder_batch *batch = NULL;
                assert_int_equal(next(loader, &batch), 0);
                assert_int_equal(larder_batch_release(&batch), 0); /* and leave the epoch */
            } else {
                finish_epoch(loader, seen);
            }
        }
        larder_close(&loader);
    }
}

/* Without shuffling samples come in the dataset's order: class by class. */
static void keeps_order(void **state)
{
    (void)state;
    struct larder_loader *loader = open_loader(2, LARDER_SHUFFLE_NONE);
    struct larder_batch *batch = NULL;
    uint32_t position = 0;
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    while (next(loader, &batch) == 0) {
        for (uint32_t i = 0; i < larder_batch_count(batch); i++, position++) {
            struct larder_sample sample;
            assert_int_equal(larder_batch_sample(batch, i, &sample), 0);
            assert_int_equal(sample.index, position);
            assert_int_equal(sample.label, position / (SAMPLES / CLASSES));
        }
        assert_int_equal(larder_batch_release(&batch), 0);
    }
    assert_int_equal(position, SAMPLES);
    larder_close(&loader);
}

/* Samples that differ in size: each says its own dims, all bytes of which lie in it, and a whole field is no one array
 * for a batch. Samples of one size say the same in the same way. */
static void gives_sizes(void **state)
{
    (void)state;
    static uint8_t copy[BATCH_SIZE * SAMPLE_BYTES];
    struct larder_loader *loader = open_with(
        "{\"steps\": [{\"random_resize\": {\"min_size\": 20, \"max_size\": 40}}], \"ragged\": 4000}", 2,
        LARDER_SHUFFLE_NONE);
    uint32_t samples = 0, sizes = 0, before = 0;
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    for (struct larder_batch *batch; next(loader, &batch) == 0; larder_batch_release(&batch)) {
        for (uint32_t i = 0; i < larder_batch_count(batch); i++, samples++) {
            struct larder_sample sample;
            struct larder_array image;
            assert_int_equal(larder_batch_sample(batch, i, &sample), 0);
            assert_int_equal(larder_batch_array(batch, i, 0, &image), 0);
            assert_true(image.rank == 3 && image.dims[2] == 3 && image.dims[3] == 0 && image.dtype == LARDER_UINT8);
            uint32_t least = image.dims[0] < image.dims[1] ? image.dims[0] : image.dims[1];
            assert_true(least >= 20 && least <= 40 && image.dims[0] * image.dims[1] <= 4000);
            const uint8_t *data = image.data, *begin = sample.data;
            assert_true(data >= begin + 32 && data + image.dims[0] * image.dims[1] * 3 <= begin + sample.len_bytes);
            sizes += image.dims[0] != before;
            before = image.dims[0];
            assert_int_equal(larder_batch_array(batch, i, 1, &image), LARDER_EINVAL);
        }
        assert_int_equal(larder_batch_copy_field(batch, 0, copy, sizeof copy), LARDER_EINVAL);
    }
    assert_int_equal(samples, SAMPLES);
    assert_true(sizes > 5);
    larder_close(&loader);
    loader = open_loader(2, LARDER_SHUFFLE_NONE);
    struct larder_batch *batch;
    struct larder_array image;
    struct larder_sample sample;
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    assert_int_equal(next(loader, &batch), 0);
    assert_int_equal(larder_batch_array(batch, 1, 0, &image), 0);
    assert_int_equal(larder_batch_sample(batch, 1, &sample), 0);
    assert_true(image.data == sample.data && image.dims[0] == SIDE && image.dims[1] == SIDE && image.dims[2] == 3);
    larder_batch_release(&batch);
    larder_close(&loader);
}

/* Several views of each image: the loader says where each lies in a sample, one of them is what its list alone gives,
 * and of two with one list each draws for itself. */
static void gives_views(void **state)
{
    (void)state;
    static uint8_t whole[BATCH_SIZE * SAMPLE_BYTES], plain[BATCH_SIZE * SAMPLE_BYTES];
    struct larder_loader *views = open_with(VIEWS, 2, LARDER_SHUFFLE_NONE), *list = open_loader(2, LARDER_SHUFFLE_NONE);
    uint32_t batches = 0, same = 0;
    check_fields(views);
    assert_int_equal(larder_field_count(list), 1);
    assert_int_equal(larder_start_epoch(views, 0), 0);
    assert_int_equal(larder_start_epoch(list, 0), 0);
    for (struct larder_batch *batch, *other; next(views, &batch) == 0; batches++) {
        assert_int_equal(next(list, &other), 0);
        for (uint32_t number = 0; number < 3; number++)
            check_view(views, batch, number);
        assert_int_equal(larder_batch_copy_field(batch, 3, whole, sizeof whole), LARDER_EINVAL);
        assert_int_equal(larder_batch_copy_field(batch, 0, whole, sizeof whole), 0);
        assert_int_equal(larder_batch_copy(other, plain, sizeof plain), 0);
        assert_memory_equal(whole, plain, larder_batch_bytes(other));
        larder_batch_copy_field(batch, 1, whole, sizeof whole);
        larder_batch_copy_field(batch, 2, plain, sizeof plain);
        same += memcmp(whole, plain, SMALL_BYTES) == 0;
        larder_batch_release(&batch);
        larder_batch_release(&other);
    }
    assert_int_equal(batches, BATCHES);
    assert_true(same < BATCHES);
    larder_close(&views);
    larder_close(&list);
}

/* Without a pipeline a sample is its file: pointer, length and copy. */
static void gives_files_as_they_are(void **state)
{
    (void)state;
    struct larder_loader *loader = NULL;
    struct larder_options options;
    struct larder_info info;
    struct larder_batch *batch = NULL;
    uint32_t seen = 0;
    larder_options_init(&options);
    options.socket = real.socket;
    options.dataset = real.dataset;
    options.batch_size = BATCH_SIZE;
    options.all_files = 1;
    options.shuffle = LARDER_SHUFFLE_NONE;
    assert_int_equal(larder_open(&options, &loader), 0);
    assert_int_equal(larder_info_get(loader, &info), 0);
    assert_int_equal(info.height, 0);
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    while (next(loader, &batch) == 0) {
        static uint8_t copy[BATCH_SIZE << 16];
        size_t at = 0;
        assert_int_equal(larder_batch_copy(batch, copy, sizeof copy), 0);
        for (uint32_t i = 0; i < larder_batch_count(batch); i++, seen++) {
            struct larder_sample sample;
            char path[160];
            uint8_t file[65536];
            assert_int_equal(larder_batch_sample(batch, i, &sample), 0);
            uint32_t label = (uint32_t)sample.label, number = sample.index % (SAMPLES / CLASSES) * CLASSES + label;
            snprintf(path, sizeof path, "%s/class_%02u/%05u.jpg", real.dataset, label, number);
            FILE *stream = fopen(path, "rb");
            assert_non_null(stream);
            assert_int_equal(fread(file, 1, sizeof file, stream), sample.len_bytes);
            fclose(stream);
            assert_true(sample.len_bytes <= info.sample_bytes);
            assert_memory_equal(sample.data, file, sample.len_bytes);
            assert_memory_equal(copy + at, file, sample.len_bytes);
            at += sample.len_bytes;
        }
        assert_int_equal(larder_batch_bytes(batch), at);
        assert_int_equal(larder_batch_release(&batch), 0);
    }
    assert_int_equal(seen, SAMPLES);
    larder_close(&loader);
}

/* A column's rows are those of the samples, before, in and after an epoch; names that it has not are refused; what the
 * program has outlives the loader. */
static void gives_columns(void **state)
{
    (void)state;
    struct larder_loader *loader = open_loader(3, LARDER_SHUFFLE_DEPENDENT);
    struct larder_column *labels = NULL, *keys = NULL, *none = NULL;
    struct larder_batch *batch = NULL;
    uint8_t seen[SAMPLES] = {0};
    assert_int_equal(larder_column_open(loader, "__label__", NEXT_TIMEOUT_MS, &labels), 0);
    assert_int_equal(labels->kind, LARDER_COLUMN_INT64);
    assert_int_equal(labels->width, 1);
    assert_int_equal(labels->count, SAMPLES);
    assert_null(labels->text);
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    assert_int_equal(next(loader, &batch), 0);
    assert_int_equal(larder_column_open(loader, "__key__", -1, &keys), 0);
    assert_int_equal(larder_column_open(loader, "caption", -1, &none), LARDER_ENOENT);
    assert_non_null(strstr(larder_last_error(loader), "has no column \"caption\""));
    assert_int_equal(larder_column_open(loader, "", -1, &none), LARDER_EINVAL);
    do {
        count_batch(loader, batch, seen);
        for (uint32_t i = 0; i < larder_batch_count(batch); i++) {
            struct larder_sample sample;
            char key[64];
            larder_batch_sample(batch, i, &sample);
            assert_int_equal(labels->int64[sample.index], sample.label);
            int len = snprintf(key, sizeof key, "%s/%05u.jpg", larder_class_name(loader, sample.label),
                               sample.index % (SAMPLES / CLASSES) * CLASSES + (uint32_t)sample.label);
            assert_int_equal(keys->offsets[sample.index + 1] - keys->offsets[sample.index], len);
            assert_memory_equal(keys->text + keys->offsets[sample.index], key, len);
        }
        assert_int_equal(larder_batch_release(&batch), 0);
    } while (next(loader, &batch) == 0);
    for (uint32_t i = 0; i < SAMPLES; i++)
        assert_int_equal(seen[i], 1);
    larder_close(&loader);
    assert_int_equal(labels->int64[SAMPLES - 1], CLASSES - 1);
    larder_column_free(&labels);
    larder_column_free(&keys);
    larder_column_free(&none);
    assert_null(labels);
}

/* The daemon's refusals reach the program as the daemon wrote them. */
static void hands_refusals_through(void **state)
{
    (void)state;
    struct larder_loader *loader = NULL;
    struct larder_options options;
    larder_options_init(&options);
    options.socket = real.socket;
    options.dataset = "/nonexistent/images";
    assert_int_equal(larder_open(&options, &loader), LARDER_ENOENT);
    assert_non_null(strstr(larder_last_error(NULL), "/nonexistent/images"));
    options.dataset = real.dataset;
    options.pipeline = "[\"sharpen\"]";
    assert_int_equal(larder_open(&options, &loader), LARDER_EINVAL);
    assert_non_null(strstr(larder_last_error(NULL), "sharpen"));
    assert_null(loader);
}

/* Where the program does not want to wait for another daemon, one that was killed gives LARDER_EGONE with the socket's
 * name, and the next one on the socket serves a new loader. */
static void survives_kill(void **state)
{
    (void)state;
    struct larder_loader *loader = NULL;
    struct larder_options options;
    larder_options_init(&options);
    options.socket = real.socket;
    options.dataset = real.dataset;
    options.pipeline = "[{\"resize\": {\"size\": [48, 48]}}]";
    options.batch_size = BATCH_SIZE;
    options.reconnect_ms = 0;
    assert_int_equal(larder_open(&options, &loader), 0);
    struct larder_batch *held = NULL, *batch = NULL;
    static uint8_t copy[BATCH_SIZE * SAMPLE_BYTES];
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    assert_int_equal(next(loader, &held), 0);
    real_kill(&real);
    assert_int_equal(larder_batch_copy(held, copy, sizeof copy), LARDER_EGONE);
    assert_int_equal(larder_next(loader, -1, &batch), LARDER_EGONE);
    assert_non_null(strstr(larder_last_error(loader), real.socket));
    assert_int_equal(larder_batch_release(&held), LARDER_EGONE);
    larder_close(&loader);

    start_daemon(state);
    uint8_t seen[SAMPLES] = {0};
    loader = open_loader(2, LARDER_SHUFFLE_DEPENDENT);
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    finish_epoch(loader, seen);
    larder_close(&loader);
}

static void cancel_job(const char *job)
{
    char larder[512];
    const char *larderd = real_larderd(), *slash = strrchr(larderd, '/');
    snprintf(larder, sizeof larder, "%.*s/larder", slash ? (int)(slash - larderd) : 1, slash ? larderd : ".");
    real_run((const char *[]){larder, "cancel", job, "--socket", real.socket, NULL});
}

/* Another job takes several times the arena, and for longer than the daemon waits for clients it disconnects. */
static void others_fill_the_arena(void)
{
    uint64_t until_ns = clock_now_ns() + 3 * CLOCK_NS_PER_S, taken = 0;
    struct larder_batch *batch = NULL;
    struct larder_loader *loader = open_with("[{\"resize\": {\"size\": [48, 48]}}, \"random_horizontal_flip\"]", 2,
                                             LARDER_SHUFFLE_DEPENDENT);
    for (uint32_t epoch = 0; clock_now_ns() < until_ns || taken < 3 * (UINT64_C(32) << 20); epoch++) {
        assert_int_equal(larder_start_epoch(loader, epoch), 0);
        while (next(loader, &batch) == 0) {
            taken += larder_batch_bytes(batch);
            assert_int_equal(larder_batch_release(&batch), 0);
        }
    }
    larder_close(&loader);
}

/* Samples that the program reads in place stay what they are after their job was cancelled, whatever others prepare,
 * until the batch is released, which says that all was well; larder_next says that the job was cancelled. */
static void keeps_what_a_cancelled_job_holds(void **state)
{
    (void)state;
    struct larder_info info;
    struct larder_sample sample;
    struct larder_batch *held = NULL, *batch = NULL;
    static uint8_t before[BATCH_SIZE * SAMPLE_BYTES];
    struct larder_loader *loader = open_loader(1, LARDER_SHUFFLE_DEPENDENT);
    assert_int_equal(larder_info_get(loader, &info), 0);
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    assert_int_equal(next(loader, &held), 0);
    assert_int_equal(larder_batch_copy(held, before, sizeof before), 0);
    assert_int_equal(larder_batch_sample(held, 0, &sample), 0);
    cancel_job(info.job);
    int rc;
    while ((rc = larder_next(loader, NEXT_TIMEOUT_MS, &batch)) == 0)
        assert_int_equal(larder_batch_release(&batch), 0);
    assert_int_equal(rc, LARDER_ECANCELLED);
    assert_non_null(strstr(larder_last_error(loader), "cancelled"));
    others_fill_the_arena();
    for (uint32_t i = 0; i < larder_batch_count(held); i++) {
        assert_int_equal(larder_batch_sample(held, i, &sample), 0);
        assert_memory_equal(sample.data, before + i * SAMPLE_BYTES, SAMPLE_BYTES);
    }
    assert_int_equal(larder_batch_release(&held), 0);
    larder_close(&loader);
}

int main(int argc, char **argv)
{
    int code = real_arguments(argc, argv);
    if (code)
        return code;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_sample_once, start_daemon, stop_daemon),
        cmocka_unit_test_setup_teardown(keeps_order, start_daemon, stop_daemon),
        cmocka_unit_test_setup_teardown(gives_views, start_daemon, stop_daemon),
        cmocka_unit_test_setup_teardown(gives_sizes, start_daemon, stop_daemon),
        cmocka_unit_test_setup_teardown(gives_files_as_they_are, start_daemon, stop_daemon),
        cmocka_unit_test_setup_teardown(gives_columns, start_daemon, stop_daemon),
        cmocka_unit_test_setup_teardown(hands_refusals_through, start_daemon, stop_daemon),
        cmocka_unit_test_setup_teardown(survives_kill, start_daemon, stop_daemon),
        cmocka_unit_test_setup_teardown(keeps_what_a_cancelled_job_holds, start_daemon, stop_daemon),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
