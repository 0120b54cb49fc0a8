/* test_state.c: what larder_state returns, and how a job goes on from it. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/random.h"
#include "program.h"

#define EPOCH_BATCHES 25u
#define STATE_MAX 4096u

struct state {
    uint8_t bytes[STATE_MAX];
    size_t len;
    struct record record; /* borrows from bytes */
};

static void serve(struct fake_daemon *daemon)
{
    fake_serve(daemon, EPOCH_BATCHES);
}

static void start(struct larder_options *options)
{
    fake_init(&fake);
    fake_start(&fake, serve);
    options->socket = fake.path;
    assert_code(larder_open(options, &loader), 0);
}

static void read_state(struct state *state)
{
    struct error err;
    size_t token = state->len - 8;
    assert_true(XXH64(state->bytes, token, 0) == get_u64(state->bytes + token));
    if (record_decode(state->bytes, token, &state->record, &err))
        fail_msg("%s", err.text);
    assert_int_equal(state->record.world_size, 0);
}

static void save(struct state *state)
{
    const void *bytes = NULL;
    assert_code(larder_state(loader, 0, &bytes, &state->len), 0);
    assert_true(state->len <= sizeof state->bytes);
    memcpy(state->bytes, bytes, state->len);
    read_state(state);
}

/* seal makes a state of a record. */
static void seal(struct state *state, const struct record *record)
{
    size_t len;
    assert_int_equal(record_encode(record, state->bytes, sizeof state->bytes - 8, &len), 0);
    put_u64(state->bytes + len, XXH64(state->bytes, len, 0));
    state->len = len + 8;
    read_state(state);
}

static void assert_beginning(const struct state *state, uint32_t epoch)
{
    assert_int_equal(state->record.epoch, epoch);
    assert_int_equal(state->record.batches + state->record.over_bytes + state->record.n_segments, 0);
}

/* assert_taken: the state is after so many batches of the epoch, as the fake daemon sends them. */
static void assert_taken(const struct state *state, uint32_t epoch, uint32_t n_batches)
{
    const struct record *record = &state->record;
    assert_int_equal(record->epoch, epoch);
    assert_int_equal(record->batches, n_batches);
    if (record->shuffle != SHUFFLE_DEPENDENT) {
        assert_int_equal(record->n_segments, 1);
        assert_int_equal(record->segments[0].world_size, 1);
        assert_int_equal(record_through(&record->segments[0], 0), n_batches * FAKE_BATCH_SIZE);
        return;
    }
    for (uint32_t i = 0; i < record->samples; i++)
        assert_int_equal(record_turn_over(record, i), i >= 1000 && i < 1000 + n_batches * FAKE_BATCH_SIZE);
}

/* After the last epoch that a job without an end may have, the state says so, and nothing more can be started: neither
 * here nor by who goes on from it. */
static void ends_with_the_last_number(void **unused)
{
    (void)unused;
    struct state state;
    struct larder_options options = fake_options();
    start(&options);
    assert_code(larder_start_epoch(loader, UINT32_MAX - 1), 0);
    for (uint32_t i = 0; i < EPOCH_BATCHES; i++)
        take_one(UINT32_MAX - 1, i);
    take_end();
    save(&state);
    assert_beginning(&state, UINT32_MAX);
    assert_code(larder_start_epoch(loader, UINT32_MAX), LARDER_EEND);
    close_both();
    options.state = state.bytes;
    options.state_bytes = state.len;
    start(&options);
    assert_code(larder_start_epoch(loader, UINT32_MAX), LARDER_EEND);
    close_both();
}

/* The state says where the loop stands: before the first epoch, in its middle, after its last batch, after its end, and
 * at the beginning of the next. It needs no daemon, costs the epoch nothing, and does not ask whether batches were
 * released. */
