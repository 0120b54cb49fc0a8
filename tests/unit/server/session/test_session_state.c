/* test_session_state.c: clients of two protocol versions, descriptors that come with REGISTER, and tokens that go
 * out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/log.h"
#include "tests/unit/server/session/session_fixture.h"

static struct wire_message hello_of(uint16_t version)
{
    return (struct wire_message){.type = WIRE_HELLO, .version = version, .seq = 1, .hello = {.client = {"test", 4}}};
}

static struct wire_message register_of(uint16_t version, const char *name, uint32_t flags)
{
    return (struct wire_message){.type = WIRE_REGISTER,
                                 .version = version,
                                 .seq = 2,
                                 .reg = {.batch_size = 3,
                                         .prefetch = 2,
                                         .world_size = 1,
                                         .weight = 1,
                                         .flags = flags,
                                         .name = {name, (uint32_t)strlen(name)}}};
}

static struct wire_message state_get(uint32_t seq, uint32_t epoch, uint32_t batches)
{
    return (struct wire_message){.type = WIRE_STATE_GET, .seq = seq, .state_get = {epoch, batches, 1000}};
}

static void assert_receives(int fd, struct wire_message *out, enum wire_type type, uint16_t version)
{
    assert_int_equal(client_receive(fd, out, NULL), 1);
    assert_int_equal(out->type, type);
    assert_int_equal(out->version, version);
}

/* ── versions ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A client gets every answer in its own version; one of version 4 no TURNS, and later ones beside it get them. */
static void test_speaks_all_versions(void **state)
{
    (void)state;
    struct owner *owner = owner_start(4);
    owner->turns = true;
    for (uint16_t version = WIRE_VERSION_OLDEST; version <= WIRE_VERSION; version++) {
        struct wire_message msg = hello_of(version);
        int fd = client_connect(owner->path);
        assert_true(client_send(fd, &msg));
        assert_receives(fd, &msg, WIRE_WELCOME, version);
        msg = register_of(version, "a", 0);
        assert_true(client_send(fd, &msg));
        assert_receives(fd, &msg, WIRE_REGISTERED, version);
        msg = (struct wire_message){.type = WIRE_CLASSES_GET, .version = version, .seq = 3};
        assert_true(client_send(fd, &msg));
        assert_receives(fd, &msg, WIRE_CLASSES, version);
        msg = (struct wire_message){.type = WIRE_NEXT, .version = version, .next = {0, 2, 0}};
        assert_true(client_send(fd, &msg));
        for (int i = 0; i < 2; i++) {
            if (version > 4) {
                assert_receives(fd, &msg, WIRE_TURNS, version);
                assert_int_equal(wire_turn_get(msg.turns.turns, 0).index, 5);
            }
            assert_receives(fd, &msg, WIRE_BATCH, version);
        }
        assert_int_equal(session_send_error(owner->session, owner->client, 0, LARDER_EIO, false, "x"), 0);
        assert_receives(fd, &msg, WIRE_ERROR, version);
        close(fd);
    }
    owner_stop(owner);
}

/* Until HELLO has come, an error is of the oldest version; a HELLO of a version that nobody speaks is told so. */
static void test_errors_before_hello(void **state)
{
    (void)state;
    struct owner *owner = owner_start(4);
    static const uint16_t versions[] = {WIRE_VERSION_OLDEST - 1, WIRE_VERSION + 1};
    for (size_t i = 0; i < 2; i++) {
        uint8_t bytes[64];
        size_t len;
        struct wire_message msg = hello_of(WIRE_VERSION);
        int fd = client_connect(owner->path);
        assert_int_equal(wire_encode(&msg, bytes, sizeof bytes, &len), 0);
        bytes[4] = (uint8_t)versions[i];
        assert_true(client_send_raw(fd, bytes, len));
        assert_receives(fd, &msg, WIRE_ERROR, WIRE_VERSION_OLDEST);
        assert_int_equal(msg.error.code, LARDER_EVERSION);
        close(fd);
    }
    owner_stop(owner);
}

