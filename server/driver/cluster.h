/* cluster.h: this daemon as one node of a cluster (server/cluster): what the engine's thread has to do with the others.
 * It is the anchor of its own jobs and the home of some chunks for everybody's.
 *
 *   cluster.c          who is there, and what goes on between two steps of the engine
 *   cluster_sent.c     requests that have no answer yet
 *   cluster_note.c     notes what a step of the engine means to the cluster
 *   cluster_anchor.c   samples of this node's jobs that other nodes give
 *   cluster_guest.c    other nodes' jobs, to which this one gives samples
 *   cluster_status.c   what the status says of it
 *
 * All of it runs in the engine's thread. Where a daemon is in no cluster, driver->cluster is NULL, and the functions
 * that take the driver do nothing. What the engine asks for during a step is noted; cluster_settle deals with it when
 * the step is over, since that steps the engine again. */
#ifndef LARDER_SERVER_DRIVER_CLUSTER_H
#define LARDER_SERVER_DRIVER_CLUSTER_H

#include "server/driver/driver.h"
#include "server/engine/engine.h"
#include "server/peering/peering.h"

struct driver_cluster;

/* cluster_create: the peering is borrowed, and may be told of later by cluster_peering. LARDER_ENOMEM. */
int cluster_create(const struct driver_node *node, uint64_t boot, struct driver_cluster **out);
void cluster_destroy(struct driver_cluster *cluster); /* accepts NULL */
void cluster_peering(struct driver_cluster *cluster, struct peering *peering);

/* cluster_leave has this node give nothing more to others, as driver_leave says. LARDER_ENOENT: there is no cluster.
 * cluster_gives tells whether another node's job may still want something of its epoch here, and its node is not known
 * to be away. cluster_has_left logs what this node leaves behind. */
int cluster_leave(struct driver *driver);
bool cluster_gives(const struct driver *driver);
void cluster_has_left(const struct driver *driver);

/* cluster_told takes over what the peering tells. cluster_settle goes on until nothing is left to do now.
 * cluster_wait_ms returns when it is next to be called; below 0: when something comes. cluster_alone ends other nodes'
 * jobs here; nobody is asked or answered any more. */
void cluster_told(struct driver *driver, struct peering_event *event);
void cluster_settle(struct driver *driver);
int64_t cluster_wait_ms(const struct driver *driver);
void cluster_alone(struct driver *driver);

/* For a job that is to be made: cluster_anchor makes its anchor, and fills in desc.homes, when others may give samples
 * to it. cluster_job_added and cluster_job_ended tell what became of it. */
void cluster_anchor(struct driver *driver, const struct registration *reg, struct engine_job_desc *desc);
void cluster_job_added(struct driver *driver, const struct engine_action *action, const struct registration *reg);
void cluster_job_refused(struct driver *driver, const struct registration *reg, int code);
void cluster_job_ended(struct driver *driver, uint32_t job);
/* cluster_expect takes an EXPECT. */
void cluster_expect(struct driver *driver, const struct engine_action *action);

/* For a guest, whose registration has guest.number: what it inherits, and its batches. */
void cluster_guest_desc(const struct registration *reg, struct engine_job_desc *desc);
/* cluster_guest_mismatch says why the guest is refused. NULL: it is not, and its dataset's version is noted as given to
 * its job. */
const char *cluster_guest_mismatch(struct driver *driver, const struct registration *reg);
void cluster_guest_batch(struct driver *driver, const struct engine_action *action);
void cluster_guest_failed(struct driver *driver, uint32_t job);
/* cluster_end_guests ends all guests, for a job of this node that finds no room. False: there are none. It steps the
 * engine. */
bool cluster_end_guests(struct driver *driver);
void cluster_guest_refused(struct driver *driver, const struct registration *reg, int code);

/* cluster_status returns what the status says of the cluster, the caller's; NULL: there is none. */
struct status_cluster *cluster_status(const struct driver *driver);

#endif
