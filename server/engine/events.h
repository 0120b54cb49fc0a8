/* events.h: the engine's contract: what it is configured with, the events that it takes, and the
 * actions that it gives. */
#ifndef LARDER_SERVER_ENGINE_EVENTS_H
#define LARDER_SERVER_ENGINE_EVENTS_H

#include <stddef.h>

#include "cache/memory/extent.h"
#include "common/error.h"
#include "common/types.h"
#include "sampler/sampler.h"

#define ENGINE_NAME_MAX 129    /* bytes of a job's name, its end included */
#define ENGINE_OUTPUTS_MAX 16  /* instances one prepare task makes */
#define ENGINE_BATCH_MAX 8192  /* samples in a batch */
#define ENGINE_PREFETCH_MAX 64 /* batches a queue may be ahead */
#define ENGINE_HOLD_MAX 65     /* batches a client may hold */
#define ENGINE_AHEAD_WINDOWS 4
#define ENGINE_ROWS_MIN 2        /* batches that each queue has room for at the least: one held, one being filled */
#define ENGINE_PIPELINES_MAX 256 /* pipelines in use at once; numbers are the caller's */
#define ENGINE_RANKS_MAX 256     /* ranks of a job */
#define ENGINE_RANK_NONE UINT32_MAX

#define ENGINE_NOT_THERE UINT64_MAX
#define ENGINE_CHUNK_KEY 4 /* words */

/* A width for each dataset by its chunks: half of one, within the two bounds. Measured with chunks of 8 to 512, one job
 * and encoded memory for 25, 10 and 4 % of its dataset: a chunk is loaded 2.0 times an epoch, and keeps 0.75 to 0.93 of
 * a full shuffle's spread. Narrower fibers load more often (w = 1, the papers' rule: 8.1 to 9.6), most of all for jobs
 * out of step; wider ones put neighbours closer together. docs/sharing.md. */
#define ENGINE_REDIRECT_HALF UINT32_MAX
#define ENGINE_REDIRECT_HALF_MIN 8u
#define ENGINE_REDIRECT_HALF_MAX 128u

struct engine_config {
    uint64_t seed;
    uint64_t arena_bytes;     /* budget for prepared instances: offsets in actions are below it */
    uint64_t job_quota_bytes; /* most of the arena that one job may pin; 0: all of it */
    /* budget for encoded samples, loads in flight included, and for the instances' records */
    uint64_t encoded_bytes;
    /* what the record of an instance takes of encoded_bytes; at most a quarter of it is taken so */
    uint64_t instance_bytes;
    /* what an instance takes of the arena at least, so that there are not too many records */
    uint64_t slot_least;
    uint32_t inflight_loads;    /* LOAD samples out at once, ≥ 1 */
    uint32_t inflight_prepares; /* PREPARE tasks out at once, ≥ 1 */
    uint32_t redirect_width;    /* w: neighbouring slots of a fiber, or ENGINE_REDIRECT_HALF; 0: no redirection */
    uint32_t redirect_group;    /* n: chunks that share one place in memory; 0: from the budgets */
    /* a queue's need of look-ahead is judged by the last ENGINE_AHEAD_WINDOWS of so long; 0: not at all, each looks as
     * far ahead as its quota lets it */
    uint64_t ahead_window_ns;
    uint64_t rank_timeout_ns; /* how long a job's other ranks wait for one that is away; 0: for ever */
    uint64_t room_timeout_ns; /* how long a job waits for what clients hold in the middle of free space; 0: for ever */
    uint64_t source_wait_ns;  /* how long a job waits for a source that does not answer; 0: not at all */
    bool bad_limited;         /* a job fails when more samples of an epoch are bad than the greater of the next two */
    uint64_t bad_count;
    double bad_share; /* of the view */
    /* Encoded bytes of a sample of a job's dataset, ENGINE_NOT_THERE when it is not in it; called
     * from engine_step only. */
    uint64_t (*sample_bytes)(const void *dataset, sample_id id);
};

/* The records of instances take so many bytes each, with those of the entries that wait for them. */
#define ENGINE_INSTANCE_BYTES 256

#define ENGINE_RECORDS_PART 4

/* engine_slot_least gives the slot_least with which the records of an arena full of instances take a quarter of
 * encoded_bytes. */
static inline uint64_t engine_slot_least(uint64_t arena_bytes, uint64_t encoded_bytes, uint64_t instance_bytes)
{
    uint64_t records = encoded_bytes / ENGINE_RECORDS_PART / instance_bytes; /* that there is room for */
    return extent_round(records ? arena_bytes / records + 1 : arena_bytes);
}

/* engine_slot_bytes gives what an instance of so many bytes takes of the arena; one of none has a place too. */
static inline uint64_t engine_slot_bytes(const struct engine_config *config, uint64_t bytes)
{
    uint64_t rounded = extent_round(bytes ? bytes : 1);
    return rounded > config->slot_least ? rounded : extent_round(config->slot_least);
}

/* ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Where a sample is stored in its dataset: the chunk is below engine_chunks.count, the slot below
 * engine_chunks.samples. */
struct chunk_slot {
    uint32_t chunk, slot;
};

