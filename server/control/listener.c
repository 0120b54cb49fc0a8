#include "server/control/listener.h"

#include <errno.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/supplemental/util/platform.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "server/control/control.h"

#define URL_BYTES (SOCKET_PATH_MAX + 8)
/* Waited in steps, since a process that was stopped must not lose all the time. The steps grow, since each takes longer
 * than it says where cores are busy: clients that wait must not give up before the listener does. */
#define PROBE_WAIT_MS 3000
#define PROBE_STEP_MS 5
#define PROBE_STEP_MAX_MS 160
#define RESTARTS_MAX 10000

/* on_pipe counts connections and bounds their number, because each costs a descriptor. */
static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct listener *listener = arg;
    if (event == NNG_PIPE_EV_REM_POST) {
        atomic_fetch_sub(&listener->connections, 1);
        return;
    }
    atomic_fetch_add(&listener->arrivals, 1);
    if (atomic_fetch_add(&listener->connections, 1) >= CONTROL_CONNECTIONS_MAX)
        nng_pipe_close(pipe);
}

/* The address sanitizer calls a function below when a program ends. Memory that a listener loses by nng's fault counts
 * as nng's leak, not Larder's. The function must be visible, or the sanitizer's library does not find it. */
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

int listener_fail(int rv, const char *path, struct error *err)
{
    switch (rv) {
    case NNG_EADDRINUSE:
        return error_set(
            err, LARDER_EBUSY,
            "another process answers on the control socket %s: stop it, or give this daemon another socket.path", path);
    case NNG_EPERM:
        return error_set(err, LARDER_EPERM,
                         "may not make the control socket %s: run as a user who may write to its folder, or give "
                         "another socket.path",
                         path);
    case NNG_ENOENT:
        return error_set(err, LARDER_ENOENT, "cannot make the control socket %s: its folder does not exist", path);
    case NNG_ENOMEM: return error_set(err, LARDER_ENOMEM, "out of memory while making the control socket %s", path);
    default: return error_set(err, LARDER_EIO, "cannot make the control socket %s: %s", path, nng_strerror(rv));
    }
}

static int busy(const char *path, struct error *err)
{
    return listener_fail(NNG_EADDRINUSE, path, err);
}

/* take_place renames the file to the name that peers know, once all is set. That name was free, or had a socket that
 * nobody serves. */
static int take_place(struct listener *listener, const char *from, struct error *err)
{
    if (rename(from, listener->path) != 0)
        return socket_file_error(err, "making the control socket", listener->path);
    if (!socket_file_note(listener->path, &listener->file))
        return socket_file_error(err, "looking at the control socket", listener->path);
    return 0;
}

/* own_name returns the name under which nng listens. It is not longer than the path, which may have the greatest length
 * possible. */
static void own_name(const struct listener *listener, char name[SOCKET_PATH_MAX])
{
    memcpy(name, listener->path, SOCKET_PATH_MAX);
    name[strlen(name) - 1] = '~';
}

static int listen_at(struct listener *listener, struct error *err)
{
    char url[URL_BYTES], from[SOCKET_PATH_MAX];
    pid_t pid;
    int rc = socket_file_clear(listener->path, SOCK_STREAM, &pid, err);
    if (rc)
        return rc == LARDER_EBUSY ? busy(listener->path, err) : rc;
    own_name(listener, from);
    snprintf(url, sizeof url, "ipc://%s", from);
    int rv = nng_listener_create(&listener->nng, listener->socket, url);
    if (rv)
        return listener_fail(rv, listener->path, err);
    rv = nng_listener_set_int(listener->nng, NNG_OPT_IPC_PERMISSIONS, 0600);
    if (rv == 0)
        rv = nng_listener_start(listener->nng, 0);
    rc = rv ? listener_fail(rv, listener->path, err) : take_place(listener, from, err);
    if (rc)
        nng_listener_close(listener->nng);
    return rc;
}

/* begin_probe begins a connection to the socket and sends an SP peer's greeting. False: that cannot be tried, which
 * proves nothing. *full: the connection could not begin, because nobody has accepted the connections before it. */
static bool begin_probe(struct listener *listener, bool *full)
{
    static const unsigned char greeting[8] = {0, 'S', 'P', 0, NNG_REQ0_SELF >> 8, NNG_REQ0_SELF & 0xff, 0, 0};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", listener->path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    listener->arrivals_before = atomic_load(&listener->arrivals);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        *full = errno == EAGAIN;
        close(fd);
        return *full;
    }
    (void)!send(fd, greeting, sizeof greeting, MSG_NOSIGNAL); /* 8 bytes fit; if the peer is gone, that shows later */
    listener->probe_fd = fd;
    return true;
}

static void end_probe(struct listener *listener)
{
    if (listener->probe_fd >= 0)
        close(listener->probe_fd);
    listener->probe_fd = -1;
}

