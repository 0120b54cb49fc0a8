/* ask.c: one question at a time to the daemon, over nng REQ/REP. The requests and answers are
 * server/control/control.h's. */
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/supplemental/util/platform.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "common/last_word.h"
#include "common/socket_path.h"

#if NNG_MAJOR_VERSION != 1
#error "Larder is written for nng 1: version 2 changed these interfaces"
#endif

#define ANSWER_MAX_BYTES (16u << 20)
#define TIMEOUT_MS 10000
#define RETRIES 3
#define RETRY_MS 50

struct cli_peer {
    nng_socket socket;
    char path[SOCKET_PATH_MAX]; /* path of the control socket */
    atomic_bool foreign;        /* set by on_pipe in a thread of nng's: who answers is not trusted */
    atomic_int pid;             /* set by on_pipe too: who answers; 0: not known */
    atomic_int pipes;           /* connections, as on_pipe was told: 0 once the daemon has gone */
};

/* on_pipe lets nobody answer but a daemon of this user's or root's; nng calls it before it hands the connection out,
 * and after its end. */
static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct cli_peer *peer = arg;
    uint64_t uid, pid;
    if (event == NNG_PIPE_EV_REM_POST) {
        atomic_fetch_sub(&peer->pipes, 1);
        return;
    }
    atomic_fetch_add(&peer->pipes, 1);
    if (nng_pipe_get_uint64(pipe, NNG_OPT_IPC_PEER_UID, &uid) == 0 && (uid == geteuid() || uid == 0)) {
        atomic_store(&peer->pid, nng_pipe_get_uint64(pipe, NNG_OPT_IPC_PEER_PID, &pid) == 0 ? (int)pid : 0);
        return;
    }
    atomic_store(&peer->foreign, true);
    nng_pipe_close(pipe);
}

/* fail_gone says that no daemon answers, and what became of the last one: it has left word when it ended and why, or
 * only its socket. */
static int fail_gone(const struct cli_peer *peer, struct error *err)
{
    char session[SOCKET_PATH_MAX], why[LAST_WORD_BYTES], when[40] = "";
    time_t seconds;
    struct tm tm;
    snprintf(session, sizeof session, "%.*s", (int)(strlen(peer->path) - strlen(".control")), peer->path);
    if (last_word_read(session, &seconds, why) && localtime_r(&seconds, &tm) &&
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S %z", &tm))
        return error_set(
            err, LARDER_EGONE,
            "no daemon answers at %s: the last one ended at %s, because %s. The next script at the default "
            "socket starts another; else start one with larderd. `larder history` then shows the earlier jobs",
            session, when, why);
    if (access(peer->path, F_OK) == 0)
        return error_set(err, LARDER_EGONE,
                         "no daemon answers at %s: the last one was killed, or ran out of memory, for it left its "
                         "socket and no word. The next script at the default socket starts another; else start one "
                         "with larderd. `larder history` then shows the earlier jobs",
                         session);
    return error_set(
        err, LARDER_EGONE,
        "no daemon answers at %s: start one with larderd, or name its socket with --socket or LARDER_SOCKET", session);
}

static int fail_nng(const struct cli_peer *peer, int rv, struct error *err)
{
    switch (rv) {
    case NNG_ECONNREFUSED:
    case NNG_ENOENT:
    case NNG_ECLOSED:
    case NNG_ECONNRESET:
    case NNG_ECONNSHUT: return fail_gone(peer, err);
    case NNG_EPERM:
        return error_set(err, LARDER_EPERM, "may not connect to %s: only the daemon's own user may", peer->path);
    case NNG_ETIMEDOUT:
        if (atomic_load(&peer->pipes) == 0) /* it ended after the connection was made, and no other has come */
            return fail_gone(peer, err);
        return error_set(err, LARDER_ETIMEOUT,
                         "the daemon at %s has not answered within %d s: it is overloaded or hangs; its log says more",
                         peer->path, TIMEOUT_MS / 1000);
    default: return error_set(err, LARDER_EIO, "asking the daemon at %s failed: %s", peer->path, nng_strerror(rv));
    }
}

static int fail_foreign(const struct cli_peer *peer, struct error *err)
{
    return error_set(err, LARDER_EPERM,
                     "the process that answers at %s is another user's, and only a daemon of your own or root's is "
                     "trusted: name its socket with --socket or LARDER_SOCKET",
                     peer->path);
}

static int set_up(struct cli_peer *peer)
{
    nng_socket socket = peer->socket;
    int rv = nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ, ANSWER_MAX_BYTES);
    if (rv == 0)
        rv = nng_pipe_notify(socket, NNG_PIPE_EV_ADD_PRE, on_pipe, peer);
    if (rv == 0)
        rv = nng_pipe_notify(socket, NNG_PIPE_EV_REM_POST, on_pipe, peer);
    if (rv == 0)
        rv = nng_socket_set_ms(socket, NNG_OPT_RECVTIMEO, TIMEOUT_MS);
    return rv ? rv : nng_socket_set_ms(socket, NNG_OPT_SENDTIMEO, TIMEOUT_MS);
}

