/* The session: one client's conversation, its rules, many clients at once, and stopping. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "tests/unit/server/session/session_fixture.h"

/* A whole conversation: the arena's descriptor comes with WELCOME, the owner learns who the peer is by the kernel's
 * word, answers carry the asker's number, batches come with their entries, and a batch released just before leaving
 * still counts. */
static void test_conversation(void **state)
{
    (void)state;
    struct owner *owner = owner_start(4);
    owner->last_at = 3;
    int fd = client_connect(owner->path), arena = -1;
    struct wire_message msg = {.type = WIRE_HELLO, .seq = 5, .hello = {.pid = 1, .client = {"py\"1\n", 5}}};
    assert_true(client_send(fd, &msg));
    assert_int_equal(client_receive(fd, &msg, &arena), 1);
    assert_int_equal(msg.type, WIRE_WELCOME);
    assert_int_equal(msg.seq, 5);
    assert_int_equal(msg.welcome.daemon_pid, getpid());
    struct stat ours, theirs;
    assert_int_equal(fstat(owner->arena_fd, &ours), 0);
    assert_int_equal(fstat(arena, &theirs), 0);
    assert_int_equal(ours.st_ino, theirs.st_ino);
    close(arena);

    assert_true(client_register(fd, "train"));
    assert_int_equal(client_receive(fd, &msg, NULL), 1);
    assert_int_equal(msg.type, WIRE_REGISTERED);
    assert_int_equal(msg.seq, 2);
    OWNER_WAIT(owner, registers, 1);
    assert_int_equal(owner->peer.pid, getpid());
    assert_string_equal(owner->peer.client, "py?1?");

    msg = (struct wire_message){.type = WIRE_CLASSES_GET, .seq = 77, .classes_get = {0}};
    assert_true(client_send(fd, &msg));
    assert_int_equal(client_receive(fd, &msg, NULL), 1);
    assert_int_equal(msg.type, WIRE_CLASSES);
    assert_int_equal(msg.seq, 77);

    assert_true(client_next(fd, 0, 2) && client_next(fd, 0, 1));
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(client_receive(fd, &msg, NULL), 1);
        assert_int_equal(msg.type, WIRE_BATCH);
        assert_int_equal(msg.batch.index, i);
        assert_int_equal(msg.batch.flags, i == 2 ? WIRE_BATCH_LAST : 0);
        assert_int_equal(wire_entry_get(msg.batch.entries, 2).offset, 128);
    }
    struct session_counts counts;
    session_counts(owner->session, &counts);
    assert_int_equal(counts.connections, 1);
    assert_int_equal(counts.registered, 1);
    for (uint64_t batch = 1; batch <= 3; batch++)
        assert_true(client_release(fd, batch));
    msg = (struct wire_message){.type = WIRE_BYE};
    assert_true(client_send(fd, &msg));
    close(fd);
    OWNER_WAIT(owner, gones, 1);
    assert_int_equal(owner_counts_now(owner).releases, 3);
    assert_int_equal(owner_counts_now(owner).byes, 1);
    session_counts(owner->session, &counts);
    assert_int_equal(counts.protocol_errors, 0);
    owner_stop(owner);
}

/* A later epoch's NEXT takes the place of the credits before it; one for an epoch whose LAST batch was sent does
 * nothing; one beyond the epochs registered for, or beyond those that any job may have, gets an error, and the
 * connection goes on. */
