/* guests.h: the home's side of giving samples to jobs of other nodes. Pure: events with the time come in, actions go
 * out. The engine's thread owns it.
 *
 * A guest is an engine job that stands for one part of another node's job in an epoch. Its key is the anchor's node,
 * boot and job. Each epoch has a new guest, which replaces the one before and inherits its `had`, so that the job gets
 * no instance twice. Samples that the engine delivers to the guest wait here until a request takes them. They are then
 * kept until the anchor acknowledges them, so every request is safe to repeat.
 *
 * If a guest holds as many batches as the engine allows, the engine delivers nothing until one is released. Then a
 * request for more waits at most GUESTS_STILL_NS after the last delivery, and gets what is ready; the next request
 * brings the acknowledgement. If fewer are held, the engine is only slow, and the request waits as long as it may.
 *
 *   RESOLVING ── ADDED ──▶ THERE ── a higher term or boot, DETACH, no request for a lease, ENDED ──▶ gone
 *
 * A guest that has given its whole part stays for GUESTS_THROUGH_LEASES leases, for the next epoch. A node that leaves
 * attaches no new guest. Its guests go on until their anchors have all that they want of the epoch, for at most
 * GUESTS_LEAVE_NS.
 *
 * An anchor can make a guest hold no more than some hundreds of samples, and the home no more guests than it allows. */
#ifndef LARDER_SERVER_CLUSTER_GUESTS_H
#define LARDER_SERVER_CLUSTER_GUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/types.h"
#include "server/cluster/map.h"

#define GUESTS_MAX 256
#define GUESTS_ASKED_MAX 4                       /* most waiting requests of a guest, and most kept answers */
#define GUESTS_BATCH 8                           /* batch size of a guest's engine job */
#define GUESTS_PREFETCH 4                        /* look-ahead of that job, in batches */
#define GUESTS_HOLD 8                            /* batches of that job that may be held for the anchor */
#define GUESTS_SAMPLES_MAX 256                   /* samples in an answer */
#define GUESTS_ANSWER_BYTES (UINT64_C(16) << 20) /* bytes of the samples in an answer, unless it has just one */
#define GUESTS_WAIT_MAX_MS 5000
#define GUESTS_STILL_NS UINT64_C(250000000)
#define GUESTS_THROUGH_LEASES 20
#define GUESTS_LEAVE_NS UINT64_C(30000000000)
#define GUESTS_NO_JOB UINT32_MAX
#define GUESTS_AHEAD 32 /* samples asked of the engine beyond those that requests wait for */

struct guests_config {
    uint32_t guests;   /* most guests at once, up to GUESTS_MAX */
    uint64_t lease_ns; /* A guest without a request for this long ends. */
    uint64_t boot;     /* this daemon's boot: guests have other numbers in each */
    uint64_t prep_id;  /* this home's; prepared samples go only to nodes with an equal one */
};

/* The job of another node whose part a guest stands for. */
struct guests_key {
    uint8_t anchor[MAP_NODE_ID_BYTES];
    uint64_t boot;
    uint32_t job;
};

enum guests_event_type {
    GUESTS_TICK,
    GUESTS_ATTACH,
    GUESTS_ADDED,   /* the engine has the job that a RESOLVE asked for */
    GUESTS_REFUSED, /* the engine has no such job */
    GUESTS_NEXT,
    GUESTS_DETACH,
    GUESTS_DELIVERED, /* a batch of the guest's job */
    GUESTS_BAD,       /* a sample of the guest's part is bad; before the batch that says LAST */
    GUESTS_ENDED,     /* the engine's job has failed or is gone */
    GUESTS_LEAVE,     /* This node leaves the cluster; a second one changes nothing. */
};

/* A sample that the engine delivered. */
struct guests_sample {
    sample_id id;
    uint64_t offset, bytes; /* range of the arena */
    uint8_t reason;         /* enum bad_reason of a bad sample, which has no place in the arena; else 0 */
};

