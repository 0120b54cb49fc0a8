/* governor.h: who loads, who prepares, and how far ahead: Lobster's thread management (ICPP 2022, 4.1 to 4.4).
 *
 * A state over measurements: times go in as they are measured, governor_decide is called every few hundred milliseconds
 * with what waits now. No I/O, no clock, no thread: the same calls give the same decisions. One thread owns it.
 *
 *   governor_queue_begin ─▶ { governor_loaded, governor_prepared, governor_trained, governor_decide }* ─▶
 * governor_queue_end
 *
 * A decision holds until the next. Loader counts of queues are shares, not fences: governor_next_queue says which queue
 * a free thread serves, so that none idles while a queue waits. docs/governor.md has the reasons. */
#ifndef LARDER_SERVER_GOVERNOR_GOVERNOR_H
#define LARDER_SERVER_GOVERNOR_GOVERNOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GOVERNOR_QUEUES_MAX 1024
#define GOVERNOR_QUEUE_NONE UINT32_MAX
#define GOVERNOR_SOURCES_MAX 16 /* storage that is told apart at a time; more share the last one */
#define GOVERNOR_CLASSES_MAX 32 /* pipelines × sample sizes told apart in a window; more count as the nearest */
#define GOVERNOR_AHEAD_MAX 64

struct governor;

struct governor_limits {
    uint32_t workers;       /* threads that prepare or load, ≥ 1: the cores */
    uint32_t extra_loaders; /* threads that load only: they wait for storage, so that more of them may run than cores */
    double tau_s;           /* how late a batch may be before its queue gets help */
    double share;           /* 0 … 1: of what its weight alone would give it, each queue with work keeps so much */
};

/* LARDER_EINVAL for limits out of bounds. */
int governor_create(const struct governor_limits *limits, struct governor **out);
void governor_destroy(struct governor *governor); /* accepts NULL */

struct governor_queue {
    uint32_t job;    /* ranks of one job have the same number and wait for each other */
    uint32_t source; /* queues that read from one device have the same number */
    double weight;   /* > 0: the job's; its ranks share it */
};

/* governor_queue_begin: a queue that is there now. Numbers are the caller's. */
void governor_queue_begin(struct governor *governor, uint32_t queue, const struct governor_queue *desc);
/* governor_queue_weight: the job has another from now on; given for each of its queues. */
void governor_queue_weight(struct governor *governor, uint32_t queue, double weight);
void governor_queue_end(struct governor *governor, uint32_t queue);

/* ── measurements ── */

struct governor_read {
    double seconds;
    uint32_t samples; /* that it brought */
    uint32_t busy;    /* reads under way at its source, itself included */
};

/* governor_loaded: one read for the queue. */
void governor_loaded(struct governor *governor, uint32_t queue, const struct governor_read *read);

struct governor_preparation {
    uint32_t pipeline;
    uint32_t busy; /* threads that prepared, itself included */
    uint64_t encoded_bytes;
    double seconds;
};

/* governor_prepared: one sample for the queue, under one pipeline. GOVERNOR_QUEUE_NONE: for one that has ended. */
void governor_prepared(struct governor *governor, uint32_t queue, const struct governor_preparation *preparation);
/* governor_trained: the client used a batch for so long; waiting for the next is not part of it. */
void governor_trained(struct governor *governor, uint32_t queue, double seconds);
/* governor_pipeline_gone, governor_source_gone: the number, which nothing uses, will mean another one: what was
 * learned of it is forgotten. */
void governor_pipeline_gone(struct governor *governor, uint32_t pipeline);
void governor_source_gone(struct governor *governor, uint32_t source);

/* ── decisions ── */

struct governor_backlog {
    uint32_t queue;
    uint32_t batch_size;
    uint32_t pending_loads; /* samples asked for and not there yet */
    uint32_t pending_reads; /* reads these are, under way or not: no more loaders can be used */
    uint32_t ready_batches;
};

/* What is known of a queue; 0: not yet. */
struct governor_view {
    double load_s, prepare_s; /* thread time of a sample */
    double train_s;           /* a batch */
    double late_s;            /* predicted of its next batch with the loaders dealt to it; below 0: in time */
};

struct governor_decision {
    uint32_t preparers; /* of the workers */
    uint32_t loaders;   /* all others and the extra ones, or fewer where more bring nothing */
    /* These are who does what first. A thread that has nothing of its kind to do takes the other, as long as there are
     * fewer at it than these: */
    uint32_t preparers_most, loaders_most;
    uint32_t source_most[GOVERNOR_SOURCES_MAX]; /* reads at once, loaders' and others' */
    uint32_t queue_loaders[GOVERNOR_QUEUES_MAX];
    uint32_t ahead[GOVERNOR_QUEUES_MAX]; /* batches of look-ahead that cover the queue's latency; 0: not known yet */
    struct governor_view views[GOVERNOR_QUEUES_MAX];
    double prepare_rate, load_rate; /* predicted for this split, samples a second; 0: not known */
    uint32_t moves;                 /* decisions so far that changed the number of preparers */
};

/* governor_decide: backlogs of all queues that are there. The result is the governor's, valid until its next call. */
const struct governor_decision *governor_decide(struct governor *governor, const struct governor_backlog *backlogs,
                                                size_t n);

/* A queue that has work waiting which no thread has taken. */
struct governor_candidate {
    uint32_t job;
    double job_part; /* threads that its job would have with one more, for each 1 of its weight */
    double share;    /* of the threads: its loaders by the decision, or its part of its job's weight for preparers */
    uint32_t busy;   /* threads at work for it now */
    /* batches begun, by samples, that its client has not asked for yet: the fewer, the sooner needed */
    double ahead;
};

/* governor_next_queue: which queue a free thread should serve. Jobs get threads in proportion to their weights, while
 * they have work. Within a job, whose ranks wait for each other, a queue with fewer than the part `guaranteed` (0 … 1)
 * of its share comes first, then the one that is least ahead. n ≥ 1. Gives an index. */
size_t governor_next_queue(const struct governor_candidate *candidates, size_t n, double guaranteed);

#endif
