/* fuzz_session.c: proves that whatever clients send, in whatever order they and the owner act, the session neither
 * crashes nor leaks descriptors, the owner sees nothing unlawful, and on_gone comes exactly once for each on_register.
 *
 * An input is a list of steps. Each says what one of a few clients does (it connects, sends bytes with or without
 * descriptors, reads, leaves) or what the owner does, as lawfully as the session's header demands. The session's thread
 * does not run: its loop takes its turns here, between the steps, so that an input always does the same. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/check.h"
#include "common/little_endian.h"
#include "server/session/session_priv.h"
#include "tests/fuzz/fuzz.h"

#define CLIENTS 5          /* at a time; the session allows fewer */
#define CONNECTIONS_MAX 3u /* of the session; the next are refused */
#define PARTIES_MAX 40     /* connections in one input */
#define BATCHES_MAX 4096   /* in one input */
#define BODY_MAX 600       /* bytes of an input that one message takes */
#define FDS_MAX 96         /* more than the process has open at a time */
#define TURNS_MAX 1000     /* until everything that was asked for is done */

/* A connection as its two sides know it. */
struct party {
    uint64_t id;
    int fd; /* the client's end; -1: closed */
    uint16_t version;
    /* what the owner knows */
    bool told, gone, answered, registered;
    bool begun, over, classes, state;
    uint32_t epoch, credits, classes_seq, state_seq;
};

static struct {
    struct session *session;
    int memory_fd;
    const uint8_t *data;
    size_t size, pos;
    struct party parties[PARTIES_MAX];
    uint32_t n_parties;
    uint32_t client_of[CLIENTS];    /* the party, from 1; 0: none */
    uint32_t holder_of[BATCHES_MAX]; /* of a batch: the party that has it, from 1 */
    uint32_t n_batches;
} play;

static uint8_t u8(void)
{
    return play.pos < play.size ? play.data[play.pos++] : 0;
}

/* ── the owner ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static struct party *party_of(uint64_t id)
{
    for (uint32_t i = 0; i < play.n_parties; i++) {
        if (play.parties[i].id == id)
            return &play.parties[i];
    }
    CHECK(!"a client that is known");
    return NULL;
}

static struct party *registered(uint64_t id)
{
    struct party *party = party_of(id);
    CHECK(party->registered && !party->gone);
    return party;
}

static void on_register(void *ctx, uint64_t client, uint32_t seq, const struct session_peer *peer,
                        const struct wire_register *reg, int state_fd)
{
    (void)ctx, (void)seq;
    struct party *party = party_of(client);
    CHECK(!party->told && !party->gone && peer->pid == getpid());
    CHECK((state_fd >= 0) == ((reg->flags & WIRE_WITH_STATE) != 0));
    if (state_fd >= 0)
        CHECK(close(state_fd) == 0);
    party->told = true;
}

static void on_classes(void *ctx, uint64_t client, uint32_t seq, uint32_t first)
{
    (void)ctx, (void)first;
    struct party *party = registered(client);
    CHECK(!party->classes && !(party->state && party->state_seq == seq));
    party->classes = true;
    party->classes_seq = seq;
}

static void on_next(void *ctx, uint64_t client, uint32_t epoch, uint32_t credits)
{
    (void)ctx;
    struct party *party = registered(client);
    CHECK(!party->begun || epoch > party->epoch || (epoch == party->epoch && !party->over));
    if (!party->begun || epoch > party->epoch) {
        party->begun = true;
        party->over = false;
        party->epoch = epoch;
        party->credits = 0;
    }
    party->credits += credits;
    CHECK(credits > 0 && party->credits <= WIRE_CREDITS_MAX);
}

static void on_release(void *ctx, uint64_t client, uint64_t batch)
{
    (void)ctx;
    struct party *party = registered(client);
    CHECK(batch < play.n_batches && play.holder_of[batch] == (uint32_t)(party - play.parties) + 1);
    play.holder_of[batch] = 0;
}

static void on_state_get(void *ctx, uint64_t client, uint32_t seq, const struct wire_state_get *get)
{
    (void)ctx, (void)get;
    struct party *party = registered(client);
    CHECK(!party->state && seq != 0 && party->version > 4 && !(party->classes && party->classes_seq == seq));
    party->state = true;
    party->state_seq = seq;
}

static void on_gone(void *ctx, uint64_t client)
{
    (void)ctx;
    struct party *party = party_of(client);
    CHECK(party->told && !party->gone);
    party->gone = true;
}

static void answer_registration(struct party *party, uint8_t how)
{
    if (!party->told || party->answered)
        return;
    party->answered = true;
    struct wire_message msg = {.type = WIRE_REGISTERED, .registered = {.job = 1, .view = {1, 2}}};
    if (how % 4 == 3)
        session_send_error(play.session, party->id, 0, LARDER_ENOENT, true, "no such folder");
    else
        party->registered = session_send(play.session, party->id, &msg) == 0;
}

static void answer_classes(struct party *party)
{
    if (!party->classes)
        return;
    party->classes = false;
    struct wire_message msg = {
        .type = WIRE_CLASSES, .seq = party->classes_seq, .classes = {1, 1, 2, {.data = "\3\0cat", .len_bytes = 5}}};
    session_send(play.session, party->id, &msg);
}

static void answer_state(struct party *party, uint8_t how)
{
    if (!party->state)
        return;
    party->state = false;
    struct wire_message msg = {.type = WIRE_STATE, .seq = party->state_seq, .state = {.n_bytes = 9}};
    if (how % 4 == 3)
        session_send_error(play.session, party->id, party->state_seq, LARDER_ETIMEOUT, false, "not in time");
    else
        session_send_fd(play.session, party->id, &msg, dup(play.memory_fd));
}

static void send_batch(struct party *party, uint8_t how)
{
    static const uint32_t counts[] = {0, 1, 3, WIRE_BATCH_MAX};
    static uint8_t entries[WIRE_BATCH_MAX * WIRE_ENTRY_BYTES];
    uint8_t turn[WIRE_TURN_BYTES] = {0};
    if (!party->registered || play.n_batches == BATCHES_MAX)
        return;
    struct wire_message msg = {.type = WIRE_BATCH,
                               .batch = {.batch = play.n_batches++,
                                         .epoch = party->epoch,
                                         .flags = how & 4 ? WIRE_BATCH_LAST : 0,
                                         .count = counts[how % 4],
                                         .entries = entries}};
    struct wire_message turns = {.type = WIRE_TURNS, .turns = {msg.batch.batch, 1, turn}};
    if (how & 8)
        session_send(play.session, party->id, &turns);
    if (session_send(play.session, party->id, &msg) != 0)
        return;
    play.holder_of[msg.batch.batch] = (uint32_t)(party - play.parties) + 1;
    if (!party->begun)
        return;
    party->credits -= party->credits > 0;
    if (how & 4) {
        party->over = true;
        party->credits = 0;
    }
}

/* The owner may hear late that a client has gone, and answer it all the same. */
static void let_owner_act(struct party *party)
{
    uint8_t what = u8(), how = u8();
    switch (what % 6) {
    case 0: answer_registration(party, how); break;
    case 1: answer_classes(party); break;
    case 2: answer_state(party, how); break;
    case 3: session_send_error(play.session, party->id, 0, LARDER_EIO, how == 255, "a job's own failure"); break;
    default:
        for (uint8_t n = 0; n <= how / 32; n++)
            send_batch(party, how);
    }
}

