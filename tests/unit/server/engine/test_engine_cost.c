/* test_engine_cost.c: what one asks of the engine takes it no longer for what others have in memory. Times are of the
 * thread, of the quickest of several rounds, and compared with those beside a sixteenth as much. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/clock.h"
#include "server/plan/play.h"

enum {
    FEW = 8192,
    MANY = 16 * FEW,
    SLOT = 64,
    ROUNDS = 10,
    TIMES = 60,
    FACTOR_MAX = 5,
    SLACK_NS = 1000000,
    TOGETHER = 8
};

static bool see(void *ctx, const struct engine_action *action)
{
    (void)ctx;
    CHECK(action->type != ENGINE_JOB_REFUSED && action->type != ENGINE_JOB_ERROR);
    return false;
}

static uint32_t add_with(struct play *play, const char *name, uint32_t samples, uint32_t pipeline, uint64_t slot_bytes)
{
    struct idset *view;
    CHECK(idset_from_range(0, samples, &view) == 0);
    struct engine_job_desc desc = {.client = (uint64_t)name[0],
                                   .name = name,
                                   .pipeline = pipeline,
                                   .slot_bytes = slot_bytes,
                                   .batch_size = 64,
                                   .prefetch = 2,
                                   .sampled.view = view};
    uint32_t job = play_add(play, &desc);
    idset_destroy(view);
    return job;
}

static uint32_t add(struct play *play, const char *name, uint32_t samples)
{
    return add_with(play, name, samples, 0, SLOT);
}

/* An engine in which a job has left an instance and the encoded bytes of each of so many samples. */
static struct play fill(uint32_t samples)
{
    struct play play;
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = (uint64_t)(samples + 1024) * SLOT,
                                   .encoded_bytes = (uint64_t)samples * PLAY_SAMPLE_BYTES * 2,
                                   .inflight_loads = 64,
                                   .inflight_prepares = 64,
                                   .redirect_width = 0};
    struct engine_totals totals;
    assert_int_equal(play_create(config, &play, NULL), 0);
    play.see = see;
    uint32_t job = add(&play, "all", samples);
    for (uint32_t batch = 0; batch < samples / 64; batch++)
        play_next(&play, job, 0, 0, 1);
    engine_totals(play.engine, &totals);
    assert_int_equal(totals.counts.samples_delivered, samples);
    assert_true(totals.arena.used_bytes >= (uint64_t)samples * SLOT &&
                totals.encoded.used_bytes == (uint64_t)samples * PLAY_SAMPLE_BYTES);
    return play;
}

/* ── what is asked ── */

static void ask_epoch(struct play *play, uint32_t job, uint32_t time)
{
    play_next(play, job, 0, time, 1);
}

static void ask_totals(struct play *play, uint32_t job, uint32_t time)
{
    struct engine_totals totals;
    struct engine_job_status rows[2];
    (void)job, (void)time;
    engine_totals(play->engine, &totals);
    assert_int_equal(engine_job_statuses(play->engine, play->now_ns, rows, 2), 2);
}

static void ask_job(struct play *play, uint32_t job, uint32_t time)
{
    (void)job, (void)time;
    uint32_t another = add(play, "more", 1);
    play_next(play, another, 0, 0, 1);
    play_gone(play, another, 0);
}

/* Nanoseconds of the quickest round of a job of one sample beside as many in memory. */
static uint64_t quickest_ns(uint32_t samples, void (*ask)(struct play *play, uint32_t job, uint32_t time))
{
    struct play play = fill(samples);
    uint32_t job = add(&play, "one", 1);
    uint64_t best_ns = UINT64_MAX;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t began_ns = clock_thread_ns();
        for (uint32_t time = 0; time < TIMES; time++)
            ask(&play, job, round * TIMES + time);
        uint64_t took_ns = clock_thread_ns() - began_ns;
        best_ns = took_ns < best_ns ? took_ns : best_ns;
    }
    engine_check(play.engine);
    play_end(&play);
    return best_ns;
}

static void compare(const char *what, void (*ask)(struct play *play, uint32_t job, uint32_t time))
{
    uint64_t few_ns = quickest_ns(FEW, ask), many_ns = quickest_ns(MANY, ask);
    print_message("%s: %.2f us beside %d samples, %.2f us beside %d\n", what, (double)few_ns / TIMES / 1e3, FEW,
                  (double)many_ns / TIMES / 1e3, MANY);
    assert_true(many_ns < FACTOR_MAX * few_ns + SLACK_NS);
}

/* An epoch of a job of one sample. */
static void test_epochs(void **state)
{
    (void)state;
    compare("an epoch", ask_epoch);
}

/* The figures that each status and each scrape takes. */
static void test_totals(void **state)
{
    (void)state;
    compare("totals", ask_totals);
}

/* A job of one sample that comes, asks for it and goes. */
static void test_jobs(void **state)
{
    (void)state;
    compare("a job", ask_job);
}

/* Jobs that come together get their first batches in the same moment, whatever is in memory. What goes for their slots
 * is no more than what these cover. */
static void test_jobs_that_come_together(void **state)
{
    (void)state;
    struct engine_totals before, after;
    struct play play = fill(MANY);
    for (uint32_t longer = 1; longer <= 2; longer++) {
        engine_totals(play.engine, &before);
        for (uint32_t i = 0; i < TOGETHER; i++) {
            char name[] = {(char)('a' + i), (char)('0' + longer), '\0'};
            play_next(&play, add_with(&play, name, MANY, longer, longer * SLOT), 0, 0, 1);
        }
        engine_totals(play.engine, &after);
        assert_int_equal(after.counts.samples_delivered - before.counts.samples_delivered, TOGETHER * 64);
        /* four rows that are planned ahead, and one that is delivered */
        assert_true(after.counts.evicted_prepared - before.counts.evicted_prepared <= longer * TOGETHER * 5 * 64);
    }
    engine_check(play.engine);
    play_end(&play);
}

/* What is begun in the first step that begins something. */
struct first_step {
    const struct play *play;
    uint64_t step;
    uint32_t prepares;
};

static bool count_first(void *ctx, const struct engine_action *action)
{
    struct first_step *first = ctx;
    if (action->type == ENGINE_PREPARE && (first->prepares == 0 || first->step == first->play->steps)) {
        first->step = first->play->steps;
        first->prepares++;
    }
    return see(NULL, action);
}

/* One step draws a part of what a job asks for, and the next ones draw the rest. */
static void test_a_step_draws_little(void **state)
{
    (void)state;
    enum { DRAWN_AT_ONCE = 32 };
    struct play play = fill(FEW);
    struct first_step first = {.play = &play};
    struct engine_totals before, after;
    play.see = count_first;
    play.ctx = &first;
    engine_totals(play.engine, &before);
    play_next(&play, add_with(&play, "other", FEW, 1, SLOT), 0, 0, 1);
    engine_totals(play.engine, &after);
    assert_int_equal(first.prepares, DRAWN_AT_ONCE);
    assert_int_equal(after.counts.samples_delivered - before.counts.samples_delivered, 64);
    play_end(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_totals),
        cmocka_unit_test(test_jobs),
        cmocka_unit_test(test_jobs_that_come_together),
        cmocka_unit_test(test_a_step_draws_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
