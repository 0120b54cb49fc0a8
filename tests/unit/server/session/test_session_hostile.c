/* The session against clients that mean harm, or are broken: whatever they do, it costs the others nothing. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/random.h"
#include "tests/unit/server/session/session_fixture.h"

/* ── noise ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static size_t noise(struct rng *rng, uint8_t *buffer)
{
    const struct wire_text text = {"train", 5};
    struct wire_message msg = {.seq = (uint32_t)random_u64(rng)};
    size_t len = 0;
    uint32_t epoch = (uint32_t)random_below(rng, 3), credits = 1 + (uint32_t)random_below(rng, 64);
    switch (random_below(rng, 9)) {
    case 0: msg = (struct wire_message){.type = WIRE_HELLO, .hello = {.client = text}}; break;
    case 1:
        msg = (struct wire_message){
            .type = WIRE_REGISTER, .reg = {.batch_size = 3, .prefetch = 2, .world_size = 1, .weight = 1, .name = text}};
        break;
    case 2: msg = (struct wire_message){.type = WIRE_NEXT, .next = {epoch, credits, 0}}; break;
    case 3: msg = (struct wire_message){.type = WIRE_RELEASE, .release = {random_below(rng, 400)}}; break;
    case 4: msg = (struct wire_message){.type = WIRE_CLASSES_GET, .classes_get = {epoch}}; break;
    case 5: msg = (struct wire_message){.type = WIRE_BYE}; break;
    case 6: msg = (struct wire_message){.type = WIRE_ERROR, .error = {LARDER_EIO, 1, text}}; break;
    default: break;
    }
    if (msg.type) {
        assert_int_equal(wire_encode(&msg, buffer, WIRE_REQUEST_MAX, &len), 0);
    } else {
        len = random_below(rng, random_below(rng, 2) ? 64 : 2 * WIRE_REQUEST_MAX);
        for (size_t i = 0; i < len; i++)
            buffer[i] = (uint8_t)random_u64(rng);
    }
    if (random_below(rng, 4) == 0 && len > 0) /* half of a message */
        len = random_below(rng, len);
    if (random_below(rng, 4) == 0 && len > 0) /* one wrong byte */
        buffer[random_below(rng, len)] ^= (uint8_t)(1 + random_below(rng, 255));
    return len;
}

static void send_descriptors(int fd, const void *data, size_t len_bytes)
{
    enum { FLOOD = 50 };
    union {
        char bytes[CMSG_SPACE(FLOOD * sizeof(int))];
        struct cmsghdr align;
    } control;
    memset(&control, 0, sizeof control);
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = len_bytes};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *at = CMSG_FIRSTHDR(&header);
    at->cmsg_level = SOL_SOCKET;
    at->cmsg_type = SCM_RIGHTS;
    at->cmsg_len = CMSG_LEN(FLOOD * sizeof(int));
    for (int i = 0; i < FLOOD; i++)
        memcpy(CMSG_DATA(at) + i * (int)sizeof fd, &fd, sizeof fd);
    ssize_t sent = sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* the daemon may have closed already */
}

