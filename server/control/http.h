/* http.h: the daemon's HTTP endpoint, for Prometheus, health checks and a browser. It can only be read. It listens on a
 * loopback address, where each user of the machine can read it, or on a unix socket of mode 0600.
 *
 *   GET /                the live page (page.html)
 *   GET /metrics         Prometheus text format
 *   GET /api/v1/status   the JSON of `larder status --json` (status.h)
 *   GET /api/v1/live     what the page shows: {"v":1,"status":…,"tree":[…],"warnings":["time=… level=…",…]}, which
 *                        are the JSON of the status, that of `larder tree`, and the log's last warnings
 *   GET /-/healthy       200 while the process answers
 *   GET /-/ready         200 when the daemon takes jobs, else 503
 *
 * What they show of the daemon is at most a second old, the tree at most five. The page runs its own script alone, and
 * reaches this endpoint alone: its headers have the browser see to that.
 *
 * On a port it answers those who ask for "localhost" or a loopback address, and others 403: so no web site that a
 * user's browser shows can reach it under a name of its own.
 *
 * HEAD works too. Other methods get 405, other paths 404. The number of connections and their memory are bounded. So is
 * the time that a connection may take for its whole request, whatever it sends meanwhile. When all places are taken,
 * the oldest connection that is not done is closed for a newcomer. A connection that is kept alive and asks nothing is
 * not done. */
#ifndef LARDER_SERVER_CONTROL_HTTP_H
#define LARDER_SERVER_CONTROL_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define HTTP_CONNECTIONS_MAX 32
#define HTTP_REQUEST_S 5 /* seconds from the connection, or from the previous answer, to the whole request */
#define HTTP_ANSWER_S 10 /* seconds that a client has to read its answer */

/* The owner's callbacks. The HTTP thread calls them, one at a time. They may wait for the engine. Texts are malloc'ed
 * and become the caller's. NULL: the client gets 503. */
struct http_handlers {
    char *(*metrics_text)(void *ctx, size_t *len_bytes);
    char *(*status_json)(void *ctx);
    char *(*live_json)(void *ctx);
    char *(*history_json)(void *ctx, const char *job, uint32_t span_s); /* job NULL: all; span_s 0: the default */
    bool (*ready)(void *ctx);
    void *ctx;
    /* The rate of answers to all clients together. After a pause answers_at_once may go out at once. Further requests
     * wait, so that nobody who asks without end takes much of a processor. Health checks do not count, and do not wait.
     * answers_per_s 0: no limit. */
    uint32_t answers_per_s, answers_at_once;
};

struct http;

/* http_start listens on a loopback address ("127.0.0.1", "::1") and serves in a thread of its own, in which all signals
 * are blocked. port 0: any free port. The caller ends it with http_stop. LARDER_EBUSY (port in use), LARDER_EINVAL (not
 * a loopback address), LARDER_EPERM, LARDER_EIO. */
int http_start(const char *address, uint16_t port, const struct http_handlers *handlers, struct http **out,
               struct error *err);
/* http_start_unix does the same on a unix socket (mode 0600), in a folder that must be safe from others
 * (socket_folder.h). It replaces a socket that a killed daemon left. LARDER_EBUSY (a process answers there),
 * LARDER_EINVAL, LARDER_ENOENT, LARDER_ELIMIT, LARDER_EPERM, LARDER_EIO. */
int http_start_unix(const char *path, const struct http_handlers *handlers, struct http **out, struct error *err);
/* http_port returns the TCP port, 0 for a unix socket. */
uint16_t http_port(const struct http *http);
/* http_stop waits for the answers being made, removes a unix socket if it is still the endpoint's own, and frees the
 * endpoint. Accepts NULL. */
void http_stop(struct http *http);

#endif