static void test_epochs(void **state)
{
    (void)state;
    struct owner *owner = owner_start(4);
    int fd = client_connect(owner->path);
    assert_true(client_open(fd, "silent"));
    assert_true(client_next(fd, 0, WIRE_CREDITS_MAX) && client_next(fd, 1, WIRE_CREDITS_MAX) && client_next(fd, 5, 1));
    OWNER_WAIT(owner, nexts, 3);
    assert_true(client_next(fd, 100000, 1));
    client_expect_error(fd, LARDER_EEND, false);

    struct wire_message last = {.type = WIRE_BATCH, .batch = {.batch = 40, .epoch = 5, .flags = WIRE_BATCH_LAST}};
    assert_int_equal(session_send(owner->session, owner->client, &last), 0);
    struct wire_message msg;
    assert_int_equal(client_receive(fd, &msg, NULL), 1);
    assert_int_equal(msg.batch.batch, 40);
    assert_true(client_next(fd, 5, 8) && client_next(fd, 6, WIRE_CREDITS_MAX));
    OWNER_WAIT(owner, nexts, 4);
    assert_int_equal(owner_counts_now(owner).credits, 3 * WIRE_CREDITS_MAX + 1);

    /* Empty batches need no release, however many there are; one may be released all the same. */
    for (uint32_t i = 0; i < 3 * SESSION_HELD_MAX; i++) {
        last.batch.batch = 100 + i;
        assert_int_equal(session_send(owner->session, owner->client, &last), 0);
        assert_int_equal(client_receive(fd, &msg, NULL), 1);
    }
    assert_true(client_release(fd, last.batch.batch));
    OWNER_WAIT(owner, releases, 1);
    close(fd);

    fd = client_connect(owner->path);
    assert_true(client_open(fd, "endless") && client_next(fd, WIRE_EPOCHS_MAX, 1));
    client_expect_error(fd, LARDER_EEND, false);
    close(fd);
    owner_stop(owner);
}

struct crime {
    const char *what;
    const char *open_as; /* NULL: not even HELLO is sent */
    uint32_t n_messages;
    struct wire_message messages[3];
};

/* Each breach of the protocol ends that connection with a fatal error that says so, the owner sees nothing unlawful,
 * and is told of the end exactly when it was told of the beginning. */
static void test_protocol_errors(void **state)
{
    (void)state;
    static const struct wire_text client = {"x", 1};
    const struct wire_message hello = {.type = WIRE_HELLO, .hello = {.client = client}};
    const struct wire_message welcome = {.type = WIRE_WELCOME, .welcome = {.batch_max = 1}};
    const struct wire_message reg = {.type = WIRE_REGISTER,
                                     .reg = {.batch_size = 1, .prefetch = 1, .world_size = 1, .weight = 1}};
    const struct wire_message classes = {.type = WIRE_CLASSES_GET};
    const struct wire_message next_early = {.type = WIRE_NEXT, .next = {0, 1, 0}};
    const struct wire_message next_all = {.type = WIRE_NEXT, .next = {3, WIRE_CREDITS_MAX, 0}};
    const struct wire_message next_one = {.type = WIRE_NEXT, .next = {3, 1, 0}};
    const struct wire_message next_back = {.type = WIRE_NEXT, .next = {2, 1, 0}};
    const struct wire_message next_none = {.type = WIRE_NEXT, .next = {3, 0, 1}};
    const struct wire_message release = {.type = WIRE_RELEASE, .release = {12345}};
    const struct crime crimes[] = {
        {"NEXT before HELLO", NULL, 1, {next_early}},
        {"REGISTER before HELLO", NULL, 1, {reg}},
        {"HELLO twice", NULL, 2, {hello, hello}},
        {"NEXT before REGISTER", NULL, 2, {hello, next_one}},
        {"the daemon's own message", NULL, 2, {hello, welcome}},
        {"REGISTER twice", "a", 1, {reg}},
        {"REGISTER twice at once", NULL, 3, {hello, reg, reg}},
        {"NEXT before REGISTERED", "quiet", 1, {next_one}},
        {"too many credits", "silent", 2, {next_all, next_one}},
        {"an earlier epoch", "silent", 2, {next_one, next_back}},
        {"waiting for an epoch of which nothing was asked", "silent", 1, {next_none}},
        {"release of nothing", "a", 1, {release}},
        {"HELLO late", "a", 1, {hello}},
        {"two questions at once", "silent", 2, {classes, classes}},
    };
    struct owner *owner = owner_start(4);
    int bystander = client_connect(owner->path);
    assert_true(client_open(bystander, "bystander"));
    for (size_t i = 0; i < sizeof crimes / sizeof *crimes; i++) {
        print_message("%s\n", crimes[i].what);
        int fd = client_connect(owner->path);
        if (crimes[i].open_as)
            assert_true(client_hello(fd) && client_register(fd, crimes[i].open_as));
        if (crimes[i].open_as && strcmp(crimes[i].open_as, "quiet") != 0) {
            struct wire_message msg;
            assert_int_equal(client_receive(fd, &msg, NULL), 1);
        }
        for (uint32_t m = 0; m < crimes[i].n_messages; m++)
            assert_true(client_send(fd, &crimes[i].messages[m]));
        client_expect_error(fd, LARDER_EINVAL, true);
        close(fd);
    }
    struct session_counts counts;
    session_counts(owner->session, &counts);
    assert_int_equal(counts.protocol_errors, sizeof crimes / sizeof *crimes);
    assert_int_equal(owner_counts_now(owner).releases, 0);
    assert_true(client_next(bystander, 0, 1));
    struct wire_message msg;
    assert_int_equal(client_receive(bystander, &msg, NULL), 1);
    assert_true(client_release(bystander, msg.batch.batch));
    OWNER_WAIT(owner, releases, 1);
    assert_true(client_release(bystander, msg.batch.batch)); /* and not twice */
    assert_non_null(strstr(client_expect_error(bystander, LARDER_EINVAL, true), "does not hold"));
    close(bystander);
    owner_stop(owner);
}