static void be_noisy(struct owner *owner, struct rng *rng, uint8_t *buffer)
{
    int fd = client_connect(owner->path);
    uint64_t begin = random_below(rng, 4);
    if (begin == 1)
        assert_true(client_hello(fd));
    else if (begin > 1)
        assert_true(client_open(fd, begin == 2 ? "noisy" : "silent"));
    for (uint64_t n = random_below(rng, 8); n > 0; n--) {
        size_t len = noise(rng, buffer);
        if (random_below(rng, 8) == 0)
            send_descriptors(fd, buffer, len);
        else if (send(fd, buffer, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
    }
    uint64_t end = random_below(rng, 4);
    if (end == 0)
        shutdown(fd, SHUT_WR);
    if (end < 2) /* read until the daemon has had enough, or nothing more comes */
        for (struct timeval soon = {0, 2000}; setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon) == 0 &&
                                              recv(fd, buffer, WIRE_REPLY_MAX, 0) > 0;)
            ;
    close(fd);
}

/* Thousands of connections of seeded noise (random bytes, broken and misplaced messages, floods of descriptors, closing
 * anywhere) leave no connection and no descriptor behind, and a lawful client beside them gets every batch. */
static void test_noise(void **state)
{
    (void)state;
    const char *given = getenv("LARDER_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 20;
    print_message("LARDER_TEST_SEED=%llu\n", (unsigned long long)seed);
    struct rng rng;
    random_seed(&rng, seed);
    struct owner *owner = owner_start(64);
    uint8_t *buffer = malloc(WIRE_REPLY_MAX);
    int lawful = client_connect(owner->path);
    assert_true(client_open(lawful, "lawful"));
    pause_ms(20);
    int descriptors = count_descriptors();
    for (int i = 0; i < 2000; i++) {
        be_noisy(owner, &rng, buffer);
        struct wire_message msg;
        assert_true(client_next(lawful, 0, 1));
        assert_int_equal(client_receive(lawful, &msg, NULL), 1);
        assert_int_equal(msg.type, WIRE_BATCH);
        assert_true(client_release(lawful, msg.batch.batch));
    }
    struct session_counts counts;
    uint64_t until = clock_now_ns() + 60 * CLOCK_NS_PER_S;
    do {
        session_counts(owner->session, &counts);
        /* a connection is counted out just before its socket is closed */
    } while ((counts.connections > 1 || count_descriptors() != descriptors) && clock_now_ns() < until);
    assert_int_equal(counts.connections, 1);
    assert_int_equal(count_descriptors(), descriptors);
    print_message("connections with protocol errors: %llu\n", (unsigned long long)counts.protocol_errors);
    assert_true(counts.protocol_errors > 200);
    close(lawful);
    free(buffer);
    owner_stop(owner);
}

/* ── clients that do not read ────────────────────────────────────────────────────────────────────────────────────── */

/* A client that never reads is closed when its outbox is full, having taken no more than that and what the socket
 * holds; another client's batches come all the while. */
static void test_never_reads(void **state)
{
    (void)state;
    struct owner *owner = owner_start(4);
    int lazy = client_connect(owner->path), other = client_connect(owner->path);
    assert_true(client_open(lazy, "silent"));
    uint64_t client = owner->client;
    assert_true(client_open(other, "other"));
    uint8_t *entries = calloc(WIRE_BATCH_MAX, WIRE_ENTRY_BYTES);
    int rc = 0;
    uint64_t sent = 0;
    struct session_counts counts;
    for (; rc == 0; sent++) {
        struct wire_message msg,
            big = {.type = WIRE_BATCH, .batch = {.batch = sent, .count = WIRE_BATCH_MAX, .entries = entries}};
        rc = session_send(owner->session, client, &big);
        assert_true(client_next(other, 0, 1));
        assert_int_equal(client_receive(other, &msg, NULL), 1);
        assert_true(client_release(other, msg.batch.batch));
        session_counts(owner->session, &counts);
        assert_true(counts.outbox_bytes <= SESSION_OUTBOX_MAX_BYTES + WIRE_REPLY_MAX);
    }
    assert_int_equal(rc, LARDER_ELIMIT);
    assert_in_range(sent, SESSION_OUTBOX_MAX_BYTES / WIRE_REPLY_MAX, SESSION_OUTBOX_MAX_BYTES / WIRE_REPLY_MAX + 8);
    OWNER_WAIT(owner, gones, 1);
    uint64_t until = clock_now_ns() + 60 * CLOCK_NS_PER_S;
    do { /* the other's last message is counted until after it was sent */
        session_counts(owner->session, &counts);
    } while (counts.outbox_bytes > 0 && clock_now_ns() < until);
    assert_int_equal(counts.overflows, 1);
    assert_int_equal(counts.outbox_bytes, 0);
    free(entries);
    close(lazy);
    close(other);
    owner_stop(owner);
}

/* More batches than a connection may hold: the connection is closed, whoever's fault it was. */
static void test_holds_too_many(void **state)
{
    (void)state;
    struct owner *owner = owner_start(4);
    int fd = client_connect(owner->path);
    assert_true(client_open(fd, "silent"));
    uint8_t entry[WIRE_ENTRY_BYTES] = {0};
    for (uint64_t i = 0; i <= SESSION_HELD_MAX; i++) {
        struct wire_message msg = {.type = WIRE_BATCH, .batch = {.batch = i, .count = 1, .entries = entry}};
        assert_int_equal(session_send(owner->session, owner->client, &msg), i < SESSION_HELD_MAX ? 0 : LARDER_ELIMIT);
    }
    OWNER_WAIT(owner, gones, 1);
    close(fd);
    owner_stop(owner);
}

static void stream(int fd, uint32_t batches)
{
    for (uint32_t i = 0; i < batches; i++) {
        struct wire_message msg;
        assert_true(client_next(fd, 0, 1));
        assert_int_equal(client_receive(fd, &msg, NULL), 1);
        assert_true(client_release(fd, msg.batch.batch));
    }
}

/* A client that asks questions without end and reads no answer: its requests stay in its own socket, the daemon's
 * memory does not grow, another client is served. */
static void test_asks_and_never_reads(void **state)
{
    (void)state;
    struct owner *owner = owner_start(4);
    owner->samples = WIRE_BATCH_MAX;
    int greedy = client_connect(owner->path), other = client_connect(owner->path);
    assert_true(client_open(greedy, "greedy") && client_open(other, "other"));
    uint8_t request[64];
    size_t len;
    uint32_t epoch = 0;
    for (uint64_t until = clock_now_ns() + CLOCK_NS_PER_S; clock_now_ns() < until;) {
        struct wire_message next = {.type = WIRE_NEXT, .next = {epoch, 1, 0}};
        assert_int_equal(wire_encode(&next, request, sizeof request, &len), 0);
        if (send(greedy, request, len, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
            epoch++;
        else
            pause_ms(1);
        struct session_counts counts;
        session_counts(owner->session, &counts);
        assert_true(counts.outbox_bytes <= SESSION_OUTBOX_HIGH_BYTES + 20 * WIRE_REPLY_MAX);
    }
    owner->samples = 3;
    stream(other, 100);
    close(greedy);
    OWNER_WAIT(owner, gones, 1);
    close(other);
    owner_stop(owner);
}

/* Leaving epoch after epoch costs the client nothing and the engine much: it reaches the owner at no more than the
 * stated rate, whatever the client sends, and another client is served meanwhile. */
static void test_flood_is_slowed(void **state)
{
    (void)state;
    struct owner *owner = owner_start(4);
    int flood = client_connect(owner->path), other = client_connect(owner->path);
    assert_true(client_open(other, "other") && client_open(flood, "silent"));
    uint8_t request[64];
    size_t len;
    uint64_t begin = clock_now_ns(), sent = 0, slowest = 0, now = begin;
    while (now < begin + CLOCK_NS_PER_S) {
        for (int i = 0; i < 200; i++) {
            struct wire_message next = {.type = WIRE_NEXT, .next = {(uint32_t)sent, 1, 0}};
            assert_int_equal(wire_encode(&next, request, sizeof request, &len), 0);
            sent += send(flood, request, len, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
        }
        uint64_t before = clock_now_ns();
        stream(other, 1);
        now = clock_now_ns();
        slowest = now - before > slowest ? now - before : slowest;
        pause_ms(1);
    }
    struct owner_counts counts = owner_counts_now(owner);
    uint64_t windows = (clock_now_ns() - begin) / (SESSION_WINDOW_MS * CLOCK_NS_PER_MS) + 2;
    uint64_t flooded = counts.nexts - counts.releases;
    print_message("flood: %llu sent, %llu reached the owner; another client's slowest batch took %llu us\n",
                  (unsigned long long)sent, (unsigned long long)flooded, (unsigned long long)slowest / 1000);
    assert_true(flooded <= windows * (SESSION_REQUESTS_MAX / SESSION_ABANDON_COST + 1) + 2);
    assert_true(flooded > 0);
    close(flood);
    close(other);
    owner_stop(owner);
}

/* ── clients that stop, or die ───────────────────────────────────────────────────────────────────────────────────── */

/* fork_client starts a process that opens a connection, asks for as much as it may, and then waits for its end. */
static pid_t fork_client(const char *path)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* when the test fails, ctest waits for all that hold its output */
    int fd = client_connect(path);
    if (!client_open(fd, "child") || !client_next(fd, 0, WIRE_CREDITS_MAX))
        _exit(1);
    for (;;)
        pause();
}

/* A stopped client (SIGSTOP) delays nobody, and one that is killed is reported gone at once, not at some time-out. */
static void test_stopped_and_killed(void **state)
{
    (void)state;
    struct owner *owner = owner_start(4);
    owner->samples = 512; /* 64 batches of it are more than a socket holds */
    pid_t child = fork_client(owner->path);
    OWNER_WAIT(owner, nexts, 1);
    assert_int_equal(kill(child, SIGSTOP), 0);
    int fd = client_connect(owner->path);
    assert_true(client_open(fd, "other"));
    uint64_t begin = clock_now_ns();
    stream(fd, 500);
    assert_true(took_at_most("500 batches beside a stopped client", clock_now_ns() - begin, 5 * CLOCK_NS_PER_S));
    assert_int_equal(owner_counts_now(owner).gones, 0);
    begin = clock_now_ns();
    assert_int_equal(kill(child, SIGKILL), 0);
    OWNER_WAIT(owner, gones, 1);
    assert_true(took_at_most("gone after the kill", clock_now_ns() - begin, CLOCK_NS_PER_S / 2));
    waitpid(child, NULL, 0);
    close(fd);
    owner_stop(owner);
}

/* ── out of descriptors ──────────────────────────────────────────────────────────────────────────────────────────── */

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* With no descriptor left to accept a client, the daemon waits without spinning, serves those it has, and lets the
 * new one in when there is one again. */
static void test_out_of_descriptors(void **state)
{
    (void)state;
    struct owner *owner = owner_start(8);
    int fd = client_connect(owner->path);
    assert_true(client_open(fd, "first"));
    int waiting = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), next = dup(waiting);
    close(next);
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){(rlim_t)next, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    close(waiting);
    waiting = client_connect(owner->path); /* takes the last one */
    uint64_t busy = cpu_ns();
    stream(fd, 10);
    pause_ms(350);
    busy = cpu_ns() - busy;
    struct session_counts counts;
    session_counts(owner->session, &counts);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(counts.connections, 1);
    print_message("processor time in 350 ms without descriptors: %llu us\n", (unsigned long long)busy / 1000);
    assert_true(busy < 150 * CLOCK_NS_PER_MS);
    assert_true(client_open(waiting, "second"));
    close(waiting);
    close(fd);
    owner_stop(owner);
}

/* However many come at once, each is told why there is no room, and no descriptor is left behind. */
static void test_crowd(void **state)
{
    (void)state;
    enum { CROWD = 60 };
    struct owner *owner = owner_start(2);
    int fds[CROWD], before = count_descriptors();
    for (int i = 0; i < CROWD; i++)
        fds[i] = client_connect(owner->path);
    for (int i = 2; i < CROWD; i++)
        assert_non_null(client_expect_error(fds[i], LARDER_ELIMIT, true));
    for (int i = 0; i < CROWD; i++)
        close(fds[i]);
    for (int i = 0; i < 500 && count_descriptors() != before; i++)
        pause_ms(10);
    assert_int_equal(count_descriptors(), before);
    owner_stop(owner);
}

int main(void)
{
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_never_reads),
        cmocka_unit_test(test_holds_too_many),
        cmocka_unit_test(test_asks_and_never_reads),
        cmocka_unit_test(test_flood_is_slowed),
        cmocka_unit_test(test_stopped_and_killed),
        cmocka_unit_test(test_out_of_descriptors),
        cmocka_unit_test(test_crowd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
