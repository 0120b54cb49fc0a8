/* etcd_op.c: asks one endpoint after the other, with a token where etcd wants one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "server/discovery/etcd_priv.h"

int etcd_hear(struct etcd_heard *heard, const void *data, size_t len_bytes)
{
    if (len_bytes > ETCD_ANSWER_MAX - heard->len_bytes)
        return LARDER_ELIMIT;
    heard->data = xgrow(heard->data, 1, &heard->cap, heard->len_bytes + len_bytes);
    memcpy(heard->data + heard->len_bytes, data, len_bytes);
    heard->len_bytes += len_bytes;
    return 0;
}

void etcd_tell(struct etcd *etcd, const struct discovery_event *event)
{
    etcd->tell(etcd->arg, event);
}

void etcd_tell_members(struct etcd *etcd, const struct members_event *event, const struct discovery_node *node)
{
    struct discovery_event out = {.type = DISCOVERY_MEMBERS, .members = *event, .node = node};
    out.members.now_ns = clock_now_ns();
    etcd_tell(etcd, &out);
}

/* ── endpoints ── */

void etcd_failed(struct etcd *etcd, size_t endpoint, const char *text)
{
    if (!etcd->silent[endpoint])
        log_warn("msg=\"etcd does not answer\" endpoint=\"%s\" err=\"%s\"", etcd->endpoints[endpoint], text);
    etcd->silent[endpoint] = true;
    if (endpoint == etcd->endpoint)
        etcd->endpoint = (endpoint + 1) % etcd->n_endpoints;
    /* A watch at an endpoint that hangs would be silent for ever. */
    if (etcd->watch != NET_TICKET_NONE && etcd->watch_endpoint == endpoint)
        net_cancel(etcd->client, etcd->watch);
}

void etcd_answered(struct etcd *etcd, size_t endpoint)
{
    if (etcd->silent[endpoint] || !etcd->is_up)
        log_info("msg=\"etcd answers\" endpoint=\"%s\"", etcd->endpoints[endpoint]);
    etcd->silent[endpoint] = false;
    if (etcd->is_up)
        return;
    etcd->is_up = true;
    etcd->is_down = false;
    etcd_tell(etcd, &(struct discovery_event){.type = DISCOVERY_UP});
}

static void tell_down(struct etcd *etcd)
{
    if (etcd->is_down)
        return;
    log_warn("msg=\"no endpoint of etcd answers: the nodes that are known stay, and new ones are not found\"");
    etcd->is_down = true;
    etcd->is_up = false;
    etcd_tell(etcd, &(struct discovery_event){.type = DISCOVERY_DOWN});
}

/* ── one request ── */

static void finish(struct etcd_op *op, const struct etcd_answer *answer)
{
    op->busy = false;
    op->logging_in = false;
    free(op->body);
    op->body = NULL;
    if (!answer)
        tell_down(op->etcd);
    if (answer && answer->code && !op->told)
        log_warn("msg=\"etcd refuses\" request=\"%s\" err=\"%s\"", op->path, answer->text);
    if (answer)
        op->told = answer->code != 0;
    op->done(op->etcd, answer);
}

static int hear(void *arg, int status, const void *data, size_t len_bytes)
{
    struct etcd_op *op = arg;
    (void)status;
    return etcd_hear(&op->heard, data, len_bytes);
}

size_t etcd_headers(const struct etcd *etcd, const char *headers[NET_HEADERS_MAX])
{
    size_t n = 0;
    headers[n++] = "Content-Type: application/json";
    if (etcd->auth)
        headers[n++] = etcd->auth;
    return n;
}

static void send(struct etcd_op *op);
static void log_in(struct etcd *etcd);

/* The next endpoint, until each was asked once. */
static void go_on(struct etcd_op *op)
{
    if (++op->n_tried < op->etcd->n_endpoints)
        send(op);
    else
        finish(op, NULL);
}

/* Whether the answer means that another member of etcd may do better. */
static bool is_elsewhere(const struct etcd_answer *answer, int status)
{
    return answer->code == ETCD_UNAVAILABLE || answer->code == ETCD_TOO_LATE || status >= 500 ||
           (status != 200 && answer->code == 0);
}

