/* exchange.h: the requests on the control socket, and the answers that are on their way.
 *
 * Each answer goes out by a context of its own, so that the next peer is served meanwhile. A peer that does not take an
 * answer within SEND_MS loses its connection. So does a peer that asks on while ANSWERS_OF_PEER_MAX answers wait for
 * it. The control's thread makes all calls; nng's own threads do the I/O. */
#ifndef LARDER_SERVER_CONTROL_EXCHANGE_H
#define LARDER_SERVER_CONTROL_EXCHANGE_H

#include <nng/nng.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define EXCHANGES_MAX 16 /* answers that may be on their way at a time */

/* One request and its answer. Only the control's thread uses it, apart from `over`. */
struct exchange {
    nng_ctx ctx;
    nng_aio *aio;
    nng_pipe peer;
    bool sending;
    atomic_bool over; /* the sending has ended; set by on_over in a thread of nng's, read by the control's thread */
};

struct exchanges {
    struct exchange all[EXCHANGES_MAX];
};

/* exchanges_open opens all exchanges on the socket and returns nng's code. exchanges_close frees them, also after a
 * failure, once the socket is closed. */
int exchanges_open(struct exchanges *exchanges, nng_socket socket);
/* exchanges_stop ends the operations that wait, and each that is begun later. Any thread. */
void exchanges_stop(struct exchanges *exchanges);
void exchanges_close(struct exchanges *exchanges);

/* exchanges_idle waits until an exchange is idle, and returns it. */
struct exchange *exchanges_idle(struct exchanges *exchanges);
/* exchange_receive waits for a request and returns nng's code. The caller owns the request. */
int exchange_receive(struct exchange *exchange, int32_t timeout_ms, nng_msg **msg);
/* exchanges_take notes which peer the request comes from. False: too many answers wait for that peer, which has lost
 * its connection. */
bool exchanges_take(struct exchanges *exchanges, struct exchange *exchange, nng_msg *msg);
/* exchange_send sends msg, in which the caller has replaced the request by the answer, and takes it over. */
void exchange_send(struct exchange *exchange, nng_msg *msg);

#endif
