/* test_hostile_again.c: the daemon that comes after another one lies, breaks the protocol, or is one for other data.
 * The loader fails with a code and a text that names the socket, and what it was given before stays sound. */
#include "common/random.h"
#include "program.h"

#define EPOCH_BATCHES 25u

static void serve_one(struct fake_daemon *daemon)
{
    fake_serve_some(daemon, EPOCH_BATCHES, 1);
    fake_until_told(daemon);
}

static void release_one(struct fake_daemon *daemon)
{
    fake_serve_some(daemon, EPOCH_BATCHES, 1);
    fake_wait_released(daemon, 1);
}

/* ── what REGISTERED says ────────────────────────────────────────────────────────────────────────────────────────── */

static void other_dataset(struct wire_registered *job)
{
    job->fingerprint[1]++;
}

static void other_version(struct wire_registered *job)
{
    job->version.content[1]++;
}

static void more_samples(struct wire_registered *job)
{
    job->dataset_samples++;
}

static void other_view(struct wire_registered *job)
{
    job->view[0]++;
}

static void smaller_view(struct wire_registered *job)
{
    job->n_samples--;
}

static void other_classes(struct wire_registered *job)
{
    job->n_classes++;
}

static void other_shape(struct wire_registered *job)
{
    job->layout = fake_layout(3, 2, 3);
    job->sample_bytes = 18;
}

static void other_type(struct wire_registered *job)
{
    job->layout.fields[0].dtype = PIXEL_FLOAT16;
    job->layout.bytes = job->sample_bytes = 24;
}

static void other_layout(struct wire_registered *job)
{
    job->layout.fields[0].kind = FIELD_IMAGE_CHW;
}

static void too_many(struct wire_registered *job)
{
    job->n_samples = job->dataset_samples + 1;
}

static void begins_anew(struct wire_registered *job)
{
    fake.ignores_record = true;
    job->batch = 0;
}

static void next_epoch(struct wire_registered *job)
{
    fake.ignores_record = true;
    job->epoch = 1;
    job->batch = 1;
}

/* ── what comes instead of WELCOME or REGISTERED ─────────────────────────────────────────────────────────────────── */

static void garbage(struct fake_daemon *daemon)
{
    fake_send_bytes(daemon, "garbage in a datagram", 21, -1, 0);
    fake_until_closed(daemon);
}

static void answer_hello(struct fake_daemon *daemon, int fd, uint32_t seq_more)
{
    struct wire_message msg;
    if (!fake_receive(daemon, &msg))
        return;
    struct wire_message answer = {.type = WIRE_WELCOME, .seq = msg.seq + seq_more};
    answer.welcome = (struct wire_welcome){.arena_bytes = FAKE_ARENA_BYTES, .batch_max = 64};
    fake_send(daemon, &answer, fd);
    fake_until_closed(daemon);
}

static void no_arena(struct fake_daemon *daemon)
{
    answer_hello(daemon, -1, 0);
}

static void other_answer(struct fake_daemon *daemon)
{
    answer_hello(daemon, daemon->arena_fd, 1);
}

static void silent(struct fake_daemon *daemon)
{
    fake_until_closed(daemon);
}

static void garbage_later(struct fake_daemon *daemon)
{
    struct wire_message msg;
    if (!fake_receive(daemon, &msg))
        return;
    struct wire_message answer = {.type = WIRE_WELCOME, .seq = msg.seq};
    answer.welcome = (struct wire_welcome){.arena_bytes = FAKE_ARENA_BYTES, .batch_max = 64};
    fake_send(daemon, &answer, daemon->arena_fd);
    if (fake_receive(daemon, &msg))
        garbage(daemon);
}

static void small_batches(struct fake_daemon *daemon)
{
    struct wire_message msg;
    if (!fake_receive(daemon, &msg))
        return;
    struct wire_message answer = {.type = WIRE_WELCOME, .seq = msg.seq};
    answer.welcome = (struct wire_welcome){.arena_bytes = FAKE_ARENA_BYTES, .batch_max = FAKE_BATCH_SIZE - 1};
    fake_send(daemon, &answer, daemon->arena_fd);
    fake_until_closed(daemon);
}

