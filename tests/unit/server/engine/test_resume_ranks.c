/* Ranks that bring along what they had of an epoch: when the job begins, and who is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/server/engine/resume_scene.h"

/* Ranks that come back at different batches get the rest each: none has more or fewer than its share. */
static void test_ranks_at_different_batches(void **state)
{
    (void)state;
    static const uint32_t had[][WORLD] = {{0, 0, 0}, {1, 0, 2}, {5, 3, 4}, {5, 5, 5}, {0, 5, 1}};
    for (size_t i = 0; i < 3 * sizeof had / sizeof *had; i++) {
        const uint32_t *batches = had[i / 3];
        struct run *before = played(orders[i % 3], 5), *after = new_run(orders[i % 3]);
        uint32_t times[RUN_IDS_MAX] = {0};
        for (uint32_t rank = 0; rank < WORLD; rank++) {
            run_come(after, rank, true, before, batches[rank]);
            assert_int_equal(after->play.refused, 0);
            assert_int_equal(after->ranks[rank].batch_told, batches[rank]);
            count_rank(before, rank, batches[rank], times);
        }
        run_all(after, 0, MANY);
        assert_int_equal(run_count(after, 0, MANY, times), 0);
        assert_each_once(times);
        for (uint32_t rank = 0; rank < WORLD; rank++) {
            assert_int_equal(run_had(after, rank, 0), 5 - batches[rank]);
            assert_int_equal(after->ranks[rank].batches[0].index, batches[rank]);
        }
        run_free(after);
        run_free(before);
    }
}

/* The daemon went before a rank had come to it for the first time: that rank brings nothing, and gets its whole
 * share. */
static void test_a_rank_that_had_not_come(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct run *before = played(orders[i], 3), *after = new_run(orders[i]);
        uint32_t times[RUN_IDS_MAX] = {0};
        run_come(after, 0, true, before, 2);
        run_come_without(after, 1);
        run_come(after, 2, true, before, 3);
        assert_int_equal(after->play.refused, 0);
        assert_int_equal(after->ranks[1].batch_told, 0);
        count_rank(before, 0, 2, times);
        count_rank(before, 2, 3, times);
        run_all(after, 0, MANY);
        assert_int_equal(run_count(after, 0, MANY, times), 0);
        assert_each_once(times);
        assert_int_equal(run_had(after, 1, 0), 5);
        run_free(after);
        run_free(before);
    }
}

/* One rank had begun the next epoch when the daemon went. That epoch goes on. Those that had not begun it, and ask for
 * the one before once more, are told that it is over, whether they ask before the epoch begins or after. */
static void test_ranks_an_epoch_apart(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3 * 2; i++) {
        struct run *before = played(orders[i % 3], 6), *after = new_run(orders[i % 3]);
        uint32_t times[RUN_IDS_MAX] = {0};
        run_ask(before, 1, 1, 2); /* the others have had their share, and released it */
        for (uint32_t rank = 0; rank < WORLD; rank++) {
            after->base.epoch = rank == 1;
            if (i < 3 && rank == 2)
                run_ask(after, 0, 0, 2); /* waits until all are there */
            run_come(after, rank, true, before, rank == 1 ? 2 : 5);
            assert_int_equal(after->play.refused, 0);
            assert_int_equal(after->ranks[rank].epoch_told, rank == 1);
            assert_int_equal(after->ranks[rank].batch_told, rank == 1 ? 2 : 5);
        }
        if (i < 3) {
            run_ask(after, 0, 0, 1);
            run_ask(after, 2, 0, 1);
        }
        run_ask(after, 1, 1, MANY);
        if (i >= 3) {
            run_ask(after, 0, 0, 2);
            run_ask(after, 2, 0, 1);
            run_ask(after, 2, 0, 1);
        }
        for (uint32_t rank = 0; rank < WORLD; rank += 2) {
            const struct run_rank *seat = &after->ranks[rank];
            assert_int_equal(seat->n_batches, 1);
            assert_true(seat->batches[0].last && seat->batches[0].count == 0 && seat->batches[0].epoch == 0);
            assert_int_equal(seat->batches[0].index, 5);
            run_ask(after, rank, 1, MANY);
            assert_int_equal(run_had(after, rank, 1), 5);
            assert_int_equal(run_find(after, rank, 1, 0)->index, 0);
        }
        run_count(before, 1, MANY, times);
        assert_int_equal(run_count(after, 1, MANY, times), 0);
        assert_each_once(times);
        assert_int_equal(after->play.failed, 0);
        run_free(after);
        run_free(before);
    }
}

