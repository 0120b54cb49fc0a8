/* http.h: the daemon's HTTP endpoint, for Prometheus, health checks and a browser. Read only, on a loopback address,
 * where each user of the machine can read it, or on a unix socket of mode 0600.
 *
 *   GET /metrics         Prometheus text format
 *   GET /api/v1/status   the JSON of `larder status --json` (status.h)
 *   GET /-/healthy       200 while the process answers
 *   GET /-/ready         200 when it takes jobs, else 503
 *
 * The first two show what was so within the last second.
 *
 * HEAD works too; other methods get 405, other paths 404. Connections and their memory are bounded, and so is the time
 * that each may take for its whole request, whatever it sends meanwhile. When all places are taken the oldest
 * connection that is not done is closed for a newcomer; one that is kept alive and asks nothing is not done. */
#ifndef LARDER_SERVER_CONTROL_HTTP_H
#define LARDER_SERVER_CONTROL_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define HTTP_CONNECTIONS_MAX 32
#define HTTP_REQUEST_S 5 /* from the connection, or the answer before, to the whole request */
#define HTTP_ANSWER_S 10 /* for a client to read it */

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
/* http_start_unix listens on a unix socket (mode 0600) in a folder that must be safe from others (socket_folder.h); one
 * that a killed daemon left is replaced. LARDER_EBUSY (a process answers there), LARDER_EINVAL, LARDER_ENOENT,
 * LARDER_ELIMIT, LARDER_EPERM, LARDER_EIO. */
int http_start_unix(const char *path, const struct http_handlers *handlers, struct http **out, struct error *err);
/* http_port gives 0 for a unix socket. */
uint16_t http_port(const struct http *http);
/* http_stop waits for the answers being made, and removes a unix socket if it is still its own. Accepts NULL. */
void http_stop(struct http *http);

#endif
