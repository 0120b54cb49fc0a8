/* test_stream.c: epochs and batches with a daemon that behaves. */
#include <signal.h>
#include <sys/time.h>

#include "program.h"

#define EPOCH_BATCHES 25u

static void open_with(uint32_t held_max, uint32_t prefetch, uint32_t epochs, fake_script *script)
{
    struct larder_options options;
    fake_init(&fake);
    fake.held_max = held_max;
    fake_start(&fake, script);
    larder_options_init(&options);
    options.socket = fake.path;
    options.dataset = "set";
    options.batch_size = FAKE_BATCH_SIZE;
    options.prefetch = prefetch;
    options.epochs = epochs;
    assert_int_equal(larder_open(&options, &loader), 0);
}

static void serve(struct fake_daemon *daemon)
{
    fake_serve(daemon, EPOCH_BATCHES);
}

/* Several epochs give every batch once and in order, LARDER_EEND after each, and after the last epoch the job's end;
 * every batch is released; whatever prefetch and held_max are. */
static void streams_epochs(void **state)
{
    (void)state;
    static const uint32_t shapes[][2] = {{1, 1}, {1, 64}, {2, 1}, {4, 2}, {64, 64}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct larder_batch *batch = NULL;
        open_with(shapes[s][0], shapes[s][1], 2, serve);
        for (uint32_t epoch = 0; epoch < 2; epoch++) {
            assert_int_equal(larder_start_epoch(loader, epoch), 0);
            for (uint32_t index = 0; index < EPOCH_BATCHES; index++) {
                assert_int_equal(larder_next(loader, 60000, &batch), 0);
                assert_batch(batch, epoch, index);
                assert_int_equal(larder_batch_release(&batch), 0);
                assert_null(batch);
            }
            assert_int_equal(larder_next(loader, 60000, &batch), LARDER_EEND);
            assert_int_equal(larder_next(loader, 60000, &batch), LARDER_EEND);
        }
        assert_int_equal(larder_start_epoch(loader, 2), LARDER_EEND);
        close_both();
        assert_int_equal(fake.n_released, 2 * EPOCH_BATCHES);
    }
}

/* Leaving an epoch early and starting the next: what still arrives of the first is given back unseen, and a batch kept
 * from it stays readable. */
static void breaks_early(void **state)
{
    (void)state;
    struct larder_batch *kept = NULL, *batch = NULL;
    open_with(4, 3, 0, serve);
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    assert_int_equal(larder_next(loader, 60000, &kept), 0);
    assert_int_equal(larder_start_epoch(loader, 1), 0);
    for (uint32_t index = 0; index < EPOCH_BATCHES; index++) {
        assert_int_equal(larder_next(loader, 60000, &batch), 0);
        assert_batch(batch, 1, index);
        assert_int_equal(larder_batch_release(&batch), 0);
    }
    assert_int_equal(larder_next(loader, 60000, &batch), LARDER_EEND);
    assert_batch(kept, 0, 0);
    assert_int_equal(larder_batch_release(&kept), 0);
    /* epochs go forward only, and may be skipped */
    assert_int_equal(larder_start_epoch(loader, 1), LARDER_EINVAL);
    assert_non_null(strstr(larder_last_error(loader), "forward"));
    assert_int_equal(larder_start_epoch(loader, 7), 0);
    assert_int_equal(larder_next(loader, 60000, &batch), 0);
    assert_batch(batch, 7, 0);
    close_both(); /* with a batch in hand: larder_close frees it */
}

/* Holding all one may and asking for more is refused at once, and goes on after a release. */
static void limits_held(void **state)
{
    (void)state;
    struct larder_batch *held[3], *batch = NULL;
    open_with(3, 2, 0, serve);
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(larder_next(loader, 60000, &held[i]), 0);
    assert_int_equal(larder_next(loader, -1, &batch), LARDER_EQUOTA);
    assert_non_null(strstr(larder_last_error(loader), "3 batches are held"));
    assert_non_null(strstr(larder_last_error(loader), "larder_batch_release"));
    assert_non_null(strstr(larder_last_error(loader), "options.hold"));
    assert_null(batch);
    assert_int_equal(larder_batch_release(&held[1]), 0);
    assert_int_equal(larder_next(loader, 60000, &batch), 0);
    assert_batch(batch, 0, 3);
    assert_batch(held[0], 0, 0);
    assert_batch(held[2], 0, 2);
    assert_int_equal(larder_batch_release(&batch), 0);
    assert_int_equal(larder_batch_release(&held[0]), 0);
    assert_int_equal(larder_batch_release(&held[2]), 0);
    close_both();
}