/* A connection keeps to the version of its HELLO, and one of version 4 has no STATE_GET. */
static void test_versions_do_not_mix(void **state)
{
    (void)state;
    struct owner *owner = owner_start(4);
    for (uint16_t version = WIRE_VERSION_OLDEST; version <= WIRE_VERSION; version++) {
        struct wire_message msg = hello_of(version);
        int fd = client_connect(owner->path);
        assert_true(client_send(fd, &msg));
        assert_receives(fd, &msg, WIRE_WELCOME, version);
        msg = register_of(version == WIRE_VERSION ? WIRE_VERSION_OLDEST : version + 1, "a", 0);
        assert_true(client_send(fd, &msg));
        assert_non_null(strstr(client_expect_error(fd, LARDER_EINVAL, true), "after a HELLO of version"));
        close(fd);
    }
    struct wire_message get = state_get(3, 0, 0), msg = hello_of(4);
    uint8_t bytes[64];
    size_t len;
    assert_int_equal(wire_encode(&get, bytes, sizeof bytes, &len), 0);
    bytes[4] = 4;
    int fd = client_connect(owner->path);
    assert_true(client_send(fd, &msg));
    assert_receives(fd, &msg, WIRE_WELCOME, 4);
    assert_true(client_send_raw(fd, bytes, len));
    client_expect_error(fd, LARDER_EFORMAT, true);
    close(fd);
    assert_int_equal(owner_counts_now(owner).states, 0);
    owner_stop(owner);
}

/* ── descriptors that come ───────────────────────────────────────────────────────────────────────────────────────── */

/* The descriptor that comes with REGISTER is the owner's; without the flag the owner gets none. */
static void test_state_comes(void **state)
{
    (void)state;
    struct owner *owner = owner_start(4);
    int before = count_descriptors(), file = file_of("a record");
    int fd = client_connect(owner->path);
    struct wire_message msg = register_of(0, "a", WIRE_WITH_STATE);
    assert_true(client_hello(fd) && client_send_with(fd, &msg, file, 1));
    assert_receives(fd, &msg, WIRE_REGISTERED, WIRE_VERSION);
    assert_string_equal(owner->state, "a record");
    close(fd);
    fd = client_connect(owner->path);
    assert_true(client_open(fd, "b"));
    assert_string_equal(owner->state, "");
    close(fd);
    close(file);
    wait_for_descriptors(before);
    owner_stop(owner);
}

/* A descriptor where none belongs, none where one belongs, and more than one: each ends the connection, the owner hears
 * nothing of it, and no descriptor stays. */
static void test_wrong_descriptors(void **state)
{
    (void)state;
    const struct {
        struct wire_message msg;
        unsigned n_fds;
        bool greeted, registered;
        int code;
    } cases[] = {
        {hello_of(0), 1, false, false, LARDER_EINVAL},
        {register_of(0, "a", 0), 1, true, false, LARDER_EINVAL},
        {register_of(0, "a", WIRE_WITH_STATE), 0, true, false, LARDER_EINVAL},
        {register_of(0, "a", WIRE_WITH_STATE), 2, true, false, LARDER_EFORMAT},
        {register_of(0, "a", WIRE_WITH_STATE), 64, true, false, LARDER_EFORMAT},
        {register_of(0, "a", WIRE_WITH_STATE), 1, false, false, LARDER_EINVAL},
        {{.type = WIRE_NEXT, .next = {0, 1, 0}}, 1, true, true, LARDER_EINVAL},
        {state_get(3, 0, 0), 1, true, true, LARDER_EINVAL},
        {{.type = WIRE_BYE}, 1, true, true, LARDER_EINVAL},
    };
    struct owner *owner = owner_start(4);
    int before = count_descriptors(), file = file_of("x");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int fd = client_connect(owner->path);
        if (cases[i].registered)
            assert_true(client_open(fd, "a"));
        else if (cases[i].greeted)
            assert_true(client_hello(fd));
        uint64_t registers = owner_counts_now(owner).registers;
        assert_true(cases[i].n_fds ? client_send_with(fd, &cases[i].msg, file, cases[i].n_fds)
                                   : client_send(fd, &cases[i].msg));
        client_expect_error(fd, cases[i].code, true);
        assert_int_equal(owner_counts_now(owner).registers, registers);
        close(fd);
        wait_for_descriptors(before + 1);
    }
    struct session_counts counts;
    session_counts(owner->session, &counts);
    assert_int_equal(counts.protocol_errors, sizeof cases / sizeof *cases);
    assert_int_equal(owner_counts_now(owner).nexts, 0);
    close(file);
    owner_stop(owner);
}

