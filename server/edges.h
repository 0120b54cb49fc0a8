/* edges.h: where the daemon tells about itself and is told what to do by hand: the control socket and HTTP.
 *
 * Any thread may call; one after another. */
#ifndef LARDER_SERVER_EDGES_H
#define LARDER_SERVER_EDGES_H

#include "server/config/config.h"
#include "server/driver/driver.h"

/* All borrowed; they outlive edges_stop. */
struct edges_config {
    const struct config *config;
    struct driver *driver;
    struct session *session;
    struct workers *workers;
    struct catalog *catalog;
    struct scratch_budget *scratch;
    uint64_t arena_bytes, start_ns; /* start_ns: of the daemon, by clock_now_ns */
    double start_time_s;            /* the same in Unix time */
};

struct edges;

struct edges *edges_create(const struct edges_config *config);
/* edges_start opens what the configuration asks for. */
int edges_start(struct edges *edges, struct error *err);
/* edges_log says where HTTP is served. */
void edges_log(struct edges *edges);
/* edges_leave gives up all that a successor needs, who may have the same settings; who is connected to the control
 * socket goes on being answered. */
void edges_leave(struct edges *edges);
void edges_stop(struct edges *edges);    /* accepts NULL; waits for the answers being made */
void edges_destroy(struct edges *edges); /* accepts NULL; stops first */

#endif
