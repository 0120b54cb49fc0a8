/* anchor.h: an anchor stands for one job of this node, and decides which other nodes give which samples of its epochs.
 * Pure: events with the time come in, actions go out. The engine's thread owns it.
 *
 * When an epoch begins, each chunk is assigned to the first of its nodes in the map that is asked (peers.h). Samples
 * assigned to other nodes are elsewhere, and a merge gets them from there. If a node fails to give some, the chunk's
 * next node is asked. If that one fails too, they are drawn here: this node can always do the work alone.
 *
 * The samples of a job whose ranks are at several nodes are dealt to them anew in each epoch. An anchor asks homes only
 * for those that its own ranks get. While nobody else wants what such a job does, there is nothing to share: the job is
 * `lone`, and its anchor asks nobody. When that changes in the middle of an epoch, the homes get what is left of it. */
#ifndef LARDER_SERVER_CLUSTER_ANCHOR_H
#define LARDER_SERVER_CLUSTER_ANCHOR_H

#include "server/cluster/merge.h"
#include "server/cluster/peers.h"

/* A job as the cluster needs to know it. The peers are borrowed until the anchor is destroyed, all else for the
 * call. */
struct anchor_desc {
    const struct peers *peers;
    uint8_t fingerprint[MAP_FINGERPRINT_BYTES];
    uint32_t n_chunks; /* chunks of the dataset */
    uint32_t bound;    /* bound of the map, percent */
    bool resumed;      /* the job existed before this daemon: other nodes may have had guests of it */
    bool lone;
    /* The samples of the job's view, ascending, and the chunk of each. */
    const sample_id *ids;
    const uint32_t *chunk_of;
    uint32_t count;
};

enum anchor_action_type {
    /* To a peer. The results are events with the action's request number, but for DETACH, which has none. */
    ANCHOR_ATTACH,
    ANCHOR_NEXT,
    ANCHOR_CANCEL, /* the request is dropped: no event follows, and nothing is written to slots */
    ANCHOR_DETACH,
    ANCHOR_LEFT, /* to nobody: the peer is slow, and is not asked for some epochs */
    /* To the engine. */
    ANCHOR_ARRIVE, /* an ENGINE_ARRIVED; then anchor_arrived is called */
    ANCHOR_BACK,   /* an ENGINE_BACK */
};

struct anchor_action {
    enum anchor_action_type type;
    uint64_t request, guest, term;
    uint32_t peer; /* number of the peer */
    uint32_t epoch;
    union {
        struct {
            struct bag *ids;      /* becomes the caller's */
            bool again;           /* the job had guests before, and may have received instances from them */
            uint64_t predecessor; /* the last guest at this peer that was asked; 0: none */
        } attach;
        struct {
            uint64_t seq, acked, more;
            uint32_t n, wait_ms;
            bool fresh; /* use a new connection */
            uint32_t tasks[MERGE_SAMPLES_MOST];
        } next;
        struct {
            uint32_t task;
            struct merge_sample sample;
            uint64_t serial; /* passed on to anchor_arrived */
        } arrive;
        struct idset *back; /* becomes the caller's */
        uint32_t pause;     /* LEFT: whole epochs without it, after this one */
    };
};

struct anchor;

/* anchor_create makes one; LARDER_ENOMEM. anchor_destroy accepts NULL. */
int anchor_create(const struct anchor_desc *desc, struct anchor **out);
void anchor_destroy(struct anchor *anchor);

/* anchor_elsewhere begins an epoch, and makes a new set of the samples that have homes elsewhere. It asks for what is
 * `left` of them. It is the function `elsewhere` of the job's engine_homes, whose `map` is the anchor. The
 * present time is that of the last event. */
int anchor_elsewhere(const void *anchor, uint32_t epoch, const struct bag *left, struct idset **out);
/* anchor_set_lone says whether the job is lone from its next epoch on, anchor_is_lone whether it is in this one. */
void anchor_set_lone(struct anchor *anchor, bool lone);
bool anchor_is_lone(const struct anchor *anchor);
/* When the job is lone no more, anchor_homes makes a new set of the samples that have homes elsewhere, for ENGINE_AWAY.
 * LARDER_ENOMEM. anchor_away asks for the samples that the engine has moved then, which become the anchor's. */
int anchor_homes(struct anchor *anchor, struct idset **out);
void anchor_away(struct anchor *anchor, uint64_t now_ns, struct bag *moved);
uint32_t anchor_epoch(const struct anchor *anchor);
/* anchor_expect reports an EXPECT; the next anchor_step asks for the sample. Call it before the engine hears of any
 * arrival, because an arrival may change what the engine expects. */
void anchor_expect(struct anchor *anchor, uint64_t now_ns, uint32_t task, sample_id id, uint64_t ahead);
/* anchor_lacks says how many samples the job's look-ahead lacks while its client stands still, else 0, and how many
 * seconds this node takes to prepare one. No action waits to be taken then. */
void anchor_lacks(struct anchor *anchor, uint64_t now_ns, uint64_t samples, double sample_s);
/* anchor_step takes a result of a request (MERGE_ATTACHED … MERGE_FAILED), or a MERGE_TICK. */
void anchor_step(struct anchor *anchor, const struct merge_event *event);
/* anchor_arrived reports the result of ENGINE_ARRIVED, before the next action is taken. */
void anchor_arrived(struct anchor *anchor, uint64_t now_ns, const struct anchor_action *action, bool taken, bool over);
/* anchor_end ends all requests, because the job is gone. */
void anchor_end(struct anchor *anchor);

/* anchor_take returns the next action, in order; false: there is none. After each of the functions above, the caller
 * takes all actions before the next event. anchor_destroy frees those that were not taken. */
bool anchor_take(struct anchor *anchor, struct anchor_action *out);
bool anchor_acts(const struct anchor *anchor); /* whether anchor_take has an action */
/* anchor_alarm returns when the next MERGE_TICK is wanted; UINT64_MAX: never. */
uint64_t anchor_alarm(const struct anchor *anchor);

/* For the status: counts since the anchor was made, and the parts at this moment. */
struct anchor_counts {
    uint64_t received; /* samples, from other nodes */
    uint64_t refused;  /* arrivals that the engine did not take */
    uint64_t moved;    /* samples moved to another node */
    uint64_t back;     /* samples that came back to be drawn here */
};
struct anchor_counts anchor_counts(const struct anchor *anchor);
size_t anchor_statuses(const struct anchor *anchor, struct merge_status *out, size_t max);

#endif
