/* test_hostile_open.c: daemons that lie or break the protocol while a loader is opened: refused with a code and a text,
 * and no descriptor stays open. */
#include <unistd.h>

#include "common/little_endian.h"
#include "hostile.h"

static void answer_hello(struct fake_daemon *daemon, int fd, unsigned n_fds, uint64_t arena_bytes)
{
    struct wire_message msg;
    uint8_t bytes[64];
    size_t len;
    if (!fake_receive(daemon, &msg))
        return;
    struct wire_message answer = {.type = WIRE_WELCOME, .seq = msg.seq};
    answer.welcome = (struct wire_welcome){.arena_bytes = arena_bytes, .batch_max = 64};
    CHECK(wire_encode(&answer, bytes, sizeof bytes, &len) == 0);
    fake_send_bytes(daemon, bytes, len, fd, n_fds);
}

static void no_arena(struct fake_daemon *daemon)
{
    answer_hello(daemon, -1, 0, FAKE_ARENA_BYTES);
    fake_until_closed(daemon);
}

static void many_fds(struct fake_daemon *daemon)
{
    answer_hello(daemon, daemon->arena_fd, 8, FAKE_ARENA_BYTES);
    fake_until_closed(daemon);
}

static void pipe_for_arena(struct fake_daemon *daemon)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    answer_hello(daemon, ends[0], 1, FAKE_ARENA_BYTES);
    close(ends[0]);
    close(ends[1]);
    fake_until_closed(daemon);
}

static void arena_too_small(struct fake_daemon *daemon)
{
    answer_hello(daemon, daemon->arena_fd, 1, FAKE_ARENA_BYTES + 1);
    fake_until_closed(daemon);
}

static void arena_empty(struct fake_daemon *daemon)
{
    answer_hello(daemon, daemon->arena_fd, 1, 0);
    fake_until_closed(daemon);
}

static void older_welcome(struct fake_daemon *daemon)
{
    struct wire_message msg;
    fake_receive(daemon, &msg);
    struct wire_message answer = {.type = WIRE_WELCOME, .version = WIRE_VERSION_OLDEST, .seq = msg.seq};
    answer.welcome = (struct wire_welcome){.arena_bytes = FAKE_ARENA_BYTES, .batch_max = 64};
    fake_send(daemon, &answer, daemon->arena_fd);
    fake_until_closed(daemon);
}

/* What a daemon of the release before answers to a HELLO that it does not understand. */
static void older_refusal(struct fake_daemon *daemon)
{
    struct wire_message msg;
    fake_receive(daemon, &msg);
    struct wire_message answer = {.type = WIRE_ERROR, .version = WIRE_VERSION_OLDEST};
    answer.error = (struct wire_error){.code = LARDER_EBUSY, .fatal = 1, .text = {"older", 5}};
    fake_send(daemon, &answer, -1);
    fake_until_closed(daemon);
}

static void wrong_answer(struct fake_daemon *daemon)
{
    struct wire_message msg;
    fake_receive(daemon, &msg);
    fake_send(daemon, &(struct wire_message){.type = WIRE_BATCH, .seq = msg.seq}, -1);
    fake_until_closed(daemon);
}

static void wrong_seq(struct fake_daemon *daemon)
{
    struct wire_message msg;
    fake_receive(daemon, &msg);
    struct wire_message answer = {.type = WIRE_WELCOME, .seq = msg.seq + 1};
    answer.welcome = (struct wire_welcome){.arena_bytes = FAKE_ARENA_BYTES, .batch_max = 64};
    fake_send(daemon, &answer, daemon->arena_fd);
    fake_until_closed(daemon);
}

static void answer_register(struct fake_daemon *daemon, const struct wire_registered *job)
{
    struct wire_message msg;
    answer_hello(daemon, daemon->arena_fd, 1, FAKE_ARENA_BYTES);
    if (!fake_receive(daemon, &msg))
        return;
    struct wire_message answer = {.type = WIRE_REGISTERED, .seq = msg.seq, .registered = *job};
    fake_send(daemon, &answer, -1);
    fake_until_closed(daemon);
}

