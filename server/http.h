/* http.h: the daemon's HTTP endpoint, for Prometheus, health checks and a browser. Loopback only, read only.
 *
 *   GET /metrics         Prometheus text format
 *   GET /api/v1/status   the JSON of `larder status --json` (status.h)
 *   GET /-/healthy       200 while the process answers
 *   GET /-/ready         200 when it takes jobs, else 503
 *
 * HEAD works too; other methods get 405, other paths 404. Connections, their memory and their idle time are bounded. */
#ifndef LARDER_SERVER_HTTP_H
#define LARDER_SERVER_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define HTTP_CONNECTIONS_MAX 32
#define HTTP_IDLE_S 10

/* Called from the HTTP thread, one at a time; they may wait for the engine. Texts are malloc'ed; NULL: 503. */
struct http_handlers {
    char *(*metrics_text)(void *ctx, size_t *len_bytes);
    char *(*status_json)(void *ctx);
    bool (*ready)(void *ctx);
    void *ctx;
};

struct http;

/* http_start listens on a loopback address ("127.0.0.1", "::1") and serves in a thread of its own, in which all signals
 * are blocked. port 0: any free one. LARDER_EBUSY (port in use), LARDER_EINVAL (not a loopback address), LARDER_EPERM,
 * LARDER_EIO. */
int http_start(const char *address, uint16_t port, const struct http_handlers *handlers, struct http **out,
               struct error *err);
uint16_t http_port(const struct http *http);
/* http_stop waits for the answers being made. Accepts NULL. */
void http_stop(struct http *http);

#endif
