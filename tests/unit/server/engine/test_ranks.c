/* Jobs with several ranks, by hand: who gets what, who waits for whom, and what happens to a rank that goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/play/ranks.h"

/* Ranks share the view without overlap; what makes the shares equal is repeated, and nothing else is. */
static void test_shares_are_equal(void **state)
{
    (void)state;
    struct ranks *ranks = ranks_new(42, 4, 3, 4);
    for (uint32_t rank = 0; rank < 4; rank++)
        ranks_attach(ranks, rank);
    for (uint32_t rank = 0; rank < 4; rank++)
        ranks_ask(ranks, rank, 0, 64);
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(ranks->seats[rank].n_got, 11);
        assert_int_equal(ranks->seats[rank].batches, 4);
        assert_int_equal(ranks->seats[rank].n_batches, 4);
        assert_true(ranks->seats[rank].last);
    }
    assert_int_equal(ranks_repeats(ranks, 42), 2);
    ranks_free(ranks);
}

/* drop_last: whole batches only, the same number for every rank, nothing twice. */
static void test_drop_last(void **state)
{
    (void)state;
    struct ranks *ranks = ranks_new(42, 4, 3, 4);
    uint32_t counts[RANKS_IDS_MAX];
    ranks->desc.drop_last = true;
    for (uint32_t rank = 0; rank < 4; rank++)
        ranks_attach(ranks, rank);
    for (uint32_t rank = 0; rank < 4; rank++)
        ranks_ask(ranks, rank, 0, 64);
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(ranks->seats[rank].n_got, 9);
        assert_true(ranks->seats[rank].last);
    }
    ranks_count(ranks, counts);
    for (uint32_t id = 0; id < 42; id++)
        assert_true(counts[id] <= 1);
    ranks_free(ranks);
}

/* In a fixed order rank r gets samples r, r + W, … and the repeats are the order's first ones, as DistributedSampler
 * has it, even when one rank runs through alone before the others ask. */
static void test_fixed_order_is_dealt_in_turn(void **state)
{
    (void)state;
    struct ranks *ranks = ranks_new(10, 4, 2, 4);
    ranks->desc.sampled.shuffle = SHUFFLE_NONE;
    for (uint32_t rank = 0; rank < 4; rank++)
        ranks_attach(ranks, rank);
    for (uint32_t rank = 4; rank-- > 0;)
        ranks_ask(ranks, rank, 0, 64);
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(ranks->seats[rank].n_got, 3);
        for (uint32_t k = 0; k < 3; k++)
            assert_int_equal(ranks->seats[rank].got[k], ranks->order[(rank + 4 * k) % 10]);
    }
    ranks_free(ranks);
}

/* A rank that does not ask holds nobody up: the other gets all of its own share, and none of the slow one's. */
static void test_a_slow_rank_delays_nobody(void **state)
{
    (void)state;
    struct ranks *ranks = ranks_new(100, 2, 5, 4);
    ranks_attach(ranks, 0);
    ranks_attach(ranks, 1);
    ranks_ask(ranks, 1, 0, 64);
    assert_int_equal(ranks->seats[1].n_got, 50);
    assert_true(ranks->seats[1].last);
    assert_int_equal(ranks->seats[0].n_got, 0);
    ranks_ask(ranks, 0, 0, 64);
    assert_int_equal(ranks->seats[0].n_got, 50);
    assert_int_equal(ranks_repeats(ranks, 100), 0);
    ranks_free(ranks);
}

/* An epoch begins for all when the last rank is through with the one before; who asked earlier gets it then. */
static void test_epochs_wait_for_the_last_rank(void **state)
{
    (void)state;
    struct ranks *ranks = ranks_new(20, 2, 5, 4);
    ranks_attach(ranks, 0);
    ranks_attach(ranks, 1);
    ranks_ask(ranks, 0, 0, 64);
    ranks_ask(ranks, 0, 1, 64);
    assert_int_equal(ranks->seats[0].n_got, 10);
    ranks_ask(ranks, 1, 0, 1);
    assert_int_equal(ranks->seats[0].n_got, 10);
    ranks_ask(ranks, 1, 0, 1);
    assert_int_equal(ranks->seats[1].n_got, 10);
    assert_int_equal(ranks->seats[0].n_got, 20);
    ranks_ask(ranks, 1, 0,
              1); /* sent before its last batch had come: the job is in epoch 1 by now, and that is no mistake */
    assert_int_equal(ranks->seats[1].failed, 0);
    ranks_ask(ranks, 1, 1, 64);
    assert_int_equal(ranks_repeats(ranks, 20), 20);
    ranks_free(ranks);
}