static void tells_where_the_loop_stands(void **unused)
{
    (void)unused;
    for (uint32_t shuffle = LARDER_SHUFFLE_DEPENDENT; shuffle <= LARDER_SHUFFLE_NONE; shuffle++) {
        struct state state;
        struct larder_batch *held = NULL;
        struct larder_options options = fake_options();
        options.shuffle = shuffle;
        start(&options);
        save(&state);
        assert_beginning(&state, 0);
        assert_code(larder_start_epoch(loader, 2), 0);
        save(&state);
        assert_beginning(&state, 2);
        assert_code(larder_next(loader, 60000, &held), 0);
        save(&state);
        assert_taken(&state, 2, 1);
        for (uint32_t i = 1; i < EPOCH_BATCHES; i++) {
            take_one(2, i);
            save(&state);
            assert_taken(&state, 2, i + 1);
        }
        take_end();
        save(&state);
        assert_beginning(&state, 3);
        assert_code(larder_start_epoch(loader, 5), 0);
        save(&state);
        assert_beginning(&state, 5);
        take(5, 0, 3);
        save(&state);
        assert_taken(&state, 5, 3);
        assert_code(larder_start_epoch(loader, 7), 0); /* and leave epoch 5 */
        save(&state);
        assert_beginning(&state, 7);
        assert_code(larder_batch_release(&held), 0);
        close_both();
    }
}

/* From a state taken after any batch a new loader goes on with the rest of its epoch; its own state counts on. */
static void goes_on_from_a_state(void **unused)
{
    (void)unused;
    for (uint32_t shuffle = LARDER_SHUFFLE_DEPENDENT; shuffle <= LARDER_SHUFFLE_NONE; shuffle++) {
        for (uint32_t at = 0; at <= EPOCH_BATCHES; at += 5) {
            struct state state;
            struct larder_info info;
            struct larder_options options = fake_options();
            options.shuffle = shuffle;
            start(&options);
            assert_code(larder_start_epoch(loader, 4), 0);
            take(4, 0, at);
            save(&state);
            close_both();

            uint8_t *given = malloc(state.len);
            memcpy(given, state.bytes, state.len);
            options.state = given;
            options.state_bytes = state.len;
            start(&options);
            free(given); /* it was borrowed until larder_open returned */
            assert_int_equal(larder_info_get(loader, &info), 0);
            assert_int_equal(info.epoch, 4);
            assert_int_equal(info.batch, at);
            struct state again;
            save(&again);
            assert_int_equal(again.len, state.len);
            assert_memory_equal(again.bytes, state.bytes, state.len);
            assert_code(larder_start_epoch(loader, 3), LARDER_EINVAL);
            assert_text(larder_last_error(loader), "start with epoch 4");
            assert_code(larder_start_epoch(loader, 4), 0);
            take(4, at, EPOCH_BATCHES);
            save(&state);
            assert_taken(&state, 4, EPOCH_BATCHES);
            take_end();
            assert_code(larder_start_epoch(loader, 5), 0);
            take(5, 0, 2);
            save(&state);
            assert_taken(&state, 5, 2);
            close_both();
        }
    }
}

static void serve_two_and_die(struct fake_daemon *daemon)
{
    fake_serve_some(daemon, EPOCH_BATCHES, 2);
    fake_wait_released(daemon, 2);
    fake_until_told(daemon);
}

/* A job that goes on from a state and then outlives daemons presents the state as its base, and what it has taken
 * since. */
static void presents_the_state_as_its_base(void **unused)
{
    (void)unused;
    struct state state;
    struct larder_options options = fake_options();
    start(&options);
    assert_code(larder_start_epoch(loader, 0), 0);
    take(0, 0, 6);
    save(&state);
    close_both();
    options.state = state.bytes;
    options.state_bytes = state.len;
    fake_init(&fake);
    fake_start(&fake, serve_two_and_die);
    options.socket = fake.path;
    assert_code(larder_open(&options, &loader), 0);
    assert_code(larder_start_epoch(loader, 0), 0);
    take(0, 6, 8);
    fake_leave(&fake);
    fake_come(&fake, serve);
    take(0, 8, EPOCH_BATCHES);
    close_both();
    assert_int_equal(fake.record.batches, 6);
    assert_int_equal(fake.record.n_batches, 2);
    assert_int_equal(fake.record.n_turns, 2 * FAKE_BATCH_SIZE);
    assert_int_equal(record_turn(&fake.record, 0), 1000 + 6 * FAKE_BATCH_SIZE);
    for (uint32_t i = 0; i < fake.record.samples; i++)
        assert_int_equal(record_turn_over(&fake.record, i), record_turn_over(&state.record, i));
}