/* A registration that the owner refuses ends the connection with the owner's words, and on_gone still comes. */
static void test_refused_registration(void **state)
{
    (void)state;
    struct owner *owner = owner_start(4);
    int fd = client_connect(owner->path);
    assert_true(client_hello(fd) && client_register(fd, "refuse"));
    assert_string_equal(client_expect_error(fd, LARDER_ENOENT, true), "no such folder");
    assert_int_equal(owner_counts_now(owner).gones, 0); /* leases last until the client has left */
    close(fd);
    OWNER_WAIT(owner, gones, 1);
    owner_stop(owner);
}

/* A client that ignores the fatal error it got is closed all the same, soon. */
static void test_linger_is_bounded(void **state)
{
    (void)state;
    struct owner *owner = owner_start(4);
    int fd = client_connect(owner->path);
    assert_true(client_hello(fd) && client_register(fd, "refuse"));
    OWNER_WAIT(owner, registers, 1);
    uint64_t begin = clock_now_ns();
    OWNER_WAIT(owner, gones, 1);
    assert_true(took_at_most("closing", clock_now_ns() - begin, 3 * SESSION_LINGER_MS * CLOCK_NS_PER_MS));
    close(fd);
    owner_stop(owner);
}

/* One client more than allowed is told so, and is let in when another has left. */
static void test_connection_limit(void **state)
{
    (void)state;
    struct owner *owner = owner_start(2);
    int fds[2], extra;
    for (int i = 0; i < 2; i++) {
        fds[i] = client_connect(owner->path);
        assert_true(client_hello(fds[i]));
    }
    extra = client_connect(owner->path);
    assert_non_null(strstr(client_expect_error(extra, LARDER_ELIMIT, true), "2 clients"));
    close(extra);
    close(fds[0]);
    struct session_counts counts;
    do {
        session_counts(owner->session, &counts);
    } while (counts.connections > 1);
    assert_int_equal(counts.refused, 1);
    extra = client_connect(owner->path);
    assert_true(client_open(extra, "late"));
    close(extra);
    close(fds[1]);
    owner_stop(owner);
}

struct stream {
    struct owner *owner;
    uint32_t batches;
    bool ended_well;
};

static void *run_stream(void *arg)
{
    struct stream *stream = arg;
    int fd = client_connect(stream->owner->path);
    bool well = client_open(fd, "stream") && client_next(fd, 0, 4);
    for (uint32_t i = 0; i < stream->batches && well; i++) {
        struct wire_message msg;
        well = client_receive(fd, &msg, NULL) == 1 && msg.type == WIRE_BATCH && client_release(fd, msg.batch.batch) &&
               client_next(fd, 0, 1);
    }
    close(fd);
    stream->ended_well = well;
    return NULL;
}