/* Nothing is drawn before the last rank is there, whoever asks. */
static void test_the_last_rank_begins_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct run *before = played(orders[i], 2), *after = new_run(orders[i]);
        uint32_t times[RUN_IDS_MAX] = {0};
        after->base = run_checkpoint(before, 0, 2);
        for (uint32_t rank = WORLD; rank-- > 0;) {
            assert_int_equal(after->prepared, 0);
            run_come(after, rank, false, NULL, 0);
            run_ask(after, rank, 0, 1);
        }
        for (uint32_t rank = 0; rank < WORLD; rank++)
            assert_int_equal(run_had(after, rank, 0), 1);
        run_all(after, 0, MANY);
        run_count(before, 0, 2, times);
        run_count(after, 0, MANY, times);
        assert_each_once(times);
        run_free(after);
        run_free(before);
    }
}

/* A rank that goes before the others have come has to come back; what it asked for it asks again. */
static void test_a_rank_goes_before_the_begin(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct run *before = played(orders[i], 3), *after = new_run(orders[i]);
        uint32_t times[RUN_IDS_MAX] = {0};
        run_come(after, 0, true, before, 3);
        run_come(after, 1, true, before, 2);
        run_ask(after, 0, 0, MANY);
        run_leave(after, 0);
        run_come(after, 2, true, before, 3);
        run_ask(after, 2, 0, MANY);
        run_ask(after, 1, 0, MANY);
        assert_int_equal(after->prepared, 0);
        run_come(after, 0, true, before, 2); /* it has had more */
        assert_int_equal(after->play.refused, LARDER_EINVAL);
        assert_non_null(strstr(after->play.text, "rank 0 came with another state before"));
        run_come(after, 0, true, before, 3);
        assert_int_equal(after->play.refused, 0);
        assert_int_equal(run_had(after, 2, 0), 2);
        assert_int_equal(run_had(after, 0, 0), 0);
        run_ask(after, 0, 0, MANY);
        for (uint32_t rank = 0; rank < WORLD; rank++)
            count_rank(before, rank, rank == 1 ? 2 : 3, times);
        run_count(after, 0, MANY, times);
        assert_each_once(times);
        run_free(after);
        run_free(before);
    }
}

/* A rank that never comes fails the job after the stated time, once somebody waits for it. */
static void test_a_rank_is_missing(void **state)
{
    (void)state;
    struct run *before = played(SHUFFLE_DEPENDENT, 2), *after = new_run(SHUFFLE_DEPENDENT);
    run_come(after, 0, true, before, 2);
    run_come(after, 1, true, before, 2);
    run_wait(after, 100);
    run_ask(after, 1, 0, 1);
    run_wait(after, 0.001);
    run_wait(after, 9.9);
    assert_int_equal(after->ranks[0].failed, 0);
    run_wait(after, 0.2);
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_int_equal(after->ranks[rank].failed, LARDER_ETIMEOUT);
        assert_non_null(strstr(after->ranks[rank].text, "rank 2 of 3 has not come within"));
    }
    run_come(after, 2, true, before, 2);
    assert_int_equal(after->play.refused, LARDER_EGONE);
    run_free(after);
    run_free(before);
}

/* Packs what rank 0 brings along after `batches` batches, and that the ranks from `first` on are done. */
static void pack_with_done(const struct run *after, const struct run *before, uint32_t batches, uint32_t first,
                           struct luggage packed[WORLD], struct engine_done done[WORLD])
{
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        run_pack(after, rank, before, rank ? 5 : batches, &packed[rank]);
        const struct engine_resume *had = &packed[rank].resume;
        done[rank] = (struct engine_done){rank, had->batches, had->delivered, had->through, had->turns, had->again};
    }
    packed[0].resume.presented = true;
    packed[0].resume.done = &done[first];
    packed[0].resume.n_done = WORLD - first;
}

static void unpack_all(struct luggage packed[WORLD])
{
    for (uint32_t rank = 0; rank < WORLD; rank++)
        run_unpack(&packed[rank]);
}

/* Ranks that have had their share, as another one says, need not come: that one gets exactly the rest, whether they
 * come all the same or not. */
