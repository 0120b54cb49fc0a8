/* engine_priv.h: the engine's state, shared by the files of this folder only.
 *
 * Everything is a numbered place in a growing array, so that arrays may move; ENGINE_NONE names nothing. An entry is one
 * sample planned for one job's queue; an instance is one prepared form in the arena; an encoded is one sample's bytes in
 * memory; a task is one PREPARE, before, while and after its bytes are loaded. */
#ifndef LARDER_SERVER_ENGINE_ENGINE_PRIV_H
#define LARDER_SERVER_ENGINE_ENGINE_PRIV_H

#include "cache/memory/extent.h"
#include "cache/memory/residency.h"
#include "common/check.h"
#include "common/random.h"
#include "sampler/sampler.h"
#include "server/engine/engine.h"
#include "server/engine/line.h"
#include "server/engine/slab.h"

#define ENGINE_MAGIC 0x656e6769u
#define ENGINE_SUBSTITUTES_MAX 16 /* bad samples in a row before policy `replace` gives up */
#define ENGINE_REASONS 8
#define ENGINE_TAKERS_MAX 64 /* jobs that a read has regard to */
#define ENGINE_COMPARE_MAX 8 /* chunks that are compared before one is read, from a random one on */
#define ENGINE_LOOK_MAX 64   /* chunks that are looked at for them: some bring nothing, or too little; bounds the work */
#define ENGINE_SOURCE_PAUSE_NS UINT64_C(50000000)        /* before a source that did not answer is asked again; then twice as long */
#define ENGINE_SOURCE_PAUSE_MAX_NS UINT64_C(2000000000)
#define ENGINE_SOURCE_TRIES 3 /* of a sample, each after its source has answered for another: then it is bad */
#define ENGINE_STOCK_DEPTH 1.5 /* samples that a job may have in a fiber's stock, over w */


struct sample_state {
    uint32_t instances; /* head of its instances */
    uint32_t encoded;
    uint32_t begun; /* instances ever begun */
    uint32_t chunk, fiber;   /* ENGINE_NONE: in none */
    uint32_t pending;        /* tasks of it that wait for their load to begin */
    bool failed;             /* its last load did: nobody loads it but who waits for it */
};

/* What one dataset's samples are read from; see sources.c. */
struct data_source {
    const void *dataset;
    uint32_t users;   /* jobs; 0: the place is free */
    uint32_t failed;   /* sources.rounds at its last failure, and at the begin of the load that it answered last */
    uint32_t answered;
    bool away, told;  /* it did not answer when it was asked last; and that was said */
    sample_id probe;  /* being read to see whether it answers; SAMPLE_NONE: none */
    uint64_t since_ns, pause_ns, until_ns; /* of being away: nothing is read before the last */
    uint64_t retries; /* loads that it did not answer since then */
};

struct chunk {
    sample_id *members; /* by slot; SAMPLE_NONE: not seen in any view yet */
    uint32_t group;
    uint32_t pending; /* tasks of its samples that wait for their load to begin */
    bool stale;       /* a member has been forgotten and is still listed */
};

/* n chunks that share one place in memory, and the fibers across them. */
struct group {
    uint32_t first_chunk, n_chunks, chunk_samples;
    uint32_t width; /* slots of a fiber */
    uint32_t first_fiber;
    uint32_t stock;       /* encoded samples of it in memory */
    uint32_t stock_max;   /* samples of a fiber that one job may have there and still want */
    bool thin;            /* the budget does not hold a sample for each fiber: none makes room for another */
    uint32_t ahead_below; /* with less than this it is worth a try to read ahead in it */
};

/* What of a fiber is in memory. */
struct fiber {
    struct line instances, encoded; /* instances that somebody wants */
};

/* What a job may be given: a sample, prepared in one way, and the jobs that planned or got it. */
struct form {
    sample_id id;
    uint32_t pipeline;
    uint64_t variant;
    struct jobset had;
};

