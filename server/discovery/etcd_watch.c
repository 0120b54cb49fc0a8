/* etcd_watch.c: one long request, whose answer is a JSON object a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/log.h"
#include "server/discovery/etcd_priv.h"

/* Gives LARDER_EEND when the watch is over in good order: what is missed is read anew. */
static int take_answer(struct etcd *etcd, const struct etcd_answer *answer, struct error *err)
{
    if (answer->code == ETCD_UNAVAILABLE)
        return error_set(err, LARDER_EGONE, "%s", answer->text);
    if (answer->code)
        log_warn_limited("msg=\"etcd refuses\" request=\"watch\" err=\"%s\"", answer->text);
    if (answer->code || answer->cancelled || answer->compact_revision)
        return LARDER_EEND;
    etcd_answered(etcd, etcd->watch_endpoint);
    if (answer->created)
        etcd->wait_ms = 0;
    for (size_t i = 0; i < answer->n_kvs; i++)
        etcd_take_kv(etcd, &answer->kvs[i], answer->revision);
    return 0;
}

static int take_line(struct etcd *etcd)
{
    struct etcd_answer answer;
    struct error err = {.text = ""};
    int rc = etcd_answer_read(etcd->line.data, etcd->line.len_bytes, &answer, &err);
    etcd->line.len_bytes = 0;
    if (rc == 0) {
        rc = take_answer(etcd, &answer, &err);
        etcd_answer_free(&answer);
    }
    if (rc && rc != LARDER_EEND)
        etcd_failed(etcd, etcd->watch_endpoint, err.text);
    return rc ? LARDER_EEND : 0;
}

static int hear(void *arg, int status, const void *data, size_t len_bytes)
{
    struct etcd *etcd = arg;
    const char *at = data, *end = at + len_bytes;
    (void)status;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        const char *to = line_end ? line_end : end;
        int rc = etcd_hear(&etcd->line, at, (size_t)(to - at));
        if (rc == 0 && line_end && etcd->line.len_bytes > 0)
            rc = take_line(etcd);
        if (rc)
            return rc;
        at = line_end ? line_end + 1 : end;
    }
    return 0;
}

static void done(void *arg, const struct net_result *result)
{
    struct etcd *etcd = arg;
    etcd->watch = NET_TICKET_NONE;
    free(etcd->watch_body);
    etcd->watch_body = NULL;
    if (result->code && result->code != LARDER_EEND)
        etcd_failed(etcd, etcd->watch_endpoint, result->text);
    else if (result->code == 0 && result->status != 200)
        etcd_failed(etcd, etcd->watch_endpoint, "no watch, but an error");
    etcd->watch_ended(etcd);
}

void etcd_watch(struct etcd *etcd, void (*ended)(struct etcd *etcd))
{
    char url[ETCD_URL_MAX];
    struct error err = {.text = ""};
    struct etcd_bytes prefix = {etcd->prefix, strlen(etcd->prefix)};
    etcd->watch_body = etcd_ask_watch(prefix, etcd->revision + 1);
    CHECK(etcd->watch_body);
    etcd->watch_ended = ended;
    etcd->watch_endpoint = etcd->endpoint;
    etcd->line.len_bytes = 0;
    snprintf(url, sizeof url, "%s/v3/watch", etcd->endpoints[etcd->watch_endpoint]);
    struct net_request request = {.url = url,
                                  .tls = etcd->tls,
                                  .body = etcd->watch_body,
                                  .body_bytes = strlen(etcd->watch_body),
                                  .connect_ms = ETCD_CONNECT_MS,
                                  .answer_max = SIZE_MAX,
                                  .take = hear,
                                  .done = done,
                                  .arg = etcd};
    size_t n = etcd_headers(etcd, request.headers);
    request.headers[n] = "Grpc-Metadata-hasleader: true"; /* else a member without a leader goes on, silently */
    if (net_submit(etcd->client, &request, &etcd->watch, &err)) {
        log_warn_limited("msg=\"etcd cannot be watched\" err=\"%s\"", err.text);
        etcd->watch = NET_TICKET_NONE;
        free(etcd->watch_body);
        etcd->watch_body = NULL;
        ended(etcd);
    }
}