/* The next batch is asked for while the program works on this one: when one is handed out, and when a release makes
 * room. */
static void asks_ahead(void **state)
{
    (void)state;
    struct larder_batch *first = NULL, *second = NULL;
    open_with(2, 1, 0, serve);
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    assert_int_equal(larder_next(loader, 60000, &first), 0);
    assert_true(readable_within(60000));
    assert_int_equal(larder_next(loader, 60000, &second), 0);
    assert_false(readable_within(30));
    assert_int_equal(larder_batch_release(&first), 0);
    assert_true(readable_within(60000));
    assert_int_equal(larder_batch_release(&second), 0);
    close_both();
}

/* Sends the second batch and the third when the client has given the first one back, and so has asked for one more. */
static void serve_who_waits(struct fake_daemon *daemon)
{
    if (!fake_wait_credits(daemon, 0, 2))
        return;
    fake_batch(daemon, 11, 0, 0, 0, FAKE_BATCH_SIZE, false);
    if (!fake_wait_credits(daemon, 0, 1))
        return;
    CHECK(daemon->waits == 1 && daemon->awaited == 1);
    fake_batch(daemon, 12, 0, 1, FAKE_BATCH_SIZE, FAKE_BATCH_SIZE, false);
    fake_batch(daemon, 13, 0, 2, 2 * FAKE_BATCH_SIZE, FAKE_BATCH_SIZE, true);
    fake_until_closed(daemon);
}

/* A program that keeps a batch, and so may ask for no more, has the daemon know that it stands still: for a batch that
 * is not there, once, and for none that is. */
static void says_when_it_stands(void **state)
{
    (void)state;
    struct larder_batch *first = NULL, *batch = NULL;
    open_with(2, 2, 0, serve_who_waits);
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    assert_true(readable_within(60000));
    assert_int_equal(larder_next(loader, 60000, &first), 0);
    assert_int_equal(larder_next(loader, 0, &batch), LARDER_ETIMEOUT);
    assert_int_equal(larder_next(loader, 1, &batch), LARDER_ETIMEOUT);
    assert_int_equal(larder_batch_release(&first), 0);
    for (uint32_t i = 1; i < 3; i++) {
        assert_true(readable_within(60000));
        assert_int_equal(larder_next(loader, 60000, &batch), 0);
        assert_batch(batch, 0, i);
        assert_int_equal(larder_batch_release(&batch), 0);
    }
    close_both();
    assert_int_equal(fake.waits, 1);
}

static void serve_odd_ends(struct fake_daemon *daemon)
{
    if (!fake_wait_credits(daemon, 0, 2))
        return;
    fake_batch(daemon, 11, 0, 0, 0, 2, false);
    fake_batch(daemon, 12, 0, 1, 0, 0, true); /* an empty last batch */
    if (fake_wait_credits(daemon, 1, 2)) {
        fake_batch(daemon, 13, 1, 0, 0, 0, false); /* all its samples were bad */
        fake_batch(daemon, 14, 1, 0, 4, 1, true);  /* not full */
    }
    fake_until_closed(daemon);
}

/* Batches say 0, then 2, then an empty last one 3 samples that were left out; of the next epoch none. */
static void lose_samples(struct fake_daemon *daemon)
{
    static const uint32_t lost[] = {0, 2};
    for (uint32_t i = 0; i < 2; i++) {
        daemon->lost = lost[i];
        if (!fake_wait_credits(daemon, 0, 1))
            return;
        fake_batch(daemon, i + 1, 0, i, i * FAKE_BATCH_SIZE, FAKE_BATCH_SIZE, false);
        if (!fake_wait_released(daemon, i + 1))
            return;
    }
    daemon->lost = 3;
    if (fake_wait_credits(daemon, 0, 1))
        fake_batch(daemon, 3, 0, 2, 0, 0, true);
    daemon->lost = 0;
    if (fake_wait_credits(daemon, 1, 1))
        fake_batch(daemon, 4, 1, 0, 0, FAKE_BATCH_SIZE, true);
    fake_until_closed(daemon);
}

