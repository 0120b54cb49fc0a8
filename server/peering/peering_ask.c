/* peering_ask.c: requests to other daemons. Their answers are checked in the client's thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/check.h"
#include "common/log.h"
#include "common/net/blocks.h"
#include "server/peering/peering_priv.h"

#define ANSWER_BYTES_MIN 4096

/* A request from peering_ask to its event. From net_submit on it is the client's thread's. */
struct ask {
    struct peering *peering;
    uint64_t number;
    uint8_t node[PEER_NODE_BYTES];
    enum peer_type type;
    char url[PEERING_URL_MAX];
    uint8_t *request, *answer; /* owned */
    size_t request_bytes, answer_bytes, answer_cap;
};

static void free_ask(struct ask *ask)
{
    free(ask->request);
    net_block_free(ask->answer);
    free(ask);
}

/* ── answers ── */

static int take(void *arg, int status, const void *data, size_t len_bytes)
{
    struct ask *ask = arg;
    if (status != 200)
        return 0;                                /* nobody reads it */
    size_t need = ask->answer_bytes + len_bytes; /* at most PEER_ANSWER_MAX, which the client enforces */
    if (need > ask->answer_cap) {
        size_t least = ask->type == PEER_NEXT ? ask->peering->batch_bytes : 0;
        least = least > ANSWER_BYTES_MIN ? least : ANSWER_BYTES_MIN;
        size_t cap = ask->answer_cap * 2 > least ? ask->answer_cap * 2 : least;
        cap = cap < PEER_ANSWER_MAX ? cap : PEER_ANSWER_MAX;
        cap = cap > need ? cap : need;
        uint8_t *answer = net_block(cap);
        if (!answer)
            return LARDER_ENOMEM;
        if (ask->answer_bytes)
            memcpy(answer, ask->answer, ask->answer_bytes);
        net_block_free(ask->answer);
        ask->answer = answer;
        ask->answer_cap = net_block_room(answer);
    }
    memcpy(ask->answer + ask->answer_bytes, data, len_bytes);
    ask->answer_bytes = need;
    return 0;
}

/* Whether the payloads are as long as the entries say, and each what its check says. */
static int check_payloads(const struct peer_batch *batch, const uint8_t *payload, size_t payload_bytes,
                          struct error *err)
{
    if (peering_payload(batch) != payload_bytes)
        return error_set(err, LARDER_EFORMAT, "%zu bytes of payload came, and %zu were announced", payload_bytes,
                         peering_payload(batch));
    for (uint32_t i = 0; i < batch->count; i++) {
        struct peer_entry entry = peer_entry_get(batch, i);
        if (XXH3_64bits(payload, entry.len_bytes) != entry.check)
            return error_set(err, LARDER_EFORMAT, "sample %u is not what its check says", entry.index);
        payload += entry.len_bytes;
    }
    return 0;
}

/* Reads the answer into the event's message and payload, which borrow from it. */
static int read_answer(const struct ask *ask, struct peering_event *event, struct error *err)
{
    size_t head = peering_head(ask->answer, ask->answer_bytes);
    int rc = peer_decode(ask->answer, head, &event->message, err);
    if (rc)
        return rc;
    if (!peering_suits(ask->type, event->message.type))
        return error_set(err, LARDER_EFORMAT, "a message of type %d is no answer to one of type %d",
                         (int)event->message.type, (int)ask->type);
    if (event->message.type == PEER_ALIVE && memcmp(event->message.alive.node, ask->node, PEER_NODE_BYTES) != 0)
        return error_set(err, LARDER_EGONE, "another node lives there now");
    if (event->message.type != PEER_BATCH)
        return 0;
    event->payload = ask->answer + head;
    event->payload_bytes = ask->answer_bytes - head;
    ask->peering->batch_bytes = ask->answer_bytes;
    return check_payloads(&event->message.batch, event->payload, event->payload_bytes, err);
}