/* Segments of other world sizes stay, and a job of one rank adds its own behind them, or goes on in it. */
static void keeps_segments(void **unused)
{
    (void)unused;
    uint8_t throughs[8], one[4];
    put_u32(put_u32(throughs, 10), 11);
    put_u32(one, 5);
    for (int own = 0; own < 2; own++) {
        struct state state;
        struct larder_options options = fake_options();
        options.shuffle = LARDER_SHUFFLE_STRICT;
        struct record record = {.dataset = {7, 8},
                                .view = {9, 10},
                                .shuffle = SHUFFLE_STRICT,
                                .batches = own ? 6 : 4,
                                .samples = FAKE_DATASET_SAMPLES};
        assert_int_equal(record_add_segment(&record, 2, 2, throughs), 0);
        if (own)
            assert_int_equal(record_add_segment(&record, 1, 1, one), 0);
        seal(&state, &record);
        options.state = state.bytes;
        options.state_bytes = state.len;
        start(&options);
        assert_code(larder_start_epoch(loader, 0), 0);
        take(0, record.batches, 8);
        save(&state);
        close_both();
        assert_int_equal(state.record.batches, 8);
        assert_int_equal(state.record.n_segments, 2);
        assert_int_equal(record_through(&state.record.segments[0], 1), 11);
        assert_int_equal(record_through(&state.record.segments[1], 0), 8 * FAKE_BATCH_SIZE);
    }
}

static void refused(const struct state *state, struct larder_options options, int code, const char *part)
{
    options.state = state->bytes;
    options.state_bytes = state->len;
    fake_init(&fake);
    fake_start(&fake, NULL);
    options.socket = fake.path;
    int rc = larder_open(&options, &loader);
    if (rc != code)
        fail_msg("%d, not %d: %s", rc, code, larder_last_error(NULL));
    assert_text(larder_last_error(NULL), part);
    fake_stop(&fake);
}

/* States that do not fit are refused, and the text says why. */
static void refuses_what_does_not_fit(void **unused)
{
    (void)unused;
    struct state state, odd;
    struct larder_options options = fake_options(), none;
    options.shuffle = LARDER_SHUFFLE_STRICT;
    options.seed = 3;
    start(&options);
    assert_code(larder_start_epoch(loader, 0), 0);
    take(0, 0, 6);
    save(&state);
    close_both();
    refused(&state, fake_options(), LARDER_EINVAL, "shuffle 1");
    none = options;
    none.seed = 4;
    refused(&state, none, LARDER_EINVAL, "the state is of seed 3");

    struct record record = state.record;
    record.dataset[0]++;
    seal(&odd, &record);
    refused(&odd, options, LARDER_ECHANGED, "another dataset");
    record = state.record;
    record.samples++;
    seal(&odd, &record);
    refused(&odd, options, LARDER_ECHANGED, "another dataset");
    record = state.record;
    assert_int_equal(record.version.times[0], 11); /* what the daemon said */
    record.version.content[0]++;
    seal(&odd, &record);
    refused(&odd, options, LARDER_ECHANGED, "another version of the dataset");
    record = state.record;
    record.view[1]++;
    seal(&odd, &record);
    refused(&odd, options, LARDER_ECHANGED, "another subset");

    odd = state;
    odd.len--;
    refused(&odd, options, LARDER_EFORMAT, "damaged");
    odd.len = 0;
    refused(&odd, options, LARDER_EFORMAT, "0 bytes");
    odd = state;
    odd.bytes[4] = RECORD_VERSION + 1;
    put_u64(odd.bytes + odd.len - 8, XXH64(odd.bytes, odd.len - 8, 0));
    refused(&odd, options, LARDER_EVERSION, "format version 5");

    record = state.record;
    record.world_size = 1; /* an empty history, but one */
    size_t len;
    assert_int_equal(record_encode(&record, odd.bytes, sizeof odd.bytes, &len), 0);
    put_u64(odd.bytes + len, XXH64(odd.bytes, len, 0));
    odd.len = len + 8;
    refused(&odd, options, LARDER_EFORMAT, "history");

    none = options;
    none.state_bytes = 9;
    none.state = NULL;
    none.socket = "/nonexistent/larder.sock";
    assert_int_equal(larder_open(&none, &loader), LARDER_EINVAL);
    assert_text(larder_last_error(NULL), "state_bytes");
}