/* The program is told how many samples of an epoch were left out: so far, and at its end of all of it. */
static void tells_what_is_lost(void **state)
{
    (void)state;
    struct larder_batch *batch;
    open_with(2, 1, 0, lose_samples);
    assert_int_equal(larder_loader_lost(loader), 0);
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(larder_next(loader, -1, &batch), 0);
        assert_int_equal(larder_loader_lost(loader), i * 2);
        assert_int_equal(larder_batch_release(&batch), 0);
    }
    assert_int_equal(larder_next(loader, -1, &batch), LARDER_EEND);
    assert_int_equal(larder_loader_lost(loader), 3);
    assert_int_equal(larder_start_epoch(loader, 1), 0);
    assert_int_equal(larder_loader_lost(loader), 0);
    assert_int_equal(larder_next(loader, -1, &batch), 0);
    assert_int_equal(larder_loader_lost(loader), 0);
    assert_int_equal(larder_loader_lost(NULL), 0);
    close_both();
}

/* An empty batch is never handed out and is given back; a short last one is handed out. */
static void skips_empty(void **state)
{
    (void)state;
    struct larder_batch *batch = NULL;
    open_with(4, 2, 0, serve_odd_ends);
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    assert_int_equal(larder_next(loader, 60000, &batch), 0);
    assert_int_equal(larder_batch_count(batch), 2);
    assert_int_equal(larder_batch_release(&batch), 0);
    assert_int_equal(larder_next(loader, 60000, &batch), LARDER_EEND);
    assert_int_equal(larder_start_epoch(loader, 1), 0);
    assert_int_equal(larder_next(loader, 60000, &batch), 0);
    assert_int_equal(larder_batch_count(batch), 1);
    assert_int_equal(larder_batch_release(&batch), 0);
    assert_int_equal(larder_next(loader, 60000, &batch), LARDER_EEND);
    close_both();
    const uint64_t released[] = {11, 12, 13, 14};
    assert_int_equal(fake.n_released, 4);
    assert_memory_equal(fake.released, released, sizeof released);
}

static void serve_when_released(struct fake_daemon *daemon)
{
    if (!fake_wait_credits(daemon, 0, 2))
        return;
    fake_batch(daemon, 1, 0, 0, 0, 4, false);
    if (fake_wait_released(daemon, 1))
        fake_batch(daemon, 2, 0, 1, 4, 4, true);
    fake_until_closed(daemon);
}

/* A time-out is not a failure: asking again gets the batch. larder_fd becomes readable with it. */
static void times_out(void **state)
{
    (void)state;
    struct larder_batch *first = NULL, *batch = NULL;
    open_with(4, 2, 0, serve_when_released);
    assert_int_equal(larder_next(loader, 0, &batch), LARDER_EINVAL); /* no epoch yet */
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    assert_int_equal(larder_next(loader, 60000, &first), 0);
    assert_int_equal(larder_next(loader, 0, &batch), LARDER_ETIMEOUT);
    assert_int_equal(larder_next(loader, 20, &batch), LARDER_ETIMEOUT);
    assert_false(readable_within(0));
    assert_int_equal(larder_batch_release(&first), 0);
    assert_true(readable_within(60000));
    assert_int_equal(larder_next(loader, 0, &batch), 0);
    assert_batch(batch, 0, 1);
    assert_int_equal(larder_batch_release(&batch), 0);
    close_both();
}

static void on_alarm(int number)
{
    (void)number;
}

/* Signals that interrupt the wait do not end it before its time. */
static void goes_on_after_signals(void **state)
{
    (void)state;
    struct larder_batch *first = NULL, *batch = NULL;
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    open_with(4, 2, 0, serve_when_released);
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    assert_int_equal(larder_next(loader, 60000, &first), 0);
    struct itimerval every = {.it_interval = {.tv_usec = 2000}, .it_value = {.tv_usec = 2000}}, never = {0};
    setitimer(ITIMER_REAL, &every, NULL);
    assert_int_equal(larder_next(loader, 100, &batch), LARDER_ETIMEOUT);
    assert_int_equal(larder_batch_release(&first), 0);
    assert_int_equal(larder_next(loader, 60000, &batch), 0);
    setitimer(ITIMER_REAL, &never, NULL);
    close_both();
}

