/* test_ranks.c: larder_state in a job of several ranks, where the daemon knows what all of them have taken. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"

#define EPOCH_BATCHES 25u
#define TAKEN 3u

/* What the daemon answers, and how. */
static struct {
    struct record token;
    uint32_t n_bytes_more; /* than the file has */
    int error;
    bool without_file, pipe, late, dies;
} answer;

static uint8_t over[(FAKE_DATASET_SAMPLES + 7) / 8];
static struct wire_state_get asked;  /* the last question; read it after fake_stop */
static uint32_t questions, late_seq; /* late_seq: of a question whose answer is late */

static int token_file(uint32_t *bytes)
{
    static uint8_t buffer[4096];
    size_t len;
    CHECK(record_encode(&answer.token, buffer, sizeof buffer, &len) == 0);
    int fd = memfd_create("fake-token", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, buffer, len) == (ssize_t)len);
    *bytes = (uint32_t)len;
    return fd;
}

static void send_state(struct fake_daemon *daemon, uint32_t seq)
{
    uint32_t bytes;
    int ends[2], fd = token_file(&bytes);
    struct wire_message msg = {.type = WIRE_STATE, .seq = seq, .state = {.n_bytes = bytes + answer.n_bytes_more}};
    CHECK(pipe(ends) == 0);
    fake_send(daemon, &msg, answer.without_file ? -1 : answer.pipe ? ends[0] : fd);
    close(fd);
    close(ends[0]);
    close(ends[1]);
}

/* take_question sends two batches ahead of the answer. */
static void take_question(struct fake_daemon *daemon, const struct wire_message *question, uint32_t *index)
{
    asked = question->state_get;
    questions++;
    for (int i = 0; i < 2 && daemon->credits; i++, daemon->credits--, ++*index)
        fake_batch(daemon, *index + 1, 0, *index, *index * FAKE_BATCH_SIZE, FAKE_BATCH_SIZE, false);
    if (answer.error)
        fake_error(daemon, question->seq, answer.error, false, "rank 2 of 4 has had 2 batches of epoch 0 and not 3");
    else if (answer.late)
        late_seq = question->seq;
    else
        send_state(daemon, question->seq);
    answer.late = false;
}

/* serve_ranks sends TAKEN batches, then only what a question brings. */
static void serve_ranks(struct fake_daemon *daemon)
{
    struct wire_message msg;
    uint32_t index = daemon->job.batch;
    while (fake_receive(daemon, &msg)) {
        for (; index < TAKEN && daemon->credits; index++, daemon->credits--)
            fake_batch(daemon, index + 1, 0, index, index * FAKE_BATCH_SIZE, FAKE_BATCH_SIZE, false);
        if (msg.type == WIRE_RELEASE && late_seq) {
            send_state(daemon, late_seq);
            late_seq = 0;
            answer.token.batches += 2;
        }
        if (msg.type != WIRE_STATE_GET)
            continue;
        if (answer.dies) {
            answer.dies = false;
            return;
        }
        take_question(daemon, &msg, &index);
    }
}

static void open_rank(void)
{
    struct larder_options options = fake_options();
    memset(&answer, 0, sizeof answer);
    memset(over, 0, sizeof over);
    questions = late_seq = 0;
    for (uint32_t i = 0; i < 4 * TAKEN * FAKE_BATCH_SIZE; i++)
        record_set_add(over, 1000 + i);
    answer.token = (struct record){.dataset = {7, 8},
                                   .view = {9, 10},
                                   .batches = TAKEN,
                                   .samples = FAKE_DATASET_SAMPLES,
                                   .over = over,
                                   .over_bytes = sizeof over};
    fake_init(&fake);
    fake_then(&fake, serve_ranks);
    fake_start(&fake, serve_ranks);
    options.socket = fake.path;
    options.job = "four";
    options.world_size = 4;
    options.rank = 1;
    assert_code(larder_open(&options, &loader), 0);
    assert_int_equal(larder_loader_missed(loader), 0);
    assert_code(larder_start_epoch(loader, 0), 0);
    take(0, 0, TAKEN);
}

