/* test_scratch: the memory that threads decode in stays within one budget: what does not fit waits, and what never can
 * is refused by the setting's name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>
#include <cmocka.h>

#include "common/check.h"
#include "common/random.h"
#include "images.h"
#include "preprocess/prepare.h"
#include "preprocess/scratch.h"

#define MIB ((size_t)1 << 20)
#define REMEMBERED(bytes) ((bytes) / 32) /* may be remembered of JPEGs */

static struct scratch_budget *make_budget(uint64_t bytes, uint32_t threads)
{
    struct scratch_budget *budget = NULL;
    assert_int_equal(scratch_budget_create(bytes, threads, &budget), 0);
    return budget;
}

static struct scratch_budget_stats stats_of(struct scratch_budget *budget)
{
    struct scratch_budget_stats stats;
    scratch_budget_stats(budget, &stats);
    return stats;
}

/* Threads may keep a quarter, 48 MiB each at most; one image can have its thread's part and all that nobody keeps, but
 * for what may be remembered. */
static void test_division(void **state)
{
    (void)state;
    struct scratch_budget *budget = make_budget(64 * MIB, 4);
    assert_int_equal(scratch_budget_keep(budget), 4 * MIB);
    assert_int_equal(scratch_budget_most(budget), 50 * MIB);
    assert_true(scratch_budget_try(budget, 46 * MIB, false));
    assert_false(scratch_budget_try(budget, 1, false));
    assert_int_equal(stats_of(budget).used_bytes, 64 * MIB);
    scratch_budget_give(budget, 46 * MIB);
    scratch_budget_destroy(budget);
    budget = make_budget((uint64_t)1 << 40, 1);
    assert_int_equal(scratch_budget_keep(budget), SCRATCH_KEEP_BYTES);
    scratch_budget_destroy(budget);
}

struct waiter {
    struct scratch_budget *budget;
    size_t bytes;
    atomic_bool *large_has_it; /* set by the first in line */
    bool came_after;           /* the second in line saw it */
};

static void *wait_first(void *arg)
{
    struct waiter *waiter = arg;
    scratch_budget_wait(waiter->budget, waiter->bytes);
    atomic_store(waiter->large_has_it, true);
    scratch_budget_give(waiter->budget, waiter->bytes);
    return NULL;
}

static void *wait_second(void *arg)
{
    struct waiter *waiter = arg;
    scratch_budget_wait(waiter->budget, waiter->bytes);
    waiter->came_after = atomic_load(waiter->large_has_it);
    scratch_budget_give(waiter->budget, waiter->bytes);
    return NULL;
}

static void until_waiting(struct scratch_budget *budget, uint32_t threads)
{
    while (stats_of(budget).waiting < threads)
        sched_yield();
}

/* A large one that waits is not starved: smaller ones that come later stand in line behind it, also where there is room
 * for them; who holds some of the budget already gets more of it. */
static void test_line(void **state)
{
    (void)state;
    struct scratch_budget *budget = make_budget(64 * MIB, 4);
    atomic_bool large_has_it;
    atomic_init(&large_has_it, false);
    assert_true(scratch_budget_try(budget, 20 * MIB, false));
    struct waiter large = {.budget = budget, .bytes = 40 * MIB, .large_has_it = &large_has_it};
    struct waiter small = {.budget = budget, .bytes = 10 * MIB, .large_has_it = &large_has_it};
    pthread_t threads[2];
    assert_int_equal(pthread_create(&threads[0], NULL, wait_first, &large), 0);
    until_waiting(budget, 1);
    assert_int_equal(pthread_create(&threads[1], NULL, wait_second, &small), 0);
    until_waiting(budget, 2);
    assert_false(scratch_budget_try(budget, MIB, false));
    assert_true(scratch_budget_try(budget, MIB, true));
    scratch_budget_give(budget, 21 * MIB);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_true(small.came_after);
    assert_int_equal(stats_of(budget).waits, 2);
    scratch_budget_destroy(budget);
}

/* An image's memory counts against the budget, and comes back with the reset but for what the thread may keep. */
static void test_held(void **state)
{
    (void)state;
    struct scratch_budget *budget = make_budget(64 * MIB, 4);
    struct scratch scratch, other;
    scratch_init(&scratch, SIZE_MAX / 2, budget);
    scratch_init(&other, SIZE_MAX / 2, budget);
    assert_non_null(scratch_take(&scratch, 40 * MIB));
    assert_true(stats_of(budget).used_bytes >= 16 * MIB + 36 * MIB);
    assert_non_null(scratch_take(&other, 3 * MIB)); /* a thread's own needs nobody's leave */
    assert_null(scratch_take(&other, 30 * MIB));
    scratch_reset(&scratch);
    assert_int_equal(stats_of(budget).used_bytes, 16 * MIB + REMEMBERED(64 * MIB));
    assert_int_equal(scratch_wait(&scratch), SCRATCH_FINE);
    scratch_reset(&other);
    assert_int_equal(scratch_wait(&other), SCRATCH_AGAIN); /* there is room by now: it waits for nobody */
    assert_non_null(scratch_take(&other, 30 * MIB));
    scratch_reset(&other);
    assert_int_equal(scratch_wait(&other), SCRATCH_FINE);
    assert_null(scratch_take(&other, 70 * MIB));
    scratch_reset(&other);
    assert_int_equal(scratch_wait(&other), SCRATCH_NEVER);
    scratch_free(&scratch);
    scratch_free(&other);
    assert_int_equal(stats_of(budget).used_bytes, 16 * MIB + REMEMBERED(64 * MIB));
    scratch_budget_destroy(budget);
}

