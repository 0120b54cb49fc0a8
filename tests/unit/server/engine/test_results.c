/* test_results.c: loads and preparations that fail: what that costs whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/play/scene.h"

/* A bad sample costs one sample under `skip`, nothing in number under `replace`, and the job under `error`. */
static void test_bad_samples_follow_the_policy(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600, 20);
    scene->bad[3] = scene->bad[11] = true;
    const enum bad_policy policies[] = {BAD_SKIP, BAD_REPLACE, BAD_ERROR};
    const char *names[] = {"s", "r", "e"};
    uint32_t jobs[3];
    for (int i = 0; i < 3; i++) {
        struct engine_job_desc desc = scene_job(scene, names[i]);
        desc.bad_policy = policies[i];
        jobs[i] = scene_add(scene, &desc);
        scene_next(scene, jobs[i], 0, 10);
    }
    uint32_t total[3] = {0};
    for (int i = 0; i < 3; i++) {
        for (uint32_t id = 0; id < 20; id++)
            total[i] += scene->got[jobs[i]][id];
        assert_int_equal(scene->got[jobs[i]][3] + scene->got[jobs[i]][11], 0);
    }
    assert_int_equal(total[0], 18);
    assert_int_equal(scene->batches[jobs[0]], 3);
    assert_int_equal(total[1], 20);
    assert_true(scene->last[jobs[0]] && scene->last[jobs[1]]);
    assert_int_equal(scene->play.failed, LARDER_ESAMPLE);
    scene_free(scene);
}

/* What one job's pipeline can make nothing of costs that job what its policy says, and another that shares the decode
 * nothing; it counts as one bad sample, whoever else waits. */
static void test_outputs_fail_apart(void **state)
{
    (void)state;
    for (int policy = BAD_SKIP; policy <= BAD_ERROR; policy++) {
        struct scene *scene = scene_new(600, 20);
        scene->unfit[3] = scene->unfit[11] = true;
        uint32_t jobs[3];
        struct engine_event next[3];
        for (uint32_t i = 0; i < 3; i++) { /* a has a pipeline that fits, b and c one that does not; c is private */
            struct engine_job_desc desc = scene_job(scene, i == 0 ? "a" : i == 1 ? "b" : "c");
            desc.pipeline = i > 0;
            desc.variant = i / 2;
            desc.bad_policy = i > 0 ? (enum bad_policy)policy : BAD_ERROR;
            jobs[i] = scene_add(scene, &desc);
            next[i] = (struct engine_event){.type = ENGINE_NEXT, .next = {jobs[i], 0, 10, 0}};
        }
        scene_step_all(scene, next, 3); /* all plan together, and share what is decoded */
        uint32_t total[3] = {0};
        for (uint32_t i = 0; i < 3; i++) {
            for (uint32_t id = 0; id < 20; id++)
                total[i] += scene->got[jobs[i]][id];
        }
        assert_true(scene->in_part > 0);
        assert_int_equal(total[0], 20);
        assert_true(scene->last[jobs[0]]);
        struct engine_totals totals;
        struct engine_job_status rows[3];
        engine_totals(scene->play.engine, &totals);
        assert_int_equal(engine_job_statuses(scene->play.engine, scene->play.now_ns, rows, 3), 3);
        assert_int_equal(rows[0].bad_samples, 0);
        assert_int_equal(scene->play.failed, policy == BAD_ERROR ? LARDER_ESAMPLE : 0);
        if (policy == BAD_SKIP) {
            assert_int_equal(total[1], 18);
            assert_int_equal(total[2], 18);
            assert_int_equal(rows[1].bad_samples + rows[2].bad_samples, 4);
            assert_int_equal(totals.counts.instances_prepared, 20 + 18 + 18);
            assert_int_equal(totals.counts.samples_decoded, 20);
            assert_int_equal(totals.counts.bad_samples[BAD_TOO_SMALL], 2);
        } else if (policy == BAD_REPLACE) {
            assert_int_equal(total[1], 20);
            assert_int_equal(total[2], 20);
        }
        scene_free(scene);
    }
}