/* ── what comes as a batch ───────────────────────────────────────────────────────────────────────────────────────── */

static void repeats(struct fake_daemon *daemon)
{
    if (fake_wait_credits(daemon, 0, 1))
        fake_batch(daemon, 1, 0, 1, 0, FAKE_BATCH_SIZE, false); /* the first one's samples */
    fake_until_closed(daemon);
}

static void skips(struct fake_daemon *daemon)
{
    if (fake_wait_credits(daemon, 0, 1))
        fake_batch(daemon, 1, 0, 2, 8, FAKE_BATCH_SIZE, false);
    fake_until_closed(daemon);
}

static void unsteady_turns(struct fake_daemon *daemon)
{
    uint8_t turns[WIRE_TURN_BYTES];
    wire_turn_put(turns, 0, &(struct wire_turn){.position = FAKE_BATCH_SIZE, .index = 7});
    struct wire_message msg = {.type = WIRE_TURNS, .turns = {.batch = 1, .count = 1, .turns = turns}};
    if (fake_wait_credits(daemon, 0, 1)) {
        fake_send(daemon, &msg, -1);
        fake_batch(daemon, 1, 0, 1, 4, FAKE_BATCH_SIZE, false);
    }
    fake_until_closed(daemon);
}

static void strange_turns(struct fake_daemon *daemon)
{
    uint8_t turns[WIRE_TURN_BYTES];
    wire_turn_put(turns, 0, &(struct wire_turn){.position = 0, .index = FAKE_DATASET_SAMPLES});
    struct wire_message msg = {.type = WIRE_TURNS, .turns = {.batch = 1, .count = 1, .turns = turns}};
    if (fake_wait_credits(daemon, 0, 1)) {
        fake_send(daemon, &msg, -1);
        fake_batch(daemon, 1, 0, 1, 4, FAKE_BATCH_SIZE, false);
    }
    fake_until_closed(daemon);
}

static void foreign_turns(struct fake_daemon *daemon)
{
    uint8_t turns[WIRE_TURN_BYTES];
    wire_turn_put(turns, 0, &(struct wire_turn){.position = 0, .index = 7});
    struct wire_message msg = {.type = WIRE_TURNS, .turns = {.batch = 2, .count = 1, .turns = turns}};
    if (fake_wait_credits(daemon, 0, 1)) {
        fake_send(daemon, &msg, -1);
        fake_batch(daemon, 1, 0, 1, 4, FAKE_BATCH_SIZE, false);
    }
    fake_until_closed(daemon);
}

static void unasked_state(struct fake_daemon *daemon)
{
    fake_send(daemon, &(struct wire_message){.type = WIRE_STATE, .seq = 1, .state = {.n_bytes = 1}}, daemon->arena_fd);
    fake_until_closed(daemon);
}

/* ── the tests ───────────────────────────────────────────────────────────────────────────────────────────────────── */

struct hostile {
    void (*registered)(struct wire_registered *job);
    fake_script *opening, *script;
    int refuse, code;
    const char *part;
    bool unsealed;
};

static void meets(const struct hostile *hostile)
{
    struct larder_batch *held = NULL, *batch = NULL;
    size_t fds = fake_count_fds();
    fake_init(&fake);
    fake_start(&fake, serve_one);
    struct larder_options options = fake_options();
    options.prefetch = 1;
    options.reconnect_ms = hostile->opening == silent ? 100 : 60000;
    assert_code(larder_open(&options, &loader), 0);
    assert_code(larder_start_epoch(loader, 0), 0);
    assert_code(larder_next(loader, 60000, &held), 0);
    fake_leave(&fake);
    fake.opening_only = hostile->opening;
    fake.refuse = hostile->refuse;
    fake.unsealed = hostile->unsealed;
    if (hostile->registered)
        hostile->registered(&fake.job);
    fake_come(&fake, hostile->opening ? hostile->opening : hostile->script);
    assert_code(larder_next(loader, -1, &batch), hostile->code);
    assert_text(larder_last_error(loader), hostile->part);
    assert_text(larder_last_error(loader), fake.path);
    assert_int_equal(larder_fd(loader), -1);
    assert_code(larder_next(loader, -1, &batch), hostile->code);
    assert_text(larder_last_error(loader), hostile->part);
    assert_batch(held, 0, 0);
    assert_code(larder_batch_release(&held), 0);
    close_both();
    assert_int_equal(fake_count_fds(), fds);
}

