/* fleet.h: the nodes of a cluster in virtual time, without daemons around them. On each are an engine, its guests, its
 * peers, and an anchor for each of its jobs; between them is a network. It serves the cluster's bench and its
 * simulator; one thread makes all calls. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_FLEET_H
#define LARDER_TESTS_BENCH_VIRTUAL_FLEET_H

#include "server/cluster/anchor.h"
#include "server/cluster/home.h"
#include "server/plan/play.h"
#include "tests/play/inside.h"

enum {
    FLEET_NODES_MAX = 64,
    FLEET_JOBS_MAX = 256,
    FLEET_SLOT_BYTES = 64,
    FLEET_SIZED_BYTES = 8 * FLEET_SLOT_BYTES, /* most of an instance of a pipeline that is sized */
};
#define FLEET_NO_INSTANCE UINT64_MAX
#define FLEET_LOST UINT64_MAX

/* A batch that a home gives. */
struct fleet_given {
    uint32_t home;
    uint64_t boot, guest, seq;
    bool last;
    uint32_t n_samples;
    const struct merge_sample *samples;
    const uint64_t *instances; /* FLEET_NO_INSTANCE: of a bad sample */
};

enum fleet_spoil {
    FLEET_SPOIL_ACTION, /* struct anchor_action, before it is carried out */
    FLEET_SPOIL_TAKEN,  /* bool[2]: what ENGINE_ARRIVED set in taken and over */
    FLEET_SPOIL_ASKED,  /* struct guests_event: a request that arrives */
    FLEET_SPOIL_ANSWER, /* struct merge_event: an answer that arrives */
    FLEET_SPOIL_GIVEN,  /* struct fleet_given: an answer with samples that a home gives */
    FLEET_SPOIL_AWAY,   /* struct bag: what homes are to give from now on; left out: the engine has it back */
    FLEET_SPOIL_FAMILY, /* uint64_t: a guest's family */
};

/* What the user decides, and what it is shown. Those that are NULL do nothing, and nothing takes time. */
struct fleet_hooks {
    void *ctx;
    /* How long a message takes; FLEET_LOST: it does not arrive. */
    uint64_t (*travel)(void *ctx, uint32_t from, uint32_t to);
    /* Whether a message that arrives comes again, and after how long; FLEET_LOST: it does not. */
    uint64_t (*again)(void *ctx, uint32_t from, uint32_t to);
    /* How long a LOAD or PREPARE takes. */
    uint64_t (*takes)(void *ctx, uint32_t node, const struct engine_action *action);
    /* How long a core works for a PREPARE; 0: not known. */
    uint64_t (*core)(void *ctx, uint32_t node, const struct engine_action *action);
    /* Each LOAD and PREPARE of a node's engine; each batch of a job, and the instance in each of its slots. */
    void (*works)(void *ctx, uint32_t node, const struct engine_action *action);
    void (*delivered)(void *ctx, uint32_t job, const struct engine_action *action, const uint64_t *instances);
    /* How long an instance of a pipeline that is sized is, 1 … FLEET_SIZED_BYTES. NULL: no pipeline is. */
    uint32_t (*length)(void *ctx, uint64_t instance);
    /* A request was answered, or found no answer. */
    void (*heard)(void *ctx, uint32_t node, uint32_t of, bool probe, bool answered);
    /* A request comes to a home; the home answers one with a batch; and an anchor takes the batch. */
    void (*asked)(void *ctx, uint32_t home, uint64_t boot, const struct guests_event *event);
    void (*gives)(void *ctx, const struct fleet_given *given);
    void (*takes_batch)(void *ctx, uint32_t home, uint64_t boot, uint64_t guest, uint64_t seq);
    /* Does something wrong, for a test of what finds it. The thing may be changed; true: it is left out. */
    bool (*spoils)(void *ctx, enum fleet_spoil what, void *thing);
};

struct fleet_config {
    uint32_t n_nodes;
    struct engine_config engine; /* of each; the node and its boot are mixed into the seed */
    struct guests_config guests;
    /* The dataset: the place of each sample. */
    const struct chunk_slot *places; /* borrowed until fleet_destroy */
    uint32_t n_samples, n_chunks, chunk_samples;
    uint8_t fingerprint[MAP_FINGERPRINT_BYTES];
    uint32_t sized; /* a bit for each pipeline: its instances differ in length */
    struct fleet_hooks hooks;
};

