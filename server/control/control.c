/* control.c: the control socket. One thread receives and has answers made; nng's own threads do the I/O. An answer goes
 * out by a context of its own, so that the next peer is served meanwhile: one that a peer does not take within SEND_MS
 * costs that peer its connection, and so does asking on while ANSWERS_OF_PEER_MAX answers wait for it.
 *
 * nng removes its listener's file by name when it closes, whoever's it is by then. So it listens under a name of its
 * own, and the file is renamed to the one that peers know: at the end nng finds nothing to remove, and control_stop
 * removes what is still its own.
 *
 * nng before 1.6 has a fault (its issue 1518): a peer that connects and closes at once ends the listener for good, and
 * all later ones wait in vain. A killed `larder status` can do that. So the thread looks every PROBE_INTERVAL_MS
 * whether a new connection gets through, and listens anew when it does not; clients that waited connect again by
 * themselves. nng loses three descriptors each time, which is why there is an end to it: RESTARTS_MAX. What only takes
 * long, or waits for a descriptor, is not counted. */
#include "server/control/control.h"

#include <errno.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/supplemental/util/platform.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/socket_file.h"
#include "common/socket_path.h"
#include "server/control/control_priv.h"

#if NNG_MAJOR_VERSION != 1
#error "Larder is written for nng 1: version 2 changed these interfaces"
#endif

#define CONTROL_MAGIC UINT32_C(0x4c544343)
#define URL_BYTES (SOCKET_PATH_MAX + 8)
#define PROBE_INTERVAL_MS 2000
#define PROBE_WAIT_MS 3000 /* in steps, so that a process that was stopped, or got no core, has time left */
#define PROBE_STEP_MS 5
#define RESTARTS_MAX 100
#define SEND_MS 1000
#define ANSWERS_MAX 16 /* on their way at a time */
#define ANSWERS_OF_PEER_MAX 4

/* One request and its answer; the thread's, apart from `over`. */
struct exchange {
    nng_ctx ctx;
    nng_aio *aio;
    nng_pipe peer;
    bool sending;
    atomic_bool over; /* set by on_over in a thread of nng's, read by the thread */
};

struct control {
    uint32_t magic;
    nng_socket socket;
    struct exchange exchanges[ANSWERS_MAX];
    pthread_mutex_t place; /* file, stopping and left */
    struct socket_file file;
    bool stopping, left; /* left: control_leave was called */
    nng_listener listener; /* the thread's, once that runs */
    bool listening, lost;  /* the thread's, as what follows */
    unsigned restarts;     /* of the listener */
    int probe_fd;          /* connection that nng has not accepted yet; -1: none */
    unsigned arrivals_before; /* of it */
    char path[SOCKET_PATH_MAX];
    pthread_t thread;
    bool started; /* the thread; the owner's */
    atomic_bool ending; /* set by end before it stops the exchanges' operations, read by the thread */
    struct control_handlers handlers;
    struct control_memory memory; /* the thread's */
    /* Counted by on_pipe, which nng calls from several threads; arrivals is read by gets_through. */
    atomic_uint connections, arrivals;
};

/* on_pipe keeps the number of connections bounded: each costs a descriptor. */
static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct control *control = arg;
    if (event == NNG_PIPE_EV_REM_POST) {
        atomic_fetch_sub(&control->connections, 1);
        return;
    }
    atomic_fetch_add(&control->arrivals, 1);
    if (atomic_fetch_add(&control->connections, 1) >= CONTROL_CONNECTIONS_MAX)
        nng_pipe_close(pipe);
}

/* The address sanitizer asks for this when a program ends: what a listener that its fault has ended held is nng's loss,
 * not ours. Visible, or the sanitizer's own library does not find it. */
#ifndef __has_feature /* clang's way to say what gcc says with a macro */
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libnng";
}
#endif

/* ── answers on their way ────────────────────────────────────────────────────────────────────────────────────────── */

static void on_over(void *arg)
{
    struct exchange *exchange = arg;
    atomic_store(&exchange->over, true);
}

static void drop_peer(nng_pipe peer)
{
    nng_pipe_close(peer);
    log_warn_limited("msg=\"control connection closed: its peer asks and does not read the answers\"");
}

