/* exchange.h: requests on the control socket and the answers to them that are on their way.
 *
 * An answer goes out by a context of its own, so that the next peer is served meanwhile: one that a peer does not take
 * within SEND_MS costs that peer its connection, and so does asking on while ANSWERS_OF_PEER_MAX answers wait for it.
 * All calls are the control's thread's; nng's own threads do the I/O. */
#ifndef LARDER_SERVER_CONTROL_EXCHANGE_H
#define LARDER_SERVER_CONTROL_EXCHANGE_H

#include <nng/nng.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define EXCHANGES_MAX 16 /* answers on their way at a time */

/* One request and its answer; the thread's, apart from `over`. */
struct exchange {
    nng_ctx ctx;
    nng_aio *aio;
    nng_pipe peer;
    bool sending;
    atomic_bool over; /* set by on_over in a thread of nng's, read by the thread */
};

struct exchanges {
    struct exchange all[EXCHANGES_MAX];
};

/* exchanges_open gives nng's code. However it ends, exchanges_close frees: when the socket is closed. */
int exchanges_open(struct exchanges *exchanges, nng_socket socket);
/* exchanges_stop ends what waits, and what will be begun. Any thread. */
void exchanges_stop(struct exchanges *exchanges);
void exchanges_close(struct exchanges *exchanges);

/* exchanges_idle gives one that has nothing on its way, which it waits for. */
struct exchange *exchanges_idle(struct exchanges *exchanges);
/* exchange_receive waits for a request, which is the caller's; gives nng's code. */
int exchange_receive(struct exchange *exchange, int32_t timeout_ms, nng_msg **msg);
/* exchanges_take notes whose request it is. False: too many answers wait for that peer, which has lost its
 * connection. */
bool exchanges_take(struct exchanges *exchanges, struct exchange *exchange, nng_msg *msg);
/* exchange_send makes the request the answer, and takes it over. */
void exchange_send(struct exchange *exchange, nng_msg *msg);

#endif
