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
#include "tests/fuzz/server/session_play.h"

#define CLIENTS 5          /* at a time; the session allows fewer */
#define CONNECTIONS_MAX 3u /* of the session; the next are refused */
#define BODY_MAX 600       /* bytes of an input that one message takes */
#define FDS_MAX 96         /* more than the process has open at a time */
#define TURNS_MAX 1000     /* until everything that was asked for is done */

static struct play play;

/* The input, and where in it the next step begins. */
static struct {
    const uint8_t *data;
    size_t size, pos;
} input;

static uint32_t client_of[CLIENTS]; /* the party, from 1; 0: none */

static uint8_t u8(void)
{
    return input.pos < input.size ? input.data[input.pos++] : 0;
}

/* ── clients ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void send_bytes(struct party *party, const void *bytes, size_t len_bytes, unsigned n_fds)
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
    party->spoke = true;
    (void)!sendmsg(party->fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT); /* the session may have closed it */
}

/* send_raw sends bytes of the input; framed: behind a header that fits them. */
static void send_raw(struct party *party, bool framed)
{
    uint8_t n_fds = u8() % 4, type = u8(), version = u8(), seq = u8(), buf[WIRE_HEADER_BYTES + BODY_MAX];
    size_t len = u8() * (size_t)3, left = input.size - input.pos;
    if (len > left)
        len = left;
    if (len > BODY_MAX)
        len = BODY_MAX;
    if (len > 0)
        memcpy(buf + WIRE_HEADER_BYTES, input.data + input.pos, len);
    input.pos += len;
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

/* send_lawful sends a message that is right by itself, at the right time or not, and seldom with the wrong number of
 * descriptors. */
static void send_lawful(struct party *party)
{
    static const uint8_t types[] = {WIRE_HELLO,   WIRE_REGISTER,  WIRE_REGISTER, WIRE_CLASSES_GET, WIRE_NEXT,
                                    WIRE_RELEASE, WIRE_STATE_GET, WIRE_BYE,      WIRE_COLUMN_GET};
    uint8_t which = u8() % sizeof types, a = u8(), b = u8(), buf[256];
    bool with_state = which == 2;
    size_t len;
    struct wire_message msg = {.type = types[which], .version = party->version, .seq = a % 4};
    switch (msg.type) {
    case WIRE_HELLO:
        msg.version = (uint16_t)(WIRE_VERSION_OLDEST + a % (WIRE_VERSION - WIRE_VERSION_OLDEST + 1));
        party->version = party->spoke ? party->version : msg.version;
        msg.hello.client = (struct wire_text){.data = "fuzz", .len_bytes = 4};
        break;
    case WIRE_REGISTER:
        msg.reg = (struct wire_register){.batch_size = 1, .prefetch = 1, .world_size = 1, .weight = 1, .epochs = b % 4};
        msg.reg.flags = with_state ? (b & 1 ? WIRE_WITH_STATE : WIRE_WITH_INDICES) : 0;
        break;
    case WIRE_NEXT:
        msg.next = (struct wire_next){.epoch = a / 4 % 8, .credits = b % (WIRE_CREDITS_MAX + 1)};
        msg.next.awaited = b < 128 ? WIRE_AHEAD : msg.next.credits + a % 4;
        break;
    case WIRE_RELEASE: msg.release.batch = b; break;
    case WIRE_STATE_GET: msg.state_get = (struct wire_state_get){.epoch = b, .batches = a, .timeout_ms = 5}; break;
    case WIRE_COLUMN_GET: msg.column_get.name = (struct wire_text){.data = "caption", .len_bytes = 1 + a % 7}; break;
    default: break;
    }
    if (wire_encode(&msg, buf, sizeof buf, &len) == 0) /* version 4 has not all of them, and not all are right */
        send_bytes(party, buf, len, with_state != (b == 255));
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

static void let_owner_act(struct party *party)
{
    uint8_t what = u8();
    play_owner(&play, party, what, u8());
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
                                    .handlers = play_handlers(&play)};
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
    uint32_t *client = &client_of[what / 16 % 8 % CLIENTS];
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
    input.data = data;
    input.size = size;
    input.pos = 0;
    play.n_parties = play.n_batches = 0;
    memset(client_of, 0, sizeof client_of);
    while (input.pos < input.size) {
        bool quick = data[input.pos] & 0x80; /* the session's thread is slow, and this step and the next come at once */
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

/* connect, HELLO, REGISTER, REGISTERED, read */
#define OPEN "\x00\x0c\x00\x00\x00\x0c\x01\x00\x00\x09\x00\x00\x05\x08"
#define SEED(text) .bytes = (text), .len = sizeof(text) - 1

static const struct {
    const char *bytes;
    size_t len;
} seeds[] = {
    /* batches, and one given back */
    {SEED(OPEN "\x0c\x04\x00\x07\x09\x04\x02\x09\x04\x06\x06\x09\x0c\x05\x00\x00\x0c\x07\x00\x00")},
    /* a token, and an error in place of one */
    {SEED(OPEN "\x0c\x06\x01\x02\x09\x02\x00\x06\x09\x0c\x06\x02\x02\x09\x02\x03\x06\x09")},
    /* a descriptor comes with REGISTER; classes */
    {SEED("\x00\x0c\x00\x00\x00\x0c\x02\x00\x00\x09\x00\x00\x05\x08\x0c\x03\x01\x00\x09\x01\x00")},
    /* version 4, and batches with turns */
    {SEED("\x00\x0c\x00\x01\x00\x0c\x01\x00\x00\x09\x00\x00\x0c\x04\x00\x07\x09\x04\x0a\x05\x08")},
    /* REGISTER as bytes */
    {SEED("\x00\x0c\x00\x00\x00\x03\x01\x03\x00\x02\x1c\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00"
          "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00"
          "\x00\x00\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
          "\x00\x00\x05\x08")},
    /* a token that waits until batches are read */
    {SEED(OPEN "\x0c\x04\x00\x3f\x09\x04\xe3\x0c\x06\x01\x00\x09\x02\x00\x0c\x06\x01\x00\x05\xff\x05\xff")},
    /* a token, too late */
    {SEED(OPEN "\x0c\x06\x01\x02\x08\x02\x02\x00")},
    /* too many clients, and the daemon stops */
    {SEED(OPEN "\x10\x1c\x00\x00\x00\x20\x30\x40\x25\x04\x1c\x01\x00\x00\x19\x00\x03\x01\x00")},
    /* all in one turn; bytes that are nothing */
    {SEED("\x80\x8c\x00\x00\x00\x8c\x01\x00\x00\x8c\x04\x00\x01\x87\x09\x00\x00\x04\x03\x00\x00\x00\x02garbage")},
};

size_t fuzz_seed(size_t index, uint8_t *buf, size_t cap)
{
    if (index >= sizeof seeds / sizeof *seeds)
        return 0;
    CHECK(seeds[index].len <= cap);
    memcpy(buf, seeds[index].bytes, seeds[index].len);
    return seeds[index].len;
}
