/* client_priv.h: what the files of this folder share. */
#ifndef LARDER_COMMON_NET_CLIENT_PRIV_H
#define LARDER_COMMON_NET_CLIENT_PRIV_H

#include <sys/queue.h>

#include "common/net/client.h"
#include "common/net/curl.h"

/* A request, or an alarm, which has no easy handle. The thread that submits makes it; from then on it is the client's
 * thread's. */
struct call {
    TAILQ_ENTRY(call) link;
    uint64_t ticket;
    CURL *easy;
    struct curl_slist *headers;
    char *url;
    char why[CURL_ERROR_SIZE]; /* libcurl's own words */
    void (*done)(void *arg, const struct net_result *result);
    int (*take)(void *arg, int status, const void *data, size_t len_bytes);
    void *arg;
    uint8_t *answer;
    size_t answer_max, len_bytes, header_bytes;
    int refused;          /* the code for which a callback of libcurl's ended the request; 0: none */
    uint64_t deadline_ns; /* an alarm's moment; UINT64_MAX: none */
    uint64_t stall_ns;    /* 0: no limit */
    uint64_t moved_ns;    /* when a byte last moved */
    uint64_t moved_bytes; /* until then, both ways */
};

TAILQ_HEAD(call_list, call);

/* call_create makes a call with its easy handle. LARDER_EINVAL, LARDER_ENOMEM. */
int call_create(const struct net_request *request, uint64_t now_ns, struct call **out, struct error *err);
void call_destroy(struct call *call); /* its easy handle is in no multi */
/* call_look counts the bytes that have moved, and returns the moment at which the call is late; UINT64_MAX: never. */
uint64_t call_look(struct call *call, uint64_t now_ns);
/* call_finish tells the result and destroys the call. text may be NULL. */
void call_finish(struct call *call, int code, const char *text);
/* call_code returns a result of libcurl's as a code of ours. */
int call_code(const struct call *call, CURLcode result);

#endif