/* finish takes an exchange back whose answer was sent, or will not be. */
static void finish(struct exchange *exchange)
{
    nng_aio_wait(exchange->aio);
    exchange->sending = false;
    int rv = nng_aio_result(exchange->aio);
    if (rv == 0)
        return;
    nng_msg_free(nng_aio_get_msg(exchange->aio));
    if (rv == NNG_ETIMEDOUT)
        drop_peer(exchange->peer);
}

/* free_exchange gives one that has nothing on its way. All of them are back within SEND_MS. */
static struct exchange *free_exchange(struct control *control)
{
    for (;;) {
        struct exchange *found = NULL;
        for (size_t i = 0; i < ANSWERS_MAX; i++) {
            struct exchange *exchange = &control->exchanges[i];
            if (exchange->sending && atomic_load(&exchange->over))
                finish(exchange);
            if (!exchange->sending)
                found = exchange;
        }
        if (found)
            return found;
        nng_msleep(PROBE_STEP_MS);
    }
}

static size_t unread_answers(const struct control *control, nng_pipe peer)
{
    size_t count = 0;
    for (size_t i = 0; i < ANSWERS_MAX; i++)
        count += control->exchanges[i].sending && nng_pipe_id(control->exchanges[i].peer) == nng_pipe_id(peer);
    return count;
}

static void answer(struct control *control, struct exchange *exchange, nng_msg *msg)
{
    exchange->peer = nng_msg_get_pipe(msg);
    bool takes = unread_answers(control, exchange->peer) < ANSWERS_OF_PEER_MAX;
    char *text = NULL;
    if (takes)
        text = control_answer(&control->handlers, &control->memory, nng_msg_body(msg), nng_msg_len(msg));
    nng_msg_clear(msg); /* the context knows where the answer goes */
    bool ready = text && nng_msg_append(msg, text, strlen(text)) == 0;
    free(text);
    if (!takes)
        drop_peer(exchange->peer);
    if (!ready) {
        nng_msg_free(msg);
        return;
    }
    exchange->sending = true;
    atomic_store(&exchange->over, false);
    nng_aio_set_msg(exchange->aio, msg);
    nng_aio_set_timeout(exchange->aio, SEND_MS);
    nng_ctx_send(exchange->ctx, exchange->aio);
}

static int receive(struct exchange *exchange, nng_msg **msg)
{
    nng_aio_set_timeout(exchange->aio, PROBE_INTERVAL_MS);
    nng_ctx_recv(exchange->ctx, exchange->aio);
    nng_aio_wait(exchange->aio);
    int rv = nng_aio_result(exchange->aio);
    if (rv == 0)
        *msg = nng_aio_get_msg(exchange->aio);
    return rv;
}

/* ── listening ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static int fail_nng(int rv, const char *path, struct error *err)
{
    switch (rv) {
    case NNG_EADDRINUSE:
        return error_set(err, LARDER_EBUSY,
                         "another process answers on the control socket %s: stop it, or give this "
                         "daemon another socket.path",
                         path);
    case NNG_EPERM:
        return error_set(err, LARDER_EPERM,
                         "may not make the control socket %s: run as a user who may write to its "
                         "folder, or give another socket.path",
                         path);
    case NNG_ENOENT:
        return error_set(err, LARDER_ENOENT, "cannot make the control socket %s: its folder does not exist", path);
    case NNG_ENOMEM:
        return error_set(err, LARDER_ENOMEM, "out of memory while making the control socket %s", path);
    default:
        return error_set(err, LARDER_EIO, "cannot make the control socket %s: %s", path, nng_strerror(rv));
    }
}

/* set_up does what is done once, before the first listen_at. */
static int set_up(struct control *control)
{
    int rv = nng_socket_set_size(control->socket, NNG_OPT_RECVMAXSZ, CONTROL_REQUEST_MAX_BYTES);
    for (size_t i = 0; i < ANSWERS_MAX && rv == 0; i++) {
        rv = nng_ctx_open(&control->exchanges[i].ctx, control->socket);
        if (rv == 0)
            rv = nng_aio_alloc(&control->exchanges[i].aio, on_over, &control->exchanges[i]);
    }
    if (rv == 0)
        rv = nng_pipe_notify(control->socket, NNG_PIPE_EV_ADD_PRE, on_pipe, control);
    return rv ? rv : nng_pipe_notify(control->socket, NNG_PIPE_EV_REM_POST, on_pipe, control);
}

static int busy(const char *path, struct error *err)
{
    return fail_nng(NNG_EADDRINUSE, path, err);
}

