/* Ranks that come to a job which is there already: it makes way for them, or they come back to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/server/engine/resume_scene.h"

/* A job that lingers, because ranks of it are still to come, makes way for ranks that begin from a checkpoint. One of
 * which a rank is there does not. */
static void test_a_lingering_job_is_replaced(void **state)
{
    (void)state;
    struct run *before = played(SHUFFLE_DEPENDENT, 2), *after = new_run(SHUFFLE_DEPENDENT);
    uint32_t times[RUN_IDS_MAX] = {0};
    run_come_without(after, 0);
    after->base = run_checkpoint(before, 0, 2);
    run_come(after, 1, false, NULL, 0);
    refused(after, LARDER_EBUSY, "runs already");
    run_leave(after, 0);
    assert_int_equal(after->ended, 0);
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        run_come(after, rank, false, NULL, 0);
        assert_int_equal(after->play.refused, 0);
        assert_int_equal(after->ended, 1);
    }
    run_all(after, 0, MANY);
    run_count(before, 0, 2, times);
    run_count(after, 0, MANY, times);
    assert_each_once(times);
    for (uint32_t rank = 0; rank < WORLD; rank++)
        run_leave(after, rank);
    assert_int_equal(after->ended, 2);
    run_come_without(after, 0);
    run_leave(after, 0);
    play_event(&after->play, (struct engine_event){.type = ENGINE_DRAIN});
    run_come(after, 0, false, NULL, 0); /* a daemon that stops begins no job, and keeps the one that waits for ranks */
    refused(after, LARDER_EBUSY, "runs already");
    assert_int_equal(after->ended, 2);
    run_leave(after, 0);
    assert_int_equal(after->ended, 3);
    run_free(after);
    run_free(before);
}

/* A job is started again before it has a checkpoint, just after the daemon was: its ranks bring nothing. What those
 * told that had come back to the daemon before is forgotten, whichever of the new ones comes first. While one of those
 * is there, nothing is. */
static void test_a_job_that_began_anew_without_a_checkpoint(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3 * WORLD; i++) {
        struct run *before = played(orders[i / WORLD], 3), *after = new_run(orders[i / WORLD]);
        uint32_t times[RUN_IDS_MAX] = {0};
        run_come(after, 1, true, before, 3);
        run_come(after, 2, true, before, 2);
        run_leave(after, 1);
        run_come_without(after, 1);
        refused(after, LARDER_EINVAL, "rank 1 came with another state before");
        run_leave(after, 2);
        for (uint32_t at = 0; at < WORLD; at++) {
            run_come_without(after, (i + at) % WORLD);
            assert_int_equal(after->play.refused, 0);
            assert_int_equal(after->ranks[(i + at) % WORLD].batch_told, 0);
        }
        run_all(after, 0, MANY);
        run_count(after, 0, MANY, times);
        assert_each_once(times);
        assert_int_equal(after->ended, 0);
        run_free(after);
        run_free(before);
    }
}

/* A rank whose connection alone was lost comes back to the job, which runs on, if it has had just what was released for
 * it. */
static void test_a_rank_comes_back_to_a_running_job(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct run *run = played(orders[i], 2);
        uint32_t times[RUN_IDS_MAX] = {0};
        run->keep = true;
        run_ask(run, 1, 0, 1);
        run_leave(run, 1); /* it had not released its third batch, which is put back */
        run->keep = false;
        run_come(run, 1, true, run, 3);
        refused(run, LARDER_EGONE, "rank 1 comes back from another place than where the job has it");
        run_come(run, 1, false, run, 2);
        refused(run, LARDER_EBUSY, "runs already");
        struct luggage luggage;
        run_pack(run, 1, run, 2, &luggage);
        luggage.resume.presented = true;
        luggage.resume.batches = 1; /* of as many samples */
        run_come_with(run, 1, &luggage);
        refused(run, LARDER_EGONE, "another place");
        luggage.resume.batches = 2;
        run_come_with(run, 1, &luggage);
        run_unpack(&luggage);
        assert_int_equal(run->play.refused, 0);
        assert_int_equal(run->ranks[1].batch_told, 2);
        run->ranks[1].n_batches--; /* the batch that was put back */
        run_all(run, 0, MANY);
        assert_int_equal(run_find(run, 1, 0, 2)->index, 2);
        run_count(run, 0, MANY, times);
        assert_each_once(times);
        run_leave(run, 1); /* it has had its share, and asks for its end once more */
        run_come(run, 1, true, run, 5);
        assert_int_equal(run->play.refused, 0);
        assert_int_equal(run->ranks[1].batch_told, 5);
        uint32_t n = run->ranks[1].n_batches;
        run_ask(run, 1, 0, 1);
        assert_int_equal(run->ranks[1].n_batches, n + 1);
        assert_true(run->ranks[1].batches[n].last && run->ranks[1].batches[n].count == 0);
        run_free(run);
    }
}

