/* control.c: the control socket. One thread receives requests and has them answered (exchange.h), and sees to it that
 * peers can connect (listener.h). */
#include "server/control/control.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/socket_path.h"
#include "common/thread.h"
#include "server/control/control_priv.h"
#include "server/control/exchange.h"
#include "server/control/listener.h"

#if NNG_MAJOR_VERSION != 1
#error "Larder is written for nng 1: version 2 changed these interfaces"
#endif

#define CONTROL_MAGIC UINT32_C(0x4c544343)

struct control {
    uint32_t magic;
    nng_socket socket;
    struct listener listener;
    struct exchanges exchanges; /* only the thread uses it, but for what exchange.h allows others */
    pthread_t thread;
    bool started;       /* the thread runs; only the owner uses it */
    atomic_bool ending; /* set by the owner before it stops the exchanges' operations, read by the thread */
    struct control_handlers handlers;
    struct control_memory memory; /* only the thread uses it */
};

static void answer(struct control *control, struct exchange *exchange, nng_msg *msg)
{
    char *text = NULL;
    if (exchanges_take(&control->exchanges, exchange, msg))
        text = control_answer(&control->handlers, &control->memory, nng_msg_body(msg), nng_msg_len(msg));
    nng_msg_clear(msg); /* the context knows where the answer goes */
    if (text && nng_msg_append(msg, text, strlen(text)) == 0)
        exchange_send(exchange, msg);
    else
        nng_msg_free(msg);
    free(text);
}

static void *run(void *arg)
{
    struct control *control = arg;
    uint64_t probed_ns = clock_now_ns();
    while (!atomic_load(&control->ending)) {
        nng_msg *msg = NULL;
        struct exchange *exchange = exchanges_idle(&control->exchanges);
        int rv = exchange_receive(exchange, LISTENER_PROBE_MS, &msg);
        if (rv == NNG_ECANCELED || rv == NNG_ECLOSED)
            break;
        if (rv == 0)
            answer(control, exchange, msg);
        else if (rv != NNG_ETIMEDOUT)
            log_warn_limited("msg=\"control request not received\" err=\"%s\"", nng_strerror(rv));
        if (clock_now_ns() - probed_ns >= LISTENER_PROBE_MS * CLOCK_NS_PER_MS) {
            listener_probe(&control->listener);
            probed_ns = clock_now_ns();
        }
    }
    return NULL;
}

/* end_thread ends the thread by stopping its operations; those that it begins later end at once. The socket is closed
 * only after the thread has ended: nng 1.5 may take a socket apart under a receive that just begins. */
static void end_thread(struct control *control)
{
    atomic_store(&control->ending, true);
    exchanges_stop(&control->exchanges);
    pthread_join(control->thread, NULL);
}

/* end closes whatever is open and frees the control. */
static void end(struct control *control)
{
    listener_withdraw(&control->listener);
    if (control->started)
        end_thread(control);
    nng_close(control->socket);
    exchanges_close(&control->exchanges);
    listener_clear(&control->listener);
    control_memory_clear(&control->memory);
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
    int rv = nng_rep0_open(&control->socket);
    if (rv) {
        free(control);
        return listener_fail(rv, path, err);
    }
    listener_init(&control->listener, control->socket, path);
    rv = nng_socket_set_size(control->socket, NNG_OPT_RECVMAXSZ, CONTROL_REQUEST_MAX_BYTES);
    if (rv == 0)
        rv = exchanges_open(&control->exchanges, control->socket);
    rc = rv ? listener_fail(rv, path, err) : listener_open(&control->listener, err);
    int failed = rc == 0 ? thread_start(&control->thread, "larder-control", run, control) : 0;
    if (failed)
        rc = error_set(err, LARDER_ENOMEM, "cannot start the control thread: %s", strerror(failed));
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
    listener_leave(&control->listener);
}

void control_stop(struct control *control)
{
    if (!control)
        return;
    CHECK_MAGIC(control, CONTROL_MAGIC);
    end(control);
}
