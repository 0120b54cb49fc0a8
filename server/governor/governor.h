/* governor.h: the governor decides how many threads prepare, how many reads each source gets at once, and how far each
 * queue should look ahead. It is Lobster's thread management (ICPP 2022, 4.1 to 4.4), with one difference: reading
 * takes no core, so it takes no thread from preparing.
 *
 * The governor keeps measurements. The caller reports each measured time, and calls governor_decide every few hundred
 * milliseconds with the work that is waiting. The governor does no I/O and has neither a clock nor a thread: the same
 * calls give the same decisions. One thread owns it.
 *
 *   governor_queue_begin ─▶ { governor_loaded, governor_prepared, governor_trained, governor_decide }* ─▶
 * governor_queue_end
 *
 * A decision holds until the next. The loader counts of queues are shares, not fences: governor_next_queue says which
 * queue a free thread serves, so that no thread idles while a queue waits. docs/internals/governor.md has
 * the reasons. */
#ifndef LARDER_SERVER_GOVERNOR_GOVERNOR_H
#define LARDER_SERVER_GOVERNOR_GOVERNOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/governor/tiers.h"

#define GOVERNOR_QUEUES_MAX 1024
#define GOVERNOR_QUEUE_NONE UINT32_MAX
#define GOVERNOR_SOURCES_MAX 256 /* sources told apart at a time; further ones share the last number */
#define GOVERNOR_READS_MAX 2048  /* the most reads at once that a source may be allowed */
#define GOVERNOR_CLASSES_MAX 32  /* pipelines × sample sizes told apart in a window; others count as the nearest one */
#define GOVERNOR_AHEAD_MAX 64

struct governor;

struct governor_limits {
    uint32_t workers; /* threads that prepare, ≥ 1: as many as there are cores */
    uint32_t reads; /* reads that a source may have at once, ≥ 1; they mostly wait for storage, so they need no cores */
    double tau_s;   /* delay of a batch beyond which its queue gets help */
    double share;   /* 0 … 1: a queue with work keeps this fraction of its share by weight */
};

/* governor_create copies limits; the caller destroys the governor. LARDER_EINVAL: a limit is out of bounds. */
int governor_create(const struct governor_limits *limits, struct governor **out);
void governor_destroy(struct governor *governor); /* accepts NULL */

struct governor_queue {
    uint32_t job;    /* queues of one job have the same number; its ranks wait for each other */
    uint32_t source; /* queues that read from one source have the same number */
    double weight;   /* > 0: the job's weight, which its queues share */
};

/* governor_queue_begin adds a queue. The caller chooses the number, below GOVERNOR_QUEUES_MAX. */
void governor_queue_begin(struct governor *governor, uint32_t queue, const struct governor_queue *desc);
/* governor_queue_weight gives the queue's job another weight. The caller calls it for each queue of the job. */
void governor_queue_weight(struct governor *governor, uint32_t queue, double weight);
/* governor_queue_end removes a queue. Its number is free again. */
void governor_queue_end(struct governor *governor, uint32_t queue);

/* ── measurements ── */

struct governor_read {
    double seconds;
    uint32_t samples; /* samples that it brought */
    uint32_t busy;    /* reads under way at its source when it began, itself included */
    uint32_t tier;    /* their origin: 0: the source, n: the storage class n */
};

/* governor_loaded notes one read that was done for the queue. A read from two origins is noted as two. */
void governor_loaded(struct governor *governor, uint32_t queue, const struct governor_read *read);

struct governor_preparation {
    uint32_t pipeline;
    uint32_t busy; /* threads that prepared when it began, its own included */
    uint64_t encoded_bytes;
    double seconds;
};

/* governor_prepared notes that one sample was prepared for the queue, under one pipeline. GOVERNOR_QUEUE_NONE: the
 * queue has ended. */
void governor_prepared(struct governor *governor, uint32_t queue, const struct governor_preparation *preparation);
/* governor_trained notes how long the client trained on a batch, without its waiting for the next one. */
void governor_trained(struct governor *governor, uint32_t queue, double seconds);
/* governor_pipeline_gone and governor_source_gone forget the measurements of a number that nothing uses any more. The
 * number may then mean another pipeline or another source. */
void governor_pipeline_gone(struct governor *governor, uint32_t pipeline);
void governor_source_gone(struct governor *governor, uint32_t source);

struct kept;
/* governor_guess is called right after a pipeline got its number. It takes the rates that `kept` has of the pipeline as
 * a first guess. The shares in the mixture are guessed until the first window with preparations. It returns the
 * predicted preparing rate in samples per second; 0: not known. governor_learned puts the pipeline's rates into
 * `kept`. */
double governor_guess(struct governor *governor, uint32_t pipeline, uint64_t fingerprint, const struct kept *kept);
void governor_learned(const struct governor *governor, uint32_t pipeline, uint64_t fingerprint, struct kept *kept);

/* ── decisions ── */

struct governor_backlog {
    uint32_t queue;
    uint32_t batch_size;
    uint32_t pending_loads; /* samples that were asked for and are not there yet */
    uint32_t pending_reads; /* reads that bring these, under way or waiting: the queue can use no more at once */
    uint32_t ready_batches;
    /* pending_loads by storage class; [0] is not read: the remaining ones come from the source */
    uint32_t pending_tiers[GOVERNOR_TIERS_MAX];
};

/* The governor's estimates for a queue. 0: not known yet. */
struct governor_view {
    double load_s, prepare_s; /* time that a sample takes */
    double train_s;           /* training time of a batch */
    double late_s;            /* predicted delay of its next batch with the reads dealt to it; negative: in time */
};

struct governor_decision {
    uint32_t preparers;      /* the fewest that do what all can */
    uint32_t preparers_most; /* threads that may prepare at once: more would be in each other's way */
    uint32_t loaders;        /* reads at once of all sources in use, those of classes included */
    uint32_t source_most[GOVERNOR_SOURCES_MAX];  /* reads that a source may have at once, ≥ 1 */
    uint32_t queue_loaders[GOVERNOR_QUEUES_MAX]; /* reads at once dealt to each queue, from those of its source */
    uint32_t ahead[GOVERNOR_QUEUES_MAX]; /* batches of look-ahead that cover the queue's latency; 0: not known yet */
    struct governor_view views[GOVERNOR_QUEUES_MAX];
    /* Predicted for this split, in samples a second: prepared, and read. 0: not known, or next to nothing is read. */
    double prepare_rate, load_rate;
    uint32_t moves; /* decisions so far that changed the number of preparers */
};

/* governor_decide takes the backlogs of all queues that are there. The governor owns the result, which is valid until
 * the next call of governor_decide. */
const struct governor_decision *governor_decide(struct governor *governor, const struct governor_backlog *backlogs,
                                                size_t n);

/* A queue with waiting work that no thread has taken. */
struct governor_candidate {
    uint32_t job;
    double job_part; /* threads (or their time) per weight of its job, if the job got one thread more */
    double share;    /* its share of threads: its loaders by the decision, or for preparers its part of the weight */
    uint32_t busy;   /* threads that work for it at this moment */
    /* Batches begun, counted by samples, that its client has not asked for yet. The fewer, the sooner it needs more. */
    double ahead;
};

/* governor_next_queue returns the index of the candidate that a free thread should serve. The job with the least
 * job_part is first. Within a job, a queue with fewer threads than the part `guaranteed` (0 … 1) of its share comes
 * first, then the queue that is least ahead, because the job's ranks wait for each other. n ≥ 1. Pure; any thread. */
size_t governor_next_queue(const struct governor_candidate *candidates, size_t n, double guaranteed);

#endif
