/* serve_exchange.c: a request, from its headers to its answer.
 *
 * libmicrohttpd calls exchange_access when the headers are here, for each piece of the body, and when the body is
 * whole. A request without an answer is suspended then, and after exchange_resume it is called once more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/net/serve_priv.h"

#define BODY_BYTES_MIN 4096
#define BLOCK_BYTES 65536 /* four TLS records */
#define TYPE_OF_BYTES "application/octet-stream"

static void set_deadline(struct connection *connection, uint32_t ms)
{
    connection->deadline_ns = clock_now_ns() + ms * CLOCK_NS_PER_MS;
}

static void count(struct net_serve *serve, uint64_t *counter)
{
    pthread_mutex_lock(&serve->lock);
    ++*counter;
    pthread_mutex_unlock(&serve->lock);
}

/* ── refusing ── */

static enum MHD_Result refuse(struct connection *connection, unsigned status)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, MHD_HTTP_METHOD_POST);
    set_deadline(connection, connection->serve->options.transfer_ms);
    enum MHD_Result queued = MHD_queue_response(connection->library, status, response);
    MHD_destroy_response(response);
    return queued;
}

/* The certificate is looked at once for a connection, its end with each request. */
static bool believe(struct connection *connection)
{
    struct net_serve *serve = connection->serve;
    char why[SERVE_WHY_MAX] = "The certificate has expired", who[SERVE_WHY_MAX] = "";
    if (!serve->options.key)
        return true;
    if (connection->believed && time(NULL) <= connection->identity.expires_s)
        return true;
    if (connection->believed) {
        snprintf(who, sizeof who, "%s", connection->identity.texts[0] ? connection->identity.texts[0] : "");
    } else {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection->library,
                                                                       MHD_CONNECTION_INFO_GNUTLS_SESSION);
        CHECK(info && info->tls_session);
        connection->believed = serve_believe(info->tls_session, serve->options.cluster, &connection->identity, why,
                                             who);
        if (connection->believed)
            return true;
    }
    count(serve, &serve->counts.refused_peer);
    log_warn_limited("msg=\"a peer was refused\" address=\"%s\" certificate=\"%s\" why=\"%s\"", connection->address,
                     who, why);
    return false;
}

/* ── the body ── */

static void count_bodies(struct net_serve *serve, size_t before_bytes, size_t after_bytes)
{
    pthread_mutex_lock(&serve->lock);
    serve->counts.bodies_bytes += after_bytes - before_bytes;
    pthread_mutex_unlock(&serve->lock);
}

static void forget_body(struct exchange *exchange)
{
    if (exchange->body_cap)
        count_bodies(exchange->connection->serve, exchange->body_cap, 0);
    exchange->body = NULL;
    exchange->body_bytes = exchange->body_cap = 0;
}

static void refuse_body(struct exchange *exchange, unsigned status)
{
    struct net_serve *serve = exchange->connection->serve;
    bool too_long = status == MHD_HTTP_CONTENT_TOO_LARGE;
    free(exchange->body);
    forget_body(exchange);
    exchange->refused = status;
    count(serve, too_long ? &serve->counts.refused_size : &serve->counts.refused_full);
    log_warn_limited("msg=\"a request's body was refused\" address=\"%s\" path=\"%s\" why=\"%s\"",
                     exchange->connection->address, exchange->path,
                     too_long ? "it is longer than allowed" : "all bodies together take what they may");
}

static bool grow_body(struct exchange *exchange, size_t need)
{
    struct net_serve *serve = exchange->connection->serve;
    size_t cap = exchange->body_cap * 2 > BODY_BYTES_MIN ? exchange->body_cap * 2 : BODY_BYTES_MIN;
    cap = cap > need ? cap : need;
    cap = cap < serve->options.body_max ? cap : serve->options.body_max;
    if (cap - exchange->body_cap > serve->options.bodies_max - serve->counts.bodies_bytes) /* we alone write it */
        return false;
    uint8_t *body = realloc(exchange->body, cap);
    if (!body)
        return false;
    count_bodies(serve, exchange->body_cap, cap);
    exchange->body = body;
    exchange->body_cap = cap;
    return true;
}

static void take_body(struct exchange *exchange, const char *data, size_t len_bytes)
{
    if (exchange->refused)
        return;
    size_t need = exchange->body_bytes + len_bytes;
    if (need > exchange->connection->serve->options.body_max) {
        refuse_body(exchange, MHD_HTTP_CONTENT_TOO_LARGE);
    } else if (need > exchange->body_cap && !grow_body(exchange, need)) {
        refuse_body(exchange, MHD_HTTP_SERVICE_UNAVAILABLE);
    } else {
        memcpy(exchange->body + exchange->body_bytes, data, len_bytes);
        exchange->body_bytes = need;
    }
}

