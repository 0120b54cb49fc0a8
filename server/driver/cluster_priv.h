/* cluster_priv.h: what the files of cluster.h share. */
#ifndef LARDER_SERVER_DRIVER_CLUSTER_PRIV_H
#define LARDER_SERVER_DRIVER_CLUSTER_PRIV_H

#include "server/cluster/anchor.h"
#include "server/cluster/home.h"
#include "server/cluster/versions.h"
#include "server/driver/cluster.h"
#include "server/driver/driver_priv.h"

/* A request to another node that has no answer yet. */
struct cluster_sent {
    uint64_t number, ticket;
    enum peer_type type;
    uint8_t node[PEER_NODE_BYTES];
    /* ATTACH, NEXT: of which job's anchor, by its place and its anchor's number; and the anchor's own number of it. */
    uint32_t job;
    uint64_t serial, request;
    uint32_t n, tasks[MERGE_SAMPLES_MOST];
};

/* A job's anchor. */
struct cluster_anchor {
    struct anchor *anchor; /* NULL: others give nothing to the job */
    uint64_t serial;
};

struct cluster_expected {
    uint32_t job, task;
    sample_id id;
    uint64_t ahead, serial;
};

/* For the status. */
struct cluster_counts {
    uint64_t requests, probes;  /* sent; probes are no requests here */
    uint64_t given;             /* samples sent in answers */
    struct status_shared ended; /* of jobs that are gone */
};

struct driver_cluster {
    struct peering *peering; /* NULL: not yet, or no more */
    uint64_t boot, prep_id;
    struct members members;
    struct peers peers;
    struct home home;
    struct versions given;
    struct cluster_anchor anchors[JOBS_MAX];
    struct anchor *adding; /* of the job that is being added */
    uint64_t serials, numbers;
    struct cluster_counts counts;
    struct cluster_sent *sent;
    size_t n_sent, sent_cap;
    uint64_t *offset_of; /* by task */
    size_t offsets_cap;
    struct cluster_expected *expected;
    size_t n_expected, expected_cap;
    struct cluster_anchor *ended; /* of jobs that are gone */
    size_t n_ended, ended_cap;
    uint32_t *failed; /* jobs of guests, which are to end */
    size_t n_failed, failed_cap;
    const struct peering_event *attaching; /* the request that the home is told of */
    bool ticking;                          /* inside cluster_settle */
    bool rests;                            /* no job has been shared since peering_rest */
};

/* cluster_sent.c. cluster_send fills in number and ticket; it gives NULL when the node cannot be asked, and then
 * nothing is noted. cluster_sent_take takes a request out; false: nobody waits for it any more. */
struct cluster_sent *cluster_send(struct driver_cluster *cluster, const struct cluster_sent *sent,
                                  const struct peer_message *message, bool fresh, uint32_t whole_ms);
bool cluster_sent_take(struct driver_cluster *cluster, uint64_t number, struct cluster_sent *out);
/* cluster_anchor.c */
bool cluster_anchors_go_on(struct driver *driver); /* whether there was anything to do */
bool cluster_has_anchors(const struct driver_cluster *cluster);
void cluster_anchors_hear(struct driver *driver, const struct cluster_sent *sent, const struct peering_event *event);
uint64_t cluster_anchors_alarm(const struct driver_cluster *cluster);
/* cluster_guest.c */
bool cluster_guests_go_on(struct driver *driver);
void cluster_guests_leave(struct driver *driver);
void cluster_guests_asked(struct driver *driver, const struct peering_event *event);
/* cluster_status.c: cluster_count_ended adds up what became of a job's samples, before its anchor goes. */
void cluster_count_ended(struct driver_cluster *cluster, const struct anchor *anchor);

#endif
