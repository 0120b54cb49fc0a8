#include "tests/unit/server/session/session_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/clock.h"

#define WAIT_MS 60000 /* load does not reach it */
#define ARENA_BYTES 4096

/* ── the owner ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static void send_batch(struct owner *owner, uint64_t client, uint32_t epoch)
{
    static _Thread_local uint8_t entries[WIRE_BATCH_MAX * WIRE_ENTRY_BYTES];
    pthread_mutex_lock(&owner->lock);
    if (owner->epoch != epoch)
        owner->sent_of_epoch = 0;
    owner->epoch = epoch;
    uint32_t index = owner->sent_of_epoch++;
    uint64_t batch = ++owner->batch;
    pthread_mutex_unlock(&owner->lock);
    uint32_t samples = owner->samples, last_at = owner->last_at;
    for (uint32_t i = 0; i < samples; i++) {
        struct wire_entry entry = {.offset = 64 * i, .len_bytes = 64, .id = i, .index = i, .label = 7};
        wire_entry_put(entries, i, &entry);
    }
    bool last = last_at && index + 1 == last_at;
    uint8_t turn[WIRE_TURN_BYTES];
    wire_turn_put(turn, 0, &(struct wire_turn){.position = 1, .index = 5});
    struct wire_message turns = {.type = WIRE_TURNS, .turns = {.batch = batch, .count = 1, .turns = turn}};
    if (owner->turns)
        session_send(owner->session, client, &turns);
    struct wire_message msg = {.type = WIRE_BATCH,
                               .batch = {.batch = batch,
                                         .epoch = epoch,
                                         .index = index,
                                         .flags = last ? WIRE_BATCH_LAST : 0,
                                         .count = samples,
                                         .entries = entries}};
    session_send(owner->session, client, &msg);
}

static void count(struct owner *owner, uint64_t *counter, uint64_t by)
{
    pthread_mutex_lock(&owner->lock);
    *counter += by;
    pthread_cond_broadcast(&owner->changed);
    pthread_mutex_unlock(&owner->lock);
}

static bool is_named(const struct wire_text *name, const char *text)
{
    return name->len_bytes == strlen(text) && memcmp(name->data, text, name->len_bytes) == 0;
}

static void on_register(void *ctx, uint64_t client, uint32_t seq, const struct session_peer *peer,
                        const struct wire_register *reg, int file_fd)
{
    struct owner *owner = ctx;
    pthread_mutex_lock(&owner->lock);
    owner->peer = *peer;
    owner->state[0] = '\0';
    if (file_fd >= 0)
        text_of(file_fd, owner->state, sizeof owner->state);
    owner->client = client;
    if (is_named(&reg->name, "silent"))
        owner->silent = client;
    pthread_mutex_unlock(&owner->lock);
    struct wire_message msg = {
        .type = WIRE_REGISTERED, .seq = seq, .registered = {.job = 3, .n_samples = 10, .name = reg->name}};
    if (is_named(&reg->name, "refuse"))
        session_send_error(owner->session, client, seq, LARDER_ENOENT, true, "no such folder");
    else if (!is_named(&reg->name, "quiet"))
        assert_int_equal(session_send(owner->session, client, &msg), 0);
    count(owner, &owner->counts.registers, 1);
}

static void on_classes(void *ctx, uint64_t client, uint32_t seq, uint32_t first)
{
    struct owner *owner = ctx;
    char names[64];
    uint32_t used = 0, count_of = 0;
    for (uint32_t i = first; i < 2; i++, count_of++)
        wire_class_put(names, sizeof names, &used, i ? "dog" : "cat", 3);
    struct wire_message msg = {.type = WIRE_CLASSES,
                               .seq = seq,
                               .classes = {.first = first, .count = count_of, .total = 2, .names = {names, used}}};
    if (first > 2)
        session_send_error(owner->session, client, seq, LARDER_EINVAL, false, "no such class");
    else if (client != owner->silent)
        session_send(owner->session, client, &msg);
    count(owner, &owner->counts.classes, 1);
}

static void on_next(void *ctx, uint64_t client, const struct wire_next *next)
{
    struct owner *owner = ctx;
    for (uint32_t i = 0; i < next->credits && client != owner->silent; i++)
        send_batch(owner, client, next->epoch);
    count(owner, &owner->counts.credits, next->credits);
    count(owner, &owner->counts.nexts, 1);
}

static void on_release(void *ctx, uint64_t client, uint64_t batch)
{
    struct owner *owner = ctx;
    (void)client, (void)batch;
    count(owner, &owner->counts.releases, 1);
}

static void on_state_get(void *ctx, uint64_t client, uint32_t seq, const struct wire_state_get *get)
{
    struct owner *owner = ctx;
    char text[32];
    snprintf(text, sizeof text, "%u/%u", get->epoch, get->batches);
    struct wire_message msg = {.type = WIRE_STATE, .seq = seq, .state = {.n_bytes = (uint32_t)strlen(text)}};
    if (get->epoch > 1000)
        session_send_error(owner->session, client, seq, LARDER_EINVAL, false, "no such epoch");
    else if (client != owner->silent)
        session_send_fd(owner->session, client, &msg, file_of(text));
    count(owner, &owner->counts.states, 1);
}

static void on_gone(void *ctx, uint64_t client, bool bye)
{
    struct owner *owner = ctx;
    struct wire_message late = {.type = WIRE_BATCH};
    assert_int_equal(session_send(owner->session, client, &late), LARDER_EGONE);
    count(owner, &owner->counts.byes, bye);
    count(owner, &owner->counts.gones, 1);
}

struct owner *owner_start(uint32_t connections_max)
{
    struct owner *owner = calloc(1, sizeof *owner);
    pthread_mutex_init(&owner->lock, NULL);
    pthread_cond_init(&owner->changed, NULL);
    owner->samples = 3;
    snprintf(owner->folder, sizeof owner->folder, "/tmp/larder-session-XXXXXX");
    assert_non_null(mkdtemp(owner->folder));
    snprintf(owner->path, sizeof owner->path, "%s/s.sock", owner->folder);
    owner->arena_fd = memfd_create("arena", MFD_CLOEXEC);
    assert_int_equal(ftruncate(owner->arena_fd, ARENA_BYTES), 0);
    struct error err = {0};
    if (session_listen(owner->path, &owner->session, &err))
        fail_msg("session_listen: %s", err.text);
    struct session_config config = {.connections_max = connections_max,
                                    .arena_fd = owner->arena_fd,
                                    .arena_bytes = ARENA_BYTES,
                                    .handlers = {.ctx = owner,
                                                 .on_register = on_register,
                                                 .on_classes = on_classes,
                                                 .on_next = on_next,
                                                 .on_release = on_release,
                                                 .on_state_get = on_state_get,
                                                 .on_gone = on_gone}};
    assert_int_equal(session_start(owner->session, &config, &err), 0);
    return owner;
}

void owner_stop(struct owner *owner)
{
    session_stop(owner->session);
    struct session_counts counts;
    session_counts(owner->session, &counts);
    assert_int_equal(counts.connections, 0);
    assert_int_equal(counts.registered, 0);
    assert_int_equal(counts.outbox_bytes, 0);
    assert_int_equal(owner->counts.registers, owner->counts.gones);
    session_destroy(owner->session);
    close(owner->arena_fd);
    assert_int_equal(rmdir(owner->folder), 0); /* neither the socket nor the lock file is left */
    pthread_mutex_destroy(&owner->lock);
    pthread_cond_destroy(&owner->changed);
    free(owner);
}