/* With no place for a descriptor the client is told so, and it is not the client's fault. */
static void test_no_place_for_a_descriptor(void **state)
{
    (void)state;
    struct owner *owner = owner_start(4);
    int fd = client_connect(owner->path), file = file_of("x");
    assert_true(client_hello(fd));
    int before = count_descriptors(), next = dup(file);
    close(next);
    struct rlimit limit, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){(rlim_t)next, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    struct wire_message msg = register_of(0, "a", WIRE_WITH_STATE);
    bool sent = client_send_with(fd, &msg, file, 1);
    const char *text = client_expect_error(fd, LARDER_ELIMIT, true);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(sent);
    assert_non_null(strstr(text, "ulimit -n"));
    struct session_counts counts;
    session_counts(owner->session, &counts);
    assert_int_equal(counts.protocol_errors, 0);
    assert_int_equal(owner_counts_now(owner).registers, 0);
    assert_int_equal(count_descriptors(), before);
    close(file);
    close(fd);
    owner_stop(owner);
}

/* ── tokens that go out ──────────────────────────────────────────────────────────────────────────────────────────── */

static void assert_token(int fd, uint32_t seq, const char *expected)
{
    struct wire_message msg;
    char text[64];
    int token = -1;
    do {
        assert_int_equal(client_receive(fd, &msg, &token), 1);
    } while (msg.type == WIRE_BATCH);
    assert_int_equal(msg.type, WIRE_STATE);
    assert_int_equal(msg.seq, seq);
    assert_int_equal(msg.state.n_bytes, strlen(expected));
    text_of(token, text, sizeof text);
    assert_string_equal(text, expected);
}

/* Tokens and errors answer the questions that they belong to, one after the other, and the daemon keeps none. */
static void test_tokens(void **state)
{
    (void)state;
    struct owner *owner = owner_start(4);
    int before = count_descriptors(), fd = client_connect(owner->path);
    struct wire_message msg;
    assert_true(client_open(fd, "a"));
    for (uint32_t i = 1; i < 20; i++) {
        char expected[16];
        snprintf(expected, sizeof expected, "%u/7", i);
        msg = state_get(i, i, 7);
        assert_true(client_send(fd, &msg));
        assert_token(fd, i, expected);
        msg = state_get(i, 1001, 0);
        assert_true(client_send(fd, &msg));
        assert_receives(fd, &msg, WIRE_ERROR, WIRE_VERSION);
        assert_int_equal(msg.error.fatal, 0);
        assert_int_equal(msg.seq, i);
    }
    wait_for_descriptors(before + 2); /* both ends of the connection */
    close(fd);
    owner_stop(owner);
}

/* One question of each kind at a time, with numbers that tell them apart, from registered clients alone. */
static void test_questions_out_of_turn(void **state)
{
    (void)state;
    const struct wire_message classes = {.type = WIRE_CLASSES_GET, .seq = 3};
    const struct {
        struct wire_message first, second;
        const char *text;
    } cases[] = {
        {state_get(3, 0, 0), state_get(4, 0, 0), "before the answer"},
        {classes, state_get(3, 0, 0), "the number of a question"},
        {state_get(3, 0, 0), classes, "the number of a question"},
        {{.type = WIRE_CLASSES_GET, .seq = 4}, state_get(0, 0, 0), "no number"},
    };
    struct owner *owner = owner_start(4);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int fd = client_connect(owner->path);
        assert_true(client_open(fd, "silent"));
        assert_true(client_send(fd, &cases[i].first) && client_send(fd, &cases[i].second));
        assert_non_null(strstr(client_expect_error(fd, LARDER_EINVAL, true), cases[i].text));
        close(fd);
    }
    int fd = client_connect(owner->path);
    struct wire_message msg = state_get(3, 0, 0);
    assert_true(client_hello(fd) && client_send(fd, &msg));
    client_expect_error(fd, LARDER_EINVAL, true);
    close(fd);
    owner_stop(owner);
}