/* ── clients ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void send_bytes(const struct party *party, const void *bytes, size_t len_bytes, unsigned n_fds)
{
    union {
        char bytes[CMSG_SPACE(3 * sizeof(int))];
        struct cmsghdr align;
    } control;
    memset(&control, 0, sizeof control);
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len_bytes};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (n_fds) {
        header.msg_control = &control;
        header.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *at = CMSG_FIRSTHDR(&header);
        at->cmsg_level = SOL_SOCKET;
        at->cmsg_type = SCM_RIGHTS;
        at->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        for (unsigned i = 0; i < n_fds; i++)
            memcpy(CMSG_DATA(at) + i * sizeof(int), &play.memory_fd, sizeof(int));
    }
    (void)!sendmsg(party->fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT); /* the session may have closed it */
}

/* send_raw sends bytes of the input; framed: behind a header that fits them. */
static void send_raw(struct party *party, bool framed)
{
    uint8_t n_fds = u8() % 4, type = u8(), version = u8(), seq = u8(), buf[WIRE_HEADER_BYTES + BODY_MAX];
    size_t len = u8() * (size_t)3, left = play.size - play.pos;
    if (len > left)
        len = left;
    if (len > BODY_MAX)
        len = BODY_MAX;
    if (len > 0)
        memcpy(buf + WIRE_HEADER_BYTES, play.data + play.pos, len);
    play.pos += len;
    put_u32(buf, WIRE_MAGIC);
    put_u16(buf + 4, version ? version : party->version);
    put_u16(buf + 6, type);
    put_u32(buf + 8, seq);
    put_u32(buf + 12, (uint32_t)(WIRE_HEADER_BYTES + len));
    if (framed)
        send_bytes(party, buf, WIRE_HEADER_BYTES + len, n_fds);
    else
        send_bytes(party, buf + WIRE_HEADER_BYTES, len, n_fds);
}

