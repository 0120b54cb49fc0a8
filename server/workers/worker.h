/* worker.h: what the pool's threads do: read a sample's bytes, or prepare instances of it. */
#ifndef LARDER_SERVER_WORKERS_WORKER_H
#define LARDER_SERVER_WORKERS_WORKER_H

#include "cache/catalog/catalog.h"
#include "cache/memory/arena.h"
#include "preprocess/prepare.h"
#include "server/engine/engine.h"
#include "server/workers/pool.h"

struct worker_sample {
    sample_id id;
    uint64_t bytes;
};

/* Samples of one chunk. */
struct worker_load {
    struct dataset *dataset;       /* a reference of the task's own */
    struct worker_sample *samples; /* malloc'ed, the task's own; at most CHUNK_SAMPLES_MAX */
    uint32_t count;
    uint32_t queue; /* the governor's, whose read it is: comes back when it ends */
};

struct worker_output {
    struct pipeline *pipeline; /* a reference of the task's own */
    uint64_t key[3];           /* of its random draws */
    uint64_t offset;
};

struct worker_prepare {
    uint32_t task;
    struct dataset *dataset; /* a reference of the task's own */
    sample_id id;
    const void *encoded;
    uint64_t bytes;
    uint32_t pipeline, queue; /* the engine's number of the first output's; the governor's queue that it is made for */
    uint32_t n_outputs;
    struct worker_output outputs[ENGINE_OUTPUTS_MAX];
};

/* One sample of a read. */
struct worker_loaded {
    sample_id id;
    void *encoded; /* malloc'ed, the receiver's; NULL: it failed */
    uint64_t bytes;
    enum bad_reason reason;
    enum engine_fate fate;
    const void *dataset; /* where the fate is its source's: only to be compared */
    char *text;          /* what was said then: malloc'ed, the receiver's; else NULL */
};

/* A read that has ended, after all of its samples were told. */
struct worker_read {
    uint32_t queue, samples; /* as the task had them */
    uint64_t took_ns;        /* 0: it was not begun */
};

/* What preparing one sample took. */
struct worker_cost {
    uint32_t pipeline, queue; /* as the task had them */
    uint32_t busy;            /* threads that prepared when it began, this one included */
    uint64_t encoded_bytes;
    uint64_t took_ns; /* 0: it was not begun */
    uint64_t core_ns; /* of took_ns the thread had a core */
};

struct worker_prepared {
    uint32_t task;
    uint8_t reasons[ENGINE_OUTPUTS_MAX]; /* enum bad_reason of each output; 0: it was made */
    struct worker_cost cost;
};

/* Where results go: called in the worker's thread, or in the one that stops the workers, with no lock held. What the
 * pointers refer to is valid for the call. */
struct worker_results {
    void *ctx;
    void (*on_loaded)(void *ctx, const struct worker_loaded *loaded);
    void (*on_read)(void *ctx, const struct worker_read *read);
    void (*on_prepared)(void *ctx, const struct worker_prepared *prepared);
};

struct worker_config {
    uint32_t workers, loaders;
    uint32_t inflight_loads, inflight_prepares; /* the engine's limits */
    struct prepare_limits limits;
    struct arena *arena;
    struct worker_results results;
    uint32_t load_delay_ms; /* for tests: each read takes so much longer */
};

struct workers;

int workers_create(const struct worker_config *config, struct workers **out, struct error *err);
/* workers_load and workers_prepare take the task's references over. They never block. A read for which no file
 * descriptor is free waits for one, in its thread: that is no fault of its samples. */
void workers_load(struct workers *workers, const struct worker_load *task);
void workers_prepare(struct workers *workers, const struct worker_prepare *task);
/* workers_set_split: so many of the workers take reads before anything else, the loaders of their own come on top; and
 * so many may prepare at once. */
void workers_set_split(struct workers *workers, uint32_t loaders, uint32_t preparers_most);
void workers_counts(struct workers *workers, struct pool_counts *out);
/* workers_stop ends the threads; every task not run is reported as failed. Reads that come later are
 * dropped: no job waits for them any more (driver_settle). */
void workers_stop(struct workers *workers);
void workers_destroy(struct workers *workers); /* accepts NULL */

#endif