/* The file goes to the name that peers know when all is set; there was a socket of nobody's there, or nothing. */
static int take_place(struct control *control, const char *from, struct error *err)
{
    if (rename(from, control->path) != 0)
        return socket_file_error(err, "making the control socket", control->path);
    if (!socket_file_note(control->path, &control->file))
        return socket_file_error(err, "looking at the control socket", control->path);
    return 0;
}

static int listen_at(struct control *control, struct error *err)
{
    char url[URL_BYTES], from[SOCKET_PATH_MAX];
    pid_t pid;
    int rc = socket_file_clear(control->path, SOCK_STREAM, &pid, err);
    if (rc)
        return rc == LARDER_EBUSY ? busy(control->path, err) : rc;
    memcpy(from, control->path, sizeof from);
    from[strlen(from) - 1] = '~'; /* no longer than the path, which may be as long as one can be */
    snprintf(url, sizeof url, "ipc://%s", from);
    int rv = nng_listener_create(&control->listener, control->socket, url);
    if (rv)
        return fail_nng(rv, control->path, err);
    rv = nng_listener_set_int(control->listener, NNG_OPT_IPC_PERMISSIONS, 0600);
    if (rv == 0)
        rv = nng_listener_start(control->listener, 0);
    rc = rv ? fail_nng(rv, control->path, err) : take_place(control, from, err);
    if (rc)
        nng_listener_close(control->listener);
    return rc;
}

/* Begins a connection to the socket, as far as an SP peer's greeting. False when it cannot be tried, which proves
 * nothing. *full: it could not begin, because nobody has accepted those before. */
static bool begin_probe(struct control *control, bool *full)
{
    static const unsigned char greeting[8] = {0, 'S', 'P', 0, NNG_REQ0_SELF >> 8, NNG_REQ0_SELF & 0xff, 0, 0};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", control->path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    control->arrivals_before = atomic_load(&control->arrivals);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        *full = errno == EAGAIN;
        close(fd);
        return *full;
    }
    (void)!send(fd, greeting, sizeof greeting, MSG_NOSIGNAL); /* 8 bytes fit; a peer that is gone shows later */
    control->probe_fd = fd;
    return true;
}

static void end_probe(struct control *control)
{
    if (control->probe_fd >= 0)
        close(control->probe_fd);
    control->probe_fd = -1;
}

/* nng needs one to accept a connection, and tries again until it gets it. */
static bool descriptor_is_free(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* gets_through says whether a new connection arrives at the socket. One that nng had no descriptor for stays open
 * until the next look: closed before it is accepted it would end the listener. */
static bool gets_through(struct control *control)
{
    bool arrived = false, full = false;
    if (control->probe_fd < 0 && !begin_probe(control, &full))
        return true;
    for (int waited_ms = 0; waited_ms < PROBE_WAIT_MS && !arrived; waited_ms += PROBE_STEP_MS) {
        if (waited_ms)
            nng_msleep(PROBE_STEP_MS);
        arrived = atomic_load(&control->arrivals) != control->arrivals_before;
    }
    if (!arrived && !descriptor_is_free())
        return true;
    end_probe(control);
    return arrived;
}

static void listen_anew(struct control *control)
{
    struct error err;
    bool before = control->listening;
    pthread_mutex_lock(&control->place);
    bool over = control->stopping || control->left;
    if (!over) {
        socket_file_remove(control->path, &control->file);
        if (before)
            nng_listener_close(control->listener);
        control->listening = listen_at(control, &err) == 0;
    }
    pthread_mutex_unlock(&control->place);
    if (over)
        return;
    if (!control->listening && before)
        log_error("msg=\"control socket lost; it is tried again\" err=\"%s\"", err.text);
    else if (control->listening && !before)
        log_info("msg=\"control socket is there again\" socket=\"%s\"", control->path);
}

/* A file that somebody removed or replaced is not made again: the place may be a successor's. */
static bool is_lost(struct control *control)
{
    pthread_mutex_lock(&control->place);
    bool left = control->left, lost = !left && socket_file_lost(control->path, &control->file);
    if (lost)
        control->file.known = false;
    pthread_mutex_unlock(&control->place);
    if (lost)
        log_error("msg=\"the control socket was removed, moved or replaced by somebody: restart larderd to have it "
                  "again\" socket=\"%s\"", control->path);
    return lost || left;
}

static void probe(struct control *control)
{
    if (control->lost)
        return;
    if (!control->listening) {
        listen_anew(control);
        return;
    }
    control->lost = is_lost(control);
    if (control->lost)
        return;
    if (control->restarts > RESTARTS_MAX || gets_through(control))
        return;
    if (control->restarts++ == RESTARTS_MAX) {
        log_error(
            "msg=\"control socket given up, ended too often by peers that close at once: restart larderd to have it "
            "again\" socket=\"%s\"",
            control->path);
        return;
    }
    log_warn("msg=\"control socket does not answer: listening anew\" socket=\"%s\"", control->path);
    listen_anew(control);
}

static void *run(void *arg)
{
    struct control *control = arg;
    uint64_t probed_ns = clock_now_ns();
    while (!atomic_load(&control->ending)) {
        nng_msg *msg = NULL;
        struct exchange *exchange = free_exchange(control);
        int rv = receive(exchange, &msg);
        if (rv == NNG_ECANCELED || rv == NNG_ECLOSED)
            break;
        if (rv == 0)
            answer(control, exchange, msg);
        else if (rv != NNG_ETIMEDOUT)
            log_warn_limited("msg=\"control request not received\" err=\"%s\"", nng_strerror(rv));
        if (clock_now_ns() - probed_ns >= PROBE_INTERVAL_MS * CLOCK_NS_PER_MS) {
            probe(control);
            probed_ns = clock_now_ns();
        }
    }
    return NULL;
}

/* start_thread starts it with all signals blocked: they are the main thread's. */
static int start_thread(struct control *control, struct error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&control->thread, NULL, run, control);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc ? error_set(err, LARDER_ENOMEM, "cannot start the control thread: %s", strerror(rc)) : 0;
}

