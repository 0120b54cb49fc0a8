/* test_governor.c: the governor's decisions as a whole: measurements in, threads out. */
#include "server/governor/governor.h"

#include "common/random.h"
#include "server/governor/pace.h"
#include "server/governor/split.h"
#include "tests/unit/server/governor/governor_scene.h"

enum { WORKERS = 24 };

/* Whatever is measured, both kinds of work have threads, no more than there are, and no queue with work that waits
 * goes without a loader for more decisions than there are queues. */
static void test_nothing_starves(void **state)
{
    (void)state;
    struct rng rng;
    random_seed(&rng, seed());
    for (int round = 0; round < 60; round++) {
        uint32_t workers = 1 + (uint32_t)random_below(&rng, 12),
                 extra = (uint32_t)random_below(&rng, 3) + (workers == 1);
        uint32_t n = 1 + (uint32_t)random_below(&rng, 24), without[24] = {0};
        struct governor *governor = make(workers, workers + extra);
        struct governor_backlog backlogs[24];
        for (uint32_t i = 0; i < n; i++)
            begin(governor, i, i / 3, 0.1 + random_unit(&rng) * 10);
        for (int tick = 0; tick < 60; tick++) {
            for (uint32_t i = 0; i < n; i++) {
                for (int k = 0; k < 8; k++)
                    load(governor, i, random_unit(&rng) * (i % 2 ? 0.001 : 1), 1 + (uint32_t)random_below(&rng, 64));
                governor_prepared(governor, i,
                                  &(struct governor_preparation){.pipeline = i % 2,
                                                                 .busy = (uint32_t)random_below(&rng, 99),
                                                                 .encoded_bytes = UINT64_C(1) << random_below(&rng, 40),
                                                                 .seconds = random_unit(&rng) * 0.1});
                governor_trained(governor, i, random_unit(&rng));
                uint32_t pending = (uint32_t)random_below(&rng, 500) + 1;
                backlogs[i] = (struct governor_backlog){
                    i, 64, pending, 1 + pending / 64, (uint32_t)random_below(&rng, 5), {0}};
            }
            const struct governor_decision *decision = governor_decide(governor, backlogs, n);
            uint32_t sum = 0;
            assert_true(decision->preparers >= 1 && decision->loaders >= 1);
            assert_true(decision->preparers <= workers && decision->loaders <= workers + extra);
            for (uint32_t i = 0; i < n; i++) {
                sum += decision->queue_loaders[i];
                without[i] = decision->queue_loaders[i] ? 0 : without[i] + 1;
                assert_true(without[i] <= n);
            }
            assert_true(sum <= decision->loaders);
        }
        governor_destroy(governor);
    }
}

/* A job with twice the weight gets twice the loaders for the same work, also when the weight was given late, and one
 * that just came is served at once. */
static void test_weights(void **state)
{
    (void)state;
    struct governor *governor = make(18, 18);
    begin(governor, 0, 0, 1);
    begin(governor, 1, 1, 2);
    const struct governor_decision *decision = NULL;
    struct governor_backlog backlogs[3] = {
        {0, 64, 900, 900, 0, {0}}, {1, 64, 900, 900, 0, {0}}, {2, 64, 900, 900, 0, {0}}};
    for (int tick = 0; tick < 10; tick++) {
        for (uint32_t i = 0; i < 2; i++) {
            load(governor, i, 0.020, 1);
            for (int k = 0; k < 20; k++)
                prepare(governor, 0, 4, 0.001);
        }
        decision = governor_decide(governor, backlogs, 2);
    }
    assert_true(near(decision->queue_loaders[1], 2.0 * decision->queue_loaders[0], 0.25));
    begin(governor, 2, 2, 1);
    decision = governor_decide(governor, backlogs, 3);
    assert_true(decision->queue_loaders[2] >= 1);
    governor_queue_end(governor, 2);
    decision = governor_decide(governor, backlogs, 2);
    assert_int_equal(decision->queue_loaders[2], 0);
    governor_queue_weight(governor, 0, 4);
    for (int tick = 0; tick < 10; tick++)
        decision = governor_decide(governor, backlogs, 2);
    assert_true(near(decision->queue_loaders[0], 2.0 * decision->queue_loaders[1], 0.25));
    governor_destroy(governor);
}

/* What a queue keeps is its weight's part, when loaders are dealt and when they are taken for a late one: a job of
 * weight 3 keeps half of three quarters, one of weight 1 half of a quarter, and who wants nothing holds nothing back.
 * */
