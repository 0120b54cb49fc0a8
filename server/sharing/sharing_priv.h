/* sharing_priv.h: what the files of sharing.h share. */
#ifndef LARDER_SERVER_SHARING_SHARING_PRIV_H
#define LARDER_SERVER_SHARING_SHARING_PRIV_H

#include "common/log.h"
#include "server/cluster/anchor.h"
#include "server/cluster/home.h"
#include "server/cluster/versions.h"
#include "server/cluster/wants.h"
#include "server/sharing/sharing.h"

/* A request to another node that has no answer yet. */
struct sharing_sent {
    uint64_t number, ticket;
    enum peer_type type;
    uint8_t node[PEER_NODE_BYTES];
    /* ATTACH, NEXT: of which job's anchor, by its place and its anchor's number; and the anchor's own number of it. */
    uint32_t job;
    uint64_t serial, request;
    uint32_t n, tasks[MERGE_SAMPLES_MOST];
};

/* A job's anchor. */
struct sharing_anchor {
    struct anchor *anchor; /* NULL: others give nothing to the job */
    uint64_t serial;
    uint64_t training, preparation; /* hashes, the same at all nodes: wants.h */
    bool nodes;                     /* the training has ranks at several nodes */
    bool told;                      /* others were told what it wants */
};

struct sharing_expected {
    uint32_t job, task;
    sample_id id;
    uint64_t ahead, serial;
};

/* For the status. */
struct sharing_counts {
    uint64_t requests, probes;  /* sent; probes are no requests here */
    uint64_t given;             /* samples sent in answers */
    struct status_shared ended; /* totals of jobs that are gone */
};

struct sharing {
    struct sharing_host host;
    struct peering *peering;     /* NULL: not yet, or no more */
    struct registrar *registrar; /* registers jobs of other nodes */
    uint64_t prep_id;
    enum sharing_spread spread;
    double byte_s; /* seconds of one core for the transport of a byte, at both ends together */
    struct wants wants;
    uint64_t tell_ns; /* when others are to be told again what jobs here want */
    bool review;      /* somebody else wants something new */
    struct members members;
    struct peers peers;
    struct home home;
    struct versions given;
    struct sharing_anchor anchors[JOBS_MAX];
    struct sharing_anchor adding; /* that of the job that is being added */
    uint64_t serials, numbers;
    struct sharing_counts counts;
    struct sharing_sent *sent;
    size_t n_sent, sent_cap;
    uint64_t *offset_of; /* indexed by task */
    size_t offsets_cap;
    struct sharing_expected *expected;
    size_t n_expected, expected_cap;
    struct sharing_anchor *ended; /* anchors of jobs that are gone */
    size_t n_ended, ended_cap;
    uint32_t *failed; /* jobs of guests, which are to end */
    size_t n_failed, failed_cap;
    const struct peering_event *attaching; /* the request that the home is told of */
    bool ticking;                          /* inside sharing_settle */
    bool rests;                            /* no job has been shared since peering_rest */
};

static inline struct sharing_job job_of(const struct sharing *sharing, uint32_t place)
{
    return sharing->host.job(sharing->host.ctx, place);
}

static inline void step(struct sharing *sharing, const struct engine_event *event)
{
    sharing->host.step(sharing->host.ctx, event);
}

/* sharing_members returns how many nodes have ranks of the training, taking all nodes for alike. */
static inline uint16_t sharing_members(const struct registration *reg)
{
    uint32_t ranks = reg->asked.all_ranks, here = reg->asked.world_size;
    uint32_t nodes = ranks ? (ranks + here - 1) / here : 1;
    return (uint16_t)(nodes < UINT16_MAX ? nodes : UINT16_MAX);
}

/* sharing_sent.c. sharing_send fills in number and ticket; it gives NULL when the node cannot be asked, and then
 * nothing is noted. sharing_sent_take takes a request out; false: nobody waits for it any more. */
struct sharing_sent *sharing_send(struct sharing *sharing, const struct sharing_sent *sent,
                                  const struct peer_message *message, bool fresh, uint32_t whole_ms);
bool sharing_sent_take(struct sharing *sharing, uint64_t number, struct sharing_sent *out);
/* sharing_anchor.c */
bool sharing_anchors_go_on(struct sharing *sharing); /* whether there was anything to do */
bool sharing_has_anchors(const struct sharing *sharing);
void sharing_anchors_hear(struct sharing *sharing, const struct sharing_sent *sent, const struct peering_event *event);
uint64_t sharing_anchors_alarm(const struct sharing *sharing);
/* sharing_wants.c. sharing_wants_job fills in what the job wants, and returns whether it is lone to begin with.
 * sharing_wants_job_ended forgets it. sharing_wants_hear notes what an ATTACH tells of its job. */
bool sharing_wants_job(struct sharing *sharing, const struct registration *reg, struct sharing_anchor *anchor);
void sharing_wants_job_ended(struct sharing *sharing, const struct sharing_anchor *anchor);
void sharing_wants_hear(struct sharing *sharing, const struct peer_attach *attach);
void sharing_wants_go_on(struct sharing *sharing);
uint64_t sharing_wants_alarm(const struct sharing *sharing);
/* sharing_anchor.c: has homes give to a job that was lone, from now on */
void sharing_anchor_spread(struct sharing *sharing, uint32_t job);
/* sharing_guest.c */
bool sharing_guests_go_on(struct sharing *sharing);
void sharing_guests_leave(struct sharing *sharing);
void sharing_guests_asked(struct sharing *sharing, const struct peering_event *event);
/* sharing_status.c: sharing_count_ended adds up what became of a job's samples, before its anchor goes. */
void sharing_count_ended(struct sharing *sharing, const struct anchor *anchor);

#endif