enum instance_state { INSTANCE_FREE, INSTANCE_MAKING, INSTANCE_READY };

struct instance {
    enum instance_state state;
    bool doomed;   /* It is being made for a pipeline that has gone: it is freed when done. */
    bool zoned;    /* Its block is a slot of the zone of its size. */
    bool raw;      /* It is the encoded bytes themselves. */
    bool in_order; /* It was begun for a job that takes its samples in the dataset's order: no random part of its fiber. */
    uint32_t next; /* of the same sample, or the next unused place */
    struct form form;
    uint32_t block;   /* of the arena */
    uint32_t task;    /* that makes it; ENGINE_NONE once it is READY */
    uint32_t waiters; /* the first of the entries that wait for it, linked by next_waiter */
    struct link in_fiber;
    uint64_t bytes;
    uint64_t draw;     /* the random draw's number: how many instances of the sample were begun before */
    uint64_t made_for; /* client of the job that it was begun for */
};

enum encoded_state { ENCODED_FREE, ENCODED_LOADING, ENCODED_READY };

struct encoded {
    enum encoded_state state;
    uint32_t next; /* unused place */
    sample_id id;
    uint32_t tasks; /* the first that waits for the load */
    bool in_order;  /* as of an instance */
    struct link in_fiber;
    uint32_t round;      /* of the sources, when the load began */
    const void *dataset; /* that it is loaded from; when it is loaded only to be compared */
    void *handle;
    uint64_t bytes;
};

enum task_state { TASK_FREE, TASK_TO_LOAD, TASK_LOADING, TASK_TO_PREPARE, TASK_RUNNING };

struct task {
    enum task_state state;
    uint32_t job;        /* the heaviest of those that wait for it: whose list it is in, and whose turn it takes */
    uint32_t rank;       /* of the job, that waits for it; since it is in a list */
    struct link in_list; /* the job's list, or the load's (next only), or the unused places (next only) */
    sample_id id;
    uint32_t encoded; /* pinned by it; ENGINE_NONE before the load begins */
    uint32_t tries, tried; /* loads that failed for its source, while others came; the sources' round at the last */
    uint32_t n_outputs;
    uint32_t outputs[ENGINE_OUTPUTS_MAX]; /* instances */
};

/* Room in the stocks of a group's fibers; see encoded_read.c. Valid until something is loaded or picked. */
struct shortage {
    uint32_t takers[ENGINE_TAKERS_MAX], n_takers, n_fibers;
    uint32_t *left; /* by fiber, then taker */
    uint32_t most[ENGINE_TAKERS_MAX]; /* samples that a read may bring each taker */
    size_t cap;
    double chunk_samples; /* that a view has in a chunk, on the mean, by the taker of this dataset that has most */
    double apart; /* how far those with a stock there are from each other in their epochs: 0 in step, 1 half an epoch */
};

/* What a read of a chunk would bring. */
struct fill {
    uint32_t samples;
    uint64_t wants;
};

enum entry_state { ENTRY_FREE, ENTRY_UNPLACED, ENTRY_WAITING, ENTRY_READY };

struct entry {
    enum entry_state state;
    uint32_t job, rank;
    struct link in_line;  /* the rank's line of entries; unused places by next */
    uint32_t next_waiter; /* of the same instance */
    uint32_t instance;
    uint32_t substitutes; /* that were tried, under policy `replace` */
    sample_id id;
    uint64_t place_in_line; /* its number among the entries that its queue ever had */
    int64_t due_in_line;    /* the number it would have, had it always been in this queue: overtaking counts from there */
    uint64_t planned_ns;
    bool repeat;   /* It fills a rank's share up. */
    bool making;   /* Its instance is being prepared, not only planned. */
    bool reserved; /* It is kept for this rank, which had gone: no other rank gets it. */
};

struct lease {
    uint64_t batch;
    uint32_t epoch, count;
    uint32_t *instances;
};