/* send_lawful sends a message that is right by itself, at the right time or not. */
static void send_lawful(struct party *party)
{
    static const uint8_t types[] = {WIRE_HELLO,   WIRE_REGISTER,  WIRE_REGISTER, WIRE_CLASSES_GET, WIRE_NEXT,
                                    WIRE_RELEASE, WIRE_STATE_GET, WIRE_BYE};
    uint8_t which = u8() % sizeof types, a = u8(), b = u8(), buf[256];
    bool with_state = which == 2;
    size_t len;
    struct wire_message msg = {.type = types[which], .version = party->version, .seq = a % 4};
    switch (msg.type) {
    case WIRE_HELLO:
        party->version = msg.version = a % 2 ? 4 : 5;
        msg.hello.client = (struct wire_text){.data = "fuzz", .len_bytes = 4};
        break;
    case WIRE_REGISTER:
        msg.reg = (struct wire_register){.batch_size = 1, .prefetch = 1, .world_size = 1, .weight = 1, .epochs = b % 4};
        msg.reg.flags = with_state ? WIRE_WITH_STATE : 0;
        break;
    case WIRE_NEXT: msg.next = (struct wire_next){.epoch = a / 4 % 4, .credits = 1 + b % WIRE_CREDITS_MAX}; break;
    case WIRE_RELEASE: msg.release.batch = b; break;
    case WIRE_STATE_GET: msg.state_get = (struct wire_state_get){.epoch = b, .batches = a, .timeout_ms = 5}; break;
    default: break;
    }
    if (wire_encode(&msg, buf, sizeof buf, &len) == 0) /* version 4 has not all of them */
        send_bytes(party, buf, len, with_state ? 1 : 0);
}

/* receive reads answers. Each is one that the session may send, of the version that the client speaks. */
static void receive(const struct party *party)
{
    static uint8_t buf[WIRE_REPLY_MAX];
    for (uint8_t n = u8(); n > 0; n--) {
        union {
            char bytes[CMSG_SPACE(2 * sizeof(int))];
            struct cmsghdr align;
        } control;
        struct iovec part = {.iov_base = buf, .iov_len = sizeof buf};
        struct msghdr header = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.bytes};
        ssize_t got = recvmsg(party->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got <= 0)
            return;
        struct wire_message msg;
        CHECK(wire_decode(buf, (size_t)got, &msg, NULL) == 0);
        bool answers = msg.type == WIRE_WELCOME || msg.type == WIRE_REGISTERED || msg.type == WIRE_CLASSES ||
                       msg.type == WIRE_BATCH || msg.type == WIRE_TURNS || msg.type == WIRE_STATE ||
                       msg.type == WIRE_ERROR;
        struct cmsghdr *at = CMSG_FIRSTHDR(&header);
        CHECK(answers && (at != NULL) == (msg.type == WIRE_WELCOME || msg.type == WIRE_STATE));
        if (at) {
            int fd;
            CHECK(at->cmsg_len == CMSG_LEN(sizeof fd));
            memcpy(&fd, CMSG_DATA(at), sizeof fd);
            close(fd);
        }
    }
}

static void leave(struct party *party)
{
    close(party->fd);
    party->fd = -1;
}

static void come(uint32_t *client)
{
    int ends[2];
    if (play.n_parties == PARTIES_MAX)
        return;
    if (*client)
        leave(&play.parties[*client - 1]);
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    struct party *party = &play.parties[play.n_parties++];
    *party = (struct party){.fd = ends[0], .version = WIRE_VERSION};
    *client = play.n_parties;
    session_admit(play.session, ends[1]);
    for (uint32_t i = 0; i < play.session->table.n_places; i++) {
        const struct conn *conn = play.session->table.at[i];
        if (conn && conn->id >> 16 == play.session->table.counter)
            party->id = conn->id;
    }
}

/* ── an input ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void begin_session(void)
{
    char folder[] = "/tmp/larder-fuzz-XXXXXX", path[64];
    struct error err;
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/s", folder);
    struct session_config config = {.connections_max = CONNECTIONS_MAX,
                                    .arena_fd = play.memory_fd,
                                    .arena_bytes = 4096,
                                    .handlers = {.on_register = on_register,
                                                 .on_classes = on_classes,
                                                 .on_next = on_next,
                                                 .on_release = on_release,
                                                 .on_state_get = on_state_get,
                                                 .on_gone = on_gone}};
    CHECK(session_listen(path, &play.session, &err) == 0 && session_prepare(play.session, &config, &err) == 0);
    /* Clients come over socket pairs: nothing has to stay on the disk. */
    session_listen_close(&play.session->listener);
    session_lock_release(&play.session->listener);
    CHECK(rmdir(folder) == 0);
}