/* A rank whose first batches another process has had is told how many it misses; a job of one rank misses none. */
static void tells_what_is_missed(void **state)
{
    (void)state;
    for (uint32_t ranks = 1; ranks <= 4; ranks += 3) {
        struct larder_options options = fake_options();
        fake_init(&fake);
        fake.job.batch = 2;
        fake_start(&fake, serve_ranks);
        options.socket = fake.path;
        options.job = "four";
        options.world_size = ranks;
        assert_code(larder_open(&options, &loader), 0);
        assert_int_equal(larder_loader_missed(loader), ranks == 4 ? 2 : 0);
        close_both();
    }
    assert_int_equal(larder_loader_missed(NULL), 0);
}

static int get_state(int64_t timeout_ms, struct record *out)
{
    const void *bytes = NULL;
    size_t len = 0;
    struct error err;
    int rc = larder_state(loader, timeout_ms, &bytes, &len);
    if (rc == 0 && record_decode(bytes, len - 8, out, &err))
        fail_msg("%s", err.text);
    return rc;
}

/* The daemon is asked for what all ranks had taken at this rank's batch, and its answer is the state. Batches that come
 * in between are handed out afterwards in their order, and poll is told of them. */
static void asks_the_daemon(void **state)
{
    (void)state;
    struct record record;
    open_rank();
    assert_code(get_state(4321, &record), 0);
    assert_int_equal(record.batches, TAKEN);
    assert_int_equal(record.over_bytes, sizeof over);
    assert_memory_equal(record.over, over, sizeof over);
    assert_true(readable_within(0));
    take(0, TAKEN, TAKEN + 2);
    assert_false(readable_within(0));
    close_both();
    assert_int_equal(asked.epoch, 0);
    assert_int_equal(asked.batches, TAKEN);
    assert_true(asked.timeout_ms <= 4321 && asked.timeout_ms > 0);
}

/* Before the first batch of an epoch and after its end nobody needs to be asked. */
static void knows_beginnings(void **state)
{
    (void)state;
    struct record record;
    open_rank();
    assert_code(larder_start_epoch(loader, 1), 0);
    assert_code(get_state(0, &record), 0);
    assert_int_equal(record.epoch, 1);
    assert_int_equal(record.batches + record.over_bytes, 0);
    close_both();
    assert_int_equal(questions, 0);
}

/* A rank that lags behind is named, and that is no failure of the job. */
static void names_who_lags_behind(void **state)
{
    (void)state;
    struct record record;
    open_rank();
    answer.error = LARDER_ETIMEOUT;
    assert_code(get_state(10, &record), LARDER_ETIMEOUT);
    assert_text(larder_last_error(loader), "rank 2 of 4");
    answer.error = 0;
    assert_code(get_state(60000, &record), 0);
    take(0, TAKEN, TAKEN + 2);
    close_both();
    assert_int_equal(questions, 2);
}

/* A daemon that goes while it is asked is waited for and asked again. */
static void asks_the_next_daemon(void **state)
{
    (void)state;
    struct record record;
    open_rank();
    answer.dies = true;
    assert_code(get_state(-1, &record), 0);
    assert_int_equal(record.batches, TAKEN);
    close_both();
    assert_int_equal(fake.connections, 2);
    assert_int_equal(fake.record.world_size, 4);
    assert_int_equal(fake.record.rank, 1);
    assert_int_equal(fake.record.n_batches, TAKEN);
    assert_true(asked.timeout_ms == UINT32_MAX);
}

static void cannot_be(const char *part)
{
    struct record record;
    struct larder_batch *batch = NULL;
    assert_code(get_state(60000, &record), LARDER_EFORMAT);
    assert_text(larder_last_error(loader), part);
    assert_text(larder_last_error(loader), fake.path);
    take(0, TAKEN, TAKEN + 2); /* the epoch is not disturbed */
    assert_code(larder_next(loader, 0, &batch), LARDER_ETIMEOUT);
    close_both();
}

/* Tokens of another dataset, subset, epoch or batch, with a rank's history, longer than their file or without one are
 * refused. */
static void refuses_hostile_tokens(void **state)
{
    (void)state;
    open_rank();
    answer.token.dataset[0]++;
    cannot_be("not of this job's batch 3 of epoch 0");
    open_rank();
    answer.token.view[0]++;
    cannot_be("not of this job");
    open_rank();
    answer.token.epoch++;
    cannot_be("not of this job");
    open_rank();
    answer.token.batches++;
    cannot_be("not of this job");
    open_rank();
    answer.token.world_size = 4;
    cannot_be("history");
    open_rank();
    answer.token.samples -= 8;
    answer.token.over_bytes -= 1;
    cannot_be("not of this job");
    open_rank();
    answer.without_file = true;
    cannot_be("descriptor");
    open_rank();
    answer.pipe = true;
    cannot_be("descriptor");
    open_rank();
    answer.n_bytes_more = 1;
    cannot_be("descriptor");
}