struct owner_counts owner_counts_now(struct owner *owner)
{
    pthread_mutex_lock(&owner->lock);
    struct owner_counts counts = owner->counts;
    pthread_mutex_unlock(&owner->lock);
    return counts;
}

bool owner_wait(struct owner *owner, size_t offset, uint64_t value)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_MS / 1000;
    const uint64_t *counter = (const uint64_t *)(const void *)((const char *)&owner->counts + offset);
    pthread_mutex_lock(&owner->lock);
    while (*counter < value && pthread_cond_timedwait(&owner->changed, &owner->lock, &until) == 0)
        ;
    bool reached = *counter >= value;
    pthread_mutex_unlock(&owner->lock);
    return reached;
}

/* ── clients ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

int client_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    uint64_t until = clock_now_ns() + WAIT_MS * CLOCK_NS_PER_MS;
    while (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        CHECK(clock_now_ns() < until);
        pause_ms(1);
    }
    return fd;
}

bool client_send_raw(int fd, const void *data, size_t len_bytes)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    CHECK(poll(&ready, 1, WAIT_MS) == 1);
    return send(fd, data, len_bytes, MSG_NOSIGNAL) >= 0;
}

bool client_send(int fd, const struct wire_message *msg)
{
    uint8_t buffer[WIRE_REQUEST_MAX];
    size_t len;
    CHECK(wire_encode(msg, buffer, sizeof buffer, &len) == 0);
    return client_send_raw(fd, buffer, len);
}

bool client_send_with(int fd, const struct wire_message *msg, int passed_fd, unsigned n_fds)
{
    enum { FDS_MAX = 64 };
    uint8_t buffer[WIRE_REQUEST_MAX];
    union {
        char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    size_t len;
    CHECK(n_fds > 0 && n_fds <= FDS_MAX && wire_encode(msg, buffer, sizeof buffer, &len) == 0);
    memset(&control, 0, sizeof control);
    struct iovec part = {.iov_base = buffer, .iov_len = len};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(n_fds * sizeof(int))};
    struct cmsghdr *at = CMSG_FIRSTHDR(&header);
    at->cmsg_level = SOL_SOCKET;
    at->cmsg_type = SCM_RIGHTS;
    at->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
    for (unsigned i = 0; i < n_fds; i++)
        memcpy(CMSG_DATA(at) + i * sizeof passed_fd, &passed_fd, sizeof passed_fd);
    return sendmsg(fd, &header, MSG_NOSIGNAL) >= 0;
}

int client_receive(int fd, struct wire_message *out, int *passed_fd)
{
    static _Thread_local uint8_t buffer[WIRE_REPLY_MAX];
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    for (int resets = 0;;) {
        struct iovec part = {.iov_base = buffer, .iov_len = sizeof buffer};
        struct msghdr header = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.bytes};
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        CHECK(poll(&ready, 1, WAIT_MS) == 1);
        ssize_t got = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == ECONNRESET && resets++ == 0)
            continue;
        if (got <= 0)
            return 0;
        struct error err;
        if (wire_decode(buffer, (size_t)got, out, &err))
            fail_msg("the daemon sent something wrong: %s", err.text);
        struct cmsghdr *at = CMSG_FIRSTHDR(&header);
        if (at && passed_fd)
            memcpy(passed_fd, CMSG_DATA(at), sizeof *passed_fd);
        else if (at)
            close(*(int *)(void *)CMSG_DATA(at));
        return 1;
    }
}

bool client_hello(int fd)
{
    struct wire_message msg = {
        .type = WIRE_HELLO, .seq = 1, .hello = {.pid = (uint32_t)getpid(), .client = {"test/1", 6}}};
    return client_send(fd, &msg) && client_receive(fd, &msg, NULL) == 1 && msg.type == WIRE_WELCOME;
}

bool client_register(int fd, const char *name)
{
    struct wire_message msg = {.type = WIRE_REGISTER,
                               .seq = 2,
                               .reg = {.batch_size = 3,
                                       .prefetch = 2,
                                       .world_size = 1,
                                       .weight = 1,
                                       .epochs = strcmp(name, "endless") == 0 ? 0 : 100000,
                                       .name = {name, (uint32_t)strlen(name)},
                                       .dataset = {"/data", 5},
                                       .pipeline = {"[]", 2}}};
    return client_send(fd, &msg);
}

bool client_open(int fd, const char *name)
{
    struct wire_message msg;
    return client_hello(fd) && client_register(fd, name) && client_receive(fd, &msg, NULL) == 1 &&
           msg.type == WIRE_REGISTERED;
}

bool client_next(int fd, uint32_t epoch, uint32_t credits)
{
    struct wire_message msg = {.type = WIRE_NEXT, .seq = 9, .next = {epoch, credits, 0}};
    return client_send(fd, &msg);
}

bool client_release(int fd, uint64_t batch)
{
    struct wire_message msg = {.type = WIRE_RELEASE, .seq = 10, .release = {batch}};
    return client_send(fd, &msg);
}

const char *client_expect_error(int fd, int code, bool fatal)
{
    static _Thread_local char text[ERROR_TEXT_MAX + 1];
    struct wire_message msg;
    do {
        if (client_receive(fd, &msg, NULL) != 1)
            fail_msg("the connection ended without the error %s", larder_err_name(code));
    } while (msg.type != WIRE_ERROR);
    memcpy(text, msg.error.text.data, msg.error.text.len_bytes);
    text[msg.error.text.len_bytes] = '\0';
    if (msg.error.code != code || msg.error.fatal != (uint32_t)fatal)
        fail_msg("got %s (fatal %u): %s", larder_err_name(msg.error.code), msg.error.fatal, text);
    if (fatal)
        assert_int_equal(client_receive(fd, &msg, NULL), 0);
    return text;
}

/* ── more ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

int file_of(const char *text)
{
    int fd = memfd_create("text", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    return fd;
}

void text_of(int fd, char *text, size_t cap)
{
    ssize_t got = pread(fd, text, cap - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    close(fd);
}

void wait_for_descriptors(int count)
{
    for (int i = 0; i < WAIT_MS && count_descriptors() != count; i++)
        pause_ms(1);
    assert_int_equal(count_descriptors(), count);
}

int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return -1;
    int n = 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

bool took_at_most(const char *what, uint64_t took_ns, uint64_t limit_ns)
{
    print_message("%s: %.1f ms, on a quiet machine at most %.1f\n", what, (double)took_ns / CLOCK_NS_PER_MS,
                  (double)limit_ns / CLOCK_NS_PER_MS);
    return !getenv("LARDER_TEST_QUIET") || took_ns <= limit_ns;
}

void pause_ms(unsigned ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}
