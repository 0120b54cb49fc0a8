/* sharing.h: this daemon as one node of a cluster (server/cluster): the engine's dealings with the other nodes. The
 * node is the anchor of its own jobs, and the home of some chunks for all nodes' jobs.
 *
 *   sharing.c          who is there, and what goes on between two steps of the engine
 *   sharing_sent.c     requests that have no answer yet
 *   sharing_note.c     notes what a step of the engine means to the cluster
 *   sharing_anchor.c   samples of this node's jobs that other nodes give
 *   sharing_guest.c    other nodes' jobs, to which this one gives samples
 *   sharing_wants.c    whether homes give to trainings over several nodes
 *   sharing_status.c   what the status says of it
 *
 * All of it runs in the engine's thread. A daemon that is in no cluster has no `struct sharing`: the functions accept
 * NULL and do nothing then. Requests of the engine are noted during a step. sharing_settle deals with them when the
 * step is over, because that steps the engine again. */
#ifndef LARDER_SERVER_SHARING_SHARING_H
#define LARDER_SERVER_SHARING_SHARING_H

#include "cache/memory/arena.h"
#include "server/control/status.h"
#include "server/engine/engine.h"
#include "server/peering/peering.h"
#include "server/registration/registrar.h"

struct sharing;

/* Whether homes give to trainings over several nodes: when it pays (wants.h), always or never. */
enum sharing_spread { SHARING_SPREAD_AUTO, SHARING_SPREAD_ALWAYS, SHARING_SPREAD_NEVER };

/* This daemon as a node of a cluster. */
struct sharing_node {
    uint8_t id[16];
    uint64_t prep_id; /* equal where prepared samples are */
    enum sharing_spread spread;
    bool secure; /* nodes talk over TLS */
    bool leased; /* the list of nodes has leases, of lease_ns */
    uint64_t lease_ns;
};

/* A job of the engine, of this node or another's guest. */
struct sharing_job {
    const struct registration *reg; /* NULL: the place is free */
    double weight;                  /* the present weight */
};

/* Calls with which the engine's thread serves the sharing. */
struct sharing_host {
    void *ctx;
    struct sharing_job (*job)(const void *ctx, uint32_t place);
    /* steps the engine with one event and carries out its actions, which may call the functions below */
    void (*step)(void *ctx, const struct engine_event *event);
    double (*prepare_s)(const void *ctx, uint32_t place); /* see engine_prepare_s */
    uint32_t workers;                                     /* threads that prepare */
    uint64_t (*lacks)(const void *ctx, uint32_t place);   /* see engine_lacks */
    struct arena *arena; /* borrowed: samples of other nodes go there, and come from there */
    uint64_t boot;       /* see driver_config */
};

/* sharing_create copies both. The caller destroys the sharing. LARDER_ENOMEM. */
int sharing_create(const struct sharing_node *node, const struct sharing_host *host, struct sharing **out);
void sharing_destroy(struct sharing *sharing); /* accepts NULL */
/* sharing_begin lends the peering, to ask other nodes, and the registrar, to register their jobs. */
void sharing_begin(struct sharing *sharing, struct peering *peering, struct registrar *registrar);

/* sharing_leave has this node give nothing more to others, as driver_leave says. LARDER_ENOENT: there is no cluster.
 * sharing_gives tells whether another node's job may still want something of its epoch here, and its node is not known
 * to be away. sharing_has_left logs what this node leaves behind. */
int sharing_leave(struct sharing *sharing);
bool sharing_gives(const struct sharing *sharing);
void sharing_has_left(const struct sharing *sharing);

/* sharing_told takes over an event of the peering. */
void sharing_told(struct sharing *sharing, struct peering_event *event);
/* sharing_settle goes on until nothing is left to do now. */
void sharing_settle(struct sharing *sharing);
/* sharing_wait_ms returns the time until sharing_settle is next due. Below 0: it is due when a message comes. */
int64_t sharing_wait_ms(const struct sharing *sharing);
/* sharing_alone ends other nodes' jobs here. No node is asked or answered any more. */
void sharing_alone(struct sharing *sharing);

/* For a job that is to be made: sharing_anchor makes its anchor, and fills in desc.homes, when others may give samples
 * to it. sharing_job_added and sharing_job_ended tell what became of it. */
void sharing_anchor(struct sharing *sharing, const struct registration *reg, struct engine_job_desc *desc);
void sharing_job_added(struct sharing *sharing, const struct engine_action *action, const struct registration *reg);
void sharing_job_refused(struct sharing *sharing, const struct registration *reg, int code);
void sharing_job_ended(struct sharing *sharing, uint32_t job);
/* sharing_expect takes an EXPECT. */
void sharing_expect(struct sharing *sharing, const struct engine_action *action);

/* For a guest, whose registration has guest.number: what it inherits, and its batches. */
void sharing_guest_desc(const struct registration *reg, struct engine_job_desc *desc);
/* sharing_guest_mismatch says why the guest is refused. NULL: it is not, and its dataset's version is noted as given to
 * its job. */
const char *sharing_guest_mismatch(struct sharing *sharing, const struct registration *reg);
void sharing_guest_batch(struct sharing *sharing, const struct engine_action *action);
void sharing_guest_failed(struct sharing *sharing, uint32_t job);
/* sharing_end_guests ends all guests, for a job of this node that finds no room. False: there are none. It steps the
 * engine. */
bool sharing_end_guests(struct sharing *sharing);
void sharing_guest_refused(struct sharing *sharing, const struct registration *reg, int code);

/* sharing_status returns the status of the cluster, which the caller owns; NULL: this daemon is in no cluster. */
struct status_cluster *sharing_status(const struct sharing *sharing);

#endif
