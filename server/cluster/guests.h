/* guests.h: a home's side of what it gives to other nodes' jobs. Pure: events with the time come in, actions go out.
 * One thread owns it, the engine's.
 *
 * A guest is an engine job that stands for one part of another node's job in an epoch: its key is the anchor, the
 * anchor's boot and job. The part of the next epoch is another guest, which takes the place of the one before and
 * inherits what that one had, so that the job gets no instance twice. What the engine delivers to it waits here until
 * a request takes it. What a request took is kept until the anchor says that it has it, so that the request may come
 * again: all requests are safe to repeat.
 *
 * Where as many batches are held here as the engine lets a guest hold, it delivers nothing more until one goes. Then a
 * request for more waits GUESTS_STILL_NS at most after the last delivery. It gets what is ready, and the next one tells
 * what the anchor has. Where fewer are held, the engine is only slow, and the request waits as long as it may.
 *
 *   RESOLVING ── ADDED ──▶ THERE ── a higher term or boot, DETACH, no request for a lease, ENDED ──▶ gone
 *
 * One that has given all its part stays for GUESTS_THROUGH_LEASES leases, for the next epoch. On a node that leaves no
 * other is attached, and those that are there go on until their anchors have what they want of the epoch, for
 * GUESTS_LEAVE_NS at most.
 *
 * An anchor can make a guest hold no more than some hundreds of samples, and the home no more guests than it allows. */
#ifndef LARDER_SERVER_CLUSTER_GUESTS_H
#define LARDER_SERVER_CLUSTER_GUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/types.h"
#include "sampler/idset.h"
#include "server/cluster/map.h"

#define GUESTS_MAX 256
#define GUESTS_ASKED_MAX 4     /* requests of a guest that wait at once, and answers that are kept */
#define GUESTS_BATCH 8         /* samples of a batch of a guest's engine job */
#define GUESTS_PREFETCH 4      /* batches ahead that its engine job prepares, */
#define GUESTS_HOLD 8          /* and that may be kept for the anchor */
#define GUESTS_SAMPLES_MAX 256 /* of an answer */
#define GUESTS_WAIT_MAX_MS 5000
#define GUESTS_STILL_NS UINT64_C(250000000)
#define GUESTS_THROUGH_LEASES 20
#define GUESTS_LEAVE_NS UINT64_C(30000000000)
#define GUESTS_NO_JOB UINT32_MAX
#define GUESTS_AHEAD 32 /* samples that the engine is asked for beyond what is waited for */

struct guests_config {
    uint32_t guests;   /* at once, up to GUESTS_MAX */
    uint64_t lease_ns; /* A guest without a request for so long ends. */
    uint64_t boot;     /* this home's: guests have other numbers in each life */
    uint64_t prep_id;  /* of this home: prepared samples go only to nodes with the same */
};

/* Whose part a guest stands for. */
struct guests_key {
    uint8_t anchor[MAP_NODE_ID_BYTES];
    uint64_t boot;
    uint32_t job;
};

enum guests_event_type {
    GUESTS_TICK,
    GUESTS_ATTACH,
    GUESTS_ADDED,   /* the engine has the job that a RESOLVE asked for */
    GUESTS_REFUSED, /* or there is none */
    GUESTS_NEXT,
    GUESTS_WITHDRAW,
    GUESTS_DETACH,
    GUESTS_DELIVERED, /* a batch of the guest's job */
    GUESTS_BAD,       /* a sample of the guest's part is bad; before the batch that says LAST */
    GUESTS_ENDED,     /* the engine's job has failed or is gone */
    GUESTS_LEAVE,     /* This node leaves the cluster; a second one changes nothing. */
};

/* A sample that the engine delivered. */
struct guests_sample {
    sample_id id;
    uint64_t offset, bytes; /* of the arena */
    uint8_t reason;         /* of a bad one: enum bad_reason, and no place in the arena; else 0 */
};

struct guests_event {
    enum guests_event_type type;
    uint64_t now_ns;  /* no earlier than in the event before */
    uint64_t request; /* ATTACH, NEXT, WITHDRAW, DETACH: the caller's number, which its ANSWER has */
    uint64_t guest;   /* all but TICK, ATTACH and LEAVE */
    union {
        struct {
            struct guests_key key;
            uint64_t term, prep_id; /* terms of a key ascend, over epochs too */
            bool again;             /* there were guests of the key before, here or elsewhere */
            uint64_t predecessor;   /* the last guest of the key here that gave it anything; 0: none */
            struct idset *part;     /* of one epoch. Becomes the guests'. */
        } attach;
        struct {
            uint32_t job;  /* the engine's number */
            uint32_t hold; /* batches of its that may be held */
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
            const struct idset *ids; /* NULL: all */
        } withdraw;                  /* and DETACH */
        struct {
            uint64_t batch; /* as RELEASE names it */
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
    GUESTS_IS_REFUSED, /* with a code */
    GUESTS_STALE,
    GUESTS_BATCH_IS, /* samples; those with a reason last */
    GUESTS_EMPTY,    /* nothing; also for a request that another one has taken the place of */
    GUESTS_IS_GONE,
    GUESTS_WITHDRAWN, /* ids */
    GUESTS_DONE,
};

struct guests_action {
    enum guests_action_type type;
    uint64_t guest;
    uint32_t job;     /* ASK, RELEASE, GONE: the engine's */
    uint64_t request; /* RESOLVE, ANSWER */
    union {
        struct {
            /* Whose instances the guest must not get: those of this job of the engine, which is there until the RESOLVE
             * has its result. GUESTS_NO_JOB: nobody's; with `all` it is not known which, so all that there are. */
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
            /* Copied by the caller before the next step. While it sends what lies in the arena, it puts the RELEASE and
             * GONE off that would let go of it. */
            const struct guests_sample *samples;
            uint32_t n_samples;
            const struct idset *ids; /* until the next step */
        } answer;
    };
};

struct guests;

int guests_create(const struct guests_config *config, struct guests **out); /* LARDER_ENOMEM */
void guests_destroy(struct guests *guests);
/* guests_step takes an event and gives the number of actions, in order; they are valid until the next step. */
size_t guests_step(struct guests *guests, const struct guests_event *event, const struct guests_action **actions);
/* guests_alarm returns when the next TICK is wanted; UINT64_MAX: never. guests_count returns how many guests are there,
 * and guests_cut how many GUESTS_LEAVE_NS has ended. guests_behind leaves out those whose anchors wanted another one in
 * their place, since they have had all. guests_wanted returns one key after the other, from *cursor 0 on, of the guests
 * whose anchors may still want something: they have asked within a lease, and did not want another guest in this one's
 * place. NULL: there is no other. */
uint64_t guests_alarm(const struct guests *guests);
uint32_t guests_count(const struct guests *guests);
uint32_t guests_behind(const struct guests *guests);
uint32_t guests_cut(const struct guests *guests);
const struct guests_key *guests_wanted(const struct guests *guests, int *cursor);

#endif