/* A body that says it is too long is not kept at all. Chunked ones do not say. */
static void look_at_length(struct exchange *exchange)
{
    const char *text = MHD_lookup_connection_value(exchange->connection->library, MHD_HEADER_KIND,
                                                   MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (text && strtoull(text, NULL, 10) > exchange->connection->serve->options.body_max)
        refuse_body(exchange, MHD_HTTP_CONTENT_TOO_LARGE);
}

/* ── the answer ── */

static enum MHD_Result send_answer(struct exchange *exchange)
{
    struct net_serve *serve = exchange->connection->serve;
    enum MHD_Result queued = MHD_queue_response(exchange->connection->library, exchange->status, exchange->response);
    MHD_destroy_response(exchange->response);
    exchange->response = NULL;
    set_deadline(exchange->connection, serve->options.transfer_ms);
    count(serve, &serve->counts.answers);
    return queued;
}

/* Takes it off the list of those that are answered; whether it was there. */
static bool unlist(struct exchange *exchange)
{
    struct net_serve *serve = exchange->connection->serve;
    pthread_mutex_lock(&serve->lock);
    bool answered = exchange->answered;
    if (answered)
        TAILQ_REMOVE(&serve->ready, exchange, link);
    exchange->answered = false;
    pthread_mutex_unlock(&serve->lock);
    return answered;
}

void exchange_drop(struct exchange *exchange)
{
    struct net_serve *serve = exchange->connection->serve;
    pthread_mutex_lock(&serve->lock);
    uint64_t ticket = exchange->ticket;
    if (ticket) {
        exchange->ticket = 0;
        serve->slots[exchange->connection->slot] = NULL;
        serve->counts.drops++;
    }
    pthread_mutex_unlock(&serve->lock);
    if (ticket && serve->options.on_drop)
        serve->options.on_drop(serve->options.user, ticket);
}

void exchange_resume(struct exchange *exchange)
{
    if (exchange->suspended)
        MHD_resume_connection(exchange->connection->library);
    exchange->suspended = false;
}

/* ── the request ── */

static uint64_t give_ticket(struct exchange *exchange)
{
    struct net_serve *serve = exchange->connection->serve;
    uint32_t slot = exchange->connection->slot;
    uint64_t ticket = ++serve->last_serial * serve->options.connections + slot;
    pthread_mutex_lock(&serve->lock);
    exchange->ticket = ticket;
    serve->slots[slot] = exchange;
    serve->counts.requests++;
    pthread_mutex_unlock(&serve->lock);
    return ticket;
}

static enum MHD_Result hand_over(struct exchange *exchange)
{
    struct connection *connection = exchange->connection;
    struct net_serve *serve = connection->serve;
    struct net_serve_request request = {.path = exchange->path,
                                        .address = connection->address,
                                        .peer = connection->believed ? &connection->identity.peer : NULL,
                                        .body = exchange->body,
                                        .body_bytes = exchange->body_bytes};
    exchange->handed = true;
    connection->deadline_ns = UINT64_MAX;
    forget_body(exchange);
    request.ticket = give_ticket(exchange);
    serve->options.on_request(serve->options.user, &request);
    free(request.body);
    if (unlist(exchange))
        return send_answer(exchange);
    if (connection->hung_up) {
        exchange_drop(exchange);
        return refuse(connection, MHD_HTTP_SERVICE_UNAVAILABLE);
    }
    exchange->suspended = true;
    MHD_suspend_connection(connection->library);
    return MHD_YES;
}

static enum MHD_Result begin(struct connection *connection, const char *url, const char *method, void **state)
{
    set_deadline(connection, connection->serve->options.transfer_ms);
    connection->asked = true;
    if (!believe(connection))
        return refuse(connection, MHD_HTTP_FORBIDDEN);
    if (strcmp(method, MHD_HTTP_METHOD_POST) != 0)
        return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED);
    struct exchange *exchange = xcalloc(1, sizeof *exchange);
    exchange->connection = connection;
    exchange->path = xstrdup(url);
    connection->exchange = exchange;
    *state = exchange;
    look_at_length(exchange);
    return MHD_YES;
}

