/* test_reconnect.c: a daemon that dies is a pause: the loader goes on with exactly the rest in the next one. */
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

#define EPOCH_BATCHES 25u

static uint32_t most;  /* batches that a daemon sends before it dies … */
static uint32_t after; /* … and that the client has given back: till then it has the others for sure */

static void serve(struct fake_daemon *daemon)
{
    fake_serve(daemon, EPOCH_BATCHES);
}

static void serve_and_die(struct fake_daemon *daemon)
{
    fake_serve_some(daemon, EPOCH_BATCHES, most);
    fake_wait_released(daemon, after);
    fake_until_told(daemon);
}

/* The client has one of the batches at the least. */
static void serve_a_few(struct fake_daemon *daemon)
{
    uint32_t released = daemon->n_released;
    fake_serve_some(daemon, EPOCH_BATCHES, most);
    fake_wait_released(daemon, released + 1);
}

static void start(const struct larder_options *wanted, fake_script *script)
{
    struct larder_options options = *wanted;
    fake_start(&fake, script);
    options.socket = fake.path;
    assert_code(larder_open(&options, &loader), 0);
}

static uint32_t reconnects(void)
{
    struct larder_info info;
    assert_int_equal(larder_info_get(loader, &info), 0);
    return info.reconnects;
}

/* Wherever in the epochs daemons die, and however much was asked for ahead, held or here, each batch comes once and in
 * its place. */
static void goes_on(void **state)
{
    (void)state;
    static const uint32_t shapes[][2] = {{1, 1}, {2, 1}, {4, 2}, {16, 8}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (most = 1; most < 2 * EPOCH_BATCHES; most += 4) {
            fake_init(&fake);
            fake.held_max = shapes[s][0];
            struct larder_options options = fake_options();
            options.prefetch = shapes[s][1];
            for (int i = 0; i < 100; i++)
                fake_then(&fake, serve_a_few);
            start(&options, serve_a_few);
            for (uint32_t epoch = 0; epoch < 2; epoch++) {
                assert_code(larder_start_epoch(loader, epoch), 0);
                take(epoch, 0, EPOCH_BATCHES);
                take_end();
            }
            assert_true(reconnects() >= (2 * EPOCH_BATCHES - 1) / most);
            close_both();
        }
    }
}

/* What is presented is what was handed out: nothing that was merely here or asked for. */
static void presents_what_was_taken(void **state)
{
    (void)state;
    for (uint32_t shuffle = LARDER_SHUFFLE_DEPENDENT; shuffle <= LARDER_SHUFFLE_NONE; shuffle++) {
        fake_init(&fake);
        struct larder_options options = fake_options();
        options.shuffle = shuffle;
        options.seed = 5;
        options.prefetch = 4;
        most = 7;
        after = 5;
        start(&options, serve_and_die);
        assert_code(larder_start_epoch(loader, 3), 0);
        take(3, 0, 5);
        fake_leave(&fake);
        fake_come(&fake, serve);
        take(3, 5, EPOCH_BATCHES);
        take_end();
        close_both();
        const struct record *record = &fake.record;
        assert_int_equal(record->epoch, 3);
        assert_int_equal(record->batches, 0);
        assert_int_equal(record->shuffle, shuffle);
        assert_true(record->seed == 5 && record->dataset[1] == 8 && record->view[0] == 9);
        assert_int_equal(record->samples, FAKE_DATASET_SAMPLES);
        assert_int_equal(record->over_bytes + record->n_segments, 0);
        assert_int_equal(record->world_size, 1);
        assert_int_equal(record->n_batches, 5); /* two more were here when the daemon went */
        for (uint32_t i = 0; i < record->n_batches; i++) {
            struct record_batch batch = record_batch_get(record, i);
            assert_int_equal(batch.delivered, FAKE_BATCH_SIZE);
            assert_int_equal(batch.through, shuffle ? (i + 1) * FAKE_BATCH_SIZE : 0);
            assert_int_equal(batch.n_turns, shuffle ? 0 : FAKE_BATCH_SIZE);
        }
        assert_int_equal(record->n_turns, shuffle ? 0 : record->n_batches * FAKE_BATCH_SIZE);
        for (uint64_t i = 0; i < record->n_turns; i++)
            assert_int_equal(record_turn(record, i), 1000 + i);
    }
}