static void take_answer(struct etcd_op *op, const struct etcd_answer *answer, int status)
{
    struct etcd *etcd = op->etcd;
    if (is_elsewhere(answer, status)) {
        etcd_failed(etcd, op->endpoint, answer->code ? answer->text : "an answer that is not etcd's");
        go_on(op);
    } else if (answer->code == ETCD_UNAUTHENTICATED && etcd->user && op != &etcd->login && !op->logged_anew) {
        if (op->token == etcd->n_tokens) { /* else another request has got a new one meanwhile */
            free(etcd->auth);
            etcd->auth = NULL;
        }
        op->logged_anew = true;
        send(op);
    } else {
        etcd_answered(etcd, op->endpoint);
        finish(op, answer);
    }
}

static void done(void *arg, const struct net_result *result)
{
    struct etcd_op *op = arg;
    struct etcd_answer answer = {0};
    struct error err = {.text = ""};
    if (result->code == LARDER_EEND)
        return; /* the client stops */
    int rc = result->code ? result->code : etcd_answer_read(op->heard.data, op->heard.len_bytes, &answer, &err);
    if (rc) {
        etcd_failed(op->etcd, op->endpoint, result->code ? result->text : err.text);
        go_on(op);
        return;
    }
    take_answer(op, &answer, result->status);
    etcd_answer_free(&answer);
}

/* The request was refused here: the client is full, or the URL wrong. That comes back as a failure of the endpoint,
 * from the client's loop, so that nothing is told from within the call that asked. */
static void send_failed(void *arg, const struct net_result *result)
{
    struct etcd_op *op = arg;
    if (result->code == 0)
        finish(op, NULL);
}

static void send(struct etcd_op *op)
{
    struct etcd *etcd = op->etcd;
    char url[ETCD_URL_MAX];
    struct error err = {.text = ""};
    if (etcd->user && !etcd->auth && !etcd->no_login && op != &etcd->login) {
        op->logging_in = true;
        log_in(etcd);
        return;
    }
    op->endpoint = etcd->endpoint;
    op->token = etcd->n_tokens;
    op->heard.len_bytes = 0;
    snprintf(url, sizeof url, "%s/v3/%s", etcd->endpoints[op->endpoint], op->path);
    struct net_request request = {.url = url,
                                  .tls = etcd->tls,
                                  .body = op->body,
                                  .body_bytes = strlen(op->body),
                                  .connect_ms = ETCD_CONNECT_MS,
                                  .whole_ms = ETCD_WHOLE_MS,
                                  .answer_max = ETCD_ANSWER_MAX,
                                  .take = hear,
                                  .done = done,
                                  .arg = op};
    etcd_headers(etcd, request.headers);
    if (net_submit(etcd->client, &request, NULL, &err)) {
        log_warn_limited("msg=\"etcd cannot be asked\" err=\"%s\"", err.text);
        int rc = net_after(etcd->client, ETCD_WHOLE_MS, send_failed, op, NULL);
        CHECK(rc == 0 || rc == LARDER_EGONE); /* the daemon sets few alarms */
    }
}

void etcd_ask(struct etcd *etcd, struct etcd_op *op, const char *path, char *body,
              void (*done_with)(struct etcd *etcd, const struct etcd_answer *answer))
{
    CHECK(!op->busy && body);
    op->etcd = etcd;
    op->path = path;
    op->body = body;
    op->n_tried = 0;
    op->busy = true;
    op->logged_anew = false;
    op->done = done_with;
    send(op);
}

/* ── login ── */

static void set_auth(struct etcd *etcd, const char *token)
{
    size_t cap = strlen(token) + sizeof "Authorization: ";
    free(etcd->auth);
    etcd->auth = xmalloc(cap);
    snprintf(etcd->auth, cap, "Authorization: %s", token);
    etcd->n_tokens++;
}

static void logged_in(struct etcd *etcd, const struct etcd_answer *answer)
{
    bool ok = answer && (answer->token || answer->code == ETCD_PRECONDITION);
    if (ok && answer->token && !strpbrk(answer->token, "\r\n"))
        set_auth(etcd, answer->token);
    etcd->no_login = ok && !answer->token;
    struct etcd_op *const waiting[] = {&etcd->lease_op, &etcd->follow_op};
    for (size_t i = 0; i < sizeof waiting / sizeof *waiting; i++) {
        if (!waiting[i]->logging_in)
            continue;
        waiting[i]->logging_in = false;
        if (etcd->auth || etcd->no_login)
            send(waiting[i]);
        else
            finish(waiting[i], NULL);
    }
}

static void log_in(struct etcd *etcd)
{
    if (!etcd->login.busy)
        etcd_ask(etcd, &etcd->login, "auth/authenticate", etcd_ask_login(etcd->user, etcd->password), logged_in);
}
