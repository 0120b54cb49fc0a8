/* call.c: one request as libcurl's easy handle. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/net/client_priv.h"

#define CONNECT_MS 2000
#define BUFFER_BYTES 65536L
#define KEEPALIVE_IDLE_S 10L /* after this long without a byte TCP asks whether the other side is there */
#define KEEPALIVE_EVERY_S 5L

static size_t refuse(struct call *call, int code)
{
    call->refused = code;
    return 0; /* fewer bytes than there were: libcurl ends the request */
}

static size_t take_body(char *data, size_t size, size_t count, void *arg)
{
    struct call *call = arg;
    size_t len_bytes = size * count;
    if (len_bytes == 0)
        return 0;
    if (len_bytes > call->answer_max - call->len_bytes)
        return refuse(call, LARDER_ELIMIT);
    if (call->take) {
        long status = 0;
        curl.easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
        int rc = call->take(call->arg, (int)status, data, len_bytes);
        if (rc)
            return refuse(call, rc);
    } else {
        memcpy(call->answer + call->len_bytes, data, len_bytes);
    }
    call->len_bytes += len_bytes;
    return len_bytes;
}

static size_t take_header(char *data, size_t size, size_t count, void *arg)
{
    struct call *call = arg;
    (void)data;
    call->header_bytes += size * count;
    return call->header_bytes > NET_HEADER_BYTES_MAX ? refuse(call, LARDER_ELIMIT) : size * count;
}

static int check_url(const struct net_request *request, struct error *err)
{
    bool plain = strncasecmp(request->url, "http://", 7) == 0, tls = strncasecmp(request->url, "https://", 8) == 0;
    if (strlen(request->url) > NET_URL_MAX)
        return error_set(err, LARDER_EINVAL, "a URL is longer than %d bytes: %.64s…", NET_URL_MAX, request->url);
    if (!plain && !tls)
        return error_set(err, LARDER_EINVAL, "%s: a URL begins with http:// or https://", request->url);
    if (tls && !request->tls)
        return error_set(err, LARDER_EINVAL, "%s: https needs a CA's certificate, and none is configured",
                         request->url);
    return 0;
}

static bool set_tls(CURL *easy, const struct net_tls *tls)
{
    bool ok = curl.easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_3) == CURLE_OK &&
              curl.easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L) == CURLE_OK &&
              curl.easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, tls->check_names ? 2L : 0L) == CURLE_OK &&
              curl.easy_setopt(easy, CURLOPT_CAINFO, tls->ca) == CURLE_OK;
    /* The machine's own folder of authorities would be believed as well. Libraries without such a folder refuse the
     * option, which is as good. */
    curl.easy_setopt(easy, CURLOPT_CAPATH, NULL);
    if (ok && tls->cert)
        ok = curl.easy_setopt(easy, CURLOPT_SSLCERT, tls->cert) == CURLE_OK &&
             curl.easy_setopt(easy, CURLOPT_SSLKEY, tls->key) == CURLE_OK;
    return ok;
}

static bool add_header(struct call *call, const char *line)
{
    struct curl_slist *longer = curl.slist_append(call->headers, line);
    if (longer)
        call->headers = longer;
    return longer != NULL;
}

/* libcurl would wait a second for a server that does not know "Expect". */
static bool set_headers(struct call *call, const struct net_request *request)
{
    bool ok = add_header(call, "Expect:") && add_header(call, "Accept:");
    for (size_t i = 0; ok && i < NET_HEADERS_MAX && request->headers[i]; i++)
        ok = add_header(call, request->headers[i]);
    return ok && curl.easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers) == CURLE_OK;
}

static bool set_body(CURL *easy, const struct net_request *request)
{
    if (!request->body)
        return curl.easy_setopt(easy, CURLOPT_HTTPGET, 1L) == CURLE_OK;
    return curl.easy_setopt(easy, CURLOPT_POST, 1L) == CURLE_OK &&
           curl.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_bytes) == CURLE_OK &&
           curl.easy_setopt(easy, CURLOPT_POSTFIELDS, request->body) == CURLE_OK;
}

