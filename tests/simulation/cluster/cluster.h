/* cluster.h: nodes that share, in virtual time, with everything that goes wrong between them: a network that delays,
 * loses, repeats and is cut; daemons that die, stand still and come again; an etcd that stops, forgets and lets leases
 * die. The nodes are tests/bench/virtual/fleet.h's, with a membership each. A seed is a whole run. */
#ifndef LARDER_SIMULATION_CLUSTER_H
#define LARDER_SIMULATION_CLUSTER_H

#include "common/random.h"
#include "server/cluster/deal.h"
#include "server/cluster/members.h"
#include "tests/bench/virtual/fleet.h"

enum {
    CLUSTER_NODES_MAX = 5,
    CLUSTER_JOBS_MAX = 15,
    CLUSTER_EPOCHS_MAX = 3,
    CLUSTER_SAMPLES_MAX = 1200,
};
#define CLUSTER_MS UINT64_C(1000000)
#define CLUSTER_S UINT64_C(1000000000)
#define CLUSTER_LEASE_NS (15 * CLUSTER_S)
/* A job's stall: for what a request waits, and its second try; then for the next node, and this one draws it. */
#define CLUSTER_STALL_NS (10 * CLUSTER_S)
#define CLUSTER_LEFT_NS (5 * CLUSTER_S)       /* until all know that a node leaves, when nothing is at fault */
#define CLUSTER_STALL_ETCD_NS (3 * CLUSTER_S) /* when only etcd is at fault */

