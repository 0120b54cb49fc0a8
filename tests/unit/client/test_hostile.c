/* test_hostile.c: daemons that lie, break the protocol or vanish while they stream. The library answers with a code and
 * a text that names the socket, reads nothing outside the arena, and stays failed. */
#include <stdlib.h>

#include "common/random.h"
#include "hostile.h"

/* ── while streaming ─────────────────────────────────────────────────────────────────────────────────────────────── */

static void send_entry(struct fake_daemon *daemon, const struct wire_entry *entry, uint32_t epoch)
{
    uint8_t entries[WIRE_ENTRY_BYTES];
    wire_entry_put(entries, 0, entry);
    struct wire_message msg = {.type = WIRE_BATCH};
    msg.batch = (struct wire_batch){.batch = 1, .epoch = epoch, .count = 1, .entries = entries};
    fake_send(daemon, &msg, -1);
    fake_until_closed(daemon);
}

static void entry_outside(struct fake_daemon *daemon)
{
    send_entry(daemon, &(struct wire_entry){.offset = FAKE_ARENA_BYTES - 11, .len_bytes = FAKE_SAMPLE_BYTES}, 0);
}

static void entry_wraps(struct fake_daemon *daemon)
{
    send_entry(daemon, &(struct wire_entry){.offset = UINT64_MAX - 5, .len_bytes = FAKE_SAMPLE_BYTES}, 0);
}

static void entry_wrong_length(struct fake_daemon *daemon)
{
    send_entry(daemon, &(struct wire_entry){.len_bytes = FAKE_SAMPLE_BYTES - 1}, 0);
}

static void later_epoch(struct fake_daemon *daemon)
{
    send_entry(daemon, &(struct wire_entry){.len_bytes = FAKE_SAMPLE_BYTES}, 1);
}

static void batch_too_large(struct fake_daemon *daemon)
{
    fake_batch(daemon, 1, 0, 0, 0, FAKE_BATCH_SIZE + 1, false);
    fake_until_closed(daemon);
}

static void unwanted_message(struct fake_daemon *daemon)
{
    struct wire_message msg = {.type = WIRE_WELCOME, .welcome = {.arena_bytes = 1, .batch_max = 1}};
    fake_send(daemon, &msg, -1);
    fake_until_closed(daemon);
}

static void unwanted_fd(struct fake_daemon *daemon)
{
    struct wire_message msg = {.type = WIRE_BATCH, .batch = {.flags = WIRE_BATCH_LAST}};
    fake_send(daemon, &msg, daemon->arena_fd);
    fake_until_closed(daemon);
}

static void too_long(struct fake_daemon *daemon)
{
    static uint8_t bytes[WIRE_REPLY_MAX + 1];
    fake_send_bytes(daemon, bytes, sizeof bytes, -1, 0);
    fake_until_closed(daemon);
}

static void bad_sample(struct fake_daemon *daemon)
{
    fake_error(daemon, 0, LARDER_ESAMPLE, false, "/data/x.jpg is truncated");
    fake_until_closed(daemon);
}

static void fatal_and_close(struct fake_daemon *daemon)
{
    fake_error(daemon, 0, LARDER_EINVAL, true, "the daemon is drained");
}

static void just_close(struct fake_daemon *daemon)
{
    (void)daemon;
}

/* Whatever a daemon sends instead of a proper batch, larder_next fails with the right code and goes on failing so;
 * nothing outside the arena is touched; the connection is closed, so that the daemon gets its memory back. */