/* QUICK_EXIT: a request that ends while its name is looked up leaves the lookup alone, else all would wait for it. */
static bool set_connection(CURL *easy, const struct net_request *request)
{
    long connect_ms = request->connect_ms ? (long)request->connect_ms : CONNECT_MS;
    return curl.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
           curl.easy_setopt(easy, CURLOPT_NOPROXY, "*") == CURLE_OK &&
           curl.easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
           curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl.easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK &&
           curl.easy_setopt(easy, CURLOPT_FRESH_CONNECT, request->fresh ? 1L : 0L) == CURLE_OK &&
           curl.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, connect_ms) == CURLE_OK &&
           curl.easy_setopt(easy, CURLOPT_BUFFERSIZE, BUFFER_BYTES) == CURLE_OK &&
           curl.easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L) == CURLE_OK &&
           curl.easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_S) == CURLE_OK &&
           curl.easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_EVERY_S) == CURLE_OK;
}

static bool set_callbacks(struct call *call)
{
    CURL *easy = call->easy;
    return curl.easy_setopt(easy, CURLOPT_PRIVATE, call) == CURLE_OK &&
           curl.easy_setopt(easy, CURLOPT_ERRORBUFFER, call->why) == CURLE_OK &&
           curl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body) == CURLE_OK &&
           curl.easy_setopt(easy, CURLOPT_WRITEDATA, call) == CURLE_OK &&
           curl.easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header) == CURLE_OK &&
           curl.easy_setopt(easy, CURLOPT_HEADERDATA, call) == CURLE_OK;
}

int call_create(const struct net_request *request, uint64_t now_ns, struct call **out, struct error *err)
{
    int rc = check_url(request, err);
    if (rc)
        return rc;
    struct call *call = xcalloc(1, sizeof *call);
    *call = (struct call){.url = xstrdup(request->url),
                          .easy = curl.easy_init(),
                          .done = request->done,
                          .take = request->take,
                          .arg = request->arg,
                          .answer = request->answer,
                          .answer_max = request->answer_max,
                          .deadline_ns = UINT64_MAX,
                          .stall_ns = request->stall_ms * CLOCK_NS_PER_MS,
                          .moved_ns = now_ns};
    if (request->whole_ms)
        call->deadline_ns = now_ns + request->whole_ms * CLOCK_NS_PER_MS;
    if (!call->easy || !set_connection(call->easy, request) || !set_callbacks(call) || !set_headers(call, request) ||
        !set_body(call->easy, request)) {
        call_destroy(call);
        return error_set(err, LARDER_ENOMEM, "%s: libcurl has no memory for a request", request->url);
    }
    CURLcode url = curl.easy_setopt(call->easy, CURLOPT_URL, request->url);
    if (url != CURLE_OK || (request->tls && !set_tls(call->easy, request->tls))) {
        call_destroy(call);
        return error_set(err, LARDER_EINVAL, "%s: libcurl cannot do TLS 1.3, or refuses the URL", request->url);
    }
    *out = call;
    return 0;
}

void call_destroy(struct call *call)
{
    if (call->easy)
        curl.easy_cleanup(call->easy);
    curl.slist_free_all(call->headers);
    free(call->url);
    free(call);
}

uint64_t call_look(struct call *call, uint64_t now_ns)
{
    if (!call->easy || call->stall_ns == 0)
        return call->deadline_ns;
    curl_off_t up = 0, down = 0;
    curl.easy_getinfo(call->easy, CURLINFO_SIZE_UPLOAD_T, &up);
    curl.easy_getinfo(call->easy, CURLINFO_SIZE_DOWNLOAD_T, &down);
    uint64_t bytes = (uint64_t)up + (uint64_t)down + call->header_bytes;
    if (bytes != call->moved_bytes) {
        call->moved_bytes = bytes;
        call->moved_ns = now_ns;
    }
    uint64_t stalled_ns = call->moved_ns + call->stall_ns;
    return stalled_ns < call->deadline_ns ? stalled_ns : call->deadline_ns;
}

void call_finish(struct call *call, int code, const char *text)
{
    char full[ERROR_TEXT_MAX];
    long status = 0;
    if (call->easy)
        curl.easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    snprintf(full, sizeof full, "%s: %s", call->url ? call->url : "an alarm", text ? text : larder_err_name(code));
    struct net_result result = {code, (int)status, call->len_bytes, full};
    call->done(call->arg, &result);
    call_destroy(call);
}

int call_code(const struct call *call, CURLcode result)
{
    switch (result) {
    case CURLE_OK: return 0;
    case CURLE_WRITE_ERROR: return call->refused ? call->refused : LARDER_EIO;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT: return LARDER_EGONE;
    case CURLE_OPERATION_TIMEDOUT: return LARDER_ETIMEOUT;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR: return LARDER_EPERM;
    case CURLE_URL_MALFORMAT: return LARDER_EINVAL;
    case CURLE_OUT_OF_MEMORY: return LARDER_ENOMEM;
    default: return LARDER_EIO;
    }
}