/* Another dataset, subset or shape, or another place in the epoch, is a failure that says so. */
static void refuses_other_jobs(void **state)
{
    (void)state;
    static const struct hostile cases[] = {
        {.registered = other_dataset, .code = LARDER_ECHANGED, .part = "another dataset"},
        {.registered = more_samples, .code = LARDER_ECHANGED, .part = "another dataset"},
        {.registered = other_version, .code = LARDER_ECHANGED, .part = "and were rewritten"},
        {.registered = other_view, .code = LARDER_ECHANGED, .part = "another subset"},
        {.registered = smaller_view, .code = LARDER_ECHANGED, .part = "another subset"},
        {.registered = other_classes, .code = LARDER_ECHANGED, .part = "6 classes"},
        {.registered = other_shape, .code = LARDER_ECHANGED, .part = "other samples: image uint8 HWC of 3x2x3"},
        {.registered = other_type, .code = LARDER_ECHANGED, .part = "other samples"},
        {.registered = other_layout, .code = LARDER_ECHANGED, .part = "other samples"},
        {.registered = too_many, .code = LARDER_EFORMAT, .part = "cannot be"},
        {.registered = begins_anew, .code = LARDER_EFORMAT, .part = "batch 0 of epoch 0, and 1 of epoch 0 is due"},
        {.registered = next_epoch, .code = LARDER_EFORMAT, .part = "batch 1 of epoch 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        meets(&cases[i]);
}

/* A daemon that breaks the protocol, says nothing or refuses ends the wait, with its own text where it has one. */
static void refuses_hostile_daemons(void **state)
{
    (void)state;
    static const struct hostile cases[] = {
        {.opening = garbage, .code = LARDER_EFORMAT, .part = "magic"},
        {.opening = garbage_later, .code = LARDER_EFORMAT, .part = "magic"},
        {.opening = no_arena, .code = LARDER_EFORMAT, .part = "passed no memory"},
        {.opening = other_answer, .code = LARDER_EFORMAT, .part = "where type 2 was due"},
        {.opening = silent, .code = LARDER_ETIMEOUT, .part = "within 100 ms"},
        {.opening = small_batches, .code = LARDER_ELIMIT, .part = "allows 3"},
        {.unsealed = true, .code = LARDER_EFORMAT, .part = "sealed"},
        {.refuse = LARDER_ECHANGED, .code = LARDER_ECHANGED, .part = "it is refused"},
        {.refuse = LARDER_ENOENT, .code = LARDER_ENOENT, .part = "it is refused"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        meets(&cases[i]);
}

/* Batches and turns that do not belong to the rest of the epoch are refused: nothing comes twice or is left out without
 * a word. */
static void refuses_what_is_not_the_rest(void **state)
{
    (void)state;
    static const struct hostile cases[] = {
        {.script = skips, .code = LARDER_EFORMAT, .part = "batch 2 of epoch 0 where batch 1 was due"},
        {.script = unsteady_turns, .code = LARDER_EFORMAT, .part = "turns that do not fit batch 1"},
        {.script = foreign_turns, .code = LARDER_EFORMAT, .part = "turns that do not fit batch 1"},
        {.script = unasked_state, .code = LARDER_EFORMAT, .part = "descriptors"},
        {.script = repeats, .code = LARDER_EFORMAT, .part = "sample 1000 came a second time"},
        {.script = strange_turns, .code = LARDER_EFORMAT, .part = "that the dataset does not have"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        meets(&cases[i]);
}

/* Daemons that register the job and go, again and again, are not tried for ever. */
static void gives_up_on_daemons_that_never_send(void **state)
{
    (void)state;
    struct larder_batch *batch = NULL;
    fake_init(&fake);
    for (int i = 0; i < 100; i++)
        fake_then(&fake, NULL);
    fake_start(&fake, release_one);
    struct larder_options options = fake_options();
    assert_code(larder_open(&options, &loader), 0);
    assert_code(larder_start_epoch(loader, 0), 0);
    take_one(0, 0);
    assert_code(larder_next(loader, -1, &batch), LARDER_EGONE);
    assert_text(larder_last_error(loader), "went 32 times");
    close_both();
}

/* ── anything ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static uint64_t seed;

/* send_mutated changes some bytes of a message behind its header, or of all of it. */
static void send_mutated(struct fake_daemon *daemon, struct rng *rng, const struct wire_message *msg, int fd)
{
    uint8_t bytes[512];
    size_t len = 0;
    CHECK(wire_encode(msg, bytes, sizeof bytes, &len) == 0);
    size_t first = random_below(rng, 4) ? WIRE_HEADER_BYTES : 0;
    for (uint64_t n = random_below(rng, 3); n > 0; n--)
        bytes[first + random_below(rng, len - first)] = (uint8_t)random_u64(rng);
    fake_send_bytes(daemon, bytes, len, fd, 1);
}

static void mutated(struct fake_daemon *daemon)
{
    struct wire_message msg;
    struct rng rng;
    random_seed_keys(&rng, seed, 3, 0, 0);
    if (!fake_receive(daemon, &msg))
        return;
    struct wire_message answer = {.type = WIRE_WELCOME, .seq = msg.seq};
    answer.welcome = (struct wire_welcome){.arena_bytes = FAKE_ARENA_BYTES, .batch_max = 64};
    send_mutated(daemon, &rng, &answer, daemon->arena_fd);
    if (!fake_receive(daemon, &msg))
        return;
    answer = (struct wire_message){.type = WIRE_REGISTERED, .seq = msg.seq, .registered = daemon->job};
    answer.registered.held_max = daemon->held_max;
    answer.registered.batch = 1;
    send_mutated(daemon, &rng, &answer, -1);
    fake_serve_some(daemon, EPOCH_BATCHES, 2);
}

/* Whatever the answers to a client that comes again are, it goes on or fails, and reads nothing that is not there. */
static void survives_mutated_answers(void **state)
{
    (void)state;
    const char *given = getenv("LARDER_SEED");
    uint64_t first = given ? strtoull(given, NULL, 0) : 1, went_on = 0;
    print_message("seed %llu\n", (unsigned long long)first);
    for (seed = first * 1000; seed < first * 1000 + 300; seed++) {
        struct larder_batch *batch = NULL;
        fake_init(&fake);
        fake_start(&fake, serve_one);
        struct larder_options options = fake_options();
        options.prefetch = 1;
        options.reconnect_ms = 20;
        options.open_timeout_ms = 500;
        assert_code(larder_open(&options, &loader), 0);
        assert_code(larder_start_epoch(loader, 0), 0);
        take_one(0, 0);
        fake_leave(&fake);
        fake.opening_only = true;
        fake.job.batch = 1;
        fake_come(&fake, mutated);
        int rc = larder_next(loader, 300, &batch);
        went_on += rc == 0;
        if (rc == 0)
            larder_batch_release(&batch);
        else if (rc != LARDER_EFORMAT && rc != LARDER_EVERSION && rc != LARDER_ECHANGED && rc != LARDER_EGONE &&
                 rc != LARDER_ETIMEOUT && rc != LARDER_ELIMIT && rc != LARDER_EQUOTA)
            fail_msg("seed %llu: %d: %s", (unsigned long long)seed, rc, larder_last_error(loader));
        close_both();
    }
    print_message("%llu of 300 went on\n", (unsigned long long)went_on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_other_jobs),           cmocka_unit_test(refuses_hostile_daemons),
        cmocka_unit_test(refuses_what_is_not_the_rest), cmocka_unit_test(gives_up_on_daemons_that_never_send),
        cmocka_unit_test(survives_mutated_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