/* What holds, in the numbers of the cluster's contract. */
enum cluster_rule {
    RULE_NONE,
    RULE_TWICE = 1,  /* no sample is taken twice in an epoch */
    RULE_ALL = 2,    /* all are, at its end */
    RULE_SHARE = 3,  /* each sample of a job's share is to be drawn, elsewhere, planned or had, and so says each part */
    RULE_DEAL = 4,   /* the shares of a job's nodes are disjoint, and together the view, or the epoch's multiset */
    RULE_BUDGET = 5, /* what is kept for anchors has its bound */
    RULE_INSTANCE = 6, /* no instance comes twice to a job */
    RULE_SEQ = 7,      /* what was given for a number is given again, until it is taken */
    RULE_HEALED = 8,   /* a minute after the last fault all is as it was, and no guest is left without a job */
    RULE_STALL = 9,    /* no job stands still for longer than CLUSTER_STALL_NS */
    RULE_BYTES = 10,   /* a sample's pixels are its own, and all of them */
    RULE_UNIFORM = 11, /* what is drawn is uniform over what is left, and homes are drawn in proportion */
    RULE_SAME = 12,    /* a seed is a run */
    RULE_ETCD = 13,    /* whatever etcd says, a node that answers is seen until it leaves */
    RULE_LEFT = 14,    /* a node that has left gives nothing */
    RULE_HOME = 15,    /* what is dealt at home stays there but for what is mixed, and other nodes are not asked */
    RULE_SLOW = 16,    /* a slow home is left soon, and one that is not slow is not left */
    RULES
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
    SPOIL_TAKEN,  /* counts an arrival as taken that the engine refused */
    SPOIL_ACKED,  /* acknowledges what it has not */
    SPOIL_BYTES,  /* puts samples into each other's slots */
    SPOIL_BACK,   /* does not give the engine back what nobody gives */
    SPOIL_PART,   /* gives the engine only half of that back */
    SPOIL_KEYS,   /* believes that a node without a key is gone */
    SPOIL_TERMS,  /* gives all attachments one term */
    SPOIL_OTHER,  /* gives something else when it is asked for a number again */
    SPOIL_LAST,   /* believes a home that says LAST */
    SPOIL_STAY,   /* leaves and does not say so */
    SPOIL_DEAL,   /* deals what is another epoch's */
    SPOIL_ORDER,  /* draws too much of what is elsewhere */
    SPOIL_HOMES,  /* draws too much of some homes */
    SPOIL_AWAY,   /* asks nobody for half of what homes are to give from now on */
    SPOIL_BOTH,   /* goes on drawing here what homes are to give from now on */
    SPOIL_KIN,    /* takes each guest of a training for a training */
    SPOIL_LENGTH, /* takes a sample that came for as long as it may be */
    SPOIL_STIR,   /* deals at home with another mix */
    SPOIL_STRAY,  /* asks homes for what is dealt at home */
    SPOIL_LEAVE,  /* deals anew what is to be dealt at home */
    SPOIL_KEEP,   /* leaves no home for being slow */
    SPOIL_FLEE,   /* leaves homes that are not slow */
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

/* What a node's membership asked another node, and heard of it. */
struct asked {
    bool probing;        /* a probe is under way */
    uint32_t unanswered; /* probes in a row, since the node last answered anything */
};

/* What a trainer's job was about to draw, when it was last looked at. */
struct uniform_look {
    bool there;
    uint32_t epoch;
    uint64_t moved, here, undrawn;
    uint64_t at_home[CLUSTER_NODES_MAX]; /* undrawn, by home */
};

/* How far draws were from their expectations in each window of an epoch, and their variances: of what is elsewhere
 * among all, and of the first home among those elsewhere. */
enum { UNIFORM_WINDOWS = 8, UNIFORM_KINDS = 2 };
struct uniform {
    double off[UNIFORM_KINDS][UNIFORM_WINDOWS], variance[UNIFORM_KINDS][UNIFORM_WINDOWS];
};

struct cluster;

/* A job whose ranks are at several nodes, a trainer each. Its epochs are dealt. */
struct launch {
    struct deal *deal;
    struct multiset *multiset;                                   /* NULL: an epoch has each sample once */
    bool lone;                                                   /* it begins alone, and is in company from */
    uint64_t turn_ns;                                            /* this time on; UINT64_MAX: never */
    uint32_t ranks;                                              /* 0: there is none */
    uint32_t mix;                                                /* of DEAL_MIX_ALL, where it is dealt at home; and */
    struct idset *homes[CLUSTER_NODES_MAX];                      /* what has its home at each node then; else NULL */
    struct idset *shares[CLUSTER_NODES_MAX][CLUSTER_EPOCHS_MAX]; /* NULL: not dealt yet */
    /* Of a multiset, how often each sample comes to a rank. Then the share has those that come to it at all. */
    uint32_t draws[CLUSTER_NODES_MAX][CLUSTER_EPOCHS_MAX][CLUSTER_SAMPLES_MAX];
};

/* A rank of it, for the engine. */
struct launch_rank {
    struct cluster *cluster;
    uint32_t rank;
};

/* A training script. */
struct trainer {
    uint32_t node, job; /* job: the fleet's; UINT32_MAX: it has none now */
    bool dealt;         /* It is a rank of the launch. */
    struct launch_rank launched;
    uint32_t repeats; /* of the epoch */
    struct uniform_look look;
    struct idset *view;
    struct multiset *multiset; /* what its epochs are; NULL: its view. Not of the launch's */
    bool times_known;          /* `times` has how often each sample comes in times_epoch, of a multiset */
    uint32_t times_epoch, times[CLUSTER_SAMPLES_MAX];
    uint32_t n_view, batch, prefetch, epochs, pipeline;
    uint64_t seed, step_ns;
    uint32_t epoch, batches, n_had;   /* of the epoch */
    uint8_t had[CLUSTER_SAMPLES_MAX]; /* how often */
    bool asked, done;
    uint64_t asked_ns, next_ns; /* when it asked; when it asks next */
    uint64_t stood_ns;          /* how long it has stood still, since its first batch */
};

/* What runs have. */
enum cluster_kind {
    KIND_FAULTS,
    KIND_HOME, /* a launch that is dealt at home, where there is room for one */
    KIND_SLOW, /* one job, no fault, and in every other run a home that is slow */
};

struct given_batch;

struct cluster {
    struct rng rng;
    uint64_t seed;
    uint32_t faults; /* FAULT_… */
    enum cluster_spoil spoil;
    bool spoiled;
    enum cluster_kind kind;
    bool at_home;                        /* the launch is dealt at home */
    uint32_t slow_times;                 /* KIND_SLOW: so many times as long as others the last node takes to prepare */
    uint64_t free_ns[CLUSTER_NODES_MAX]; /* KIND_SLOW: when the node has prepared all that it was asked for */
    uint32_t sized;                      /* a bit for each pipeline: its instances differ in length */
    bool tight; /* the arenas have tight_slots: some guests are refused, and some entries wait for a place */
    uint32_t tight_slots;
    struct fleet *fleet;
    uint32_t n_nodes, n_samples, n_chunks, n_trainers;
    struct chunk_slot places[CLUSTER_SAMPLES_MAX];
    uint8_t home[CLUSTER_SAMPLES_MAX]; /* of each sample, once all nodes know each other */
    struct trainer trainers[CLUSTER_JOBS_MAX];
    struct launch launch;
    struct uniform uniform;
    struct etcd etcd;
    struct members members[CLUSTER_NODES_MAX];
    struct asked asked[CLUSTER_NODES_MAX][CLUSTER_NODES_MAX];
    uint64_t told_revision[CLUSTER_NODES_MAX];
    uint64_t booted_ns[CLUSTER_NODES_MAX]; /* when it comes again, of a dead one; 0: never */
    uint64_t stands_until_ns[CLUSTER_NODES_MAX];
    uint64_t cut_until_ns[CLUSTER_NODES_MAX][CLUSTER_NODES_MAX];
    uint64_t etcd_until_ns;
    uint64_t next_fault_ns, faults_end_ns, last_fault_ns;
    bool leaves; /* A node leaves the cluster in this run, */
    uint32_t leaver;
    uint64_t leave_ns, left_ns, leaver_ends_ns; /* then, has left since, and is stopped then; 0: it is not, has not */
    uint32_t lost, again;                       /* of 1000 messages */
    uint32_t stops_short; /* of 1000 answers that have samples: the home says LAST, and has more */
    struct agenda agenda; /* of what members wait for */
    struct given_batch *given;
    size_t n_given, given_cap;
    uint64_t *had_by; /* by instance: trainers that had it */
    size_t had_cap;
    enum cluster_rule broken;
    char text[256];
    uint64_t hash, most_stall_ns, samples, events;
};

/* cluster_run runs a seed, and gives the rule that it broke; it counts and tells in *cluster. cluster_end frees it. */
enum cluster_rule cluster_run(struct cluster *cluster, uint64_t seed, enum cluster_spoil spoil, enum cluster_kind kind);
void cluster_end(struct cluster *cluster);

/* Shared by cluster*.c. cluster_length returns how long an instance of a pipeline that is sized is. */
uint32_t cluster_length(void *ctx, uint64_t instance);
void cluster_break(struct cluster *cluster, enum cluster_rule rule, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool cluster_odds(struct cluster *cluster, uint32_t of_1000);

/* faults.c */
uint64_t faults_travel(void *ctx, uint32_t from, uint32_t to);
uint64_t faults_again(void *ctx, uint32_t from, uint32_t to);
void faults_begin(struct cluster *cluster);  /* draws whether a node leaves */
void faults_happen(struct cluster *cluster); /* those that are due */
uint64_t faults_alarm(const struct cluster *cluster);
void faults_stop_short(const struct cluster *cluster, struct fleet_given *given);
bool faults_cut(const struct cluster *cluster, uint32_t from, uint32_t to);

/* spoil.c. spoil_begin lets wrong draws be done, until spoil_end. */
void spoil_begin(struct cluster *cluster);
void spoil_end(void);
bool spoil_deed(void *ctx, enum fleet_spoil what, void *thing);

/* launch.c: the job whose ranks are at several nodes. launch_desc fills in what its rank's job is described by.
 * launch_share returns a trainer's share of its present epoch. NULL: the trainer has none, or the epoch has not
 * begun. */
void launch_begin(struct cluster *cluster);
void launch_desc(const struct cluster *cluster, struct trainer *trainer, struct fleet_job_desc *desc);
const struct idset *launch_share(const struct cluster *cluster, const struct trainer *trainer);
bool launch_waits(const struct cluster *cluster, const struct trainer *trainer); /* for ranks that have had less */
uint64_t launch_alarm(const struct cluster *cluster);
void launch_happens(struct cluster *cluster);                                          /* what is due */
uint32_t launch_samples(const struct cluster *cluster, const struct trainer *trainer); /* as epochs_samples */
uint32_t launch_times(const struct cluster *cluster, const struct trainer *trainer, sample_id id);
void launch_end(struct cluster *cluster);

/* at_home.c: a launch that is dealt at home. at_home_begin draws how much is mixed; at_home_deals readies the deal for
 * a rank. The checks are of an epoch that is dealt to all ranks, and of what a rank has elsewhere. */
void at_home_begin(struct cluster *cluster, uint64_t seed);
void at_home_deals(struct cluster *cluster, uint32_t rank);
void at_home_check(struct cluster *cluster, uint32_t epoch);
void at_home_check_parts(struct cluster *cluster, const struct trainer *trainer, uint64_t elsewhere, size_t n_parts);

/* slow.c: runs with a slow home. slow_begin makes such a run; slow_core and slow_takes are hooks of the fleet;
 * slow_check checks what became of the trainer, whose job is there yet, and has just had its last batch. */
void slow_begin(struct cluster *cluster);
uint64_t slow_core(const struct cluster *cluster, uint32_t node, const struct engine_action *action);
uint64_t slow_takes(struct cluster *cluster, uint32_t node, const struct engine_action *action);
void slow_check(struct cluster *cluster, const struct trainer *trainer);

/* epochs.c: what epochs are. epochs_multiset makes a multiset for a third of the numbers, and gives NULL for the
 * others. epochs_of returns the trainer's; NULL: it has none. epochs_times returns how often a sample comes to it in
 * its present epoch; epochs_samples how many come, without repeats; epochs_draws how many an epoch has for all
 * ranks. */
struct multiset *epochs_multiset(const struct cluster *cluster, uint32_t number, const struct idset *view);
const struct multiset *epochs_of(const struct cluster *cluster, const struct trainer *trainer);
uint32_t epochs_times(const struct cluster *cluster, struct trainer *trainer, sample_id id);
uint32_t epochs_samples(const struct cluster *cluster, struct trainer *trainer);
uint32_t epochs_draws(const struct cluster *cluster, const struct trainer *trainer);

/* shares.c: what holds of a job's samples after each step */
void shares_check(struct cluster *cluster);

/* uniform.c: uniform_look looks at what a trainer's job has drawn since the look before. uniform_judge adds up what
 * runs have, and gives the chi-square of UNIFORM_FREEDOM degrees of freedom; below 0: there is too little to judge. */
enum { UNIFORM_FREEDOM = UNIFORM_KINDS * UNIFORM_WINDOWS };
void uniform_look(struct cluster *cluster, struct trainer *trainer, const struct inside_share *share,
                  const struct merge_status *parts, size_t n_parts);
void uniform_add(struct uniform *sum, const struct uniform *more);
double uniform_chi_square(const struct uniform *sum);

/* etcd.c: memberships, and the store that tells them. etcd_sees: whether the other is in the node's view. */
bool etcd_sees(const struct cluster *cluster, uint32_t node, uint32_t of);
void etcd_begin_node(struct cluster *cluster, uint32_t node);
void etcd_happens(struct cluster *cluster);
uint64_t etcd_alarm(const struct cluster *cluster);
void etcd_wipe(struct cluster *cluster);
void etcd_leave(struct cluster *cluster, uint32_t node);
void etcd_heard(void *ctx, uint32_t node, uint32_t of, bool probe, bool answered);

/* ledger.c: what holds of each batch and message */
void ledger_delivered(void *ctx, uint32_t job, const struct engine_action *action, const uint64_t *instances);
void ledger_asked(void *ctx, uint32_t home, uint64_t boot, const struct guests_event *event);
void ledger_gives(void *ctx, const struct fleet_given *given);
bool ledger_has(const struct cluster *cluster, const struct fleet_given *given); /* its number was given before */
void ledger_takes(void *ctx, uint32_t home, uint64_t boot, uint64_t guest, uint64_t seq);
void ledger_free(struct cluster *cluster);

#endif