static void send_turns(struct fake_daemon *daemon, uint64_t batch, uint32_t position, uint32_t index)
{
    uint8_t turns[WIRE_TURN_BYTES];
    wire_turn_put(turns, 0, &(struct wire_turn){.position = position, .index = index});
    struct wire_message msg = {.type = WIRE_TURNS, .turns = {.batch = batch, .count = 1, .turns = turns}};
    fake_send(daemon, &msg, -1);
}

static void serve_turns(struct fake_daemon *daemon)
{
    if (!fake_wait_credits(daemon, 0, 2))
        return;
    send_turns(daemon, 1, 1, 77);
    fake_batch(daemon, 1, 0, 0, 0, 3, false);
    send_turns(daemon, 2, 0, WIRE_TURN_NONE);
    fake_batch(daemon, 2, 0, 1, 3, 2, false);
    fake_wait_released(daemon, 2);
    fake_until_told(daemon);
}

/* A substitute's turn is the bad sample's, and a repeat's nobody's. */
static void presents_turns(void **state)
{
    (void)state;
    struct larder_batch *batch;
    static const uint32_t turns[] = {1000, 77, 1002, 1004};
    fake_init(&fake);
    struct larder_options options = fake_options();
    start(&options, serve_turns);
    assert_code(larder_start_epoch(loader, 0), 0);
    for (int i = 0; i < 2; i++) {
        assert_code(larder_next(loader, 60000, &batch), 0);
        assert_code(larder_batch_release(&batch), 0);
    }
    fake_leave(&fake);
    fake_come(&fake, serve);
    take(0, 2, 3);
    close_both();
    assert_int_equal(fake.record.n_turns, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(record_turn(&fake.record, i), turns[i]);
    assert_int_equal(record_batch_get(&fake.record, 1).delivered, 2);
    assert_int_equal(record_batch_get(&fake.record, 1).n_turns, 1);
}

/* Between two epochs a rank stands in the one before until it has a batch of the next: others may still be there. */
static void stands_in_the_epoch_before(void **state)
{
    (void)state;
    static const struct {
        bool start_next;
        uint32_t taken, epoch, n_batches;
    } cases[] = {{false, 0, 0, EPOCH_BATCHES}, {true, 0, 0, EPOCH_BATCHES}, {true, 1, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_init(&fake);
        struct larder_options options = fake_options();
        options.prefetch = 1;
        most = after = EPOCH_BATCHES + cases[i].taken;
        start(&options, serve_and_die);
        assert_code(larder_start_epoch(loader, 0), 0);
        take(0, 0, EPOCH_BATCHES);
        take_end();
        if (cases[i].start_next)
            assert_code(larder_start_epoch(loader, 1), 0);
        take(1, 0, cases[i].taken);
        fake_leave(&fake);
        fake_come(&fake, serve);
        if (!cases[i].start_next)
            assert_code(larder_start_epoch(loader, 1), 0);
        take(1, cases[i].taken, EPOCH_BATCHES);
        take_end();
        close_both();
        assert_int_equal(fake.record.epoch, cases[i].epoch);
        assert_int_equal(fake.record.n_batches, cases[i].n_batches);
    }
}

/* Batches of a daemon that died stay what they are, beside those of the next one; only these are given back. */
static void keeps_held(void **state)
{
    (void)state;
    struct larder_batch *old[2], *batch = NULL, *more = NULL;
    struct larder_sample sample;
    fake_init(&fake);
    struct larder_options options = fake_options();
    options.prefetch = 1;
    most = 2;
    after = 0;
    start(&options, serve_and_die);
    assert_code(larder_start_epoch(loader, 0), 0);
    for (int i = 0; i < 2; i++)
        assert_code(larder_next(loader, 60000, &old[i]), 0);
    assert_code(larder_batch_sample(old[0], 1, &sample), 0);
    fake_leave(&fake);
    assert_batch(old[0], 0, 0);
    fake_come(&fake, serve);
    assert_code(larder_next(loader, 60000, &batch), 0);
    assert_batch(batch, 0, 2);
    assert_batch(old[0], 0, 0);
    assert_batch(old[1], 0, 1);
    assert_int_equal(((const uint8_t *)sample.data)[0], 1);
    assert_code(larder_next(loader, 60000, &more), 0);
    struct larder_batch *none = NULL;
    assert_code(larder_next(loader, 60000, &none), LARDER_EQUOTA); /* held_max counts them all */
    assert_code(larder_batch_release(&old[0]), 0);
    assert_batch(old[1], 0, 1);
    assert_code(larder_batch_release(&old[1]), 0);
    assert_code(larder_batch_release(&batch), 0);
    assert_code(larder_batch_release(&more), 0);
    take(0, 4, EPOCH_BATCHES);
    close_both();
    assert_int_equal(fake.n_released, 2 + EPOCH_BATCHES - 4);
}

/* A release, a copy and a start of an epoch that find the daemon gone are no failures. */
static void notices_anywhere(void **state)
{
    (void)state;
    struct larder_batch *first = NULL, *second = NULL;
    fake_init(&fake);
    struct larder_options options = fake_options();
    options.prefetch = 1;
    most = 2;
    after = 0;
    start(&options, serve_and_die);
    assert_code(larder_start_epoch(loader, 0), 0);
    assert_code(larder_next(loader, 60000, &first), 0);
    assert_code(larder_next(loader, 60000, &second), 0);
    fake_leave(&fake);
    assert_code(larder_batch_release(&first), 0);
    assert_batch(second, 0, 1);
    assert_code(larder_start_epoch(loader, 4), 0);
    assert_code(larder_batch_release(&second), 0);
    fake_come(&fake, serve);
    take(4, 0, 3);
    close_both();
    assert_int_equal(fake.record.epoch, 0);
    assert_int_equal(fake.record.n_batches, 2);
}

/* larder_next with no time does not wait for a daemon. poll is told when the next attempt is due and not all the time
 * before, on the same descriptor, and epoll needs nothing done anew. */
static void polls_for_the_next(void **state)
{
    (void)state;
    struct larder_batch *batch = NULL;
    struct epoll_event event = {.events = EPOLLIN};
    fake_init(&fake);
    struct larder_options options = fake_options();
    most = after = 3;
    start(&options, serve_and_die);
    int fd = larder_fd(loader), epoll_fd = epoll_create1(EPOLL_CLOEXEC), at_once = 0;
    assert_int_equal(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event), 0);
    assert_code(larder_start_epoch(loader, 0), 0);
    take(0, 0, 3);
    fake_leave(&fake);
    for (int i = 0; i < 8; i++) {
        assert_code(larder_next(loader, 0, &batch), LARDER_ETIMEOUT);
        at_once += readable_within(0);
        assert_int_equal(epoll_wait(epoll_fd, &event, 1, -1), 1);
        assert_true(readable_within(0));
    }
    assert_true(at_once < 8);
    assert_text(larder_last_error(loader), "waiting for the daemon");
    assert_text(larder_last_error(loader), fake.path);
    fake_come(&fake, serve);
    for (uint32_t index = 3; index < EPOCH_BATCHES; index++) {
        int rc;
        while ((rc = larder_next(loader, 0, &batch)) == LARDER_ETIMEOUT)
            assert_int_equal(epoll_wait(epoll_fd, &event, 1, -1), 1);
        assert_code(rc, 0);
        assert_batch(batch, 0, index);
        assert_code(larder_batch_release(&batch), 0);
    }
    assert_int_equal(larder_fd(loader), fd);
    close(epoll_fd);
    close_both();
}

/* A wait that ends before a daemon comes is a time-out. */
static void times_out(void **state)
{
    (void)state;
    struct larder_batch *batch = NULL;
    fake_init(&fake);
    struct larder_options options = fake_options();
    most = after = 1;
    start(&options, serve_and_die);
    assert_code(larder_start_epoch(loader, 0), 0);
    take(0, 0, 1);
    fake_leave(&fake);
    assert_code(larder_next(loader, 30, &batch), LARDER_ETIMEOUT);
    fake_come(&fake, serve);
    take(0, 1, EPOCH_BATCHES);
    close_both();
}

/* When no daemon comes in time it is a failure for good. What was held can still be read, and what was taken be
 * saved. */
static void gives_up(void **state)
{
    (void)state;
    struct larder_batch *held = NULL, *batch = NULL;
    const void *token = NULL;
    size_t token_bytes = 0;
    fake_init(&fake);
    struct larder_options options = fake_options();
    options.reconnect_ms = 40;
    most = 1;
    after = 0;
    after = 0;
    start(&options, serve_and_die);
    assert_code(larder_start_epoch(loader, 0), 0);
    assert_code(larder_next(loader, 60000, &held), 0);
    fake_leave(&fake);
    assert_code(larder_next(loader, -1, &batch), LARDER_EGONE);
    assert_text(larder_last_error(loader), "within 40 ms");
    assert_text(larder_last_error(loader), "start larderd");
    assert_batch(held, 0, 0);
    assert_code(larder_state(loader, 0, &token, &token_bytes), 0);
    assert_code(larder_batch_release(&held), 0);
    assert_code(larder_next(loader, -1, &batch), LARDER_EGONE);
    assert_text(larder_last_error(loader), "within 40 ms");
    assert_code(larder_start_epoch(loader, 1), LARDER_EGONE);
    assert_int_equal(larder_fd(loader), -1);
    close_both();
}

static void cancel(struct fake_daemon *daemon)
{
    if (fake_wait_credits(daemon, 0, 1))
        fake_error(daemon, 0, LARDER_EGONE, false, "the job was cancelled");
}

static void say_going(struct fake_daemon *daemon)
{
    fake_serve_some(daemon, EPOCH_BATCHES, most);
    fake_error(daemon, 0, LARDER_EGONE, true, "the daemon is stopping");
    fake_until_closed(daemon);
}

static void say_broken(struct fake_daemon *daemon)
{
    if (fake_wait_credits(daemon, 0, 1))
        fake_error(daemon, 0, LARDER_EINVAL, true, "a client broke the protocol");
}

/* A job that fails, and a daemon that throws the client out, are failures as ever; a daemon that says it is going is
 * waited for. */
static void tells_failures_apart(void **state)
{
    (void)state;
    struct larder_batch *batch = NULL;
    struct larder_options options;
    static const struct {
        fake_script *script;
        int code;
        const char *text;
    } cases[] = {{cancel, LARDER_ECANCELLED, "cancelled"}, {say_broken, LARDER_EINVAL, "broke the protocol"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_init(&fake);
        options = fake_options();
        start(&options, cases[i].script);
        assert_code(larder_start_epoch(loader, 0), 0);
        assert_code(larder_next(loader, -1, &batch), cases[i].code);
        assert_text(larder_last_error(loader), cases[i].text);
        close_both();
    }
    fake_init(&fake);
    options = fake_options();
    most = 4;
    fake_then(&fake, serve);
    start(&options, say_going);
    assert_code(larder_start_epoch(loader, 0), 0);
    take(0, 0, EPOCH_BATCHES);
    assert_int_equal(reconnects(), 1);
    close_both();
}

/* A job that the daemon had named presents that name, and comes without one where the name is taken. A job with a name
 * of its own keeps to it until its place is free. */
static void presents_its_name(void **state)
{
    (void)state;
    for (int named = 0; named < 2; named++) {
        fake_init(&fake);
        struct larder_options options = fake_options();
        options.job = named ? "mine" : NULL;
        most = after = 2;
        start(&options, serve_and_die);
        assert_code(larder_start_epoch(loader, 0), 0);
        take(0, 0, 2);
        fake_leave(&fake);
        fake.refuse = LARDER_EBUSY;
        fake_then(&fake, serve);
        fake_come(&fake, NULL);
        take(0, 2, EPOCH_BATCHES);
        close_both();
        assert_string_equal(fake.refused_name, named ? "mine" : "job-3");
        assert_string_equal(fake.name, named ? "mine" : "");
    }
}

/* Without a free descriptor the program waits as for a daemon, and goes on when there is one. */
static void waits_for_a_descriptor(void **state)
{
    (void)state;
    struct larder_batch *batch = NULL;
    struct rlimit limit;
    fake_init(&fake);
    struct larder_options options = fake_options();
    most = after = 2;
    start(&options, serve_and_die);
    assert_code(larder_start_epoch(loader, 0), 0);
    take(0, 0, 2);
    fake_leave(&fake);
    assert_code(larder_next(loader, 30, &batch), LARDER_ETIMEOUT);
    fake_come(&fake, serve);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit none = {3, limit.rlim_max}; /* which are those of input, output and errors */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int code = larder_next(loader, 300, &batch);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_code(code, LARDER_ETIMEOUT);
    take(0, 2, EPOCH_BATCHES);
    close_both();
}

/* A daemon that promises less than the one before is believed; one that promises more is not. */
static void never_holds_more(void **state)
{
    (void)state;
    static const uint32_t promised[] = {2, 8};
    for (int i = 0; i < 2; i++) {
        struct larder_info info;
        fake_init(&fake);
        struct larder_options options = fake_options();
        most = after = 1;
        start(&options, serve_and_die);
        assert_code(larder_start_epoch(loader, 0), 0);
        take(0, 0, 1);
        fake_leave(&fake);
        fake.held_max = promised[i];
        fake_come(&fake, serve);
        take(0, 1, 2);
        assert_int_equal(larder_info_get(loader, &info), 0);
        assert_int_equal(info.held_max, i ? 4 : 2);
        close_both();
    }
}

/* A rank that came into an epoch's middle without a state does not know what was taken: a daemon's end is its own. In
 * the next epoch it knows. */
static void cannot_present_what_it_does_not_know(void **state)
{
    (void)state;
    struct larder_batch *batch = NULL;
    const void *token = NULL;
    size_t token_bytes = 0;
    for (uint32_t more = 0; more < 2; more++) {
        fake_init(&fake);
        fake.job.epoch = 6;
        fake.job.batch = 20;
        struct larder_options options = fake_options();
        options.prefetch = 1;
        most = after = more ? 5 + 2 : 3;
        start(&options, serve_and_die);
        assert_code(larder_state(loader, 0, &token, &token_bytes), LARDER_EINVAL);
        assert_text(larder_last_error(loader), "20 batches");
        assert_code(larder_start_epoch(loader, 6), 0);
        if (more) {
            take(6, 20, EPOCH_BATCHES);
            take_end();
            assert_code(larder_start_epoch(loader, 7), 0);
            take(7, 0, 2);
            fake_leave(&fake);
            assert_code(larder_state(loader, 0, &token, &token_bytes), 0);
            fake_come(&fake, serve);
            take(7, 2, EPOCH_BATCHES);
        } else {
            take(6, 20, 23);
            fake_leave(&fake);
            assert_code(larder_next(loader, -1, &batch), LARDER_EGONE);
            assert_text(larder_last_error(loader), "in its middle");
        }
        close_both();
    }
}

/* A child that is forked while there is no daemon is refused like any other, and the parent goes on. */
static void survives_fork(void **state)
{
    (void)state;
    struct larder_batch *held = NULL, *batch = NULL;
    int status;
    fake_init(&fake);
    struct larder_options options = fake_options();
    most = 1;
    after = 0;
    start(&options, serve_and_die);
    assert_code(larder_start_epoch(loader, 0), 0);
    assert_code(larder_next(loader, 60000, &held), 0);
    fake_leave(&fake);
    assert_code(larder_next(loader, 0, &batch), LARDER_ETIMEOUT);
    pid_t child = fork();
    if (child == 0) {
        const void *token;
        size_t token_bytes;
        int wrong = larder_fd(loader) != -1 || larder_next(loader, 0, &batch) != LARDER_EPERM ||
                    larder_state(loader, 0, &token, &token_bytes) != LARDER_EPERM ||
                    larder_batch_release(&held) != LARDER_EPERM;
        larder_close(&loader);
        _exit(wrong);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    fake_come(&fake, serve);
    assert_batch(held, 0, 0);
    assert_code(larder_batch_release(&held), 0);
    take(0, 1, EPOCH_BATCHES);
    close_both();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on),
        cmocka_unit_test(presents_what_was_taken),
        cmocka_unit_test(presents_turns),
        cmocka_unit_test(stands_in_the_epoch_before),
        cmocka_unit_test(keeps_held),
        cmocka_unit_test(notices_anywhere),
        cmocka_unit_test(polls_for_the_next),
        cmocka_unit_test(times_out),
        cmocka_unit_test(gives_up),
        cmocka_unit_test(tells_failures_apart),
        cmocka_unit_test(presents_its_name),
        cmocka_unit_test(waits_for_a_descriptor),
        cmocka_unit_test(never_holds_more),
        cmocka_unit_test(cannot_present_what_it_does_not_know),
        cmocka_unit_test(survives_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