/* A buffer too small, a position beyond the batch, and NULL where something must be are refused and change nothing. */
static void refuses_misuse(void **state)
{
    (void)state;
    struct larder_batch *batch = NULL;
    struct larder_sample sample = {.id = 77};
    uint8_t small[FAKE_BATCH_SIZE * FAKE_SAMPLE_BYTES - 1];
    open_with(4, 2, 0, serve);
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    assert_int_equal(larder_next(loader, 60000, NULL), LARDER_EINVAL);
    assert_int_equal(larder_next(loader, 60000, &batch), 0);
    assert_int_equal(larder_batch_copy(batch, small, sizeof small), LARDER_ELIMIT);
    assert_non_null(strstr(larder_last_error(loader), "47"));
    assert_int_equal(larder_batch_copy(batch, NULL, 4096), LARDER_EINVAL);
    assert_int_equal(larder_batch_sample(batch, FAKE_BATCH_SIZE, &sample), LARDER_EINVAL);
    assert_int_equal(larder_batch_sample(batch, 0, NULL), LARDER_EINVAL);
    assert_int_equal(sample.id, 77);
    assert_int_equal(larder_batch_copy(NULL, small, sizeof small), LARDER_EINVAL);
    assert_int_equal(larder_batch_count(NULL), 0);
    assert_int_equal(larder_batch_release(NULL), 0);
    assert_int_equal(larder_batch_release(&batch), 0);
    assert_int_equal(larder_batch_release(&batch), 0);
    assert_int_equal(larder_next(NULL, 0, &batch), LARDER_EINVAL);
    assert_int_equal(larder_start_epoch(NULL, 0), LARDER_EINVAL);
    assert_int_equal(larder_fd(NULL), -1);
    close_both();
}

static void two_and_cancel(struct fake_daemon *daemon)
{
    if (!fake_wait_credits(daemon, 0, 2))
        return;
    fake_batch(daemon, 1, 0, 0, 0, FAKE_BATCH_SIZE, false);
    fake_batch(daemon, 2, 0, 1, FAKE_BATCH_SIZE, FAKE_BATCH_SIZE, false);
    fake_error(daemon, 0, LARDER_EGONE, false, "the job was cancelled");
    fake_wait_released(daemon, 1);
    fake_until_closed(daemon);
}

/* Batches in the program's hands outlive their job: they can be read, copied and released after the failure, the first
 * is given back by itself and the last with the connection; every other call gives the failure. */
static void keeps_held_after_a_failure(void **state)
{
    (void)state;
    struct larder_batch *first = NULL, *second = NULL, *batch = NULL;
    open_with(4, 2, 0, two_and_cancel);
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    assert_int_equal(larder_next(loader, 60000, &first), 0);
    assert_int_equal(larder_next(loader, 60000, &second), 0);
    assert_int_equal(larder_next(loader, 60000, &batch), LARDER_ECANCELLED);
    assert_non_null(strstr(larder_last_error(loader), "cancelled"));
    assert_int_equal(larder_fd(loader), -1);
    assert_batch(first, 0, 0);
    assert_batch(second, 0, 1);
    assert_int_equal(larder_batch_release(&first), 0);
    assert_batch(second, 0, 1);
    assert_int_equal(larder_start_epoch(loader, 1), LARDER_ECANCELLED);
    assert_int_equal(larder_batch_release(&second), 0);
    assert_int_equal(larder_next(loader, 60000, &batch), LARDER_ECANCELLED);
    assert_non_null(strstr(larder_last_error(loader), "cancelled"));
    fake_stop(&fake); /* the connection is closed: the script has ended */
    assert_int_equal(fake.n_released, 1);
    assert_int_equal(fake.released[0], 1);
    larder_close(&loader);
}

static void turns_first(struct fake_daemon *daemon)
{
    uint8_t turns[WIRE_TURN_BYTES];
    wire_turn_put(turns, 0, &(struct wire_turn){.position = 1, .index = 7});
    if (fake_wait_credits(daemon, 0, 1)) {
        fake_send(daemon, &(struct wire_message){.type = WIRE_TURNS, .turns = {.batch = 1, .count = 1, .turns = turns}},
                  -1);
        fake_batch(daemon, 1, 0, 0, 0, FAKE_BATCH_SIZE, true);
    }
    fake_until_closed(daemon);
}

/* TURNS before a batch does not disturb the batch. */
static void passes_over_turns(void **state)
{
    (void)state;
    struct larder_batch *batch;
    open_with(4, 2, 0, turns_first);
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    assert_int_equal(larder_next(loader, -1, &batch), 0);
    assert_batch(batch, 0, 0);
    assert_int_equal(larder_batch_release(&batch), 0);
    assert_int_equal(larder_next(loader, -1, &batch), LARDER_EEND);
    close_both();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_held_after_a_failure),
        cmocka_unit_test(streams_epochs),
        cmocka_unit_test(breaks_early),
        cmocka_unit_test(limits_held),
        cmocka_unit_test(skips_empty),
        cmocka_unit_test(tells_what_is_lost),
        cmocka_unit_test(times_out),
        cmocka_unit_test(goes_on_after_signals),
        cmocka_unit_test(refuses_misuse),
        cmocka_unit_test(asks_ahead),
        cmocka_unit_test(says_when_it_stands),
        cmocka_unit_test(passes_over_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
