/* merge.h: an anchor's side of the samples that other nodes give to one of its jobs. Pure: events with the time come
 * in, actions go out. One thread owns it, the engine's.
 *
 * The share of an epoch that is elsewhere consists of parts, each of which one node gives. For each part a guest is
 * attached at that node. What the engine expects (ENGINE_EXPECT) is asked of the part that has the expected sample,
 * some at a time; the node gives any of the part's. A sample counts as received when the engine has taken it, and
 * only then: a part's `left` is what it has not. So an answer may be lost, come twice or say what is not so: it
 * costs time.
 *
 *   ATTACHING ── ATTACHED ──▶ OPEN ── LAST, GONE, STALE: attached again with what is left, if any ──▶ ATTACHING
 *   OPEN, ATTACHING ── REFUSED, no connection, two failures in a row, MERGE_TRIES, MERGE_STARVED_NS ──▶ given up (MOVE)
 *
 * When a part is given up, the engine has those samples back at once that it waits for there. So a job waits no longer
 * than MERGE_STARVED_NS for a node that gives nothing of use and does not say that it has none yet, whatever becomes of
 * the next one. */
#ifndef LARDER_SERVER_CLUSTER_MERGE_H
#define LARDER_SERVER_CLUSTER_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/types.h"
#include "sampler/idset.h"

#define MERGE_ASKED_MAX 4                   /* requests of a part under way at once */
#define MERGE_SAMPLES_MOST 32               /* in a request, */
#define MERGE_SAMPLES_LEAST 8               /* where the node has had little room; fewer if fewer wait */
#define MERGE_UNDER_WAY_MOST 64             /* samples of a part under way at once: a home keeps no more for a guest */
#define MERGE_WHOLE 32                      /* whole answers in a row after which a node is asked for more */
#define MERGE_GATHER_NS UINT64_C(500000000) /* that an expected sample waits for company at most */
#define MERGE_WAIT_MS 2000                  /* that a node may take until a sample is ready, when it is asked first */
#define MERGE_ANSWER_MS 2000                /* that an answer may take beyond that */
#define MERGE_EMPTY_NS UINT64_C(50000000)   /* before a part that had none is asked again */
#define MERGE_TRIES 3                       /* attachments in a row that bring nothing */
#define MERGE_STARVED_NS UINT64_C(6000000000)    /* in which a part that is asked gives nothing that is taken, */
#define MERGE_EMPTY_MORE_NS UINT64_C(4000000000) /* or in which it does not even say so */
#define MERGE_PARTS_MAX 256                      /* of an epoch, those that were given up included */
#define MERGE_NODE_SELF UINT32_MAX

enum merge_event_type {
    MERGE_TICK,
    MERGE_PART,     /* Samples that a node gives in the present epoch: when it begins, or after a MOVE. */
    MERGE_EXPECT,   /* The engine expects a sample. It is asked for at the next event that is no EXPECT. */
    MERGE_TAKEN,    /* the result of an ARRIVE; it comes before any other event */
    MERGE_MOVED,    /* All that a MOVE was about is in parts, or the engine has it back. */
    MERGE_ATTACHED, /* answers to an ATTACH */
    MERGE_REFUSED,
    MERGE_BATCH, /* answers to a NEXT */
    MERGE_EMPTY,
    MERGE_GONE,   /* the guest is not there any more */
    MERGE_STALE,  /* answers to either: another attachment has a higher term */
    MERGE_FAILED, /* no answer in time, or a wrong one. Nothing of it is written to slots any more. */
};

struct merge_sample {
    sample_id id;
    uint8_t reason; /* enum bad_reason of one that could not be prepared; else 0. Those come behind all others. */
};

struct merge_event {
    enum merge_event_type type;
    uint64_t now_ns;  /* no earlier than in the event before */
    uint64_t request; /* MOVED, ATTACHED … FAILED: of the action */
    union {
        struct {
            uint32_t node;     /* the caller's number of it */
            struct idset *ids; /* becomes the merge's */
        } part;
        struct {
            uint32_t task; /* of the EXPECT, as is the rest */
            sample_id id;
            uint64_t ahead;
        } expect;
        struct {
            bool taken, over; /* as ENGINE_ARRIVED set them */
        } taken;
        uint64_t guest; /* ATTACHED */
        bool refused;   /* FAILED: there was no connection, so another one is not tried */
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
    MERGE_CANCEL, /* Nothing comes of the request any more: no event follows, and nothing is written to slots. */
    MERGE_DETACH,
    MERGE_ARRIVE, /* give the engine an ENGINE_ARRIVED, and the result back as TAKEN */
    /* The node does not give these samples: make parts of them at other nodes, or have the engine draw them
     * (ENGINE_BACK), then tell MOVED. */
    MERGE_MOVE,
};

struct merge_action {
    enum merge_action_type type;
    uint64_t request; /* its number; of CANCEL: that of the ATTACH or NEXT. DETACH and ARRIVE have none */
    uint32_t node;    /* all but ARRIVE */
    uint64_t guest, term;
    union {
        struct {
            const struct idset *ids; /* until the next step */
            bool again;              /* guests for it were there before: instances may have been given */
        } attach;
        struct {
            const struct idset *ids;  /* until MOVED is told */
            const struct idset *soon; /* those of them that the engine waits for; the same */
        } move;
        struct {
            /* Of requests' numbers: up to acked all answers are here, and bit i of more is about acked + 1 + i. */
            uint64_t seq, acked, more;
            uint32_t n, wait_ms;
            bool again;            /* it failed once: on a new connection */
            const uint32_t *tasks; /* whose slots the samples go to; until the request is answered or cancelled */
        } next;
        struct {
            uint32_t task;
            sample_id id; /* SAMPLE_NONE: none comes */
            uint8_t reason;
        } arrive;
    };
};

struct merge;

/* merge_create makes one for an epoch of a job, without parts. Terms of its attachments are above `term`.
 * LARDER_ENOMEM. merge_destroy frees it; before that, merge_end returns the actions that end everything. It is told
 * no results. */
int merge_create(uint64_t term, struct merge **out);
void merge_destroy(struct merge *merge);
size_t merge_end(struct merge *merge, const struct merge_action **actions);
/* merge_step takes an event and gives the number of actions, in order; they are valid until the next step. An event
 * about a request that is not under way changes nothing. */
size_t merge_step(struct merge *merge, const struct merge_event *event, const struct merge_action **actions);
/* merge_alarm returns when the next TICK is wanted; UINT64_MAX: never. merge_term returns the highest term so far. */
uint64_t merge_alarm(const struct merge *merge);
uint64_t merge_term(const struct merge *merge);

/* What a part has come to, for the status. */
struct merge_status {
    uint32_t node;
    uint64_t left;           /* samples that were not received */
    uint32_t asked, waiting; /* slots in requests; slots in none */
    bool open;
};
/* merge_statuses fills in up to max rows, and gives how many parts are there. */
size_t merge_statuses(const struct merge *merge, struct merge_status *out, size_t max);

#endif
