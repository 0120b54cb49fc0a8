/* cluster.h: nodes that share, in virtual time, with everything that goes wrong between them: a network that delays,
 * loses, repeats and is cut; daemons that die, stand still and come again; an etcd that stops, forgets and lets leases
 * die. The nodes are server/bench/fleet.h's, with a membership each. A seed is a whole run. */
#ifndef LARDER_SIMULATION_CLUSTER_H
#define LARDER_SIMULATION_CLUSTER_H

#include "common/random.h"
#include "server/bench/fleet.h"
#include "server/cluster/members.h"

enum {
    CLUSTER_NODES_MAX = 5,
    CLUSTER_JOBS_MAX = 10,
    CLUSTER_SAMPLES_MAX = 1200,
};
#define CLUSTER_MS UINT64_C(1000000)
#define CLUSTER_S UINT64_C(1000000000)
#define CLUSTER_LEASE_NS (15 * CLUSTER_S)
/* A job's stall: for what a request waits, and its second try; then for the next node, and this one draws it. */
#define CLUSTER_STALL_NS (10 * CLUSTER_S)
#define CLUSTER_STALL_ETCD_NS (3 * CLUSTER_S) /* when only etcd is at fault */

/* What holds, in the numbers of the cluster's contract. */
enum cluster_rule {
    RULE_NONE,
    RULE_TWICE = 1,    /* no sample is taken twice in an epoch */
    RULE_ALL = 2,      /* all are, at its end */
    RULE_BUDGET = 5,   /* what is kept for anchors has its bound */
    RULE_INSTANCE = 6, /* no instance comes twice to a job */
    RULE_SEQ = 7,      /* what was given for a number is given again, until it is taken */
    RULE_HEALED = 8,   /* a minute after the last fault all is as it was, and no guest is left without a job */
    RULE_STALL = 9,    /* no job stands still for longer than CLUSTER_STALL_NS */
    RULE_BYTES = 10,   /* a sample's pixels are its own */
    RULE_SAME = 12,    /* a seed is a run */
    RULE_ETCD = 13,    /* without etcd nothing moves */
};

/* Which faults a run has. */
enum {
    FAULT_LOSS = 1, /* messages are lost, come again, and come late */
    FAULT_CUT = 2,  /* pairs are cut, in one direction or both */
    FAULT_DIE = 4,
    FAULT_STAND = 8,
    FAULT_ETCD = 16,
};

/* What a node may do wrong. */
enum cluster_spoil {
    SPOIL_NONE,
    SPOIL_TAKEN, /* counts an arrival as taken that the engine refused */
    SPOIL_ACKED, /* acknowledges what it has not */
    SPOIL_BYTES, /* puts samples into each other's slots */
    SPOIL_BACK,  /* does not give the engine back what nobody gives */
    SPOIL_PART,  /* gives the engine only half of that back */
    SPOIL_KEYS,  /* believes that a node without a key is gone */
    SPOIL_TERMS, /* gives all attachments one term */
    SPOIL_OTHER, /* gives something else when it is asked for a number again */
    SPOIL_ALL
};

/* etcd.c: the store of who is there, as etcd is */
struct etcd {
    bool stands; /* it answers nobody */
    uint64_t revision;
    struct {
        bool there;
        uint64_t boot, lease_until_ns;
        bool leaving;
    } keys[CLUSTER_NODES_MAX];
};

/* A training script. */
struct trainer {
    uint32_t node, job; /* job: the fleet's; UINT32_MAX: it has none now */
    struct idset *view;
    uint32_t n_view, batch, prefetch, epochs, pipeline;
    uint64_t seed, step_ns;
    uint32_t epoch, batches, n_had; /* of the epoch */
    uint8_t had[CLUSTER_SAMPLES_MAX];
    bool asked, done;
    uint64_t asked_ns, next_ns; /* when it asked; when it asks next */
};

struct given_batch;

struct cluster {
    struct rng rng;
    uint64_t seed;
    uint32_t faults; /* FAULT_… */
    enum cluster_spoil spoil;
    bool spoiled;
    bool tight; /* the arenas have tight_slots: some guests are refused, and some entries wait for a place */
    uint32_t tight_slots;
    struct fleet *fleet;
    uint32_t n_nodes, n_samples, n_chunks, n_trainers;
    struct chunk_slot places[CLUSTER_SAMPLES_MAX];
    struct trainer trainers[CLUSTER_JOBS_MAX];
    struct etcd etcd;
    struct members members[CLUSTER_NODES_MAX];
    uint64_t told_revision[CLUSTER_NODES_MAX];
    uint64_t booted_ns[CLUSTER_NODES_MAX]; /* when it comes again, of a dead one; 0: never */
    uint64_t stands_until_ns[CLUSTER_NODES_MAX];
    uint64_t cut_until_ns[CLUSTER_NODES_MAX][CLUSTER_NODES_MAX];
    uint64_t etcd_until_ns;
    uint64_t next_fault_ns, faults_end_ns, last_fault_ns;
    uint32_t lost, again; /* of 1000 messages */
    struct agenda agenda; /* of what members wait for */
    struct given_batch *given;
    size_t n_given, given_cap;
    uint64_t *had_by; /* by instance: trainers that had it */
    size_t had_cap;
    enum cluster_rule broken;
    char text[256];
    uint32_t view_most[CLUSTER_NODES_MAX];
    uint64_t hash, most_stall_ns, samples, events;
};

/* cluster_run runs a seed, and gives the rule that it broke; it counts and tells in *cluster. cluster_end frees it. */
enum cluster_rule cluster_run(struct cluster *cluster, uint64_t seed, enum cluster_spoil spoil);
void cluster_end(struct cluster *cluster);

/* Shared by cluster*.c. */
void cluster_break(struct cluster *cluster, enum cluster_rule rule, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool cluster_odds(struct cluster *cluster, uint32_t of_1000);

/* faults.c */
uint64_t faults_travel(void *ctx, uint32_t from, uint32_t to);
uint64_t faults_again(void *ctx, uint32_t from, uint32_t to);
void faults_happen(struct cluster *cluster); /* those that are due */
uint64_t faults_alarm(const struct cluster *cluster);
bool faults_spoil(void *ctx, enum fleet_spoil what, void *thing);
bool faults_cut(const struct cluster *cluster, uint32_t from, uint32_t to);

/* etcd.c: memberships, and the store that tells them */
void etcd_begin_node(struct cluster *cluster, uint32_t node);
void etcd_happens(struct cluster *cluster);
uint64_t etcd_alarm(const struct cluster *cluster);
void etcd_wipe(struct cluster *cluster);
void etcd_heard(void *ctx, uint32_t node, uint32_t of, bool probe, bool answered);

/* ledger.c: what holds of each batch and message */
void ledger_delivered(void *ctx, uint32_t job, const struct engine_action *action, const uint64_t *instances);
void ledger_asked(void *ctx, uint32_t home, uint64_t boot, const struct guests_event *event);
void ledger_gives(void *ctx, const struct fleet_given *given);
bool ledger_has(const struct cluster *cluster, const struct fleet_given *given); /* its number was given before */
void ledger_takes(void *ctx, uint32_t home, uint64_t boot, uint64_t guest, uint64_t seq);
void ledger_free(struct cluster *cluster);

#endif