static void test_ranks_that_are_done(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * sizeof orders / sizeof *orders; i++) {
        struct run *before = played(orders[i / 2], 5), *after = new_run(orders[i / 2]);
        struct luggage packed[WORLD];
        struct engine_done done[WORLD];
        uint32_t times[RUN_IDS_MAX] = {0};
        pack_with_done(after, before, 2, 1 + i % 2, packed, done); /* both others, or the last one alone */
        run_come_with(after, 0, &packed[0]);
        if (i % 2)
            run_come(after, 1, true, before, 5);
        assert_int_equal(after->play.refused, 0);
        run_ask(after, 0, 0, MANY);
        run_wait(after, 100);
        assert_int_equal(after->ranks[0].failed, 0);
        run_come(after, 2, true, before, 5); /* its script had not ended after all */
        assert_int_equal(after->play.refused, 0);
        assert_int_equal(run_had(after, 0, 0), 3);
        count_rank(before, 0, 2, times);
        count_rank(before, 1, 5, times);
        count_rank(before, 2, 5, times);
        count_rank(after, 0, 3, times);
        assert_each_once(times);
        unpack_all(packed);
        run_free(after);
        run_free(before);
    }
}

/* A rank that is done is needed for the next epoch; the others are told that it is missing. */
static void test_a_done_rank_is_needed_later(void **state)
{
    (void)state;
    struct run *before = played(SHUFFLE_DEPENDENT, 5), *after = new_run(SHUFFLE_DEPENDENT);
    struct luggage packed[WORLD];
    struct engine_done done[WORLD];
    pack_with_done(after, before, 5, 1, packed, done);
    run_come_with(after, 0, &packed[0]);
    run_ask(after, 0, 1, 1);
    run_wait(after, 0.001);
    run_wait(after, 10.2);
    assert_int_equal(after->ranks[0].failed, LARDER_ETIMEOUT);
    assert_non_null(strstr(after->ranks[0].text, "rank 1 of 3 has not come back"));
    unpack_all(packed);
    run_free(after);
    run_free(before);
}

/* A rank that does not fit the others is told so, and the others wait for one that does. */
static void test_ranks_must_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct run *before = played(orders[i], 4), *after = new_run(orders[i]);
        struct checkpoint at = run_checkpoint(before, 0, 2), other = run_checkpoint(before, 0, 3);
        struct luggage luggage;
        after->base = at;
        run_come(after, 0, false, NULL, 0);
        run_ask(after, 0, 0, MANY);
        run_come_without(after, 1);
        refused(after, LARDER_EINVAL, "rank 1 brings no state");
        after->base = other;
        run_come(after, 1, false, NULL, 0);
        refused(after, LARDER_EINVAL,
                "rank 1 goes on from another state than the other ranks: start all ranks from "
                "the same checkpoint");
        after->base = (struct checkpoint){.epoch = 1};
        run_come(after, 1, false, NULL, 0);
        refused(after, LARDER_EINVAL, "another epoch");
        after->base = at;
        run_pack(after, 1, NULL, 0, &luggage);
        luggage.resume.key++;
        run_come_with(after, 1, &luggage);
        refused(after, LARDER_EINVAL, "another state");
        run_unpack(&luggage);
        run_come(after, 0, false, NULL, 0);
        refused(after, LARDER_EBUSY, "rank 0 is there already");
        after->desc.sampled.shuffle = orders[(i + 1) % 3];
        run_come(after, 1, false, NULL, 0);
        refused(after, LARDER_EINVAL, "another shuffle");
        after->desc.sampled.shuffle = orders[i];
        assert_int_equal(after->prepared, 0);
        for (uint32_t rank = 1; rank < WORLD; rank++)
            run_come(after, rank, false, NULL, 0);
        assert_int_equal(run_had(after, 0, 0), 3);
        run_free(after);
        run_free(before);
    }
}

/* Two ranks that come back cannot both have had a sample; ranks in different epochs must both come back. */
static void test_ranks_that_cannot_be(void **state)
{
    (void)state;
    struct run *before = played(SHUFFLE_DEPENDENT, 4), *after = new_run(SHUFFLE_DEPENDENT);
    struct luggage luggage;
    run_come(after, 0, true, before, 3);
    run_pack(after, 1, before, 3, &luggage);
    luggage.resume.presented = true;
    idset_add((struct idset *)luggage.resume.turns, run_find(before, 0, 0, 1)->turns[2]);
    idset_remove((struct idset *)luggage.resume.turns, run_find(before, 1, 0, 1)->turns[2]);
    run_come_with(after, 1, &luggage);
    refused(after, LARDER_EINVAL, "rank 1 has had samples that another rank has had");
    run_unpack(&luggage);
    after->base.epoch = 1;
    run_come(after, 1, false, NULL, 0);
    refused(after, LARDER_EINVAL, "rank 1 goes on in another epoch");
    run_come(after, 1, true, NULL, 0);
    assert_int_equal(after->play.refused, 0);
    run_free(after);
    run_free(before);
}