static void test_guaranteed(void **state)
{
    (void)state;
    uint32_t kept[3], loaders[3];
    const struct governor_claim claims[] = {{1, 3, 99, 0}, {1, 1, 99, 0}, {0, 4, 99, 0}};
    governor_guaranteed(claims, 3, 16, 0.5, kept);
    assert_int_equal(kept[0], 6);
    assert_int_equal(kept[1], 2);
    assert_int_equal(kept[2], 0);
    const struct governor_claim few[] = {{1, 3, 2, 0}, {1, 0.01, 99, 0}};
    governor_guaranteed(few, 2, 16, 0.5, kept);
    assert_int_equal(kept[0], 2); /* no more than it can use */
    assert_int_equal(kept[1], 1);
    struct governor *governor = make(24, 24);
    const struct governor_backlog backlogs[] = {{0, 64, 64, 64, 0, {0}}, {1, 64, 64, 64, 0, {0}}};
    const struct governor_decision *decision = NULL;
    for (int other = 0; other <= 1; other++) { /* 0: both are in time; 1: the light one is late, and stays so */
        begin(governor, 0, 0, 3);
        begin(governor, 1, 1, 1);
        for (int k = 0; k < 40; k++) {
            load(governor, 0, 0.001, 1);
            load(governor, 1, other ? 0.100 : 0.001, 1);
            prepare(governor, 0, 4, 0.0001);
            governor_trained(governor, 0, 10);
            governor_trained(governor, 1, 0.010);
        }
        for (int window = 0; window < 4; window++)
            decision = governor_decide(governor, backlogs, 2);
        loaders[other] = decision->queue_loaders[0];
        assert_true(decision->queue_loaders[0] >= (uint32_t)(0.5 * 0.75 * decision->loaders));
        assert_true(decision->queue_loaders[1] >= (uint32_t)(0.5 * 0.25 * decision->loaders));
        governor_queue_end(governor, 0);
        governor_queue_end(governor, 1);
    }
    assert_true(loaders[1] < loaders[0]); /* what is not guaranteed went to the late one */
    governor_destroy(governor);
}

/* Look-ahead covers the latency measured, at the queue's pace: a slow source needs more batches ahead than a fast one.
 */
static void test_look_ahead(void **state)
{
    (void)state;
    struct governor *governor = make(8, 8);
    struct governor_backlog backlogs[2] = {{0, 32, 64, 64, 1, {0}}, {1, 32, 64, 64, 1, {0}}};
    const struct governor_decision *decision = NULL;
    for (uint32_t i = 0; i < 2; i++)
        begin(governor, i, i, 1);
    decision = governor_decide(governor, backlogs, 2);
    assert_int_equal(decision->ahead[0], 0); /* nothing is measured */
    for (int k = 0; k < 40; k++) {
        load(governor, 0, 0.0005, 1);
        load(governor, 1, 0.050, 1);
        prepare(governor, 0, 2, 0.001);
        governor_trained(governor, 0, 0.100);
        governor_trained(governor, 1, 0.100);
    }
    decision = governor_decide(governor, backlogs, 2);
    assert_int_equal(decision->ahead[0], 2);
    assert_true(decision->ahead[1] > 3 && decision->ahead[1] <= GOVERNOR_AHEAD_MAX);
    governor_destroy(governor);
}

/* Jobs get threads by their weights; within a job the queue below its guaranteed part comes first, then the one least
 * ahead. */
static void test_next_queue(void **state)
{
    (void)state;
    const struct governor_candidate jobs[] = {{0, 4, 9, 0, 0}, {1, 3, 1, 5, 9}};
    assert_int_equal(governor_next_queue(jobs, 2, 0.5), 1);
    const struct governor_candidate ranks[] = {{0, 1, 4, 2, 1.5}, {0, 1, 4, 3, 0.5}, {0, 1, 4, 2, 0.7}};
    assert_int_equal(governor_next_queue(ranks, 3, 0.5), 1);
    const struct governor_candidate poor[] = {{0, 1, 4, 1, 1.5}, {0, 1, 4, 3, 0.5}};
    assert_int_equal(governor_next_queue(poor, 2, 0.5), 0);
    uint32_t given[2] = {0, 0};
    for (int i = 0; i < 30; i++) {
        struct governor_candidate now[] = {{0, 1.0 + given[0], 1, given[0], 0},
                                           {1, (1.0 + given[1]) / 2, 1, given[1], 0}};
        given[governor_next_queue(now, 2, 0.5)]++;
    }
    assert_int_equal(given[1], 20);
}

/* ── sources ── */

/* The governor asks for no more loaders than a saturated disk serves, and for all where reads only wait, more than
 * there are cores. */
static void test_loaders_by_source(void **state)
{
    (void)state;
    for (int saturated = 0; saturated <= 1; saturated++) {
        uint32_t parallel = saturated ? 6 : 1000;
        struct governor *governor = make(8, 40);
        begin(governor, 0, 0, 1);
        const struct governor_backlog backlog = {0, 64, 9000, 9000, 0, {0}};
        const struct governor_decision *decision = governor_decide(governor, &backlog, 1);
        uint32_t most = decision->loaders;
        for (int window = 0; window < 60; window++) {
            double read_s = decision->loaders > parallel ? 0.010 * decision->loaders / parallel : 0.010;
            for (int k = 0; k < 40; k++) {
                governor_loaded(governor, 0, &(struct governor_read){read_s, 1, decision->loaders, 0});
                prepare(governor, 0, decision->preparers, 0.004);
            }
            decision = governor_decide(governor, &backlog, 1);
            most = decision->loaders > most ? decision->loaders : most;
        }
        if (saturated)
            assert_true(decision->loaders >= 5 && decision->loaders <= 8);
        else
            assert_true(decision->loaders >= 32);
        assert_true(most >= 32);
        governor_destroy(governor);
    }
}