/* An error that a NEXT causes does not close the question that has the same number. */
static void test_other_errors_close_no_question(void **state)
{
    (void)state;
    struct owner *owner = owner_start(4);
    int fd = client_connect(owner->path);
    struct wire_message msg;
    assert_true(client_open(fd, "silent"));
    msg = state_get(9, 0, 0);
    assert_true(client_send(fd, &msg));
    assert_true(client_next(fd, 100000, 1)); /* its number is 9, and its epoch beyond the last */
    assert_receives(fd, &msg, WIRE_ERROR, WIRE_VERSION);
    assert_int_equal(msg.error.code, LARDER_EEND);
    msg = state_get(9, 0, 0);
    assert_true(client_send(fd, &msg));
    assert_non_null(strstr(client_expect_error(fd, LARDER_EINVAL, true), "before the answer"));
    assert_int_equal(owner_counts_now(owner).states, 1);
    close(fd);
    owner_stop(owner);
}

/* A token goes out when the client has read what came before: whoever does not read holds one, however often it asks,
 * and it is freed with the connection. Whoever reads gets it. */
static void test_unread_tokens_are_few(void **state)
{
    (void)state;
    enum { BATCHES = 20, QUESTIONS = 100 };
    struct owner *owner = owner_start(4);
    int start = count_descriptors();
    for (int reads = 0; reads < 2; reads++) {
        int fd = client_connect(owner->path), before = start + 1;
        uint64_t states = owner_counts_now(owner).states, credits = owner_counts_now(owner).credits;
        assert_true(client_open(fd, "a") && client_next(fd, 0, BATCHES));
        OWNER_WAIT(owner, credits, credits + BATCHES);
        struct wire_message msg = state_get(3, 1, 2);
        assert_true(client_send(fd, &msg));
        OWNER_WAIT(owner, states, states + 1);
        wait_for_descriptors(before + 2); /* the connection, and the token that waits */
        for (int i = 0; i < QUESTIONS && !reads && client_send(fd, &msg); i++)
            ; /* the daemon reads and drops them: the second question broke the protocol */
        assert_true(count_descriptors() <= before + 2);
        assert_int_equal(owner_counts_now(owner).states, states + 1);
        if (reads) {
            assert_token(fd, 3, "1/2");
            wait_for_descriptors(before + 1);
            assert_true(client_next(fd, 0, 1)); /* and everything goes on */
            assert_receives(fd, &msg, WIRE_BATCH, WIRE_VERSION);
        }
        close(fd);
        wait_for_descriptors(start);
    }
    owner_stop(owner);
}

/* A daemon that waits for its client to read goes on reading itself: the client may send more than the socket holds. */
static void test_requests_while_a_token_waits(void **state)
{
    (void)state;
    enum { BATCHES = 20, MORE = 100 };
    struct owner *owner = owner_start(4);
    int fd = client_connect(owner->path);
    uint64_t credits = owner_counts_now(owner).credits;
    assert_true(client_open(fd, "a") && client_next(fd, 0, BATCHES));
    OWNER_WAIT(owner, credits, credits + BATCHES);
    struct wire_message msg = state_get(3, 1, 2);
    assert_true(client_send(fd, &msg));
    for (int i = 0; i < MORE; i++)
        assert_true(client_next(fd, 0, 1));
    OWNER_WAIT(owner, credits, credits + BATCHES + MORE);
    for (int i = 0; i < BATCHES; i++)
        assert_receives(fd, &msg, WIRE_BATCH, WIRE_VERSION);
    assert_token(fd, 3, "1/2");
    for (int i = 0; i < MORE; i++)
        assert_receives(fd, &msg, WIRE_BATCH, WIRE_VERSION);
    close(fd);
    owner_stop(owner);
}

/* Tokens answered and batches sent at once by other requests come in order, whoever waits for whom, many times. */
static void test_tokens_between_batches(void **state)
{
    (void)state;
    struct owner *owner = owner_start(4);
    int fd = client_connect(owner->path);
    assert_true(client_open(fd, "a"));
    for (uint32_t i = 1; i <= 2000; i++) {
        struct wire_message msg = state_get(i, 1, i);
        char expected[16];
        snprintf(expected, sizeof expected, "1/%u", i);
        assert_true(client_next(fd, 0, 1 + i % 3));
        assert_true(client_send(fd, &msg));
        uint32_t batches = 0;
        for (int token = -1; batches < 1 + i % 3 || token < 0;) {
            int passed = -1;
            assert_int_equal(client_receive(fd, &msg, &passed), 1);
            if (msg.type == WIRE_BATCH) {
                batches++;
                assert_true(client_release(fd, msg.batch.batch));
                continue;
            }
            assert_int_equal(msg.type, WIRE_STATE);
            char text[64];
            token = passed;
            text_of(passed, text, sizeof text);
            assert_string_equal(text, expected);
        }
    }
    close(fd);
    owner_stop(owner);
}