/* What a rank tells of one that is done must fit what it says of itself, and what others say. */
static void test_done_that_cannot_be(void **state)
{
    (void)state;
    struct run *before = played(SHUFFLE_DEPENDENT, 5), *after = new_run(SHUFFLE_DEPENDENT);
    struct luggage packed[WORLD];
    struct engine_done done[WORLD];
    pack_with_done(after, before, 2, 2, packed, done);
    done[2].rank = 0;
    run_come_with(after, 0, &packed[0]);
    refused(after, LARDER_EINVAL, "a rank that cannot be done");
    done[2].rank = WORLD;
    run_come_with(after, 0, &packed[0]);
    refused(after, LARDER_EINVAL, "a rank that cannot be done");
    done[2].rank = 2;
    done[2].delivered = 21;
    run_come_with(after, 0, &packed[0]);
    refused(after, LARDER_EINVAL, "more than its share");
    done[2].delivered = 20;
    done[2].turns = packed[0].resume.turns;
    run_come_with(after, 0, &packed[0]);
    refused(after, LARDER_EINVAL, "cannot have had");
    run_come(after, 1, true, before, 5);
    done[2].turns = packed[1].resume.turns;
    run_come_with(after, 0, &packed[0]);
    refused(after, LARDER_EINVAL, "a rank that has had samples that another rank has had");
    unpack_all(packed);
    run_free(after);
    run_free(before);
}

/* A state that cannot be, whoever made it, is refused by its first rank. */
static void test_flaws(void **state)
{
    (void)state;
    struct run *before = played(SHUFFLE_DEPENDENT, 4), *after = new_run(SHUFFLE_DEPENDENT);
    struct luggage good, bad;
    run_pack(after, 1, before, 3, &good);
    bad = good;
    bad.resume.delivered = 11;
    run_come_with(after, 1, &bad);
    refused(after, LARDER_EINVAL, "more samples than batches brought");
    bad = good;
    bad.resume.delivered = 21;
    run_come_with(after, 1, &bad);
    refused(after, LARDER_EINVAL, "more than its share");
    bad = good;
    bad.resume.base_batches = UINT32_MAX - 2;
    run_come_with(after, 1, &bad);
    refused(after, LARDER_EINVAL, "too many batches");
    bad = good;
    bad.resume.base = good.resume.turns;
    run_come_with(after, 1, &bad);
    refused(after, LARDER_EINVAL, "a sample twice");
    idset_add((struct idset *)good.resume.base, SAMPLES);
    run_come_with(after, 1, &good);
    refused(after, LARDER_EINVAL, "samples that the job's view has not");
    run_unpack(&good);
    run_free(after);
    run_free(before);

    after = new_run(SHUFFLE_STRICT);
    after->base = (struct checkpoint){.batches = 4, .n_segments = 1, .world_size = {4}, .through = {{15, 15, 16, 15}}};
    run_come(after, 0, false, NULL, 0);
    refused(after, LARDER_EINVAL, "more was taken than the epoch has");
    after->base.through[0][2] = 15;
    run_pack(after, 0, NULL, 0, &good);
    good.resume.through = 1; /* of nothing that is left */
    run_come_with(after, 0, &good);
    refused(after, LARDER_EINVAL, "more than its part");
    good.resume.n_segments = ENGINE_SEGMENTS_MAX + 1;
    run_come_with(after, 0, &good);
    refused(after, LARDER_EINVAL, "too often");
    good.resume.n_segments = 1;
    good.segments[0].world_size = 0;
    run_come_with(after, 0, &good);
    refused(after, LARDER_EINVAL, "more was taken");
    good.segments[0].world_size = ENGINE_RANKS_MAX + 1;
    run_come_with(after, 0, &good);
    refused(after, LARDER_EINVAL, "more was taken");
    run_unpack(&good);
    run_free(after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_at_different_batches),   cmocka_unit_test(test_a_rank_that_had_not_come),
        cmocka_unit_test(test_ranks_an_epoch_apart),         cmocka_unit_test(test_the_last_rank_begins_it),
        cmocka_unit_test(test_a_rank_goes_before_the_begin), cmocka_unit_test(test_a_rank_is_missing),
        cmocka_unit_test(test_ranks_that_are_done),          cmocka_unit_test(test_a_done_rank_is_needed_later),
        cmocka_unit_test(test_done_that_cannot_be),          cmocka_unit_test(test_ranks_must_agree),
        cmocka_unit_test(test_ranks_that_cannot_be),         cmocka_unit_test(test_flaws),
    };
    return cmocka_run_group_tests_name("resume_ranks", tests, NULL, NULL);
}