/* A rank that leaves an epoch early waits for the others, who still get all of their own shares. */
static void test_leaving_an_epoch_early(void **state)
{
    (void)state;
    struct ranks *ranks = ranks_new(40, 2, 5, 4);
    ranks_attach(ranks, 0);
    ranks_attach(ranks, 1);
    ranks_ask(ranks, 0, 0, 1);
    ranks_ask(ranks, 0, 1, 1);
    assert_int_equal(ranks->seats[0].n_got, 5);
    ranks_ask(ranks, 1, 0, 64);
    assert_int_equal(ranks->seats[1].n_got, 20);
    assert_int_equal(ranks->seats[0].n_got, 10);
    ranks_ask(ranks, 1, 0, 1); /* a late request for what is over does nothing */
    assert_int_equal(ranks->seats[1].failed, 0);
    ranks_leave(ranks, 1);
    ranks_attach(ranks, 1);
    ranks_ask(ranks, 1, 0, 1); /* by one that was told to go on with the next */
    assert_int_equal(ranks->seats[1].failed, LARDER_EINVAL);
    ranks_free(ranks);
}

/* A rank that dies and comes back goes on with its share: what it held and had not released first, all else once. */
static void test_a_rank_comes_back(void **state)
{
    (void)state;
    struct ranks *ranks = ranks_new(60, 3, 4, 4);
    for (uint32_t rank = 0; rank < 3; rank++)
        ranks_attach(ranks, rank);
    ranks_ask(ranks, 1, 0, 2);
    assert_int_equal(ranks->seats[1].n_got, 8);
    ranks->keep = true;
    ranks_ask(ranks, 1, 0, 2);
    sample_id lost[8];
    memcpy(lost, ranks->seats[1].got + 8, sizeof lost);
    ranks_leave(ranks, 1);
    ranks->keep = false;
    ranks_ask(ranks, 0, 0, 64);
    ranks_ask(ranks, 2, 0, 64);
    assert_int_equal(ranks->seats[0].n_got, 20);
    assert_int_equal(ranks->seats[2].n_got, 20);
    ranks->seats[1].n_got = 8;
    ranks_attach(ranks, 1);
    assert_int_equal(ranks->seats[1].epoch_told, 0);
    ranks_ask(ranks, 1, 0, 64);
    assert_int_equal(ranks->seats[1].n_got, 20);
    assert_memory_equal(ranks->seats[1].got + 8, lost, sizeof lost);
    assert_int_equal(ranks_repeats(ranks, 60), 0);
    ranks_leave(ranks, 1);
    ranks_attach(ranks,
                 1); /* after its share: it is told to go on with the next epoch, and an empty batch ends this one */
    assert_int_equal(ranks->seats[1].epoch_told, 1);
    ranks->seats[1].last = false;
    ranks_ask(ranks, 1, 0, 1);
    assert_true(ranks->seats[1].last);
    assert_int_equal(ranks->seats[1].n_got, 20);
    ranks_free(ranks);
}

/* A rank that never comes, and one that does not come back, fail the job after the stated time, by name. */
static void test_a_rank_is_missing(void **state)
{
    (void)state;
    struct ranks *ranks = ranks_new(40, 3, 5, 4);
    ranks_attach(ranks, 0);
    ranks_attach(ranks, 1);
    ranks_wait(ranks, 100); /* nobody has asked yet, so nobody waits */
    assert_int_equal(ranks->seats[0].failed, 0);
    ranks_ask(ranks, 0, 0, 64);
    ranks_wait(ranks, 0.001);
    ranks_wait(ranks, 9.9);
    assert_int_equal(ranks->seats[0].failed, 0);
    ranks_wait(ranks, 0.2);
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_int_equal(ranks->seats[rank].failed, LARDER_ETIMEOUT);
        assert_non_null(strstr(ranks->seats[rank].text, "rank 2 of 3 has not come within"));
    }
    ranks_attach(ranks, 2);
    assert_int_equal(ranks->play.refused, LARDER_EGONE);
    ranks_leave(ranks, 0);
    assert_false(ranks->ended);
    ranks_leave(ranks, 1);
    assert_true(ranks->ended);
    ranks->ended = false;
    memset(ranks->seats, 0, sizeof ranks->seats);
    for (uint32_t rank = 0; rank < 3; rank++)
        ranks_attach(ranks, rank);
    for (uint32_t rank = 0; rank < 3; rank++)
        ranks_ask(ranks, rank, 0, 64);
    ranks_leave(ranks, 0); /* after its share: missed only when somebody wants the next epoch */
    ranks_wait(ranks, 100);
    assert_int_equal(ranks->seats[1].failed, 0);
    ranks_ask(ranks, 1, 1, 1);
    ranks_wait(ranks, 0.001);
    ranks_wait(ranks, 11);
    assert_int_equal(ranks->seats[1].failed, LARDER_ETIMEOUT);
    assert_non_null(strstr(ranks->seats[1].text, "rank 0 of 3 has not come back within"));
    ranks_free(ranks);
}

/* Ranks that miss each other are still one job: one that is through and has gone before the next comes leaves it the
 * rest. */