enum MHD_Result exchange_access(void *arg, struct MHD_Connection *library, const char *url, const char *method,
                                const char *version, const char *data, size_t *len_bytes, void **state)
{
    struct exchange *exchange = *state;
    (void)arg, (void)version;
    if (!exchange) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(library, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
        return begin(info->socket_context, url, method, state);
    }
    if (*len_bytes > 0) {
        take_body(exchange, data, *len_bytes);
        *len_bytes = 0;
        return MHD_YES;
    }
    if (exchange->refused)
        return refuse(exchange->connection, exchange->refused);
    if (!exchange->handed)
        return hand_over(exchange);
    if (exchange->response)
        return send_answer(exchange);
    return refuse(exchange->connection, MHD_HTTP_SERVICE_UNAVAILABLE); /* it was dropped; nobody reads this */
}

void exchange_completed(void *arg, struct MHD_Connection *library, void **state, enum MHD_RequestTerminationCode how)
{
    struct exchange *exchange = *state;
    (void)library, (void)how;
    struct net_serve *serve = arg;
    if (!exchange)
        return;
    exchange_drop(exchange);
    unlist(exchange);
    if (exchange->response)
        MHD_destroy_response(exchange->response);
    free(exchange->body);
    forget_body(exchange);
    free(exchange->path);
    set_deadline(exchange->connection, serve->options.idle_ms);
    exchange->connection->exchange = NULL;
    free(exchange);
    *state = NULL;
}

/* ── answering ── */

/* The rest of an answer's body. */
struct body {
    struct net_piece *pieces;
    uint32_t n_pieces, at;
    size_t offset_bytes; /* offset in the piece */
    void (*release)(void *arg);
    void *arg;
};

/* libmicrohttpd asks for the bytes in their order, and for each once. */
static ssize_t read_body(void *arg, uint64_t position, char *out, size_t cap)
{
    struct body *body = arg;
    size_t have = 0;
    (void)position;
    while (have < cap && body->at < body->n_pieces) {
        const struct net_piece *piece = &body->pieces[body->at];
        size_t left = piece->len_bytes - body->offset_bytes, n = left < cap - have ? left : cap - have;
        if (n > 0)
            memcpy(out + have, (const char *)piece->data + body->offset_bytes, n);
        have += n;
        body->offset_bytes += n;
        if (n == left) {
            body->at++;
            body->offset_bytes = 0;
        }
    }
    return (ssize_t)have;
}

static void free_body(void *arg)
{
    struct body *body = arg;
    if (body->release)
        body->release(body->arg);
    free(body->pieces);
    free(body);
}

/* The pieces are copied through a block, since libmicrohttpd 0.9.75 ends the process where a vector of addresses does
 * not fit beside the request's headers. Small pieces so become large TLS records. */
static struct MHD_Response *make_response(const struct net_answer *answer)
{
    struct body *body = xmalloc(sizeof *body);
    size_t whole_bytes = 0;
    *body = (struct body){.pieces = xcalloc(answer->n_pieces + 1, sizeof *body->pieces),
                          .n_pieces = answer->n_pieces,
                          .release = answer->release,
                          .arg = answer->arg};
    for (uint32_t i = 0; i < answer->n_pieces; i++) {
        body->pieces[i] = answer->pieces[i];
        whole_bytes += answer->pieces[i].len_bytes;
    }
    size_t block_bytes = whole_bytes < BLOCK_BYTES ? whole_bytes + 1 : BLOCK_BYTES;
    struct MHD_Response *response = MHD_create_response_from_callback(whole_bytes, block_bytes, read_body, body,
                                                                      free_body);
    CHECK(response);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type ? answer->type : TYPE_OF_BYTES);
    return response;
}

void net_serve_answer(struct net_serve *serve, uint64_t ticket, const struct net_answer *answer)
{
    CHECK_MAGIC(serve, SERVE_MAGIC);
    CHECK(answer->status >= 200 && answer->status <= 599);
    struct MHD_Response *response = make_response(answer);
    pthread_mutex_lock(&serve->lock);
    uint32_t slot = (uint32_t)(ticket % serve->options.connections);
    struct exchange *exchange = serve->slots[slot];
    bool open = exchange && exchange->ticket == ticket;
    bool wake = open && TAILQ_EMPTY(&serve->ready);
    if (open) {
        exchange->response = response;
        exchange->status = (unsigned)answer->status;
        exchange->answered = true;
        exchange->ticket = 0;
        serve->slots[slot] = NULL;
        TAILQ_INSERT_TAIL(&serve->ready, exchange, link);
    }
    pthread_mutex_unlock(&serve->lock);
    if (!open)
        MHD_destroy_response(response); /* releases the answer */
    else if (wake)
        serve_wake(serve);
}
