/* fleet_priv.h: a fleet's nodes and what is on its way between them (fleet*.c only). */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_FLEET_PRIV_H
#define LARDER_TESTS_BENCH_VIRTUAL_FLEET_PRIV_H

#include "tests/bench/virtual/fleet.h"

enum {
    FLEET_GUEST_CLIENT = 1 << 20, /* clients of an engine from here on are guests */
    FLEET_SENT_MAX = 8192,        /* requests of a node under way */
    FLEET_PROBE_MS = 2000,
    FLEET_STANDS_MS = 100,
    FLEET_ROUNDS_MAX = 100000, /* at one moment */
};
#define FLEET_MS UINT64_C(1000000)

enum fleet_kind { FLEET_ATTACH, FLEET_NEXT, FLEET_DETACH, FLEET_PROBE };

/* A request or the answer to one. */
struct fleet_message {
    uint32_t from, to;
    uint64_t from_boot, to_boot;
    uint64_t serial; /* of the request; the sender's; 0: no answer is wanted */
    enum fleet_kind kind;
    bool is_answer, refused; /* refused: there was no connection */
    struct guests_event ask;
    struct bag *ids; /* ATTACH */
    bool together;
    uint32_t pipeline;
    uint64_t family;
    enum guests_answer answer;
    uint64_t guest, seq;
    bool last;
    uint32_t n_samples;
    struct merge_sample samples[GUESTS_SAMPLES_MAX];
    uint64_t instances[GUESTS_SAMPLES_MAX];
};

/* What happens at a time: a message arrives, or a request has waited for its answer too long (message NULL). */
struct fleet_due {
    struct due due;
    struct fleet_message *message;
    uint32_t node;
    uint64_t serial;
};

/* A request of a node, until it is answered or given up; serial 0: none. */
struct fleet_sent {
    uint64_t serial, request;
    enum fleet_kind kind;
    uint32_t job, peer, to, n;
    uint64_t job_serial;
    uint32_t tasks[MERGE_SAMPLES_MOST];
};

struct fleet_expect {
    uint32_t job, task;
    sample_id id;
    uint64_t ahead;
};

struct fleet_node {
    struct fleet *fleet;
    uint32_t no;
    uint64_t boot, serials;
    bool lives, stands;
    struct play play;
    struct home home;
    struct peers peers;
    uint64_t *slots;     /* the instance in each */
    uint64_t *offset_of; /* by task of an EXPECT */
    size_t offsets_cap;
    bool guest_at[JOBS_MAX];               /* the engine's job is a guest's */
    struct multiset *given_at[JOBS_MAX];   /* what a guest's epoch is, by the engine's job */
    const struct fleet_message *attaching; /* the ATTACH at hand */
    struct fleet_expect *expects;
    size_t n_expects, expects_cap;
    struct fleet_message **waiting; /* while it stands still */
    size_t n_waiting, waiting_cap;
    struct fleet_sent sent[FLEET_SENT_MAX];
    uint64_t given; /* samples to other nodes */
};

struct fleet_job {
    bool there;
    uint64_t serial;
    uint32_t node, job, pipeline; /* job: the engine's number */
    const struct idset *view;
    const struct multiset *multiset;
    uint64_t family;
    struct anchor *anchor;
};

struct fleet {
    struct fleet_config config;
    uint64_t now_ns, job_serials;
    bool stuck;
    struct fleet_node *nodes;
    struct fleet_job jobs[FLEET_JOBS_MAX];
    uint32_t jobs_end; /* above all numbers that jobs had */
    uint32_t adding;   /* the job whose JOB_ADD is on its way */
    struct agenda agenda;
    sample_id *instances; /* the sample of each */
    size_t n_instances, instances_cap;
    struct fleet_counts counts;
};

/* fleet_node.c: the engine's side */
void fleet_begin_node(struct fleet *fleet, uint32_t no);
void fleet_end_node(struct fleet_node *node);
void fleet_add_guest(struct fleet_node *node, const struct guests_action *action);
void fleet_end_job(struct fleet *fleet, struct fleet_job *job); /* its engine has it no more */
int fleet_add_job(struct fleet_node *node, uint32_t number, const struct fleet_job_desc *desc);

/* fleet_net.c: what goes from node to node */
struct fleet_message *fleet_message(struct fleet_node *node, uint32_t to, enum fleet_kind kind);
void fleet_send(struct fleet *fleet, struct fleet_message *message); /* which becomes the fleet's */
void fleet_free(struct fleet_message *message);
struct fleet_sent *fleet_request(struct fleet_node *node, struct fleet_message *message, uint64_t wait_ms);
struct fleet_sent *fleet_sent_at(struct fleet_node *node, uint64_t serial);

/* fleet_parts.c: anchors and guests */
void fleet_carry_out(struct fleet *fleet, struct fleet_job *job); /* what the job's anchor asks for */
void fleet_tell_anchor(struct fleet *fleet, struct fleet_job *job, struct merge_event event);
void fleet_asked(struct fleet_node *node, struct fleet_message *message);
void fleet_answered(struct fleet_node *node, const struct fleet_message *message);
void fleet_failed(struct fleet_node *node, uint64_t serial, bool refused);
void fleet_settle(struct fleet *fleet);

#endif