/* The others went on to the next epoch while a rank that was through with the last one was away. */
static void test_a_rank_comes_back_an_epoch_later(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct run *run = played(orders[i], MANY);
        uint32_t times[RUN_IDS_MAX] = {0};
        run_leave(run, 1);
        run_ask(run, 0, 1, MANY);
        run_ask(run, 2, 1, MANY);
        assert_int_equal(run_had(run, 0, 1), 5);
        run_come(run, 1, true, run, 5);
        assert_int_equal(run->play.refused, 0);
        assert_int_equal(run->ranks[1].epoch_told, 0);
        assert_int_equal(run->ranks[1].batch_told, 5);
        uint32_t n = run->ranks[1].n_batches;
        run_ask(run, 1, 0, 2);
        assert_int_equal(run->ranks[1].n_batches, n + 1);
        assert_true(run->ranks[1].batches[n].last && run->ranks[1].batches[n].epoch == 0);
        assert_int_equal(run->ranks[1].batches[n].index, 5);
        run_ask(run, 1, 1, MANY);
        run_count(run, 1, MANY, times);
        assert_each_once(times);
        run_leave(run, 1);
        run_come(run, 1, true, run, 5); /* as if it had had nothing of this epoch */
        refused(run, LARDER_EGONE, "another place");
        run->base.epoch = 2; /* it has seen this epoch end */
        run_come(run, 1, true, NULL, 0);
        assert_int_equal(run->play.refused, 0);
        assert_int_equal(run->ranks[1].epoch_told, 2);
        for (uint32_t rank = 0; rank < WORLD; rank++)
            run_ask(run, rank, 2, MANY);
        memset(times, 0, sizeof times);
        run_count(run, 2, MANY, times);
        assert_each_once(times);
        assert_int_equal(run->play.failed, 0);
        run_free(run);
    }
}

/* A job that went on from a checkpoint is gone on with once more, by ranks that bring the checkpoint and what they have
 * had since; and a rank of it comes back while it runs. */
static void test_again_after_a_checkpoint(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3 * 3; i++) {
        uint32_t first_world = i / 3 + 2; /* before the checkpoint: another number of ranks, or the same */
        struct run *first = run_new(orders[i % 3], SAMPLES, first_world, BATCH);
        for (uint32_t rank = 0; rank < first_world; rank++)
            run_come_without(first, rank);
        run_all(first, 0, 1);
        struct checkpoint at = run_checkpoint(first, 0, 1);
        struct run *second = new_run(orders[i % 3]), *third = new_run(orders[i % 3]);
        uint32_t times[RUN_IDS_MAX] = {0};
        run_go_on(second, &at);
        run_all(second, 0, 2);
        run_leave(second, 1);
        run_come(second, 1, true, second, 2);
        assert_int_equal(second->play.refused, 0);
        run_leave(second, 1);
        second->base.batches++; /* another checkpoint */
        run_come(second, 1, true, second, 2);
        refused(second, LARDER_EGONE, "another place");
        third->base = at;
        for (uint32_t rank = 0; rank < WORLD; rank++) {
            run_come(third, rank, true, second, rank == 0 ? 1 : 2);
            assert_int_equal(third->play.refused, 0);
            count_rank(second, rank, rank == 0 ? 1 : 2, times);
        }
        run_all(third, 0, MANY);
        run_count(first, 0, 1, times);
        run_count(third, 0, MANY, times);
        assert_each_once(times);
        assert_int_equal(run_had(third, 0, 0), run_had(third, 1, 0) + 1);
        assert_int_equal(run_find(third, 0, 0, 0)->index, 2);
        run_free(third);
        run_free(second);
        run_free(first);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lingering_job_is_replaced),
        cmocka_unit_test(test_a_job_that_began_anew_without_a_checkpoint),
        cmocka_unit_test(test_a_rank_comes_back_to_a_running_job),
        cmocka_unit_test(test_a_rank_comes_back_an_epoch_later),
        cmocka_unit_test(test_again_after_a_checkpoint),
    };
    return cmocka_run_group_tests_name("resume_returns", tests, NULL, NULL);
}