/* Under `skip` too a job is told when bad samples leave nothing of an epoch, or less than a batch under drop_last. */
static void test_nothing_left(void **state)
{
    (void)state;
    static const struct {
        uint32_t bad, batch;
        bool drop_last, fails;
    } cases[] = {
        {20, 4, false, true}, {19, 4, false, false}, {17, 4, true, true}, {16, 4, true, false}, {0, 21, true, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene *scene = scene_new(600, 20);
        for (uint32_t id = 0; id < cases[i].bad; id++)
            scene->bad[id] = true;
        struct engine_job_desc desc = scene_job(scene, "s");
        desc.batch_size = cases[i].batch;
        desc.drop_last = cases[i].drop_last;
        scene_add(scene, &desc);
        scene_next(scene, scene->play.job, 0, 10);
        assert_int_equal(scene->play.failed, cases[i].fails ? LARDER_ESAMPLE : 0);
        assert_int_equal(scene->last[scene->play.job], !cases[i].fails);
        scene_free(scene);
    }
}

/* Of 100 samples. */
static void expect_each_once(const struct scene *scene, uint32_t job, uint32_t times)
{
    for (uint32_t id = 0; id < 100; id++)
        assert_int_equal(scene->got[job][id], times);
}

/* A source that does not answer holds up its own jobs alone, with one load after each pause; a sample that two
 * datasets have comes from the other one. When it answers again every sample comes once, and none is bad. */
static void test_a_source_that_does_not_answer(void **state)
{
    (void)state;
    enum { PAUSE_NS = 50000000 };
    static uint32_t sizes[2][100];
    struct scene *scene = scene_new(600, 100);
    struct engine_totals totals;
    for (uint32_t i = 0; i < 200; i++)
        sizes[i / 100][i % 100] = ENCODED;
    struct engine_job_desc desc = scene_job(scene, "a");
    desc.dataset = sizes[0];
    desc.variant = 1; /* no instance of the other job's */
    scene->away = sizes[0];
    uint32_t a = scene_add(scene, &desc);
    scene_next(scene, a, 0, 13);
    uint32_t burst = scene->unanswered;
    assert_true(burst > 0 && burst <= 8);
    assert_int_equal(engine_wakes_ns(scene->play.engine) > scene->play.now_ns, 1);
    scene->play.now_ns += PAUSE_NS;
    scene_step(scene, (struct engine_event){.type = ENGINE_TICK});
    scene_step(scene, (struct engine_event){.type = ENGINE_TICK});
    assert_int_equal(scene->unanswered, burst + 1);
    scene->play.now_ns += PAUSE_NS; /* the second pause is twice as long */
    scene_step(scene, (struct engine_event){.type = ENGINE_TICK});
    assert_int_equal(scene->unanswered, burst + 1);
    expect_each_once(scene, a, 0);
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.source_waits, 1);
    assert_int_equal(totals.loads_inflight, 0);
    assert_int_equal(totals.encoded.used_bytes, 0);

    struct engine_job_desc other = scene_job(scene, "b");
    other.dataset = sizes[1];
    uint32_t b = scene_add(scene, &other);
    scene_next(scene, b, 0, 13);
    expect_each_once(scene, b, 1);
    assert_int_equal(scene->unanswered, burst + 1);

    scene->away = NULL;
    scene->play.now_ns += 2 * PAUSE_NS;
    scene_step(scene, (struct engine_event){.type = ENGINE_TICK});
    expect_each_once(scene, a, 1);
    assert_int_equal(scene->play.failed, 0);
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.source_waits, 0);
    assert_int_equal(totals.counts.bad_samples[BAD_UNREADABLE], 0);
    scene_free(scene);
}

/* A job waits no longer for its source because the only sample that it needs is the one that is tried again. */
static void test_the_only_sample_is_not_answered(void **state)
{
    (void)state;
    static uint32_t sizes[1] = {ENCODED};
    struct scene *scene = scene_new(600, 1);
    struct engine_job_desc desc = scene_job(scene, "a");
    desc.dataset = scene->away = sizes;
    scene->away_ns = SECOND / 3;
    uint32_t job = scene_add(scene, &desc);
    scene_next(scene, job, 0, 1);
    uint32_t seconds = 0;
    for (; seconds < 70 && !scene->play.failed; seconds++) {
        for (uint32_t tenths = 0; tenths < 10; tenths++) {
            play_push(&scene->play, (struct engine_event){.type = ENGINE_TICK});
            play_until(&scene->play, scene->play.now_ns + SECOND / 10);
        }
    }
    assert_int_equal(scene->play.failed, LARDER_EIO);
    assert_true(seconds >= 60 && seconds <= 63);
    assert_true(scene->unanswered > 20);
    scene_free(scene);
}