/* dial connects. A connection that ends before it is one is tried again: the daemon may just be listening anew. */
static int dial(struct cli_peer *peer)
{
    char url[SOCKET_PATH_MAX + 8];
    snprintf(url, sizeof url, "ipc://%s", peer->path);
    int rv = nng_dial(peer->socket, url, NULL, 0);
    for (int i = 0; i < RETRIES && (rv == NNG_ECONNSHUT || rv == NNG_ECONNRESET || rv == NNG_ECLOSED); i++) {
        nng_msleep(RETRY_MS);
        rv = nng_dial(peer->socket, url, NULL, 0);
    }
    return rv;
}

int cli_connect(const char *path, struct cli_peer **out, struct error *err)
{
    char session[SOCKET_PATH_MAX];
    struct cli_peer *peer = calloc(1, sizeof *peer);
    int rc = 0;
    if (!peer)
        return error_set(err, LARDER_ENOMEM, "out of memory");
    if (!path)
        rc = socket_path_default(session, sizeof session, err);
    if (rc == 0)
        rc = socket_path_control(path ? path : session, peer->path, sizeof peer->path, err);
    if (rc == 0) {
        int rv = nng_req0_open(&peer->socket);
        if (rv == 0 && (rv = set_up(peer)) == 0)
            rv = dial(peer);
        rc = atomic_load(&peer->foreign) ? fail_foreign(peer, err) : rv ? fail_nng(peer, rv, err) : 0;
    }
    if (rc) {
        cli_disconnect(peer);
        return rc;
    }
    *out = peer;
    return 0;
}

void cli_disconnect(struct cli_peer *peer)
{
    if (!peer)
        return;
    nng_close(peer->socket); /* harmless if the socket was never opened */
    free(peer);
}

const char *cli_peer_path(const struct cli_peer *peer)
{
    return peer->path;
}

int cli_peer_process(const struct cli_peer *peer)
{
    int pid = atomic_load(&peer->pid);
    return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

static int code_of(const char *name)
{
    for (int code = LARDER_EINVAL; code >= LARDER_ECHANGED; code--) {
        if (name && strcmp(larder_err_name(code), name) == 0)
            return code;
    }
    return LARDER_EIO;
}

/* take_answer checks what came back: it may be anything. */
static int take_answer(const struct cli_peer *peer, const void *bytes, size_t len, json_t **out, struct error *err)
{
    json_t *answer = json_loadb(bytes, len, 0, NULL);
    const json_t *ok = json_object_get(answer, "ok"), *failure = json_object_get(answer, "error");
    const char *text = json_string_value(json_object_get(failure, "text"));
    int rc = 0;
    if (json_is_false(ok) && text)
        rc = error_set(err, code_of(json_string_value(json_object_get(failure, "code"))), "%s", text);
    else if (!json_is_true(ok))
        rc = error_set(err, LARDER_EFORMAT, "what listens at %s does not answer as larderd does", peer->path);
    if (rc)
        json_decref(answer);
    else
        *out = answer;
    return rc;
}

int cli_ask(struct cli_peer *peer, const json_t *request, json_t **answer, struct error *err)
{
    char *text = json_dumps(request, JSON_COMPACT);
    void *bytes = NULL;
    size_t len = 0;
    if (!text)
        return error_set(err, LARDER_EINVAL, "the request cannot be written as JSON (is a name not UTF-8?)");
    int rv = nng_send(peer->socket, text, strlen(text), 0);
    free(text);
    if (rv == 0)
        rv = nng_recv(peer->socket, &bytes, &len, NNG_FLAG_ALLOC);
    if (rv)
        return fail_nng(peer, rv, err);
    int rc = take_answer(peer, bytes, len, answer, err);
    nng_free(bytes, len);
    return rc;
}

int cli_fail(const struct error *err)
{
    fprintf(stderr, "larder: %s\n", err->text);
    return err->code == LARDER_EGONE ? CLI_NO_DAEMON : CLI_FAILED;
}
