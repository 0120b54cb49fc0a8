/* worker.h: what the pool's threads do. A thread reads the bytes of samples, or prepares instances of a sample. */
#ifndef LARDER_SERVER_WORKERS_WORKER_H
#define LARDER_SERVER_WORKERS_WORKER_H

#include "cache/catalog/catalog.h"
#include "cache/memory/arena.h"
#include "common/clock.h"
#include "preprocess/prepare.h"
#include "server/engine/engine.h"
#include "server/workers/fetch.h"
#include "server/workers/pool.h"
#include "server/workers/watch.h"

struct worker_sample {
    sample_id id;
    uint64_t bytes; /* room for its bytes, or for those of its planes */
};

/* A read: some samples of one chunk. It is done in pieces: after WORKER_PIECE_NS the thread finishes the sample that it
 * is reading, and returns the rest of the task. So whoever shares a slow source does not wait for all of a chunk. */
#define WORKER_PIECE_NS (100 * CLOCK_NS_PER_MS)

struct worker_load {
    struct dataset *dataset;       /* a reference of the task's own */
    struct worker_sample *samples; /* malloc'ed, the task's own; at most CHUNK_SAMPLES_MAX */
    uint32_t count;
    uint64_t needed;         /* how many samples its queue delivers before the one that waits for its first sample */
    bool apart;              /* each sample is a file of its own */
    bool as_read;            /* a job takes samples as they were read: no planes are taken */
    uint64_t device;         /* device of the dataset's source; 0: not known */
    uint64_t queue;          /* the name of the governor's queue that it is for; worker_read gives it back */
    uint32_t origin;         /* the governor's number of what it occupies; worker_read gives it back */
    uint32_t class, classed; /* the result of workers_expect; worker_read returns it */
};

/* One instance to be prepared. */
struct worker_output {
    struct pipeline *pipeline; /* a reference of the task's own */
    uint64_t key[3];           /* the key of its random draws */
    uint64_t offset, bytes;    /* its place in the arena */
};

struct worker_prepare {
    uint32_t task;
    struct dataset *dataset; /* a reference of the task's own */
    sample_id id;
    const void *encoded;
    uint64_t bytes;
    bool decoded;        /* `encoded` is a decoded form */
    uint64_t form_bytes; /* a decoded form that takes at most so much is wanted; 0: none is */
    uint32_t pipeline;   /* the engine's number of the first output's pipeline */
    uint64_t queue;      /* the name of the governor's queue that it is for */
    uint32_t n_outputs;
    struct worker_output outputs[ENGINE_OUTPUTS_MAX];
};

/* One sample of a read. */
struct worker_loaded {
    sample_id id;
    bool planes;   /* `encoded` has the bytes of its planes */
    void *encoded; /* malloc'ed, the receiver's; NULL: the sample could not be read */
    uint64_t bytes;
    enum bad_reason reason;
    enum engine_fate fate;
    /* if the fate says so, the dataset whose source did not answer; only to be compared, not a reference */
    const void *dataset;
    char *text; /* the source's error then, malloc'ed, the receiver's; else NULL */
};

/* A piece of a read that has ended. on_loaded has told all of its samples before. */
struct worker_read {
    uint64_t queue;            /* the task's */
    uint32_t origin;           /* the task's */
    uint32_t samples;          /* samples in the piece */
    uint32_t class, classed;   /* the task's; what classes have comes with the first piece */
    uint64_t took_ns;          /* 0: the read was not begun */
    struct fetch_classed came; /* the part of it that came from storage classes */
    struct worker_load rest;   /* the rest to read, the receiver's; count 0: none */
};

/* The cost of preparing one sample. */
struct worker_cost {
    uint32_t pipeline; /* the task's */
    uint64_t queue;    /* the task's */
    uint32_t busy;     /* threads that prepared when it began, this one included */
    uint64_t encoded_bytes;
    uint64_t took_ns; /* 0: the preparation was not begun */
    uint64_t core_ns; /* the part of took_ns in which the thread had a core */
};

struct worker_prepared {
    uint32_t task;
    uint8_t reasons[ENGINE_OUTPUTS_MAX]; /* enum bad_reason of each output; 0: it was made */
    uint32_t bytes[ENGINE_OUTPUTS_MAX];  /* of each output whose pipeline is ragged: how long it is */
    uint32_t own_ns[ENGINE_OUTPUTS_MAX]; /* of several outputs: the part of cost.core_ns for this one alone */
    void *decoded;          /* the form that was wanted, malloc'ed, the receiver's; NULL: it was not made */
    uint64_t decoded_bytes; /* what it takes, or would take; 0: not known */
    char *beyond;           /* the limit that an output exceeds, malloc'ed, the receiver's; NULL: none does */
    sample_id id;
    struct worker_cost cost;
};

/* How many results a worker's thread tells at once at most. */
#define WORKER_RESULTS_MAX 64

/* The owner's callbacks for results. Several results may come in one call. A worker's thread calls them, or the thread
 * that stops the workers, with no lock held. Pointers are valid for the call. */
struct worker_results {
    void *ctx;
    void (*on_loaded)(void *ctx, const struct worker_loaded *loaded, uint32_t count);
    void (*on_read)(void *ctx, const struct worker_read *read);
    void (*on_prepared)(void *ctx, const struct worker_prepared *prepared, uint32_t count);
};

#define WORKER_READERS_MAX 2048 /* more reads are never under way */

struct worker_config {
    uint32_t workers;                           /* threads that prepare */
    uint32_t readers;                           /* the most threads that read: they start as they are needed */
    uint32_t inflight_loads, inflight_prepares; /* the engine's limits */
    struct prepare_limits limits;
    struct arena *arena;
    struct worker_results results;
    struct watch *watch;     /* borrowed, outlives the workers; NULL: nothing is watched */
    struct origins *origins; /* borrowed, outlives the workers; NULL: there are no storage classes */
    uint32_t load_delay_ms;  /* for tests: delay added to each read of a source */
};

struct workers;

/* workers_create starts the threads. It copies config; the arena is borrowed and outlives the workers. Fails as
 * pool_create does. The caller destroys the workers. */
int workers_create(const struct worker_config *config, struct workers **out, struct error *err);
/* workers_load and workers_prepare take over the task's references. They never block. If no file descriptor is free for
 * a read, the read waits for one in its thread, since its samples are not at fault. */
void workers_load(struct workers *workers, const struct worker_load *task);
void workers_prepare(struct workers *workers, struct worker_prepare *tasks, uint32_t count);
/* workers_expect predicts the part of a read that storage classes will bring: the number of samples (task->classed),
 * and the class that brings most of them (task->class, its number from 1). 0: all come from the source. It never blocks
 * on a disk. */
void workers_expect(struct workers *workers, struct worker_load *task);
/* workers_halve takes each second sample out of a task of two samples or more, and returns a task of these. */
struct worker_load workers_halve(struct worker_load *task);
/* workers_set_preparers lets at most `most` threads (≥ 1) prepare at once. */
void workers_set_preparers(struct workers *workers, uint32_t most);

struct workers_counts {
    struct pool_counts read, prepare;
};
void workers_counts(struct workers *workers, struct workers_counts *out);
/* workers_stop ends the threads. Every task that was not run is reported as failed. Reads that come later are dropped:
 * no job waits for them any more (driver_settle). */
void workers_stop(struct workers *workers);
void workers_destroy(struct workers *workers); /* stops the threads first; accepts NULL */

#endif