static int look(const struct ask *ask, const struct net_result *result, struct peering_event *event, struct error *err)
{
    if (result->code)
        return error_set(err, result->code, "%s", result->text);
    if (result->status != 200)
        return error_set(err, result->status == 403 ? LARDER_EPERM : LARDER_EIO, "it was refused with status %d",
                         result->status);
    return read_answer(ask, event, err);
}

static void say(const struct ask *ask, int code, const char *why)
{
    bool usual = code == LARDER_EGONE || code == LARDER_ETIMEOUT; /* nodes come and go */
    if (usual)
        log_info_limited("msg=\"a node does not answer\" url=\"%s\" err=\"%s\"", ask->url, why);
    else if (code != LARDER_EEND)
        log_warn_limited("msg=\"a node's answer is no good\" url=\"%s\" code=%s err=\"%s\"", ask->url,
                         larder_err_name(code), why);
}

static void answered(void *arg, const struct net_result *result)
{
    struct ask *ask = arg;
    struct peering *peering = ask->peering;
    struct error err = {.text = ""};
    struct peering_event *event = xcalloc(1, sizeof *event);
    int code = look(ask, result, event, &err);
    if (code) {
        *event = (struct peering_event){.code = code};
        say(ask, code, err.text);
    } else {
        event->body = ask->answer;
        event->free_body = net_block_free;
        ask->answer = NULL;
    }
    event->type = PEERING_ANSWERED;
    event->number = ask->number;
    free_ask(ask);
    peering_tell(peering, event);
}

/* ── requests ── */

static int submit_locked(struct ask *ask, bool fresh, uint32_t whole_ms, uint64_t *ticket, struct error *err)
{
    const struct peering *peering = ask->peering;
    const char *node_url = peering_url_locked(peering, ask->node);
    if (peering->stopping || !node_url)
        return LARDER_EGONE;
    snprintf(ask->url, sizeof ask->url, "%s%s", node_url, peering_path(ask->type));
    struct net_request request = {.url = ask->url,
                                  .tls = peering->bundle ? &peering->tls : NULL,
                                  .headers = {"Content-Type: " PEERING_TYPE},
                                  .body = ask->request,
                                  .body_bytes = ask->request_bytes,
                                  .fresh = fresh,
                                  .whole_ms = whole_ms,
                                  .answer_max = PEER_ANSWER_MAX,
                                  .take = take,
                                  .done = answered,
                                  .arg = ask};
    int rc = net_submit(peering->client, &request, ticket, err);
    if (rc)
        log_warn_limited("msg=\"a node cannot be asked\" err=\"%s\"", err->text);
    return rc == LARDER_EINVAL ? LARDER_EGONE : rc; /* an address that is none */
}

int peering_ask(struct peering *peering, const uint8_t node[PEER_NODE_BYTES], const struct peer_message *message,
                uint64_t number, bool fresh, uint32_t whole_ms, uint64_t *ticket)
{
    CHECK_MAGIC(peering, PEERING_MAGIC);
    CHECK(PEER_IS_REQUEST(message->type));
    struct ask *ask = xcalloc(1, sizeof *ask);
    struct peer_message whole = *message;
    struct error err = {.text = ""};
    *ask = (struct ask){.peering = peering, .number = number, .type = message->type};
    memcpy(ask->node, node, sizeof ask->node);
    whole.cluster = peering->cluster;
    whole.boot = peering->boot;
    memcpy(whole.node, peering->self, sizeof whole.node);
    int rc = peering_encode(&whole, &ask->request, &ask->request_bytes);
    if (rc == 0) {
        pthread_mutex_lock(&peering->lock);
        rc = submit_locked(ask, fresh, whole_ms, ticket, &err);
        pthread_mutex_unlock(&peering->lock);
    }
    if (rc)
        free_ask(ask);
    return rc;
}

void peering_cancel(struct peering *peering, uint64_t ticket)
{
    CHECK_MAGIC(peering, PEERING_MAGIC);
    pthread_mutex_lock(&peering->lock);
    if (!peering->stopping)
        net_cancel(peering->client, ticket);
    pthread_mutex_unlock(&peering->lock);
}