struct guests_event {
    enum guests_event_type type;
    uint64_t now_ns;  /* no earlier than in the event before */
    uint64_t request; /* ATTACH, NEXT, DETACH: the caller's number, which its ANSWER has */
    uint64_t guest;   /* all but TICK, ATTACH and LEAVE */
    union {
        struct {
            struct guests_key key;
            uint64_t term, prep_id; /* terms of a key ascend, over epochs too */
            bool again;             /* the key had guests before, here or elsewhere */
            uint64_t predecessor;   /* the last guest here that gave anything for the key; 0: none */
            uint64_t count;         /* samples of its part of an epoch */
        } attach;
        struct {
            uint32_t job;  /* the engine's number */
            uint32_t hold; /* batches of the job that may be held */
        } added;
        struct {
            int32_t code; /* a larder_err, for the ANSWER */
        } refused;
        struct {
            /* acked, more: as in merge.h */
            uint64_t term, seq, acked, more;
            uint32_t n, extra, wait_ms;
        } next;
        struct {
            uint64_t term;
        } detach;
        struct {
            uint64_t batch; /* the number that RELEASE takes */
            uint32_t count;
            const struct guests_sample *samples;
            bool last;
        } delivered;
        struct {
            sample_id id;
            uint8_t reason;
        } bad;
    };
};

enum guests_action_type {
    GUESTS_RESOLVE, /* find the dataset of the request, and add the guest's job to the engine */
    GUESTS_ASK,     /* ENGINE_NEXT */
    GUESTS_RELEASE, /* ENGINE_RELEASE */
    GUESTS_GONE,    /* ENGINE_JOB_GONE */
    GUESTS_ANSWER,
};

enum guests_answer {
    GUESTS_ATTACHED,
    GUESTS_IS_REFUSED, /* has a code */
    GUESTS_STALE,
    GUESTS_BATCH_IS, /* samples; those with a reason last */
    GUESTS_EMPTY,    /* no samples; also for a request that another one has replaced */
    GUESTS_IS_GONE,
    GUESTS_DONE,
};

struct guests_action {
    enum guests_action_type type;
    uint64_t guest;
    uint32_t job;     /* ASK, RELEASE, GONE: the engine's */
    uint64_t request; /* RESOLVE, ANSWER */
    union {
        struct {
            /* The guest must not get instances of this engine job, which exists until the RESOLVE has its result.
             * GUESTS_NO_JOB: it may get any; but with `all` it must not get any that exists now, because it is not
             * known which were given. */
            uint32_t predecessor;
            bool all;
        } resolve;
        uint32_t credits; /* ASK */
        uint64_t batch;   /* RELEASE */
        struct {
            enum guests_answer kind;
            int32_t code;
            uint64_t seq;
            uint64_t count; /* ATTACHED: samples of the part */
            bool last;
            /* The caller copies them before the next step. While it sends bytes from the arena, it delays a RELEASE or
             * GONE that would free them. */
            const struct guests_sample *samples;
            uint32_t n_samples;
        } answer;
    };
};

struct guests;

int guests_create(const struct guests_config *config, struct guests **out); /* LARDER_ENOMEM */
void guests_destroy(struct guests *guests);
/* guests_step takes an event and returns the number of actions, in order; they are valid until the next step. */
size_t guests_step(struct guests *guests, const struct guests_event *event, const struct guests_action **actions);
/* guests_alarm returns the time of the next TICK; UINT64_MAX: never. guests_count returns the number of guests.
 * guests_behind does not count those whose anchors wanted to replace them: these anchors have received everything.
 * guests_cut returns the number that GUESTS_LEAVE_NS has ended. guests_wanted goes over the keys of the guests whose
 * anchors may still want something: they have asked within a lease, and did not want to replace the guest. *cursor is 0
 * at first; NULL: there are no more. */
uint64_t guests_alarm(const struct guests *guests);
uint32_t guests_count(const struct guests *guests);
uint32_t guests_behind(const struct guests *guests);
uint32_t guests_cut(const struct guests *guests);
const struct guests_key *guests_wanted(const struct guests *guests, int *cursor);

#endif