/* descriptor_is_free tells whether the process can open a descriptor. nng needs one to accept a connection, and tries
 * again until it gets one. */
static bool descriptor_is_free(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* gets_through tells whether a new connection arrives at the socket. A connection for which nng had no descriptor stays
 * open until the next look: if it were closed before nng accepts it, it would end the listener. */
static bool gets_through(struct listener *listener)
{
    bool arrived = false, full = false;
    if (listener->probe_fd < 0 && !begin_probe(listener, &full))
        return true;
    for (int waited_ms = 0, step_ms = PROBE_STEP_MS; waited_ms < PROBE_WAIT_MS && !arrived; waited_ms += step_ms) {
        if (waited_ms && step_ms < PROBE_STEP_MAX_MS)
            step_ms *= 2;
        nng_msleep(step_ms);
        arrived = atomic_load(&listener->arrivals) != listener->arrivals_before;
    }
    if (!arrived && !descriptor_is_free())
        return true;
    end_probe(listener);
    return arrived;
}

/* end_listener closes a listener that has ended by itself, and notes what it leaves. */
static void end_listener(struct listener *listener)
{
    char address[SOCKET_PATH_MAX];
    nng_listener_close(listener->nng);
    own_name(listener, address);
    leftovers_note(&listener->leftovers, address, clock_now_ns());
}

static void listen_anew(struct listener *listener)
{
    struct error err;
    bool before = listener->listening;
    pthread_mutex_lock(&listener->place);
    bool over = listener->stopping || listener->left;
    if (!over) {
        socket_file_remove(listener->path, &listener->file);
        if (before)
            end_listener(listener);
        listener->listening = listen_at(listener, &err) == 0;
    }
    pthread_mutex_unlock(&listener->place);
    if (over)
        return;
    if (!listener->listening && before)
        log_error("msg=\"control socket lost; it is tried again\" err=\"%s\"", err.text);
    else if (listener->listening && !before)
        log_info("msg=\"control socket is there again\" socket=\"%s\"", listener->path);
}

/* is_lost tells whether somebody has removed or replaced the socket's file. Then it is not made again, because the
 * place may be a successor's. */
static bool is_lost(struct listener *listener)
{
    pthread_mutex_lock(&listener->place);
    bool left = listener->left, lost = !left && socket_file_lost(listener->path, &listener->file);
    if (lost)
        listener->file.known = false;
    pthread_mutex_unlock(&listener->place);
    if (lost)
        log_error("msg=\"the control socket was removed, moved or replaced by somebody: restart larderd to have it "
                  "again\" socket=\"%s\"",
                  listener->path);
    return lost || left;
}

void listener_probe(struct listener *listener)
{
    (void)leftovers_close(&listener->leftovers, clock_now_ns());
    if (listener->lost)
        return;
    if (!listener->listening) {
        listen_anew(listener);
        return;
    }
    listener->lost = is_lost(listener);
    if (listener->lost)
        return;
    if (listener->restarts > RESTARTS_MAX || gets_through(listener))
        return;
    if (listener->restarts++ == RESTARTS_MAX) {
        log_error("msg=\"control socket given up, ended too often by peers that close at once: restart larderd to have "
                  "it again\" socket=\"%s\"",
                  listener->path);
        return;
    }
    log_warn("msg=\"control socket does not answer: listening anew\" socket=\"%s\"", listener->path);
    listen_anew(listener);
}

void listener_init(struct listener *listener, nng_socket socket, const char *path)
{
    *listener = (struct listener){.socket = socket, .probe_fd = -1};
    memcpy(listener->path, path, strlen(path) + 1); /* fits: checked */
    pthread_mutex_init(&listener->place, NULL);
}

int listener_open(struct listener *listener, struct error *err)
{
    int rv = nng_pipe_notify(listener->socket, NNG_PIPE_EV_ADD_PRE, on_pipe, listener);
    if (rv == 0)
        rv = nng_pipe_notify(listener->socket, NNG_PIPE_EV_REM_POST, on_pipe, listener);
    int rc = rv ? listener_fail(rv, listener->path, err) : listen_at(listener, err);
    listener->listening = rc == 0;
    return rc;
}

void listener_leave(struct listener *listener)
{
    pthread_mutex_lock(&listener->place);
    listener->left = true;
    socket_file_remove(listener->path, &listener->file);
    pthread_mutex_unlock(&listener->place);
}

void listener_withdraw(struct listener *listener)
{
    pthread_mutex_lock(&listener->place);
    listener->stopping = true;
    socket_file_remove(listener->path, &listener->file); /* before nng closes it: see socket_file.h */
    pthread_mutex_unlock(&listener->place);
}

void listener_clear(struct listener *listener)
{
    end_probe(listener);
    leftovers_free(&listener->leftovers);
    pthread_mutex_destroy(&listener->place);
}