static void test_ranks_one_after_the_other(void **state)
{
    (void)state;
    struct ranks *ranks = ranks_new(42, 3, 5, 4);
    for (uint32_t rank = 0; rank < 3; rank++) {
        ranks_attach(ranks, rank);
        ranks_ask(ranks, rank, 0, 64);
        assert_int_equal(ranks->seats[rank].n_got, 14);
        assert_false(ranks->ended);
        ranks_leave(ranks, rank);
        ranks_wait(ranks, 9);
    }
    assert_true(ranks->ended);
    assert_int_equal(ranks_repeats(ranks, 42), 0);
    ranks->ended = false;
    ranks_attach(ranks, 0);
    ranks_leave(ranks, 0);
    ranks_wait(ranks, 11); /* the others never come */
    assert_true(ranks->ended);
    ranks->ended = false;
    ranks_attach(ranks, 0);
    ranks_leave(ranks, 0);
    play_gone(&ranks->play, ranks->play.job, 1); /* cancelled */
    ranks_free(ranks);
}

static void refused(struct ranks *ranks, int code, const char *text)
{
    ranks->play.refused = 0;
    ranks_attach(ranks, ranks->desc.rank);
    assert_int_equal(ranks->play.refused, code);
    assert_non_null(strstr(ranks->play.text, text));
}

/* A rank that disagrees with the first is refused, and told over what. */
static void test_ranks_must_agree(void **state)
{
    (void)state;
    struct ranks *ranks = ranks_new(40, 3, 5, 4);
    ranks_attach(ranks, 1);
    refused(ranks, LARDER_EBUSY, "rank 1 is there already");
    ranks->desc.rank = 0;
    struct engine_job_desc good = ranks->desc;
    ranks->desc.batch_size = 6;
    refused(ranks, LARDER_EINVAL, "batch_size");
    ranks->desc = good;
    ranks->desc.world_size = 2;
    refused(ranks, LARDER_EINVAL, "world_size");
    ranks->desc = good;
    ranks->desc.sampled.seed = 7;
    refused(ranks, LARDER_EINVAL, "seed");
    ranks->desc = good;
    ranks->desc.sampled.shuffle = SHUFFLE_STRICT;
    refused(ranks, LARDER_EINVAL, "shuffle");
    ranks->desc = good;
    ranks->desc.drop_last = true;
    refused(ranks, LARDER_EINVAL, "drop_last");
    ranks->desc = good;
    ranks->desc.pipeline = 3;
    refused(ranks, LARDER_EINVAL, "pipeline");
    ranks->desc = good;
    ranks->desc.ordered = true;
    refused(ranks, LARDER_EINVAL, "ordered");
    ranks->desc = good;
    struct idset *other;
    assert_int_equal(idset_from_range(1, 41, &other), 0);
    ranks->desc.sampled.view = other;
    refused(ranks, LARDER_EINVAL, "subset");
    idset_destroy(other);
    ranks->desc = good;
    ranks->desc.rank = 3;
    refused(ranks, LARDER_EINVAL, "out of its range");
    ranks->desc = good;
    ranks_attach(ranks, 0);
    assert_true(ranks->seats[0].there);
    ranks_free(ranks);
}

/* One slow sample delays its own delivery and not the batch, within two batches of look-ahead; an ordered job waits. */
static void test_a_slow_sample_is_overtaken(void **state)
{
    (void)state;
    for (int ordered = 0; ordered <= 1; ordered++) {
        struct ranks *ranks = ranks_new(40, 1, 5, 4);
        ranks->desc.ordered = ordered;
        ranks->slow = 0;
        ranks_attach(ranks, 0);
        ranks_ask(ranks, 0, 0, 64);
        uint32_t before = ranks->seats[0].n_got;
        if (ordered)
            assert_true(before < 40 && before % 5 == 0);
        else
            assert_int_equal(before, 35); /* all but the last batch, which cannot be without it */
        for (uint32_t i = 0; i < before; i++)
            assert_int_not_equal(ranks->seats[0].got[i], 0);
        assert_int_equal(ranks->n_preparing, 1);
        ranks_finish(ranks, 0);
        assert_int_equal(ranks->seats[0].n_got, 40);
        assert_int_equal(ranks_repeats(ranks, 40), 0);
        ranks_free(ranks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_are_equal),
        cmocka_unit_test(test_drop_last),
        cmocka_unit_test(test_fixed_order_is_dealt_in_turn),
        cmocka_unit_test(test_a_slow_rank_delays_nobody),
        cmocka_unit_test(test_epochs_wait_for_the_last_rank),
        cmocka_unit_test(test_leaving_an_epoch_early),
        cmocka_unit_test(test_a_rank_comes_back),
        cmocka_unit_test(test_a_rank_is_missing),
        cmocka_unit_test(test_ranks_one_after_the_other),
        cmocka_unit_test(test_ranks_must_agree),
        cmocka_unit_test(test_a_slow_sample_is_overtaken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
