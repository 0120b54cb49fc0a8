/* merge_priv.h: what an anchor knows of an epoch's parts (merge*.c only). */
#ifndef LARDER_SERVER_CLUSTER_MERGE_PRIV_H
#define LARDER_SERVER_CLUSTER_MERGE_PRIV_H

#include "server/cluster/merge.h"

enum { MORE_BITS = 64 };

enum part_state { PART_ATTACHING, PART_OPEN, PART_DONE, PART_GIVEN_UP };

/* The slot of an EXPECT, and the sample that the engine expects there. */
struct slot {
    uint32_t task;
    sample_id id;
    bool failed; /* It was in a request that failed. */
};

/* Slots that are in no request. */
struct slots {
    struct slot *all;
    size_t count, cap;
};

/* A request under way; number 0: none. */
struct request {
    uint64_t number, seq; /* seq 0: an ATTACH */
    uint64_t asked_ns;    /* when it was sent; of a NEXT */
    bool again;           /* It has failed once, and was sent again. */
    bool failed;          /* An earlier request for some of its slots has failed. */
    bool alone;           /* No other was under way, so the node knows that all earlier answers have come. */
    uint32_t n;
    uint32_t tasks[MERGE_SAMPLES_MOST];
    sample_id ids[MERGE_SAMPLES_MOST];
};

struct part {
    enum part_state state;
    uint32_t node;
    struct bag *left;                 /* what was not received */
    uint64_t guest, term, seq;        /* guest and seq of this attachment */
    uint64_t acked, more;             /* see MERGE_NEXT */
    uint64_t unused[MERGE_ASKED_MAX]; /* sequence numbers without an answer; 0: none */
    bool attached_before, dry;        /* dry: its guest has no more */
    uint64_t move;                    /* the number of its MOVE, while it is GIVEN_UP */
    struct idset *soon;               /* `soon` of that MOVE */
    uint32_t tries;                   /* attachments since the engine took something */
    uint64_t again_ns;                /* It is not asked before this time. */
    uint64_t since_ns;                /* when slots began to wait */
    /* when it is given up, unless the engine takes a sample or the node says that it has none yet */
    uint64_t starved_ns;
    uint32_t most;     /* most samples in a request: the node has room for these */
    uint32_t whole;    /* complete answers since `most` was found */
    bool tight;        /* It had no room for that many in several requests at once. */
    struct pace *pace; /* the caller's; NULL: it is never slow */
    int64_t stood_ns;  /* how long the job stands still for it alone, or, negative, otherwise; and */
    uint32_t held;     /* what came from it in that time: both are not in its pace yet */
    bool slow;         /* The job is faster without it. */
    uint32_t arriving; /* ARRIVEs of its slots whose results have not come */
    struct slots waiting;
    struct request attach, asked[MERGE_ASKED_MAX];
};

/* An ARRIVE whose result has not come. */
struct arrival {
    struct part *part;
    struct slot slot;
    sample_id id;
};

struct merge {
    uint64_t term, requests; /* the last numbers given */
    uint64_t now_ns;
    uint64_t alarm_ns; /* of merge_alarm, if nothing has come since then */
    bool alarm_stands; /* Nothing has. */
    bool placed;       /* new slots wait, and may be asked for */
    bool closing;      /* all samples left are expected: no further slot will wait */
    uint64_t lacks;    /* of the last MERGE_LACKS; and */
    double sample_s;
    bool stalled;              /* The job stands still for some node, this one included. */
    struct part *stalls_alone; /* the part that it stands still for, alone; NULL: there is none */
    uint64_t ahead, left;      /* samples of the look-ahead that are elsewhere; samples left in all parts */
    struct part *parts[MERGE_PARTS_MAX];
    size_t n_parts;
    struct slots homeless; /* slots of parts that were given up, until MOVED */
    struct arrival *arrivals;
    size_t first_arrival, n_arrivals, arrivals_cap;
    struct merge_action *actions;
    size_t n_actions, actions_cap;
};

/* merge_seq.c: sequence numbers of a part's requests. took: one was answered. next: returns the next one. has: whether
 * there is a next one. leave: one will have no answer. */
void merge_seq_took(struct part *part, uint64_t seq);
uint64_t merge_seq_next(struct part *part);
bool merge_seq_has(const struct part *part);
void merge_seq_leave(struct part *part, uint64_t seq);

/* merge_act.c: waiting slots, and actions. An action without a part has no node. A cancelled request's slots go to
 * `to`. */
void merge_put_slot(struct slots *slots, struct slot slot);
void merge_put_slots(struct slots *slots, const struct request *request, uint32_t from);
struct merge_action *merge_act(struct merge *merge, enum merge_action_type type, const struct part *part);
void merge_arrive(struct merge *merge, struct part *part, struct slot slot, struct merge_sample sample);
void merge_arrive_none(struct merge *merge, struct part *part, struct slots *slots);
void merge_cancel_all(struct merge *merge, struct part *part, struct slots *to);
void merge_detach(struct merge *merge, const struct part *part);

/* merge_part.c: a part, from its first attachment until it is given up, and the slots that it is asked for. */
struct part *merge_part_of(const struct merge *merge, sample_id id, bool given_up);
void merge_each_slot(struct merge *merge, void (*each)(void *ctx, sample_id *id), void *ctx);
void merge_give_up(struct merge *merge, struct part *part);
void merge_send_attach(struct merge *merge, struct part *part, bool again);
void merge_attach(struct merge *merge, struct part *part);
void merge_place(struct merge *merge, struct slot slot);
void merge_place_all(struct merge *merge, struct slots *slots);
size_t merge_under_way(const struct part *part);
bool merge_under_way_all(const struct part *part);

/* merge_stall.c: what the job stands still for. */
void merge_stood(struct merge *merge, uint64_t passed_ns);
void merge_find_stall(struct merge *merge, bool answered);

/* merge_tend.c: sends requests of a part. */
void merge_send_next(struct merge *merge, struct part *part, struct request *request);
void merge_tend(struct merge *merge, struct part *part);

#endif