/* Samples that have left R_j and are a queue's own, before there is room for them: its part of a fixed order, and what a
 * rank that went away had not released. Ids at … end - 1 of an array. Bounded by the rank's share. */
struct reserve {
    sample_id *ids;
    uint64_t at, end, cap;
};

enum task_kind { TASK_LOADS, TASK_PREPARES };
#define TASK_KINDS 2

/* What a queue's look-ahead must cover; see quota.c. */
struct look_ahead {
    uint32_t rows; /* of use; 0: all that it may have */
    uint64_t worst_ns[ENGINE_AHEAD_WINDOWS]; /* longest time from plan to ready, by window: the present one first */
    uint32_t windows;                        /* of these that are over */
    uint64_t began_ns;
    uint32_t batches; /* delivered in the present window */
    double step_ns;   /* of its client, between two batches, waiting left out */
    uint32_t steps;   /* measured */
    uint64_t delivered_ns, waited_ns; /* when a batch was delivered last; what it had waited then in all */
};

/* A rank's queue. */
enum presence { RANK_TO_COME, RANK_THERE, RANK_AWAY };

/* A rank's client. */
struct rank_client {
    enum presence presence;
    uint64_t id;
    bool missed; /* It is away, and has been needed since missed_since_ns. */
    uint64_t missed_since_ns;
};

/* Where a rank is in its job's epoch. */
struct rank_epoch {
    bool done;     /* LAST was delivered, or the rank asked for a later epoch. */
    bool told;     /* This client got the LAST of told_epoch: what it asked of it before it knew means nothing. */
    uint32_t told_epoch;
    bool returned; /* It came back after it was done: an empty LAST answers when it asks for the epoch again. */
    uint32_t batch_index, credits;
    uint64_t planned;      /* samples that are queued or delivered */
    uint64_t delivered;    /* of these */
    uint64_t lost;         /* bad samples that were left out */
    uint64_t repeats;      /* samples drawn to fill the share up */
    uint32_t repeats_lost; /* bad ones in a row */
};

/* A later epoch that the rank has asked for. It begins when every rank is done with the present one. */
struct rank_next {
    bool asked;
    uint32_t epoch, credits;
};

/* The rank's entries in planned order. */
struct rank_line {
    struct line entries;
    uint32_t queued;        /* entries in the line */
    uint32_t ready;         /* of these, those that are READY */
    uint32_t making;        /* of these, those that are being prepared */
    uint32_t unplaced;      /* of these, those that wait for room */
    uint32_t first_waiting; /* No entry before it is waited for. ENGINE_NONE: all that is waited for has no place. */
    uint64_t numbered;      /* entries that there ever were */
    uint64_t no_room_since; /* prepared.room_changes when none of the unplaced found any room; 0: not tried */
};

struct rank_tallies {
    uint64_t samples_delivered, batches_delivered;
    uint64_t wait_ns, waiting_since_ns;
    bool waiting;
};

/* A rank's queue. */
struct job_queue {
    struct rank_client client;
    struct rank_epoch epoch;
    struct rank_next next;
    struct rank_line line;
    struct reserve reserve;
    struct lease *leases; /* job->quota.held_max places */
    uint32_t n_leases;
    uint64_t held_slots;         /* queued and leased */
    uint64_t starves_since_ns;   /* Its client waits, and no work is under way that leads to its batch; 0: not so. */
    uint32_t listed[TASK_KINDS]; /* tasks for it in the job's lists */
    uint64_t pace_ns;            /* of a batch of its client's training; 0: not known */
    struct rank_tallies tallies;
};

struct task_list {
    struct line tasks;
    double turn; /* virtual time of the job's next turn: the lowest goes first */
};

enum job_state { JOB_FREE, JOB_IDLE, JOB_RUNNING, JOB_FAILED };