/* The loads that a test answers by hand: how many are out of each sample, and whether preparations wait too. */
static struct {
    bool (*see)(void *ctx, const struct engine_action *action);
    uint32_t out[3], asked, gave_up;
    bool keep_prepares;
} hand;

static bool see_by_hand(void *ctx, const struct engine_action *action)
{
    hand.gave_up += action->type == ENGINE_SOURCE && action->source.news == ENGINE_SOURCE_GAVE_UP;
    if (action->type == ENGINE_PREPARE && hand.keep_prepares)
        return true;
    if (action->type != ENGINE_LOAD)
        return hand.see(ctx, action);
    hand.out[action->load.id]++;
    hand.asked++;
    return true;
}

static void answer(struct scene *scene, sample_id id, bool answered)
{
    struct engine_event event = {.type = ENGINE_LOADED, .loaded = {.id = id, .fate = ENGINE_FATE_SOURCE}};
    assert_int_equal(hand.out[id]--, 1);
    event.loaded.reason = BAD_UNREADABLE;
    event.loaded.bytes = scene_sample_bytes(NULL, id);
    event.loaded.encoded = answered ? scene : NULL;
    scene_step(scene, event);
}

static void wait_until(struct scene *scene, uint64_t at_ns)
{
    scene->play.now_ns = at_ns > scene->play.now_ns ? at_ns : scene->play.now_ns;
    scene_step(scene, (struct engine_event){.type = ENGINE_TICK});
}

/* A source that is away is asked with a sample that has failed before, because all others are in use. When that one is
 * given up, the source still gets its whole pause before it is asked again. */
static void test_a_pause_follows_a_sample_that_is_given_up(void **state)
{
    (void)state;
    enum { PAUSE_NS = 50000000 };
    const uint64_t late_ns = UINT64_C(3) * SECOND; /* longer than any pause */
    struct scene *scene = scene_new(600, 3);
    memset(&hand, 0, sizeof hand);
    hand.see = scene->play.see;
    scene->play.see = see_by_hand;
    struct engine_job_desc desc = scene_job(scene, "a"), other = scene_job(scene, "b");
    other.pipeline = 1;
    uint32_t a = scene_add(scene, &desc), b = scene_add(scene, &other);
    scene_next(scene, a, 0, 1); /* loads all three */
    answer(scene, 0, false);
    answer(scene, 1, true);
    wait_until(scene, engine_wakes_ns(scene->play.engine));
    answer(scene, 1, true); /* the source is back, and sample 0 is read again */
    answer(scene, 0, false);
    wait_until(scene, engine_wakes_ns(scene->play.engine));
    hand.keep_prepares = true;
    scene_next(scene, b, 0, 1);
    answer(scene, 2, false); /* its load began earlier, so that it is away whatever the next one says */
    answer(scene, 1, true);  /* b prepares this one, and it cannot be read again */
    for (uint32_t tries = 0; tries < 10 && !hand.gave_up; tries++) {
        wait_until(scene, engine_wakes_ns(scene->play.engine));
        assert_int_equal(hand.out[0] + hand.out[2], 1);
        scene->play.now_ns += late_ns;
        answer(scene, hand.out[0] ? 0 : 2, false);
    }
    assert_int_equal(hand.gave_up, 1);
    assert_int_equal(hand.out[0] + hand.out[1] + hand.out[2], 0);
    uint32_t asked = hand.asked;
    uint64_t failed_ns = scene->play.now_ns;
    assert_true(engine_wakes_ns(scene->play.engine) >= failed_ns + PAUSE_NS);
    wait_until(scene, engine_wakes_ns(scene->play.engine));
    assert_int_equal(hand.asked, asked + 1);
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_samples_follow_the_policy),
        cmocka_unit_test(test_outputs_fail_apart),
        cmocka_unit_test(test_nothing_left),
        cmocka_unit_test(test_a_source_that_does_not_answer),
        cmocka_unit_test(test_the_only_sample_is_not_answered),
        cmocka_unit_test(test_a_pause_follows_a_sample_that_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