static void refuses_hostile_batches(void **state)
{
    (void)state;
    static const struct {
        fake_script *script;
        int code;
        const char *part;
    } cases[] = {
        {entry_outside, LARDER_EFORMAT, "outside its arena"},
        {entry_wraps, LARDER_EFORMAT, "outside its arena"},
        {entry_wrong_length, LARDER_EFORMAT, "11 bytes"},
        {later_epoch, LARDER_EFORMAT, "epoch 1"},
        {batch_too_large, LARDER_EFORMAT, "5 samples"},
        {unwanted_message, LARDER_EFORMAT, "type 2"},
        {unwanted_fd, LARDER_EFORMAT, "descriptors"},
        {too_long, LARDER_EFORMAT, "too long"},
        {garbage, LARDER_EFORMAT, "magic"},
        {newer_version, LARDER_EVERSION, "version 14"},
        {bad_sample, LARDER_ESAMPLE, "/data/x.jpg is truncated"},
        {fatal_and_close, LARDER_EINVAL, "drained"},
        {just_close, LARDER_EGONE, "larder.sock"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct larder_loader *loader = NULL;
        struct larder_batch *batch = NULL;
        fake_init(&fake);
        fake_start(&fake, cases[i].script);
        assert_int_equal(open_fake(&loader), 0);
        int started = larder_start_epoch(loader, 0); /* fails already where the daemon was quick to close */
        int rc = larder_next(loader, 60000, &batch);
        if (rc != cases[i].code || (started && started != rc))
            fail_msg("case %zu: %d, not %d: %s", i, rc, cases[i].code, larder_last_error(loader));
        assert_text(larder_last_error(loader), cases[i].part);
        assert_null(batch);
        assert_int_equal(larder_next(loader, 60000, &batch), cases[i].code);
        assert_text(larder_last_error(loader), cases[i].part);
        assert_int_equal(larder_start_epoch(loader, 1), cases[i].code);
        assert_int_equal(larder_fd(loader), -1);
        fake_stop(&fake); /* returns: the script saw the connection close */
        larder_close(&loader);
    }
}

static void flood(struct fake_daemon *daemon)
{
    if (!fake_wait_credits(daemon, 0, 2))
        return;
    for (uint64_t number = 1; number <= 4; number++)
        fake_batch(daemon, number, 0, (uint32_t)number - 1, (uint32_t)number, 1, false);
    fake_until_closed(daemon);
}

static void late_without_end(struct fake_daemon *daemon)
{
    if (!fake_wait_credits(daemon, 1, 2))
        return;
    for (uint64_t number = 1; number <= 3; number++)
        fake_batch(daemon, number, 0, 0, 0, 1, false);
    fake_until_closed(daemon);
}

/* A daemon cannot make the client grow: batches beyond what was asked for are refused, also those of an earlier
 * epoch. */
static void refuses_flood(void **state)
{
    (void)state;
    struct larder_loader *loader = NULL;
    struct larder_batch *batches[2], *batch = NULL;
    fake_init(&fake);
    fake.held_max = 2;
    fake_start(&fake, flood);
    assert_int_equal(open_fake(&loader), 0);
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    assert_int_equal(larder_next(loader, 60000, &batches[0]), 0);
    assert_int_equal(larder_next(loader, 60000, &batches[1]), 0);
    assert_int_equal(larder_next(loader, 60000, &batch), LARDER_EQUOTA);
    assert_int_equal(larder_batch_release(&batches[0]), 0); /* one credit: the third batch; the fourth is too much */
    assert_int_equal(larder_next(loader, 60000, &batch), 0);
    assert_int_equal(larder_next(loader, 60000, &batch), LARDER_EQUOTA);
    larder_close(&loader);
    fake_stop(&fake);

    fake_init(&fake);
    fake_start(&fake, late_without_end);
    assert_int_equal(open_fake(&loader), 0);
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    assert_int_equal(larder_start_epoch(loader, 1), 0);
    assert_int_equal(larder_next(loader, 60000, &batch), LARDER_EFORMAT);
    assert_text(larder_last_error(loader), "nobody asked for");
    larder_close(&loader);
    fake_stop(&fake);
    assert_int_equal(fake.n_released, 2);
}

static void two_and_vanish(struct fake_daemon *daemon)
{
    if (!fake_wait_credits(daemon, 0, 2))
        return;
    fake_batch(daemon, 1, 0, 0, 0, 4, false);
    fake_batch(daemon, 2, 0, 1, 4, 4, false);
    fake_wait_released(daemon, 1);
}

/* After the daemon has gone, bytes of a held batch are no longer vouched for: copying and releasing say so, and so does
 * the next call, each with the socket's name. */
static void notices_vanished_daemon(void **state)
{
    (void)state;
    struct larder_loader *loader = NULL;
    struct larder_batch *first, *held, *batch = NULL;
    struct larder_sample sample;
    uint8_t copy[64];
    fake_init(&fake);
    fake_start(&fake, two_and_vanish);
    assert_int_equal(open_fake(&loader), 0);
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    assert_int_equal(larder_next(loader, 60000, &first), 0);
    assert_int_equal(larder_next(loader, 60000, &held), 0);
    assert_int_equal(larder_batch_copy(held, copy, sizeof copy), 0);
    assert_int_equal(larder_batch_release(&first), 0);
    fake_stop(&fake);
    assert_int_equal(larder_batch_copy(held, copy, sizeof copy), LARDER_EGONE);
    assert_text(larder_last_error(loader), fake.path);
    assert_int_equal(larder_batch_sample(held, 0, &sample), LARDER_EGONE);
    assert_int_equal(larder_batch_release(&held), LARDER_EGONE);
    assert_null(held);
    assert_int_equal(larder_next(loader, -1, &batch), LARDER_EGONE);
    assert_text(larder_last_error(loader), fake.path);
    larder_close(&loader);
}

/* ── anything ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static uint64_t seed;

static void mutated_stream(struct fake_daemon *daemon)
{
    struct rng rng;
    random_seed_keys(&rng, seed, 1, 0, 0);
    if (!fake_wait_credits(daemon, 0, 1))
        return;
    for (uint32_t i = 0; i < 4; i++) {
        uint8_t entries[2 * WIRE_ENTRY_BYTES], bytes[256];
        for (uint32_t e = 0; e < 2; e++)
            wire_entry_put(
                entries, e,
                &(struct wire_entry){.offset = 16 * e, .len_bytes = FAKE_SAMPLE_BYTES, .id = e, .index = 2 * i + e});
        struct wire_message msg = {.type = WIRE_BATCH};
        msg.batch = (struct wire_batch){.batch = 1, .index = i, .count = 2, .entries = entries};
        size_t len = 0;
        CHECK(wire_encode(&msg, bytes, sizeof bytes, &len) == 0);
        size_t first = random_below(&rng, 4) ? WIRE_HEADER_BYTES : 0;
        for (uint64_t n = random_below(&rng, 4); n > 0; n--)
            bytes[first + random_below(&rng, len - first)] = (uint8_t)random_u64(&rng);
        fake_send_bytes(daemon, bytes, len, -1, 0);
    }
}

static bool is_final(int rc)
{
    return rc == LARDER_EFORMAT || rc == LARDER_EVERSION || rc == LARDER_EGONE;
}

/* Random changes to batches never take the library outside the arena (reading there would crash), hang it, or give a
 * code that a hostile daemon does not deserve. */
static void survives_mutated_batches(void **state)
{
    (void)state;
    const char *given = getenv("LARDER_SEED");
    uint64_t first = given ? strtoull(given, NULL, 0) : 1;
    print_message("seed %llu\n", (unsigned long long)first);
    for (seed = first * 1000; seed < first * 1000 + 300; seed++) {
        struct larder_loader *loader = NULL;
        struct larder_batch *batch = NULL;
        uint8_t copy[64];
        int rc;
        fake_init(&fake);
        fake_start(&fake, mutated_stream);
        assert_int_equal(open_fake(&loader), 0);
        larder_start_epoch(loader, 0);
        while ((rc = larder_next(loader, 60000, &batch)) == 0) {
            rc = larder_batch_copy(batch, copy, sizeof copy);
            assert_true(rc == 0 || is_final(rc));
            rc = larder_batch_release(&batch);
            assert_true(rc == 0 || is_final(rc));
        }
        assert_true(is_final(rc) || rc == LARDER_EEND);
        larder_close(&loader);
        fake_stop(&fake);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_hostile_batches),
        cmocka_unit_test(refuses_flood),
        cmocka_unit_test(notices_vanished_daemon),
        cmocka_unit_test(survives_mutated_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
