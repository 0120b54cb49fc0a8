/* test_governor_classes.c: what the governor learned of pipelines and storage that come, go and are many. */
#include "server/governor/governor.h"

#include "tests/unit/server/governor/governor_scene.h"

enum { WORKERS = 24 };

/* So many windows of a job whose preparations gain nothing from more than `peak` threads, and need little loading. */
static const struct governor_decision *run_pipeline(struct governor *governor, uint32_t pipeline, uint32_t peak,
                                                    int windows)
{
    const struct governor_backlog backlog = {0, 64, 900, 900, 0, {0}};
    const struct governor_decision *decision = governor_decide(governor, &backlog, 1);
    for (int window = 0; window < windows; window++) {
        for (int k = 0; k < 50; k++) {
            uint32_t busy = decision->preparers;
            load(governor, 0, 1e-5, 1);
            governor_prepared(governor, 0,
                              &(struct governor_preparation){.pipeline = pipeline,
                                                             .busy = busy,
                                                             .encoded_bytes = 1000 + pipeline,
                                                             .seconds = busy / true_rate(busy, peak)});
        }
        decision = governor_decide(governor, &backlog, 1);
    }
    return decision;
}

/* Of a thousand pipelines that come one after the other, each unlike the one before, the last is modelled as well as
 * the first: the preparers are as many as serve it best, and its rate is known. */
static void test_many_pipelines(void **state)
{
    (void)state;
    struct governor *governor = make(WORKERS, WORKERS);
    begin(governor, 0, 0, 1);
    for (uint32_t pipeline = 0; pipeline < 1000; pipeline++) {
        uint32_t peak = pipeline % 2 ? 6 : 18;
        const struct governor_decision *decision = run_pipeline(governor, pipeline, peak, 40);
        double rate = true_rate(decision->preparers, peak), best = true_rate(peak, peak);
        if (rate < best * 0.95 || !near(decision->prepare_rate, rate, 0.05))
            fail_msg("pipeline %u: %u preparers, which do %.0f/s, taken for %.0f/s; best would be %.0f/s", pipeline,
                     decision->preparers, rate, decision->prepare_rate, best);
    }
    governor_destroy(governor);
}

/* More classes at once than are told apart leave the predicted rate right as long as they are alike. */
static void test_too_many_classes_at_once(void **state)
{
    (void)state;
    struct governor *governor = make(WORKERS, WORKERS);
    const struct governor_backlog backlog = {0, 64, 900, 900, 0, {0}};
    const struct governor_decision *decision = NULL;
    begin(governor, 0, 0, 1);
    for (int window = 0; window < 30; window++) {
        for (uint32_t pipeline = 0; pipeline < 3 * GOVERNOR_CLASSES_MAX; pipeline++) {
            load(governor, 0, 1e-5, 1);
            for (int k = 0; k < 4; k++)
                governor_prepared(governor, 0,
                                  &(struct governor_preparation){
                                      .pipeline = pipeline, .busy = 12, .encoded_bytes = 1000, .seconds = 0.010});
        }
        decision = governor_decide(governor, &backlog, 1);
    }
    assert_true(near(decision->prepare_rate, decision->preparers * 100.0, 0.05));
    governor_destroy(governor);
}

/* Samples that cost a hundred times as much, and that nobody prepares any more, have no part in the rate of preparing
 * two seconds later, whether others were prepared meanwhile or nothing was. */
static void test_old_classes_do_not_count(void **state)
{
    (void)state;
    for (int pause = 0; pause <= 1; pause++) {
        struct governor *governor = make(WORKERS, WORKERS);
        const struct governor_backlog backlog = {0, 64, 900, 900, 0, {0}};
        const struct governor_decision *decision = NULL;
        begin(governor, 0, 0, 1);
        for (int window = 0; window < 60; window++) {
            bool old = window < 40;
            for (int k = 0; k < 50 && !(pause && window >= 40 && window < 50); k++) {
                load(governor, 0, 0.001, 1);
                governor_prepared(governor, 0,
                                  &(struct governor_preparation){.pipeline = old,
                                                                 .busy = decision ? decision->preparers : 12,
                                                                 .encoded_bytes = 1000,
                                                                 .seconds = old ? 0.100 : 0.001});
            }
            decision = governor_decide(governor, &backlog, 1);
            if (window == (pause ? 50 : 48))
                assert_true(near(decision->prepare_rate, decision->preparers * 1000.0, 0.02));
        }
        governor_destroy(governor);
    }
}

/* A pipeline's number, and a source's, can mean another one: nothing that was learned of the one is taken for the
 * other. */
static void test_numbers_change_their_meaning(void **state)
{
    (void)state;
    struct governor *governor = make(WORKERS, WORKERS);
    const struct governor_backlog backlog = {0, 64, 900, 900, 0, {0}};
    begin(governor, 0, 0, 1);
    for (int k = 0; k < 50; k++) {
        load(governor, 0, 0.010, 1);
        prepare(governor, 0, 12, 0.010);
    }
    const struct governor_decision *decision = governor_decide(governor, &backlog, 1);
    assert_true(decision->prepare_rate > 0);
    governor_queue_end(governor, 0);
    governor_pipeline_gone(governor, 0);
    governor_source_gone(governor, 0);
    begin(governor, 0, 0, 1);
    decision = governor_decide(governor, &backlog, 1);
    assert_true(decision->prepare_rate == 0);
    for (int k = 0; k < 50; k++)
        prepare(governor, GOVERNOR_QUEUE_NONE, 12, 0.002); /* of a queue that has ended: the pipeline's all the same */
    decision = governor_decide(governor, &backlog, 1);
    assert_true(near(decision->prepare_rate, decision->preparers * 500.0, 0.01) && decision->views[0].prepare_s == 0);
    governor_destroy(governor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_pipelines),
        cmocka_unit_test(test_too_many_classes_at_once),
        cmocka_unit_test(test_old_classes_do_not_count),
        cmocka_unit_test(test_numbers_change_their_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