/* A training job on one node. */
struct fleet_job_desc {
    uint32_t node;
    const struct idset *view; /* borrowed until the job is gone */
    uint32_t batch, prefetch, epochs, pipeline;
    uint64_t seed;
    const struct engine_resume *resume; /* borrowed for the call; NULL: it begins with whole epochs */
    struct engine_part part;            /* of a job with ranks at several nodes, the one here */
    const struct multiset *multiset;    /* what an epoch is, borrowed until the job is gone */
    uint64_t family;                    /* the same for all of them; else 0 */
    bool lone;                          /* nobody else wants what it does: homes give nothing until fleet_spread */
};

/* Of the whole fleet, since it was made. */
struct fleet_counts {
    uint64_t nexts;          /* requests for samples */
    uint64_t attaches;       /* and of guests */
    uint64_t carried;        /* samples in answers that arrived */
    uint64_t messages;       /* of both kinds */
    uint64_t received;       /* samples that anchors took */
    uint64_t refused;        /* and did not */
    uint64_t moved, back;    /* as anchor_counts */
    uint64_t most_of_a_node; /* samples that the busiest node gave to others */
};

struct fleet;

int fleet_create(const struct fleet_config *config, struct fleet **out, struct error *err);
void fleet_destroy(struct fleet *fleet);

/* fleet_add returns the job's number; UINT32_MAX: it was refused. fleet_gone ends it. */
uint32_t fleet_add(struct fleet *fleet, const struct fleet_job_desc *desc);
void fleet_gone(struct fleet *fleet, uint32_t job);
/* fleet_next asks for batches, all of which are released when they are delivered. They come in this call or in a
 * fleet_until. */
void fleet_next(struct fleet *fleet, uint32_t job, uint32_t epoch, uint32_t credits);

/* fleet_spread has homes give to a job, from now on if it was lone. fleet_set_lone says what it is from its next epoch
 * on. */
void fleet_spread(struct fleet *fleet, uint32_t job);
void fleet_set_lone(struct fleet *fleet, uint32_t job, bool lone);

/* fleet_until takes all nodes through everything that happens until until_ns. fleet_now returns the present time. */
void fleet_until(struct fleet *fleet, uint64_t until_ns);
uint64_t fleet_now(const struct fleet *fleet);
uint64_t fleet_alarm(const struct fleet *fleet); /* when something is next to happen; UINT64_MAX: nothing is */
/* fleet_stuck tells whether something went round without end at one moment. No time passes from then on. */
bool fleet_stuck(const struct fleet *fleet);

/* fleet_see gives a node a view of the cluster. Numbers of nodes are places in it: all nodes, ascending. */
void fleet_see(struct fleet *fleet, uint32_t node, const struct members_view *view);
void fleet_forget(struct fleet *fleet, uint32_t node, const uint8_t id[MAP_NODE_ID_BYTES]);
void fleet_id(uint32_t node, uint8_t id[MAP_NODE_ID_BYTES]); /* a node's id */
uint32_t fleet_node(const uint8_t id[MAP_NODE_ID_BYTES]);
/* fleet_kill ends a node's daemon: its jobs are gone, and connections to it are refused. fleet_start starts it anew,
 * with a view of itself alone. fleet_stop lets a node stand still: what comes to it waits. fleet_go lets it go on.
 * fleet_leave has it give nothing more to the others. */
void fleet_kill(struct fleet *fleet, uint32_t node);
void fleet_start(struct fleet *fleet, uint32_t node);
void fleet_stop(struct fleet *fleet, uint32_t node);
void fleet_go(struct fleet *fleet, uint32_t node);
void fleet_leave(struct fleet *fleet, uint32_t node);
bool fleet_lives(const struct fleet *fleet, uint32_t node);
uint64_t fleet_boot(const struct fleet *fleet, uint32_t node);
/* fleet_probe asks a node whether it is there. hooks.heard is told. */
void fleet_probe(struct fleet *fleet, uint32_t from, uint32_t to);

/* fleet_check goes through all engines, and what must hold between them. */
void fleet_check(const struct fleet *fleet);
sample_id fleet_instance_sample(const struct fleet *fleet, uint64_t instance);
struct fleet_counts fleet_counts(const struct fleet *fleet);
uint32_t fleet_guests(const struct fleet *fleet, uint32_t node); /* at the node */
const struct peers *fleet_peers(const struct fleet *fleet, uint32_t node);
const struct engine *fleet_engine(const struct fleet *fleet, uint32_t node);
/* fleet_share counts where the samples of a job are. fleet_parts returns what other nodes are to give it: up to max
 * rows, with the numbers of nodes, and how many there are. */
void fleet_share(const struct fleet *fleet, uint32_t job, struct inside_share *out);
size_t fleet_parts(const struct fleet *fleet, uint32_t job, struct merge_status *out, size_t max);
struct anchor_counts fleet_received(const struct fleet *fleet, uint32_t job); /* by the job, so far */

#endif
