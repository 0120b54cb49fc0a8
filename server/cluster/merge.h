/* merge.h: the anchor's side of getting samples from other nodes for one of its jobs. Pure: events with the time come
 * in, actions go out. The engine's thread owns it.
 *
 * The draws of an epoch that are elsewhere are divided into parts, one for each node that gives some, with all the
 * draws of a sample in one. For each part a
 * guest is attached at that node. When the engine expects a sample (ENGINE_EXPECT), the part that has it is asked, for
 * several at a time; the node gives any samples of the part. A sample counts as received only when the engine has taken
 * it; a part's `left` has all others. So an answer that is lost, doubled or wrong only costs time.
 *
 *   ATTACHING ── ATTACHED ──▶ OPEN ── LAST, GONE, STALE: attached again with what is left, if any ──▶ ATTACHING
 *   OPEN, ATTACHING ── REFUSED, no connection, two failures in a row, MERGE_TRIES, MERGE_STARVED_NS, or the job is
 *                      faster without the node ──▶ given up (MOVE)
 *
 * When a part is given up, the samples that the engine waits for go back to it at once. So a job waits at most
 * MERGE_STARVED_NS for a node that gives nothing useful and does not say that it has none yet, whatever the next node
 * does. */
#ifndef LARDER_SERVER_CLUSTER_MERGE_H
#define LARDER_SERVER_CLUSTER_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/types.h"
#include "sampler/bag.h"
#include "server/cluster/pace.h"

#define MERGE_ASKED_MAX 4     /* most requests of a part under way at once */
#define MERGE_SAMPLES_MOST 32 /* most samples in a request */
/* samples in a request if the node had little room; fewer if fewer wait */
#define MERGE_SAMPLES_LEAST 8
/* most samples of a part under way at once: a home keeps no more for a guest */
#define MERGE_UNDER_WAY_MOST 64
#define MERGE_WHOLE 32 /* complete answers in a row after which a node is asked for more */
/* most time that an expected sample waits for others to be asked with it */
#define MERGE_GATHER_NS UINT64_C(500000000)
/* time that a node may take until a sample is ready, in a first request */
#define MERGE_WAIT_MS 2000
#define MERGE_ANSWER_MS 2000              /* time that an answer may take beyond that */
#define MERGE_EMPTY_NS UINT64_C(50000000) /* time before a part that had none is asked again */
#define MERGE_TRIES 3                     /* attachments in a row that bring nothing */
/* time after which a part that gives nothing that is taken is given up */
#define MERGE_STARVED_NS UINT64_C(6000000000)
#define MERGE_EMPTY_MORE_NS UINT64_C(4000000000) /* the same, since it last said that it has none yet */
#define MERGE_PARTS_MAX 256                      /* parts of an epoch, those given up included */

enum merge_event_type {
    MERGE_TICK,
    /* A node gives these draws in the present epoch, none of which was received. It comes when the epoch begins, or at
     * once after a MOVE. */
    MERGE_PART,
    MERGE_LACKS,    /* what the job lacks now, if its client stands still */
    MERGE_EXPECT,   /* The engine expects a sample. It is asked for at the next event that is no EXPECT. */
    MERGE_TAKEN,    /* the result of an ARRIVE; it comes before any other event */
    MERGE_MOVED,    /* All samples of a MOVE are in other parts, or back at the engine. */
    MERGE_ATTACHED, /* answers to an ATTACH */
    MERGE_REFUSED,
    MERGE_BATCH, /* answers to a NEXT */
    MERGE_EMPTY,
    MERGE_GONE,   /* the guest is not there any more */
    MERGE_STALE,  /* answers to either: another attachment has a higher term */
    MERGE_FAILED, /* no answer in time, or a wrong one; nothing more of it is written to slots */
};

struct merge_sample {
    sample_id id;
    /* enum bad_reason of a sample that could not be prepared, which comes after all good ones; else 0 */
    uint8_t reason;
    uint32_t bytes; /* of a good one: how long it is */
};