/* ── images ── */

static const char whole[] = "[{\"resize\":{\"size\":[32,32]}}]";

static struct encoded large_jpeg(bool progressive)
{
    uint8_t *pixels = picture(2000, 1500, 3, 7);
    struct jpeg_form form = {3, 2, 2, progressive, 85, 0, 0};
    struct encoded made = encode_jpeg(pixels, 2000, 1500, &form);
    free(pixels);
    return made;
}

static int prepare_with(struct scratch_budget *budget, const struct encoded *image, uint8_t *dst,
                        enum bad_reason *reason, struct error *err)
{
    struct prepare_limits limits = {.pixels_max = 100000000, .scans_max = 100, .budget = budget};
    struct prepare_scratch *scratch = NULL;
    struct pipeline *pipeline = NULL;
    assert_int_equal(pipeline_parse(whole, sizeof whole - 1, &pipeline, NULL), 0);
    assert_int_equal(prepare_scratch_create(&limits, &scratch), 0);
    struct prepare_output output = {.pipeline = pipeline, .key = {1, 2, 3}, .dst = dst};
    int rc = prepare_sample(scratch, image->data, image->len_bytes, &output, 1, reason, err);
    prepare_scratch_destroy(scratch);
    pipeline_unref(&pipeline);
    return rc;
}

/* An image that the budget can never hold is a bad sample that names the setting, and nothing of it stays taken; the
 * same image comes out as without a budget where there is room. Of every decoder. */
static void test_never(void **state)
{
    (void)state;
    uint8_t *pixels = picture(2000, 1500, 3, 7);
    struct encoded images[] = {large_jpeg(false),
                               large_jpeg(true),
                               encode_vips(pixels, 2000, 1500, 3, 8, ".png"),
                               encode_vips(pixels, 2000, 1500, 3, 8, ".png[interlace]"),
                               encode_vips(pixels, 2000, 1500, 3, 8, ".webp[lossless]"),
                               encode_vips(pixels, 2000, 1500, 3, 8, ".tif")};
    free(pixels);
    for (size_t i = 0; i < sizeof images / sizeof images[0]; i++) {
        struct scratch_budget *tight = make_budget(4 * MIB, 1), *ample = make_budget(128 * MIB, 1);
        enum bad_reason reason = BAD_NONE;
        struct error err = {0};
        uint8_t expected[32 * 32 * 3], made[32 * 32 * 3];
        assert_int_equal(prepare_with(tight, &images[i], made, &reason, &err), LARDER_ELIMIT);
        assert_int_equal(reason, BAD_TOO_LARGE);
        assert_non_null(strstr(err.text, "memory.scratch"));
        assert_int_equal(stats_of(tight).used_bytes, MIB + REMEMBERED(4 * MIB));
        assert_int_equal(prepare_with(NULL, &images[i], expected, &reason, &err), 0);
        assert_int_equal(prepare_with(ample, &images[i], made, &reason, &err), 0);
        assert_memory_equal(made, expected, sizeof made);
        assert_int_equal(stats_of(ample).waits, 0);
        scratch_budget_destroy(tight);
        scratch_budget_destroy(ample);
        encoded_free(&images[i]);
    }
}

#define THREADS 4
#define ROUNDS 6

struct turn {
    struct scratch_budget *budget;
    const struct encoded *images;
    const uint8_t *expected;
    bool right;
};

static void *prepare_many(void *arg)
{
    struct turn *turn = arg;
    turn->right = true;
    for (int i = 0; i < ROUNDS; i++) {
        enum bad_reason reason = BAD_NONE;
        struct error err = {0};
        uint8_t made[32 * 32 * 3];
        int rc = prepare_with(turn->budget, &turn->images[i % 2], made, &reason, &err);
        turn->right = turn->right && rc == 0 &&
                      memcmp(made, turn->expected + (size_t)(i % 2) * sizeof made, sizeof made) == 0;
    }
    return NULL;
}

/* Threads whose images fit into the budget one at a time take turns: all come out right, none is refused. */
static void test_take_turns(void **state)
{
    (void)state;
    struct encoded images[2] = {large_jpeg(false), large_jpeg(true)};
    uint8_t expected[2 * 32 * 32 * 3];
    struct error err;
    enum bad_reason reason;
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(prepare_with(NULL, &images[i], expected + i * 32 * 32 * 3, &reason, &err), 0);
    struct scratch_budget *budget = make_budget(36 * MIB, THREADS);
    struct turn turns[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        turns[i] = (struct turn){budget, images, expected, false};
        assert_int_equal(pthread_create(&threads[i], NULL, prepare_many, &turns[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(turns[i].right);
    }
    scratch_budget_destroy(budget); /* CHECKs that all of it came back */
    for (size_t i = 0; i < 2; i++)
        encoded_free(&images[i]);
}

int main(void)
{
    prepare_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_division), cmocka_unit_test(test_line),       cmocka_unit_test(test_held),
        cmocka_unit_test(test_never),    cmocka_unit_test(test_take_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