/* A daemon that does not go on where the state does is refused: nothing is lost or comes twice without a word. */
static void refuses_a_daemon_that_begins_elsewhere(void **unused)
{
    (void)unused;
    struct state state;
    struct larder_options options = fake_options();
    start(&options);
    assert_code(larder_start_epoch(loader, 1), 0);
    take(1, 0, 2);
    save(&state);
    close_both();
    options.state = state.bytes;
    options.state_bytes = state.len;
    fake_init(&fake);
    fake.ignores_record = true;
    fake_start(&fake, NULL);
    options.socket = fake.path;
    assert_int_equal(larder_open(&options, &loader), LARDER_EFORMAT);
    assert_text(larder_last_error(NULL), "goes on at batch 0 of epoch 0, and the state at batch 2 of epoch 1");
    fake_stop(&fake);
}

/* mutate changes, drops or adds some bytes. */
static void mutate(struct rng *rng, struct state *state)
{
    for (uint64_t n = 1 + random_below(rng, 4); n > 0; n--) {
        uint64_t what = random_below(rng, 8);
        if (what == 0)
            state->len = random_below(rng, state->len + 1);
        else if (what == 1 && state->len + 16 < sizeof state->bytes)
            state->len += random_below(rng, 16);
        else if (state->len)
            state->bytes[random_below(rng, state->len)] = (uint8_t)random_u64(rng);
        if (state->len == 0)
            return;
    }
}

/* Whatever a state's bytes are, larder_open says what is wrong with it or takes it, and nothing else happens. Half of
 * them have the check that belongs to their bytes. None of the others is taken. */
static void survives_mutated_states(void **unused)
{
    (void)unused;
    static struct state states[3];
    const char *given = getenv("LARDER_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 1, taken = 0;
    print_message("seed %llu\n", (unsigned long long)seed);
    struct larder_options options;
    for (uint32_t shuffle = LARDER_SHUFFLE_DEPENDENT; shuffle <= LARDER_SHUFFLE_NONE; shuffle++) {
        options = fake_options();
        options.shuffle = shuffle;
        start(&options);
        assert_code(larder_start_epoch(loader, 1), 0);
        take(1, 0, 6);
        save(&states[shuffle]);
        close_both();
    }
    struct rng rng;
    random_seed_keys(&rng, seed, 2, 0, 0);
    for (int i = 0; i < 10000; i++) {
        options = fake_options();
        options.shuffle = (uint32_t)random_below(&rng, 3);
        struct state state = states[options.shuffle];
        mutate(&rng, &state);
        bool sealed = i % 2 && state.len >= 8;
        if (sealed)
            put_u64(state.bytes + state.len - 8, XXH64(state.bytes, state.len - 8, 0));
        bool same = state.len == states[options.shuffle].len &&
                    memcmp(state.bytes, states[options.shuffle].bytes, state.len) == 0;
        uint8_t *exact = malloc(state.len ? state.len : 1); /* a byte read behind it is seen */
        memcpy(exact, state.bytes, state.len);
        options.state = exact;
        options.state_bytes = state.len;
        options.socket = "/nonexistent/larder.sock";
        int rc = larder_open(&options, &loader);
        free(exact);
        bool refused = rc == LARDER_EFORMAT || (sealed && (rc == LARDER_EVERSION || rc == LARDER_EINVAL));
        if (!refused && !(rc == LARDER_EGONE && (sealed || same))) /* taken: then the daemon was looked for */
            fail_msg("case %d: %d: %s", i, rc, larder_last_error(NULL));
        taken += rc == LARDER_EGONE;
        assert_true(*larder_last_error(NULL));
    }
    print_message("%llu of 10000 were of the right form\n", (unsigned long long)taken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_with_the_last_number),
        cmocka_unit_test(tells_where_the_loop_stands),
        cmocka_unit_test(goes_on_from_a_state),
        cmocka_unit_test(presents_the_state_as_its_base),
        cmocka_unit_test(keeps_segments),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(refuses_a_daemon_that_begins_elsewhere),
        cmocka_unit_test(survives_mutated_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