/* The system gives the lowest numbers that are free, so those that leak are among the first. */
static int count_fds(void)
{
    int count = 0;
    for (int fd = 0; fd < FDS_MAX; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void step(void)
{
    uint8_t what = u8();
    uint32_t *client = &play.client_of[what / 16 % 8 % CLIENTS];
    struct party *party = *client ? &play.parties[*client - 1] : NULL;
    if (what % 16 == 0)
        come(client);
    else if (what % 16 == 1)
        play.session->stopping |= u8() % 8 == 0; /* seldom: a session is made anew */
    else if (!party)
        return;
    else if (what % 16 == 2)
        let_owner_act(party);
    else if (party->fd < 0)
        return;
    else if (what % 16 < 5)
        send_raw(party, what % 16 == 3);
    else if (what % 16 < 7)
        receive(party);
    else if (what % 16 == 7)
        shutdown(party->fd, SHUT_WR);
    else if (what % 16 == 8)
        leave(party);
    else if (what % 16 < 12)
        let_owner_act(party);
    else
        send_lawful(party);
}

/* end lets all clients leave and checks that nothing is left of them. */
static void end(void)
{
    for (uint32_t i = 0; i < play.n_parties; i++) {
        if (play.parties[i].fd >= 0)
            leave(&play.parties[i]);
    }
    for (int i = 0; i < TURNS_MAX && play.session->table.n_conns > 0; i++)
        session_turn(play.session, 0);
    struct session_counts counts;
    session_counts(play.session, &counts);
    CHECK(play.session->table.n_conns == 0 && counts.connections == 0 && counts.registered == 0);
    CHECK(counts.outbox_bytes == 0);
    for (uint32_t i = 0; i < play.n_parties; i++)
        CHECK(play.parties[i].told == play.parties[i].gone);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    log_set_level(LOG_ERROR);
    if (play.memory_fd == 0)
        CHECK((play.memory_fd = memfd_create("fuzz", MFD_CLOEXEC)) > 0);
    if (!play.session)
        begin_session();
    int n_fds = count_fds();
    play.data = data;
    play.size = size;
    play.pos = play.n_parties = play.n_batches = 0;
    memset(play.client_of, 0, sizeof play.client_of);
    while (play.pos < play.size) {
        bool quick = data[play.pos] & 0x80; /* the session's thread is slow, and this step and the next come at once */
        step();
        if (!quick)
            session_turn(play.session, 0);
    }
    end();
    CHECK(count_fds() == n_fds);
    if (play.session->stopping) {
        session_destroy(play.session);
        play.session = NULL;
    }
    return 0;
}

/* ── seeds ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

#define OPEN "\x00\x0c\x00\x00\x00\x0c\x01\x00\x00\x09\x00\x00\x05\x08" /* connect, HELLO, REGISTER, REGISTERED, read */

static const struct {
    const char *bytes;
    size_t len;
} seeds[] = {
#define SEED(text) {text, sizeof(text) - 1}
    SEED(OPEN "\x0c\x04\x00\x07\x09\x04\x02\x09\x04\x06\x06\x09\x0c\x05\x00\x00\x0c\x07\x00\x00"), /* batches */
    SEED(OPEN "\x0c\x06\x01\x02\x09\x02\x00\x06\x09\x0c\x06\x02\x02\x09\x02\x03\x06\x09"),         /* tokens */
    SEED("\x00\x0c\x00\x00\x00\x0c\x02\x00\x00\x09\x00\x00\x05\x08\x0c\x03\x01\x00\x09\x01\x00"),  /* a state comes */
    SEED("\x00\x0c\x00\x01\x00\x0c\x01\x00\x00\x09\x00\x00\x0c\x04\x00\x07\x09\x04\x0a\x05\x08"),  /* version 4 */
    SEED("\x00\x0c\x00\x00\x00\x03\x01\x03\x00\x02\x1c\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00"
         "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
         "\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x08"), /* framed */
    SEED(OPEN "\x0c\x04\x00\x3f\x09\x04\xe3\x0c\x06\x01\x00\x09\x02\x00\x0c\x06\x01\x00\x05\xff\x05\xff"), /* drains */
    SEED(OPEN "\x0c\x06\x01\x02\x08\x02\x02\x00"), /* a token, too late */
    SEED(OPEN "\x10\x1c\x00\x00\x00\x20\x30\x40\x25\x04\x1c\x01\x00\x00\x19\x00\x03\x01"),         /* many; a stop */
    SEED("\x80\x8c\x00\x00\x00\x8c\x01\x00\x00\x8c\x04\x00\x01\x87\x09\x00\x00\x04\x03\x00\x00\x00\x02garbage"),
};

size_t fuzz_seed(size_t index, uint8_t *buf, size_t cap)
{
    if (index >= sizeof seeds / sizeof *seeds)
        return 0;
    CHECK(seeds[index].len <= cap);
    memcpy(buf, seeds[index].bytes, seeds[index].len);
    return seeds[index].len;
}