/* spoil_register answers with images of 2 x 2 x 3, and then changes one of the message's numbers. */
static void spoil_register(struct fake_daemon *daemon, size_t at, uint32_t value)
{
    struct wire_message msg;
    uint8_t bytes[256];
    size_t len;
    answer_hello(daemon, daemon->arena_fd, 1, FAKE_ARENA_BYTES);
    if (!fake_receive(daemon, &msg))
        return;
    struct wire_message answer = {.type = WIRE_REGISTERED, .seq = msg.seq};
    answer.registered = (struct wire_registered){.layout = fake_layout(2, 2, 3), .sample_bytes = 12, .held_max = 1};
    CHECK(wire_encode(&answer, bytes, sizeof bytes, &len) == 0);
    put_u32(bytes + WIRE_HEADER_BYTES + at, value);
    fake_send_bytes(daemon, bytes, len, -1, 0);
    fake_until_closed(daemon);
}

static void wrong_size(struct fake_daemon *daemon)
{
    spoil_register(daemon, 28, 13); /* sample_bytes */
}

static void size_overflows(struct fake_daemon *daemon)
{
    spoil_register(daemon, 140, UINT32_MAX); /* the height */
}

static void holds_nothing(struct fake_daemon *daemon)
{
    answer_register(daemon, &(struct wire_registered){.layout = fake_layout(1, 1, 1), .sample_bytes = 1});
}

static void many_classes(struct fake_daemon *daemon)
{
    answer_register(daemon, &(struct wire_registered){.held_max = 1, .n_classes = UINT32_MAX});
}

static void classes_do_not_move(struct fake_daemon *daemon)
{
    struct wire_message msg;
    answer_hello(daemon, daemon->arena_fd, 1, FAKE_ARENA_BYTES);
    if (!fake_receive(daemon, &msg))
        return;
    struct wire_message answer = {.type = WIRE_REGISTERED, .seq = msg.seq};
    answer.registered = (struct wire_registered){.held_max = 1, .n_classes = 3};
    fake_send(daemon, &answer, -1);
    while (fake_receive(daemon, &msg)) {
        struct wire_message page = {.type = WIRE_CLASSES, .seq = msg.seq, .classes = {.total = 3}};
        fake_send(daemon, &page, -1);
    }
}

/* Whatever a daemon does while a loader is opened, larder_open fails with the right code, names the socket, and leaves
 * no descriptor behind. */
static void refuses_hostile_opening(void **state)
{
    (void)state;
    static const struct {
        fake_script *script;
        int code;
        bool unsealed;
    } cases[] = {
        {no_arena, LARDER_EFORMAT, false},       {many_fds, LARDER_EFORMAT, false},
        {pipe_for_arena, LARDER_EFORMAT, false}, {arena_too_small, LARDER_EFORMAT, false},
        {arena_empty, LARDER_EFORMAT, false},    {garbage, LARDER_EFORMAT, false},
        {wrong_answer, LARDER_EFORMAT, false},   {wrong_seq, LARDER_EFORMAT, false},
        {newer_version, LARDER_EVERSION, false}, {wrong_size, LARDER_EFORMAT, false},
        {size_overflows, LARDER_EFORMAT, false}, {holds_nothing, LARDER_EFORMAT, false},
        {many_classes, LARDER_EFORMAT, false},   {classes_do_not_move, LARDER_EFORMAT, false},
        {wrong_size, LARDER_EFORMAT, true},      {older_welcome, LARDER_EVERSION, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct larder_loader *loader = NULL;
        size_t fds = fake_count_fds();
        fake_init(&fake);
        fake.opening_only = true;
        fake.unsealed = cases[i].unsealed;
        fake_start(&fake, cases[i].script);
        int rc = open_fake(&loader);
        if (rc != cases[i].code)
            fail_msg("case %zu: %d, not %d: %s", i, rc, cases[i].code, larder_last_error(NULL));
        assert_null(loader);
        assert_text(larder_last_error(NULL), fake.path);
        if (cases[i].unsealed)
            assert_text(larder_last_error(NULL), "sealed");
        fake_stop(&fake);
        assert_int_equal(fake_count_fds(), fds);
    }
}

/* A refusal by an older daemon is understood: the program gets its code and its text. */
static void reads_an_older_refusal(void **state)
{
    (void)state;
    struct larder_loader *loader = NULL;
    fake_init(&fake);
    fake.opening_only = true;
    fake_start(&fake, older_refusal);
    assert_int_equal(open_fake(&loader), LARDER_EBUSY);
    assert_text(larder_last_error(NULL), "older");
    fake_stop(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_hostile_opening),
        cmocka_unit_test(reads_an_older_refusal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