/* A question whose answer did not come in time is given up. When that answer comes it is not taken for another's. */
static void drops_late_answers(void **state)
{
    (void)state;
    struct record record;
    struct larder_batch *batch = NULL;
    open_rank();
    answer.late = true;
    assert_code(get_state(1, &record), LARDER_ETIMEOUT);
    take(0, TAKEN, TAKEN + 2); /* the answer comes with the first release */
    assert_code(larder_next(loader, 0, &batch), LARDER_ETIMEOUT);
    assert_code(get_state(60000, &record), 0);
    assert_int_equal(record.batches, TAKEN + 2);
    close_both();
    assert_int_equal(questions, 2);
}

/* ── ranks that are done ── */

static uint32_t before, done_epoch; /* batches before DONE comes, and whose epoch it says */

static void send_done(struct fake_daemon *daemon, uint32_t rank)
{
    uint8_t bytes[RECORD_HISTORY_BYTES + RECORD_BATCH_BYTES + 2 * RECORD_TURN_BYTES];
    const uint32_t numbers[] = {4, rank, 1, 2, 0, 2, rank, rank + 1};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        put_u32(bytes + i * 4, numbers[i]);
    struct wire_message msg = {.type = WIRE_DONE, .done = {done_epoch, rank, sizeof bytes}};
    int fd = memfd_create("fake-done", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, bytes, sizeof bytes) == (ssize_t)sizeof bytes);
    fake_send(daemon, &msg, fd);
    close(fd);
}

static void serve_done(struct fake_daemon *daemon)
{
    fake_serve_some(daemon, EPOCH_BATCHES, before);
    send_done(daemon, 2);
    send_done(daemon, 3);
    send_done(daemon, 2); /* a rank that comes back is told again */
    fake_until_told(daemon);
}

static void serve_all(struct fake_daemon *daemon)
{
    fake_serve(daemon, EPOCH_BATCHES);
}

/* What ranks that are done have had is presented behind what this one has taken, once each, though the program has not
 * called since it came; when they are done with an epoch of which nothing was taken, all have begun that. */
static void presents_ranks_that_are_done(void **state)
{
    (void)state;
    static const struct {
        uint32_t taken, epoch, n_batches;
    } cases[] = {{3, 0, 3}, {EPOCH_BATCHES, 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct larder_options options = fake_options();
        struct record one;
        size_t at = 0;
        before = cases[i].taken;
        done_epoch = cases[i].epoch;
        fake_init(&fake);
        fake_start(&fake, serve_done);
        options.socket = fake.path;
        options.job = "four";
        options.world_size = 4;
        options.rank = 1;
        options.prefetch = 1;
        assert_code(larder_open(&options, &loader), 0);
        assert_code(larder_start_epoch(loader, 0), 0);
        take(0, 0, cases[i].taken);
        fake_leave(&fake);
        fake_come(&fake, serve_all);
        if (cases[i].epoch)
            assert_code(larder_start_epoch(loader, 1), 0);
        take(cases[i].epoch, cases[i].n_batches, EPOCH_BATCHES);
        close_both();
        assert_true(fake.reg.flags & WIRE_HEARS_DONE);
        assert_int_equal(fake.record.epoch, cases[i].epoch);
        assert_int_equal(fake.record.n_batches, cases[i].n_batches);
        for (uint32_t rank = 2; rank < 4; rank++) {
            assert_true(record_done_next(&fake.record, &at, &one));
            assert_int_equal(one.rank, rank);
            assert_int_equal(record_turn(&one, 1), rank + 1);
        }
        assert_false(record_done_next(&fake.record, &at, &one));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asks_the_daemon),        cmocka_unit_test(tells_what_is_missed),
        cmocka_unit_test(knows_beginnings),       cmocka_unit_test(names_who_lags_behind),
        cmocka_unit_test(asks_the_next_daemon),   cmocka_unit_test(presents_ranks_that_are_done),
        cmocka_unit_test(refuses_hostile_tokens), cmocka_unit_test(drops_late_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
