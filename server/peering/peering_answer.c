/* peering_answer.c: requests of other daemons. They are checked in the server's thread, and answered by any. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/log.h"
#include "common/net/blocks.h"
#include "server/peering/peering_priv.h"

/* ── requests ── */

static bool is_path(const char *path)
{
    for (int type = PEER_PROBE; PEER_IS_REQUEST(type); type++)
        if (strcmp(path, peering_path((enum peer_type)type)) == 0)
            return true;
    return false;
}

/* Gives the status with which the request is refused; 0: it is good, and *out has it. */
static int look(const struct peering *peering, const struct net_serve_request *request, struct peer_message *out)
{
    struct error err = {.text = "it is an answer"};
    const char *why = NULL;
    if (!is_path(request->path)) {
        log_warn_limited("msg=\"a peer asked for what there is not\" address=\"%s\" path=\"%s\"", request->address,
                         request->path);
        return 404;
    }
    if (peer_decode(request->body, request->body_bytes, out, &err) || !PEER_IS_REQUEST(out->type))
        why = err.text;
    else if (out->cluster != peering->cluster)
        why = "it is of another cluster: each cluster's name and addresses are its own";
    if (why) {
        log_warn_limited("msg=\"a peer's request was refused\" address=\"%s\" path=\"%s\" why=\"%s\"", request->address,
                         request->path, why);
        return 400;
    }
    if (strcmp(request->path, peering_path(out->type)) == 0)
        return 0;
    log_warn_limited("msg=\"a peer's request came by another's path\" address=\"%s\" path=\"%s\" type=%d",
                     request->address, request->path, (int)out->type);
    return 404;
}

void peering_requested(void *user, struct net_serve_request *request)
{
    struct peering *peering = user;
    struct peer_message message;
    pthread_mutex_lock(&peering->lock); /* until peering_start has the server */
    struct net_serve *serve = peering->serve;
    pthread_mutex_unlock(&peering->lock);
    int status = look(peering, request, &message);
    if (status) {
        net_serve_answer(serve, request->ticket, &(struct net_answer){.status = status, .type = PEERING_TYPE});
        return;
    }
    struct peering_event *event = xcalloc(1, sizeof *event);
    event->type = PEERING_ASKED;
    event->number = request->ticket;
    event->message = message;
    event->body = request->body;
    event->free_body = free;
    request->body = NULL;
    peering_tell(peering, event);
}

/* ── answers ── */

struct answer {
    uint8_t *head;
    void *payload;
};

static void release(void *arg)
{
    struct answer *answer = arg;
    free(answer->head);
    net_block_free(answer->payload);
    free(answer);
}

void peering_answer(struct peering *peering, uint64_t number, const struct peer_message *message, void *payload,
                    size_t payload_bytes)
{
    CHECK_MAGIC(peering, PEERING_MAGIC);
    CHECK(!PEER_IS_REQUEST(message->type));
    CHECK(payload_bytes == (message->type == PEER_BATCH ? peering_payload(&message->batch) : 0));
    struct answer *answer = xcalloc(1, sizeof *answer);
    struct peer_message whole = *message;
    size_t head_bytes = 0;
    whole.boot = peering->boot;
    int rc = peering_encode(&whole, &answer->head, &head_bytes);
    if (rc)
        log_error_limited("msg=\"an answer to a peer cannot be sent\" type=%d code=%s", (int)message->type,
                          larder_err_name(rc));
    answer->payload = payload;
    struct net_piece pieces[] = {{answer->head, head_bytes}, {payload, payload_bytes}};
    struct net_answer net = {.status = rc ? 500 : 200,
                             .type = PEERING_TYPE,
                             .pieces = pieces,
                             .n_pieces = rc ? 0 : 2,
                             .release = release,
                             .arg = answer};
    pthread_mutex_lock(&peering->lock);
    bool open = !peering->stopping;
    if (open)
        net_serve_answer(peering->serve, number, &net);
    pthread_mutex_unlock(&peering->lock);
    if (!open)
        release(answer);
}