/* The dataset lies in `count` chunks, each of up to `samples` samples. What is once known of a sample stays: another
 * dataset that has it too does not move it. */
struct engine_chunks {
    /* By the view's ids ascending, borrowed for the step; NULL: the dataset is not in chunks, so never redirected. */
    const struct chunk_slot *places;
    uint64_t key[ENGINE_CHUNK_KEY]; /* the same one means the same samples in the same chunks */
    uint32_t count, samples;
};

struct engine_job_desc {
    uint64_t client;     /* the caller's name for the connection; comes back in actions */
    const char *name;    /* unique among jobs; copied */
    const void *dataset; /* the caller's; comes back in LOAD and goes to sample_bytes */
    /* the caller's number < ENGINE_PIPELINES_MAX: equal exactly when the pipelines are the same */
    uint32_t pipeline;
    uint64_t slot_bytes; /* of one prepared instance, > 0 */
    /* an instance is as long as its sample's encoded bytes; slot_bytes is then what one takes, rounded by
     * engine_slot_bytes, on average over the largest two batches that the job may hold */
    bool raw;
    uint32_t batch_size; /* 1 … ENGINE_BATCH_MAX */
    uint32_t prefetch;   /* batches prepared ahead of the client, 1 … ENGINE_PREFETCH_MAX */
    /* batches that the client wants to hold unreleased at a time, 1 … ENGINE_HOLD_MAX; 0 is ENGINE_ROWS_MIN. As many as
     * fit are promised to it for good. */
    uint32_t hold;
    uint32_t epochs; /* 0: no end */
    bool drop_last;
    enum bad_policy bad_policy;
    struct sampler_job sampled; /* its order and view, borrowed for the step */
    /* Whose instances it may be given. 0: any of its pipeline. Else only those of jobs with the same number: one of its
     * own keeps its augmentation private; under SHUFFLE_STRICT the epoch counts too, and the instance depends on
     * nothing else. */
    uint64_t variant;
    struct engine_chunks chunks;
    /* Ranks of one job give the same name and world_size, and everything above but `client` must be the same too (the
     * view, not its address; dataset, order and chunks are the first rank's). */
    uint32_t rank, world_size; /* world_size 0 is 1 */
    double weight;             /* JOB_WEIGHT_MIN … JOB_WEIGHT_MAX; 0 is 1 */
    bool ordered;              /* batches in planned order */
};

enum engine_event_type {
    ENGINE_TICK,    /* time passed, nothing else: what finds out that a rank has been away for too long */
    ENGINE_JOB_ADD, /* a rank registers; answered by JOB_ADDED or JOB_REFUSED */
    /* the rank's client left, however: everything it held is returned. Of a rank that is not there:
     * ends a job that none is there of. */
    ENGINE_JOB_GONE,
    /* the job fails, as it does over a bad sample: each rank that is there gets a JOB_ERROR, and keeps what it holds
     * until it releases it or is gone. Nothing when it has failed already, or is not there. */
    ENGINE_JOB_CANCEL,
    ENGINE_WEIGHT, /* the job's weight is another from now on */
    /* how long the rank's client trains on a batch, as measured: what orders work among a job's ranks */
    ENGINE_PACE,
    ENGINE_NEXT,          /* the rank's queue may send `credits` more batches of `epoch` */
    ENGINE_RELEASE,       /* the client is through with a batch. An unknown batch is counted and ignored. */
    ENGINE_LOADED,        /* a sample of a LOAD arrived, or failed */
    ENGINE_PREPARED,      /* a PREPARE ended; each of its outputs is made, or failed and is bad for who waits for it */
    ENGINE_PIPELINE_GONE, /* the number, which no job uses, will mean another pipeline: forget its instances */
    ENGINE_SAMPLES_GONE,  /* ids, which no job's dataset has, will mean other samples: forget what is kept under them */
    ENGINE_DRAIN,         /* no new jobs from now on; ranks of those that are there may come */
    ENGINE_HALT, /* nothing is planned, begun or delivered from now on: the arena stays as it is, whoever goes */
};

/* What became of a LOAD. */
enum engine_fate {
    ENGINE_FATE_SAMPLE,  /* it was read, or the sample itself cannot be: it is bad */
    ENGINE_FATE_SOURCE,  /* its source did not answer, which is no fault of the sample: it is tried again */
    ENGINE_FATE_CHANGED, /* it is no more what the dataset says: who reads from this dataset cannot have it */
};

