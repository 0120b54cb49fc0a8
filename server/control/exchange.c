#include "server/control/exchange.h"

#include <nng/supplemental/util/platform.h>

#include "common/log.h"

#define SEND_MS 1000
#define ANSWERS_OF_PEER_MAX 4
#define STEP_MS 5

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

int exchanges_open(struct exchanges *exchanges, nng_socket socket)
{
    int rv = 0;
    for (size_t i = 0; i < EXCHANGES_MAX && rv == 0; i++) {
        struct exchange *exchange = &exchanges->all[i];
        rv = nng_ctx_open(&exchange->ctx, socket);
        if (rv == 0)
            rv = nng_aio_alloc(&exchange->aio, on_over, exchange);
    }
    return rv;
}

void exchanges_stop(struct exchanges *exchanges)
{
    for (size_t i = 0; i < EXCHANGES_MAX; i++)
        nng_aio_stop(exchanges->all[i].aio);
}

void exchanges_close(struct exchanges *exchanges)
{
    for (size_t i = 0; i < EXCHANGES_MAX; i++) {
        if (exchanges->all[i].sending)
            finish(&exchanges->all[i]);
        nng_aio_free(exchanges->all[i].aio); /* accepts NULL */
    }
}

/* It waits for at most SEND_MS, because every exchange is back by then. */
struct exchange *exchanges_idle(struct exchanges *exchanges)
{
    for (;;) {
        struct exchange *found = NULL;
        for (size_t i = 0; i < EXCHANGES_MAX; i++) {
            struct exchange *exchange = &exchanges->all[i];
            if (exchange->sending && atomic_load(&exchange->over))
                finish(exchange);
            if (!exchange->sending)
                found = exchange;
        }
        if (found)
            return found;
        nng_msleep(STEP_MS);
    }
}

static size_t unread_answers(const struct exchanges *exchanges, nng_pipe peer)
{
    size_t count = 0;
    for (size_t i = 0; i < EXCHANGES_MAX; i++)
        count += exchanges->all[i].sending && nng_pipe_id(exchanges->all[i].peer) == nng_pipe_id(peer);
    return count;
}

bool exchanges_take(struct exchanges *exchanges, struct exchange *exchange, nng_msg *msg)
{
    exchange->peer = nng_msg_get_pipe(msg);
    bool takes = unread_answers(exchanges, exchange->peer) < ANSWERS_OF_PEER_MAX;
    if (!takes)
        drop_peer(exchange->peer);
    return takes;
}

void exchange_send(struct exchange *exchange, nng_msg *msg)
{
    exchange->sending = true;
    atomic_store(&exchange->over, false);
    nng_aio_set_msg(exchange->aio, msg);
    nng_aio_set_timeout(exchange->aio, SEND_MS);
    nng_ctx_send(exchange->ctx, exchange->aio);
}

int exchange_receive(struct exchange *exchange, int32_t timeout_ms, nng_msg **msg)
{
    nng_aio_set_timeout(exchange->aio, timeout_ms);
    nng_ctx_recv(exchange->ctx, exchange->aio);
    nng_aio_wait(exchange->aio);
    int rv = nng_aio_result(exchange->aio);
    if (rv == 0)
        *msg = nng_aio_get_msg(exchange->aio);
    return rv;
}