/* Many clients at once each get all the batches they ask for, while other threads send to them too. */
static void test_many_clients(void **state)
{
    (void)state;
    enum { CLIENTS = 48, BATCHES = 200 };
    struct owner *owner = owner_start(CLIENTS);
    pthread_t threads[CLIENTS];
    struct stream streams[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        streams[i] = (struct stream){.owner = owner, .batches = BATCHES};
        assert_int_equal(pthread_create(&threads[i], NULL, run_stream, &streams[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(streams[i].ended_well);
    }
    OWNER_WAIT(owner, gones, CLIENTS);
    assert_int_equal(owner_counts_now(owner).releases, CLIENTS * BATCHES);
    owner_stop(owner);
}

struct feeder {
    struct owner *owner;
    uint64_t client;
    uint64_t first;
};

static void *feed(void *arg)
{
    struct feeder *feeder = arg;
    for (uint64_t i = 0; i < 40; i++) {
        struct wire_message msg = {.type = WIRE_BATCH, .batch = {.batch = feeder->first + i, .epoch = 0}};
        assert_int_equal(session_send(feeder->owner->session, feeder->client, &msg), 0);
    }
    return NULL;
}

/* Messages that several threads send to one client all arrive, each thread's in its order. */
static void test_send_from_threads(void **state)
{
    (void)state;
    enum { FEEDERS = 3 };
    struct owner *owner = owner_start(4);
    int fd = client_connect(owner->path);
    assert_true(client_open(fd, "silent"));
    OWNER_WAIT(owner, registers, 1);
    pthread_t threads[FEEDERS];
    struct feeder feeders[FEEDERS];
    for (int i = 0; i < FEEDERS; i++) {
        feeders[i] = (struct feeder){owner, owner->client, (uint64_t)(i + 1) * 1000};
        assert_int_equal(pthread_create(&threads[i], NULL, feed, &feeders[i]), 0);
    }
    uint64_t seen[FEEDERS] = {0};
    for (int i = 0; i < FEEDERS * 40; i++) {
        struct wire_message msg;
        assert_int_equal(client_receive(fd, &msg, NULL), 1);
        uint64_t feeder = msg.batch.batch / 1000 - 1;
        assert_int_equal(msg.batch.batch % 1000, seen[feeder]++);
    }
    for (int i = 0; i < FEEDERS; i++)
        pthread_join(threads[i], NULL);
    close(fd);
    owner_stop(owner);
}

/* Stopping tells every client why, removes socket and lock, and does not wait for a client that never leaves. */
static void test_stop(void **state)
{
    (void)state;
    struct owner *owner = owner_start(8);
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = client_connect(owner->path);
        assert_true(i == 2 ? client_hello(fds[i]) : client_open(fds[i], "a"));
    }
    uint64_t begin = clock_now_ns();
    session_stop(owner->session);
    assert_true(took_at_most("stopping", clock_now_ns() - begin, (SESSION_STOP_MS + 1500) * CLOCK_NS_PER_MS));
    assert_int_equal(access(owner->path, F_OK), -1);
    assert_int_equal(session_send_error(owner->session, owner->client, 0, LARDER_EIO, false, "late"), LARDER_EGONE);
    for (int i = 0; i < 3; i++) {
        const char *text = client_expect_error(fds[i], LARDER_EGONE, true);
        assert_non_null(strstr(text, owner->path));
        close(fds[i]);
    }
    assert_int_equal(owner_counts_now(owner).gones, 2);
    assert_int_equal(owner_counts_now(owner).byes, 0);
    owner_stop(owner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conversation),
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_protocol_errors),
        cmocka_unit_test(test_refused_registration),
        cmocka_unit_test(test_linger_is_bounded),
        cmocka_unit_test(test_connection_limit),
        cmocka_unit_test(test_many_clients),
        cmocka_unit_test(test_send_from_threads),
        cmocka_unit_test(test_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