struct engine_event {
    enum engine_event_type type;
    uint32_t rank; /* JOB_GONE, PACE, NEXT, RELEASE: whose */
    union {
        const struct engine_job_desc *job_add;
        struct {
            uint32_t job;
        } job_gone;
        struct {
            uint32_t job;
        } job_cancel;
        struct {
            uint32_t job;
            double weight;
        } weight;
        struct {
            uint32_t job;
            uint64_t batch_ns; /* 0: not known */
        } pace;
        struct {
            uint32_t job, epoch, credits;
        } next;
        struct {
            uint32_t job;
            uint64_t batch;
        } release;
        struct {
            sample_id id;
            void *encoded; /* the caller's handle; the engine gives it back in DROP_ENCODED. NULL: failed */
            uint64_t bytes;
            int reason; /* enum bad_reason when failed */
            enum engine_fate fate;
        } loaded;
        struct {
            uint32_t task;
            uint8_t reasons[ENGINE_OUTPUTS_MAX]; /* enum bad_reason of each of its outputs; 0: it was made */
            uint64_t core_ns;                    /* of a worker's time on a core; 0: not known */
        } prepared;
        struct {
            uint32_t pipeline;
        } pipeline_gone;
        struct {
            sample_id *ids; /* the caller's. Those under which something is still under way come first afterwards … */
            uint32_t count;
            uint32_t *kept; /* … and so many are they: they mean the same as before, and may be tried again */
        } samples_gone;
    };
};

/* ── actions ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum engine_action_type {
    ENGINE_JOB_ADDED,
    ENGINE_JOB_REFUSED,
    ENGINE_LOAD,
    ENGINE_PREPARE,
    ENGINE_DROP_ENCODED,
    ENGINE_DELIVER,
    /* the rank cannot go on: tell its client, which stays until it leaves. When the job as a whole has failed (policy
     * `error`, a rank missing, cancelled) one comes for each rank that is there; from then on its quota is what its
     * clients may hold, and no more. */
    ENGINE_JOB_ERROR,
    ENGINE_AHEAD,     /* the job's quota, and with it its look-ahead, is another from now on */
    ENGINE_SOURCE,    /* a source has not answered twice, or answers again; or one of its samples was given up */
    ENGINE_JOB_ENDED, /* the job's place is free again; dataset and pipeline number are no longer used by it */
};

struct engine_output {
    uint32_t pipeline;
    uint64_t offset; /* of the slot in the arena */
    uint64_t bytes;
    /* The last parts of the random key: the variant (under SHUFFLE_STRICT of job and epoch), and how many instances of
     * this sample were begun before, 0 under SHUFFLE_STRICT. */
    uint64_t variant, instance;
    const void *dataset; /* of a job that waits for it */
};

struct engine_entry {
    uint64_t offset;
    uint64_t bytes;
    sample_id id;
};

enum engine_source_news {
    ENGINE_SOURCE_AWAY,
    ENGINE_SOURCE_BACK,
    ENGINE_SOURCE_GAVE_UP, /* the sample failed again and again while others could be read: it is bad */
};

struct engine_action {
    enum engine_action_type type;
    uint64_t client;    /* of the rank, where one is concerned */
    uint32_t job, rank; /* rank, LOAD and PREPARE: whose queue waits for it; ENGINE_RANK_NONE: nobody's yet */
    union {
        struct {
            uint32_t n_batches;     /* an epoch, for each rank */
            uint32_t held_max;      /* batches the client may hold unreleased */
            uint64_t quota_bytes;   /* of the whole job */
            uint32_t ahead;         /* batches of look-ahead that the quota lets each rank have */
            uint64_t wanted_bytes;  /* of the arena, for all that all jobs asked for */
            uint64_t encoded_bytes; /* of encoded memory, that what all jobs look ahead would take at once */
            bool attached;          /* to a job that was there: JOB_ADD's dataset, order and places are not kept */
            uint32_t epoch, batch;  /* the first that the rank can ask for, and the index of its next batch of it */
        } job_added;
        struct {
            struct error error;
            sample_id id; /* JOB_ERROR about a bad sample: which; else SAMPLE_NONE */
            int reason;   /* enum bad_reason of that */
            const void *dataset;
            bool of_source; /* the job's source did not answer */
        } error;            /* JOB_REFUSED, JOB_ERROR */
        struct {
            const void *dataset;
            sample_id id;
            uint64_t bytes;
            uint64_t read; /* LOADs in a row with one number lie in one chunk: one read brings them */
        } load;
        struct {
            uint32_t task;
            sample_id id;
            void *encoded; /* stays valid until the task's PREPARED event */
            uint64_t encoded_bytes;
            const void *dataset;
            const struct engine_output *outputs; /* valid until the next step */
            uint32_t n_outputs;
        } prepare;
        struct {
            void *encoded;
        } drop;
        struct {
            uint64_t batch;
            uint32_t epoch, index;
            bool last; /* of the epoch; such a batch may be empty */
            uint32_t count;
            const struct engine_entry *entries; /* valid until the next step */
            uint64_t lost; /* samples of the rank's epoch that were left out so far, because they are bad */
        } deliver;
        struct {
            uint64_t quota_bytes;  /* now */
            uint32_t from, to;     /* batches of look-ahead of each rank */
            uint64_t wanted_bytes; /* as in job_added */
            bool failed;           /* the job has: it looks ahead no more */
        } ahead;
        struct {
            enum engine_source_news news;
            const void *dataset;
            sample_id id;       /* GAVE_UP */
            int reason;         /* GAVE_UP: enum bad_reason */
            uint64_t waited_ns; /* BACK: since it first did not answer */
            uint64_t retries;   /* BACK: loads that it did not answer */
        } source;
        struct {
            const void *dataset;
            uint32_t pipeline;
        } job_ended;
    };
};

#endif