/* At the start all threads prepare and a source has all its reads. No fewer prepare later than what is read needs, also
 * when the preparers, that wait for reads, were never as many at once for long. */
static void test_cold_start(void **state)
{
    (void)state;
    for (int waits = 0; waits <= 1; waits++) {
        struct governor *governor = make(WORKERS, WORKERS);
        const struct governor_queue desc = {.job = 0, .source = 0, .weight = 1};
        governor_queue_begin(governor, 0, &desc);
        const struct governor_backlog backlog = {0, 64, 9000, 9000, 0, {0}};
        const struct governor_decision *decision = governor_decide(governor, &backlog, 1);
        assert_int_equal(decision->preparers, WORKERS);
        for (uint32_t window = 0; window < 12; window++) {
            for (uint32_t k = 0; k < 240; k++) {
                uint32_t busy = waits ? 1 + k % decision->preparers : decision->preparers;
                governor_loaded(governor, 0, &(struct governor_read){0.004, 1, decision->loaders, 0});
                prepare(governor, 0, busy, 0.002);
            }
            decision = governor_decide(governor, &backlog, 1);
            /* 24 reads bring 6,000 a second, and 12 prepare as many */
            assert_true(decision->preparers >= 12 && decision->loaders >= WORKERS / 2);
        }
        governor_destroy(governor);
    }
}

/* ── clients ── */

enum { MS = 1000000 };

static void both_came(struct governor_pace *a, struct governor_pace *b, uint64_t now_ns)
{
    governor_pace_came(a, now_ns);
    governor_pace_came(b, now_ns);
}

/* A training step is measured alike of a client that asks before it takes, of one that asks after it took, of one that
 * holds what it got, and whether they wait or not. */
static void test_pace(void **state)
{
    (void)state;
    for (uint64_t wait_ms = 0; wait_ms <= 300; wait_ms += 150) {
        struct governor_pace asks_first = {.acted_ns = 0}, holds = {.acted_ns = 0};
        uint64_t at = 1000 * (uint64_t)MS;
        for (int batch = 0; batch < 5; batch++) {
            if (!wait_ms)
                both_came(&asks_first, &holds, at - 70 * MS);
            double step_s = governor_pace_acted(&asks_first, at, 1);
            if (batch)
                assert_true(near(step_s, 0.080, 0.03));
            at += wait_ms * MS;
            if (wait_ms)
                both_came(&asks_first, &holds, at);
            governor_pace_acted(&asks_first, at + MS, 0); /* it has copied */
            step_s = governor_pace_acted(&holds, at + MS, 1);
            if (batch)
                assert_true(near(step_s, 0.080, 0.03));
            at += 80 * MS;
            governor_pace_acted(&holds, at, 0); /* it is through */
        }
    }
    struct governor_pace waits = {.acted_ns = 0};
    governor_pace_acted(&waits, 10 * MS, 1);
    governor_pace_came(&waits, 90 * MS);
    assert_true(governor_pace_acted(&waits, 91 * MS, 1) == 0); /* whether it trained meanwhile nobody knows */
}

/* Each rank of a job is a queue with measurements and predictions of its own. */
static void test_queues_of_a_job(void **state)
{
    (void)state;
    struct governor *governor = make(12, 12);
    struct governor_backlog backlogs[3];
    for (uint32_t i = 0; i < 3; i++) {
        begin(governor, i, 7, 1);
        backlogs[i] = (struct governor_backlog){i, 32, i == 1 ? 200 : 40, i == 1 ? 200 : 40, i == 1 ? 0 : 2, {0}};
        for (int k = 0; k < 40; k++) {
            load(governor, i, i == 1 ? 0.040 : 0.004, 1);
            prepare(governor, i, 4, 0.001 * (i + 1));
        }
        governor_trained(governor, i, 0.050 * (i + 1));
    }
    const struct governor_decision *decision = governor_decide(governor, backlogs, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct governor_view *view = &decision->views[i];
        assert_true(near(view->load_s, i == 1 ? 0.040 : 0.004, 0.01) && near(view->prepare_s, 0.001 * (i + 1), 0.01));
        assert_true(near(view->train_s, 0.050 * (i + 1), 0.01));
    }
    assert_true(decision->queue_loaders[1] > decision->queue_loaders[0] + decision->queue_loaders[2]);
    assert_true(decision->views[1].late_s > decision->views[0].late_s);
    governor_queue_end(governor, 1);
    assert_true(decision->views[1].train_s == 0);
    governor_destroy(governor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_starves), cmocka_unit_test(test_weights),
        cmocka_unit_test(test_guaranteed),      cmocka_unit_test(test_look_ahead),
        cmocka_unit_test(test_next_queue),      cmocka_unit_test(test_loaders_by_source),
        cmocka_unit_test(test_cold_start),      cmocka_unit_test(test_pace),
        cmocka_unit_test(test_queues_of_a_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
