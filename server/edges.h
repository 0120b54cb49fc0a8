/* edges.h: the control socket and HTTP, through which operators ask the daemon about itself and tell it what to do.
 *
 * Any thread may call these functions, but only one at a time. */
#ifndef LARDER_SERVER_EDGES_H
#define LARDER_SERVER_EDGES_H

#include "server/config/config.h"
#include "server/driver/driver.h"
#include "server/recorder.h"

/* What the edges need. All of it is borrowed, and outlives edges_stop. */
struct edges_config {
    const struct config *config;
    struct driver *driver;
    struct session *session;
    struct workers *workers;
    struct catalog *catalog;
    struct scratch_budget *scratch;
    struct origins *origins; /* may be NULL */
    struct watch *watch;     /* may be NULL */
    struct recorder *recorder;
    uint64_t arena_bytes, start_ns; /* start_ns: when the daemon started, by clock_now_ns */
    double start_time_s;            /* when the daemon started, in Unix time */
    void (*hand_over)(void *ctx);   /* called when the daemon is to make room for another; gives back at once */
    void *ctx;
};

struct edges;

struct edges *edges_create(const struct edges_config *config); /* copies config; the caller destroys the edges */
/* edges_start opens the endpoints that the configuration asks for. Fails as control_start and http_start do. */
int edges_start(struct edges *edges, struct error *err);
/* edges_log logs where HTTP is served. */
void edges_log(struct edges *edges);
/* edges_snapshot fills a snapshot of the daemon, as the recorder's read. ctx is the edges. Any thread. */
void edges_snapshot(void *ctx, struct daemon_status *status);
/* edges_leave gives up all that a successor with the same settings may need. Peers that are connected to the control
 * socket are still answered. */
void edges_leave(struct edges *edges);
void edges_stop(struct edges *edges);    /* accepts NULL; waits for the answers being made */
void edges_destroy(struct edges *edges); /* accepts NULL; stops first */

#endif