/* What JOB_ADD asked for: fixed for as long as the job is there. */
struct job_terms {
    char name[ENGINE_NAME_MAX];
    uint64_t client; /* of the rank that made the job: names it as an instance's made_for */
    const void *dataset;
    struct idset *view;
    uint32_t world_size;
    enum shuffle_mode shuffle;
    uint64_t seed;
    bool ordered; /* Batches keep the planned order. */
    uint32_t pipeline;
    uint64_t slot_bytes;
    bool raw; /* Its samples are their encoded bytes, as long as these are. */
    uint32_t batch_size, epochs;
    uint32_t prefetch, hold;
    bool drop_last;
    enum bad_policy bad_policy;
    bool redirected; /* shuffle `dependent`, in chunks */
    uint64_t variant;
    double weight;
};

/* What follows from the terms and the dataset. */
struct job_shape {
    uint64_t view_samples;
    uint64_t mean_bytes;  /* of its samples, encoded */
    double chunk_samples; /* of the view in a chunk that has any, on the mean; 0 without chunks */
    uint32_t chunk_base, chunk_count; /* of its dataset; 0 without */
    bool ample; /* Memory holds so much of its view that a read may bring all of a chunk, as at w = 1. */
    uint64_t batch_slots, row_bytes; /* samples of a batch; arena bytes of a batch for each rank */
};

/* What the job may take of the arena. A row is one batch for each rank. Owner: quota. */
struct job_quota {
    uint32_t ahead_min, ahead_max, ahead_asked; /* rows: its own for good; that it may get; with all it asked for */
    uint32_t ahead_now; /* rows that it has */
    uint64_t slots;     /* of each queue */
    uint64_t bytes;     /* of all queues together */
    uint32_t held_max;  /* batches that a client may hold: at most ahead_min */
    struct look_ahead *needs; /* by rank */
};

/* Where the job is in its epochs. */
struct job_progress {
    bool began; /* some epoch has begun */
    uint32_t epoch;
    uint64_t variant;    /* of this epoch */
    uint64_t drawn;      /* picks: the position in a fixed order */
    uint64_t lost;       /* bad samples that were not replaced */
    struct idset *bad;   /* bad samples, replaced or not: each counts once, however often it is planned */
    uint64_t abandoned;  /* samples left behind by ranks that went on */
    uint64_t repeats;    /* of all queues */
    sample_id *first;    /* with several ranks and a fixed order: its first world_size samples, for repeats; else NULL */
};

/* The job's use of its source. Owner: sources. */
struct job_source {
    uint32_t at; /* its place in sources.all */
    bool waits;  /* The job has waited for it since waits_since_ns. */
    uint64_t waits_since_ns;
};

/* The job's share of the work. Owner: tasks. */
struct job_turns {
    struct task_list lists[TASK_KINDS]; /* tasks that wait to be done in its turn */
    double weight;           /* as it is set now */
    double effective_weight; /* among the running jobs; see tasks_turns.c */
    double cost_s;  /* mean worker time of one output for it; 0: not known */
    double pace_ns; /* mean over its queues, as far as known; 0: not */
};

struct job_tallies {
    uint64_t came_ns;
    uint64_t samples_delivered, samples_shared, bad_samples;
};

struct job {
    enum job_state state;
    uint32_t no; /* its number: its place among the jobs */
    struct job_terms terms;
    struct job_shape shape;
    struct job_quota quota;
    bool zoned; /* Its ahead_min rows are slots of a zone. Before that only raw samples are planned; see prepared_zones.c. */
    struct job_progress progress;
    struct job_source source;
    struct job_turns turns;
    struct job_tallies tallies;
    uint32_t attached;       /* ranks that are there */
    uint64_t empty_since_ns; /* while attached is 0 */
    struct job_queue *queues; /* world_size */
};

/* Slots of one size that are nobody else's; see prepared_zones.c. */
struct zone {
    uint64_t bytes;    /* of a slot, rounded */
    uint64_t promised; /* slots, to jobs whose `zoned` is set */
    uint64_t slots;    /* that there are, those in use included */
    uint32_t *free;    /* blocks */
    size_t n_free, cap;
};