/* Stopped operations end, and those that are begun later end at once. The socket is closed when the thread has ended only:
 * nng 1.5 may take a socket apart under a receive that just begins. */
static void end_thread(struct control *control)
{
    atomic_store(&control->ending, true);
    for (size_t i = 0; i < ANSWERS_MAX; i++)
        nng_aio_stop(control->exchanges[i].aio);
    pthread_join(control->thread, NULL);
}

/* end closes what there is and frees the control. */
static void end(struct control *control)
{
    pthread_mutex_lock(&control->place);
    control->stopping = true;
    socket_file_remove(control->path, &control->file); /* before nng closes it: see socket_file.h */
    pthread_mutex_unlock(&control->place);
    if (control->started)
        end_thread(control);
    nng_close(control->socket);
    for (size_t i = 0; i < ANSWERS_MAX; i++) {
        if (control->exchanges[i].sending)
            finish(&control->exchanges[i]);
        nng_aio_free(control->exchanges[i].aio); /* accepts NULL */
    }
    end_probe(control);
    control_memory_clear(&control->memory);
    pthread_mutex_destroy(&control->place);
    control->magic = 0;
    free(control);
}

int control_start(const char *path, const struct control_handlers *handlers, struct control **out, struct error *err)
{
    int rc = socket_path_check(path, err);
    if (rc)
        return rc;
    struct control *control = calloc(1, sizeof *control);
    if (!control)
        return error_set(err, LARDER_ENOMEM, "out of memory while making the control socket %s", path);
    control->magic = CONTROL_MAGIC;
    control->handlers = *handlers;
    memcpy(control->path, path, strlen(path) + 1); /* fits: checked */
    int rv = nng_rep0_open(&control->socket);
    if (rv) {
        free(control);
        return fail_nng(rv, path, err);
    }
    pthread_mutex_init(&control->place, NULL);
    rv = set_up(control);
    rc = rv ? fail_nng(rv, path, err) : listen_at(control, err);
    control->listening = rc == 0;
    control->probe_fd = -1;
    if (rc == 0)
        rc = start_thread(control, err);
    control->started = rc == 0;
    if (rc) {
        end(control);
        return rc;
    }
    *out = control;
    return 0;
}

void control_leave(struct control *control)
{
    if (!control)
        return;
    CHECK_MAGIC(control, CONTROL_MAGIC);
    pthread_mutex_lock(&control->place);
    control->left = true;
    socket_file_remove(control->path, &control->file);
    pthread_mutex_unlock(&control->place);
}

void control_stop(struct control *control)
{
    if (!control)
        return;
    CHECK_MAGIC(control, CONTROL_MAGIC);
    end(control);
}