/* Asks for class names, gets as many as fit, and does not read them. */
static void get_classes(struct owner *owner, int fd, uint32_t seq)
{
    static char names[WIRE_REPLY_MAX - 4096];
    char name[255] = {0};
    struct wire_message ask = {.type = WIRE_CLASSES_GET, .seq = seq};
    struct wire_message msg = {.type = WIRE_CLASSES, .seq = seq, .classes = {.total = 10000}};
    uint32_t used = 0;
    uint64_t asked = owner_counts_now(owner).classes;
    memset(name, 'a', sizeof name);
    while (wire_class_put(names, sizeof names, &used, name, sizeof name) == 0)
        msg.classes.count++;
    msg.classes.names = (struct wire_text){names, used};
    assert_true(client_send(fd, &ask));
    OWNER_WAIT(owner, classes, asked + 1);
    assert_int_equal(session_send(owner->session, owner->client, &msg), 0);
}

/* A client that is stopped with all under way that it may ask for, the largest there is, finds it when it goes on: its
 * connection is not closed. */
static void test_all_that_may_be_unread(void **state)
{
    (void)state;
    enum { HELD = WIRE_CREDITS_MAX + 1, NAMES = 4 };
    struct owner *owner = owner_start(2);
    struct session_counts counts;
    struct wire_message msg;
    uint8_t *entries = calloc(WIRE_BATCH_MAX, WIRE_ENTRY_BYTES), *turns = calloc(WIRE_BATCH_MAX, WIRE_TURN_BYTES);
    int fd = client_connect(owner->path);
    assert_true(client_open(fd, "silent"));
    for (uint32_t i = 0; i < NAMES; i++)
        get_classes(owner, fd, 3 + i);
    assert_true(client_next(fd, 0, WIRE_CREDITS_MAX));
    OWNER_WAIT(owner, nexts, 1);
    for (uint32_t i = 0; i < WIRE_BATCH_MAX; i++)
        wire_turn_put(turns, i, &(struct wire_turn){.position = i, .index = WIRE_TURN_NONE});
    for (uint64_t batch = 0; batch < HELD; batch++) {
        struct wire_message of = {.type = WIRE_TURNS,
                                  .turns = {.batch = batch, .count = WIRE_BATCH_MAX, .turns = turns}};
        struct wire_message big = {.type = WIRE_BATCH,
                                   .batch = {.batch = batch, .count = WIRE_BATCH_MAX, .entries = entries}};
        assert_int_equal(session_send(owner->session, owner->client, &of), 0);
        assert_int_equal(session_send(owner->session, owner->client, &big), 0);
    }
    for (uint32_t i = 0; i < NAMES; i++)
        assert_receives(fd, &msg, WIRE_CLASSES, WIRE_VERSION);
    for (uint64_t batch = 0; batch < HELD; batch++) {
        assert_receives(fd, &msg, WIRE_TURNS, WIRE_VERSION);
        assert_receives(fd, &msg, WIRE_BATCH, WIRE_VERSION);
        assert_int_equal(msg.batch.batch, batch);
    }
    session_counts(owner->session, &counts);
    assert_int_equal(counts.overflows, 0);
    free(entries);
    free(turns);
    close(fd);
    owner_stop(owner);
}

int main(void)
{
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_speaks_all_versions),
        cmocka_unit_test(test_errors_before_hello),
        cmocka_unit_test(test_versions_do_not_mix),
        cmocka_unit_test(test_state_comes),
        cmocka_unit_test(test_wrong_descriptors),
        cmocka_unit_test(test_no_place_for_a_descriptor),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_questions_out_of_turn),
        cmocka_unit_test(test_other_errors_close_no_question),
        cmocka_unit_test(test_unread_tokens_are_few),
        cmocka_unit_test(test_requests_while_a_token_waits),
        cmocka_unit_test(test_tokens_between_batches),
        cmocka_unit_test(test_all_that_may_be_unread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