struct merge_event {
    enum merge_event_type type;
    uint64_t now_ns;  /* no earlier than in the event before */
    uint64_t request; /* MOVED, ATTACHED … FAILED: number of the action */
    union {
        struct {
            uint32_t node;   /* the caller's number of the node */
            struct bag *ids; /* becomes the merge's */
            /* What is known of the node, and is found out. It is borrowed until the merge is destroyed. NULL: the node
             * is not left for being slow. */
            struct pace *pace;
        } part;
        struct {
            uint64_t samples; /* in its look-ahead; 0: the client does not stand still */
            double sample_s;  /* seconds that this node takes to prepare one of them; 0: not known */
        } lacks;
        struct {
            uint32_t task; /* all three are those of the EXPECT */
            sample_id id;
            uint64_t ahead;
        } expect;
        struct {
            bool taken, over; /* set by ENGINE_ARRIVED */
        } taken;
        uint64_t guest; /* ATTACHED */
        bool refused;   /* FAILED: the connection was refused, so no other one is tried */
        struct {
            bool last; /* the guest has no more */
            uint32_t count;
            const struct merge_sample *samples; /* the first lies in the slot of the request's first task, and so on */
        } batch;
    };
};

enum merge_action_type {
    MERGE_ATTACH, /* attach a guest for the samples in `ids` */
    MERGE_NEXT,   /* ask the guest for samples */
    MERGE_CANCEL, /* The request is dropped: no event follows, and nothing is written to slots. */
    MERGE_DETACH,
    MERGE_ARRIVE, /* give the engine an ENGINE_ARRIVED, and the result back as TAKEN */
    /* The node does not give these samples. The caller makes parts of them at other nodes, or has the engine draw them
     * (ENGINE_BACK), and then reports MOVED. */
    MERGE_MOVE,
};

struct merge_action {
    enum merge_action_type type;
    uint64_t request; /* number of the request; for CANCEL that of the ATTACH or NEXT. DETACH and ARRIVE have none */
    uint32_t node;    /* valid except for ARRIVE */
    uint64_t guest, term;
    union {
        struct {
            const struct bag *ids; /* until the next step */
            bool again;            /* it had guests before, and may have received instances from them */
        } attach;
        struct {
            const struct bag *ids;    /* valid until MOVED is reported */
            const struct idset *soon; /* those of them that the engine waits for; valid as long */
            bool slow;                /* The node gives them, but the job is faster without it. */
        } move;
        struct {
            /* Answers received: those of all requests up to acked, and of acked + 1 + i where bit i of more is set. */
            uint64_t seq, acked, more;
            uint32_t n, wait_ms;
            bool again; /* it failed once: use a new connection */
            /* the samples go to these tasks' slots; valid until the request is answered or cancelled */
            const uint32_t *tasks;
        } next;
        struct {
            uint32_t task;
            struct merge_sample sample; /* its id SAMPLE_NONE: none comes */
        } arrive;
    };
};

struct merge;

/* merge_create makes a merge for an epoch of a job, without parts. Terms of its attachments are above `term`.
 * LARDER_ENOMEM. Before merge_destroy, merge_end returns the actions that end all requests; their results are not
 * reported. */
int merge_create(uint64_t term, struct merge **out);
void merge_destroy(struct merge *merge);
size_t merge_end(struct merge *merge, const struct merge_action **actions);
/* merge_step takes an event and returns the number of actions, in order; they are valid until the next step. An event
 * about a request that is not under way changes nothing. */
size_t merge_step(struct merge *merge, const struct merge_event *event, const struct merge_action **actions);
/* merge_alarm returns the time of the next TICK; UINT64_MAX: never. merge_term returns the highest term so far. */
uint64_t merge_alarm(struct merge *merge);
uint64_t merge_term(const struct merge *merge);

/* The state of a part, for the status. */
struct merge_status {
    uint32_t node;
    uint64_t left;           /* samples that were not received */
    uint32_t asked, waiting; /* slots in requests; slots in none */
    bool open;
};
/* merge_statuses fills in up to max rows, and returns the number of parts. */
size_t merge_statuses(const struct merge *merge, struct merge_status *out, size_t max);

#endif