/* What is known of each sample that some job has had. */
struct samples {
    struct sample_state *all; /* by id */
    uint64_t cap;
};

/* What datasets are read from, by job->source. Owners: sources.c, tasks_sources.c. */
struct sources {
    struct data_source all[JOBS_MAX];
    uint32_t rounds; /* loads that failed for their source: tells what was begun after what */
    uint32_t n_away, n_waiting; /* sources that are; jobs whose source_waits is set */
};

/* What this step leads to; valid until the next. */
struct outbox {
    struct engine_action *actions;
    size_t n_actions, actions_cap;
    struct engine_output *outputs; /* of these actions, which hold indices until the step's end */
    size_t n_outputs, outputs_cap;
    struct engine_entry *delivered;
    size_t n_delivered, delivered_cap;
};

/* Jobs by place. */
struct jobs {
    struct job *all; /* JOBS_MAX places */
    uint32_t end;    /* places at and past it are free */
};

/* Where samples are stored. Owner: chunks.c. */
struct chunks {
    struct chunk *chunks;
    struct group *groups;
    struct fiber *fibers;
    uint32_t n_chunks, n_groups, n_fibers;
};

/* The arena's instances. Owners: prepared.c, prepared_room.c, prepared_zones.c. */
struct prepared {
    struct instance *instances;
    struct slab slab; /* of these */
    struct residency *residency;
    struct extents *extents;
    struct zone *zones; /* the largest slots first */
    uint32_t n_zones;
    uint64_t pinned_bytes; /* of blocks whose instances are pinned */
    uint32_t *window; /* scratch: instances to clear */
    size_t window_cap;
};

/* Encoded bytes. Owners: the encoded_*.c. */
struct encoded_store {
    struct encoded *encodeds;
    struct slab slab; /* of these */
    struct residency *residency;
    uint64_t used_bytes, pinned_bytes; /* pinned: being loaded, or waited for by tasks */
    uint32_t loading;
    struct shortage shortage;
    struct idset *kept; /* samples that stay though nobody wants them; NULL: none */
    uint32_t *slots;    /* scratch: of a chunk */
    size_t slots_cap;
};

struct quota {
    uint64_t promised_bytes; /* to jobs */
    bool divide;             /* the need of some job has changed: the arena is to be divided again */
};

/* What all queues hold. Owners: the queue_*.c. */
struct queues {
    struct entry *entries;
    struct slab slab; /* of these */
    uint64_t next_batch;
};

/* Owners: the tasks_*.c. */
struct tasks {
    struct task *tasks;
    struct slab slab; /* of these */
    uint32_t running;
    double turn[TASK_KINDS]; /* virtual time: no list that has work is behind it by more than its slack */
    double cost_s;           /* mean worker time of one output; 0: not known */
};

/* Owners: the plan_*.c. */
struct plan {
    bool again; /* since the planning of this step queues got room again: a sample turned bad, an epoch began */
    uint64_t room_changes;     /* counts what may have made room */
    uint64_t zone_again_ns;    /* no zone is laid out before */
    uint32_t zone_turn;        /* the job that had the last turn to have its zone laid out */
    struct pick picks[JOBS_MAX];
};

struct engine {
    uint32_t magic;
    struct engine_config config;
    uint64_t now_ns;
    bool draining, halted;
    struct sampler *sampler;
    struct rng rng;
    struct engine_totals totals; /* the counting fields */
    int failing; /* enum bad_reason of the sample that fails just now */
    struct samples samples;
    struct sources sources;
    struct outbox outbox;
    struct jobs jobs;
    struct chunks chunks;
    struct prepared prepared;
    struct encoded_store encoded;
    struct quota quota;
    struct queues queues;
    struct tasks tasks;
    struct plan plan;
};

static inline struct job_queue *queue_of(const struct engine *engine, const struct entry *entry)
{
    return &engine->jobs.all[entry->job].queues[entry->rank];
}

#endif
