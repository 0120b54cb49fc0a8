/* engine.h: the heart: a pure state machine. Events in, actions out; no I/O, no clock, no thread of its own.
 *
 * All shared state (jobs, queues, remaining sets, residents, leases) belongs to whoever calls engine_step, one thread. The
 * daemon feeds it from sessions, loaders and preparers; the simulator feeds it from virtual ones. The same events at the
 * same times give the same actions.
 *
 * Life of a sample for a queue:
 *
 *   pick ──▶ resident instance nobody in S has had ───────────────────────────────────▶ ready ─▶ batch ─▶ DELIVER ─▶ RELEASE
 *        └─▶ instance being made ── joined ─────────────────────────────────────────────▲ │
 *        └─▶ new instance: slot reserved ─▶ LOAD (when not in memory) ─▶ PREPARE ───────┘ └─ bad: the job's policy
 *                                             └─ its source does not answer: tried again, sources.c
 *
 * What is planned, being made, ready or leased is pinned and counts against the job's quota; quotas sum up to at most the
 * arena, and what each job keeps has slots of its size (prepared_zones.c), so that no job can take another's room. Everything else in memory is cache, and goes when room is needed, least
 * wanted first. Quotas are divided again when a job comes or goes or needs more or less; each keeps at least two batches a rank, or what its
 * clients may hold (quota.c).
 *
 * Ranks. A job of world_size W has W queues, each with a W-th of its quota. The first rank that registers makes the job,
 * the others attach to it by name, each from a client of its own; the job ends when the last one has gone. (While ranks
 * are still to come, or some have had their share of the epoch and others not, it waits rank_timeout_ns for them: ranks that
 * miss each other must not become jobs of their own.)
 *
 * - An epoch gives every rank the same number of samples, and so of batches: N / W of the view's N, rounded down under
 *   drop_last and up otherwise, where the few that are then missing are repeats of samples of the view, as torch's
 *   DistributedSampler has them. Nothing else comes twice. With W > 1 a bad sample that is skipped leaves no hole either:
 *   its rank gets another of the epoch or, when there is none, a repeat.
 * - `dependent`: a pick is planned for the rank whose queue is emptiest, up to its share, and what is ready goes to the rank
 *   that will run dry first, which gives one it waits for in exchange (queue_exchange.c): nobody waits for a slow rank or a
 *   slow read, and a slow rank's share stays its own. `ordered` jobs' picks stay where they were planned. `strict` and `none`: the order's sample i is rank i mod W's, as with
 *   DistributedSampler; rank and order do not depend on who is fast.
 * - An epoch begins with the first rank that asks for it and is over when every rank has had its share, or has left it by
 *   asking for a later one; and has released it, or taken it all by asking for a later one. Who asks for a later epoch
 *   before that waits for the others. All ranks must leave an epoch
 *   early or none: what one leaves behind is nobody else's, and the next epoch begins only when the rest is through too.
 * - A rank that goes away is missed, not replaced: what it was given and did not release is put back, and with the rest of
 *   its share is kept for who comes under its number. While it is needed (its share is open, or somebody waits for the next
 *   epoch) and away for rank_timeout_ns, the job fails, and every other rank gets an error that names it.
 *
 * Under contention work is done for jobs in proportion to their weights, for ranks together; see tasks_turns.c.
 *
 * A batch takes what is ready first: it is made of the first batch_size samples that are ready among the first
 * 2 × batch_size planned, so that one slow sample delays itself and not the batch; a sample is overtaken by no more than
 * the queue looks ahead, or 2 × batch_size. `ordered` jobs, and `strict` and `none` always, keep the planned order. */
#ifndef LARDER_SERVER_ENGINE_ENGINE_H
#define LARDER_SERVER_ENGINE_ENGINE_H

#include <stddef.h>

#include "cache/memory/extent.h"
#include "common/error.h"
#include "common/types.h"
#include "sampler/idset.h"

#define ENGINE_NAME_MAX 129      /* bytes of a job's name, its end included */
#define ENGINE_OUTPUTS_MAX 16    /* instances one prepare task makes */
#define ENGINE_BATCH_MAX 8192    /* samples in a batch */
#define ENGINE_PREFETCH_MAX 64   /* batches a queue may be ahead */
#define ENGINE_HOLD_MAX 65       /* batches a client may hold */
#define ENGINE_AHEAD_WINDOWS 4
#define ENGINE_ROWS_MIN 2        /* batches that each queue has room for at the least: one held, one being filled */
#define ENGINE_PIPELINES_MAX 256 /* pipelines in use at once; numbers are the caller's */
#define ENGINE_RANKS_MAX 256     /* ranks of a job */
#define ENGINE_REASONS 8         /* enum bad_reason */
#define ENGINE_RANK_NONE UINT32_MAX

#define ENGINE_NOT_THERE UINT64_MAX
#define ENGINE_CHUNK_NONE UINT32_MAX

/* A width for each dataset by its chunks: half of one, within the two bounds. Measured with chunks of 8 to 512, one job and
 * encoded memory for 25, 10 and 4 % of its dataset: a chunk is loaded 2.0 times an epoch, and keeps 0.75 to 0.93 of a full
 * shuffle's spread. Narrower fibers load more often (w = 1, the papers' rule: 8.1 to 9.6), most of all for jobs out of step;
 * wider ones put neighbours closer together. docs/sharing.md. */
#define ENGINE_REDIRECT_HALF UINT32_MAX
#define ENGINE_REDIRECT_HALF_MIN 8u
#define ENGINE_REDIRECT_HALF_MAX 128u

struct engine;

struct engine_config {
    uint64_t seed;
    uint64_t arena_bytes;      /* budget for prepared instances: offsets in actions are below it */
    uint64_t job_quota_bytes;  /* most of the arena that one job may pin; 0: all of it */
    uint64_t encoded_bytes;    /* budget for encoded samples, loads in flight included, and for the instances' records */
    uint64_t instance_bytes;   /* what the record of an instance takes of encoded_bytes; at most a quarter of it is taken so */
    uint64_t slot_least;       /* what an instance takes of the arena at least, so that there are not too many records */
    uint32_t inflight_loads;   /* LOAD samples out at once, ≥ 1 */
    uint32_t inflight_prepares; /* PREPARE tasks out at once, ≥ 1 */
    uint32_t redirect_width;   /* w: neighbouring slots of a fiber, or ENGINE_REDIRECT_HALF; 0: no redirection */
    uint32_t redirect_group;   /* n: chunks that share one place in memory; 0: from the budgets */
    uint64_t ahead_window_ns;  /* a queue's need of look-ahead is judged by the last ENGINE_AHEAD_WINDOWS of so long; 0: not at
                                  all, each looks as far ahead as its quota lets it */
    uint64_t rank_timeout_ns;  /* how long a job's other ranks wait for one that is away; 0: for ever */
    uint64_t room_timeout_ns;  /* how long a job waits for what clients hold in the middle of free space; 0: for ever */
    uint64_t source_wait_ns;   /* how long a job waits for a source that does not answer; 0: not at all */
    bool bad_limited;          /* a job fails when more samples of an epoch are bad than the greater of the next two */
    uint64_t bad_count;
    double bad_share;          /* of the view */
    /* Encoded bytes of a sample of a job's dataset, ENGINE_NOT_THERE when it is not in it; called from engine_step only. */
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

int engine_create(const struct engine_config *config, struct engine **out, struct error *err);
void engine_destroy(struct engine *engine); /* accepts NULL. Encoded handles still held are the caller's to drop. */

/* ── events ─────────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Where a sample is stored: a chunk's number is the caller's, global; a slot is below chunk_samples. */
struct engine_place {
    uint32_t chunk, slot;
};

struct engine_job_desc {
    uint64_t client;        /* the caller's name for the connection; comes back in actions */
    const char *name;       /* unique among jobs; copied */
    const void *dataset;    /* the caller's; comes back in LOAD and goes to sample_bytes */
    uint32_t pipeline;      /* the caller's number < ENGINE_PIPELINES_MAX: equal exactly when the pipelines are the same */
    uint64_t slot_bytes;    /* of one prepared instance, > 0 */
    bool by_size;           /* an instance is as long as its sample's encoded bytes; slot_bytes is then what one takes, rounded
                               by engine_slot_bytes, on average over the largest two batches that the job may hold */
    uint32_t batch_size;    /* 1 … ENGINE_BATCH_MAX */
    uint32_t prefetch;      /* batches prepared ahead of the client, 1 … ENGINE_PREFETCH_MAX */
    uint32_t hold;          /* batches that the client wants to hold unreleased at a time, 1 … ENGINE_HOLD_MAX; 0 is
                               ENGINE_ROWS_MIN. As many as fit are promised to it for good. */
    uint32_t epochs;        /* 0: no end */
    bool drop_last;
    enum shuffle_mode shuffle;
    enum bad_policy bad_policy;
    uint64_t seed;
    const struct idset *view;  /* borrowed for the step */
    const sample_id *order;    /* the view's ids as sampler_job.order wants them; borrowed for the step */
    /* Whose instances it may be given. 0: any of its pipeline. Else only those of jobs with the same number: one of its own
     * keeps its augmentation private; under SHUFFLE_STRICT the epoch counts too, and the instance depends on nothing else. */
    uint64_t variant;
    /* The dataset's chunks are numbered chunk_base … chunk_base + chunk_count - 1, each of up to chunk_samples samples.
     * places, by the view's ids ascending, borrowed for the step; NULL: not in chunks, so never redirected. What is once
     * known of a chunk or a sample stays: another dataset that has the sample too does not move it. */
    const struct engine_place *places;
    uint32_t chunk_base, chunk_count, chunk_samples;
    /* Ranks of one job give the same name and world_size, and everything above but `client` must be the same too (the
     * view, not its address; dataset, order and places are the first rank's). */
    uint32_t rank, world_size; /* world_size 0 is 1 */
    double weight;             /* JOB_WEIGHT_MIN … JOB_WEIGHT_MAX; 0 is 1 */
    bool ordered;              /* batches in planned order */
};

enum engine_event_type {
    ENGINE_TICK,     /* time passed, nothing else: what finds out that a rank has been away for too long */
    ENGINE_JOB_ADD,  /* a rank registers; answered by JOB_ADDED or JOB_REFUSED */
    ENGINE_JOB_GONE, /* the rank's client left, however: everything it held is returned. Of a rank that is not there: ends a
                        job that none is there of. */
    ENGINE_JOB_CANCEL, /* the job fails, as it does over a bad sample: each rank that is there gets a JOB_ERROR, and
                          keeps what it holds until it releases it or is gone. Nothing when it has failed already, or is
                          not there. */
    ENGINE_WEIGHT,   /* the job's weight is another from now on */
    ENGINE_PACE,     /* how long the rank's client trains on a batch, as measured: what orders work among a job's ranks */
    ENGINE_NEXT,     /* the rank's queue may send `credits` more batches of `epoch` */
    ENGINE_RELEASE,  /* the client is through with a batch. An unknown batch is counted and ignored. */
    ENGINE_LOADED,   /* a sample of a LOAD arrived, or failed */
    ENGINE_PREPARED, /* a PREPARE ended; each of its outputs is made, or failed and is bad for who waits for it */
    ENGINE_PIPELINE_GONE, /* the number, which no job uses, will mean another pipeline: forget its instances */
    ENGINE_SAMPLES_GONE,  /* ids, which no job's dataset has, will mean other samples: forget what is kept under them */
    ENGINE_DRAIN,    /* no new jobs from now on; ranks of those that are there may come */
    ENGINE_HALT,     /* nothing is planned, begun or delivered from now on: the arena stays as it is, whoever goes */
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
            uint64_t core_ns; /* of a worker's time on a core; 0: not known */
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

/* ── actions ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum engine_action_type {
    ENGINE_JOB_ADDED,
    ENGINE_JOB_REFUSED,
    ENGINE_LOAD,
    ENGINE_PREPARE,
    ENGINE_DROP_ENCODED,
    ENGINE_DELIVER,
    ENGINE_JOB_ERROR, /* the rank cannot go on: tell its client, which stays until it leaves. When the job as a whole has
                         failed (policy `error`, a rank missing, cancelled) one comes for each rank that is there;
                         from then on its quota is what its clients may hold, and no more. */
    ENGINE_AHEAD,     /* the job's quota, and with it its look-ahead, is another from now on */
    ENGINE_SOURCE,    /* a source has not answered twice, or answers again; or one of its samples was given up */
    ENGINE_JOB_ENDED, /* the job's place is free again; dataset and pipeline number are no longer used by it */
};

struct engine_output {
    uint32_t pipeline;
    uint64_t offset;   /* of the slot in the arena */
    uint64_t bytes;
    /* The last parts of the random key: the variant (under SHUFFLE_STRICT of job and epoch), and how many instances of this
     * sample were begun before, 0 under SHUFFLE_STRICT. */
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
    uint64_t client; /* of the rank, where one is concerned */
    uint32_t job, rank; /* rank, LOAD and PREPARE: whose queue waits for it; ENGINE_RANK_NONE: nobody's yet */
    union {
        struct {
            uint32_t n_batches; /* an epoch, for each rank */
            uint32_t held_max;  /* batches the client may hold unreleased */
            uint64_t quota_bytes; /* of the whole job */
            uint32_t ahead;     /* batches of look-ahead that the quota lets each rank have */
            uint64_t wanted_bytes; /* of the arena, for all that all jobs asked for */
            uint64_t encoded_bytes; /* of encoded memory, that what all jobs look ahead would take at once */
            bool attached;      /* to a job that was there: JOB_ADD's dataset, order and places are not kept */
            uint32_t epoch, batch; /* the first that the rank can ask for, and the index of its next batch of it */
        } job_added;
        struct {
            struct error error;
            sample_id id;       /* JOB_ERROR about a bad sample: which; else SAMPLE_NONE */
            int reason;         /* enum bad_reason of that */
            const void *dataset;
            bool of_source;     /* the job's source did not answer */
        } error; /* JOB_REFUSED, JOB_ERROR */
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

/* engine_step takes one event at time now_ns (never going back) and gives the actions it leads to, in order; they are the
 * engine's and valid until the next step. A JOB_ADD that fails is an action, not a failure: the function cannot fail. */
size_t engine_step(struct engine *engine, uint64_t now_ns, const struct engine_event *event, const struct engine_action **actions);
/* engine_step_all takes several events that happened by now_ns as one step: all of them, then one round of planning. Queues
 * that got room together pick together, which is what lets them share. */
size_t engine_step_all(struct engine *engine, uint64_t now_ns, const struct engine_event *events, size_t count,
                       const struct engine_action **actions);

/* engine_chunk_of: the chunk that a sample has its place in; ENGINE_CHUNK_NONE: none. */
uint32_t engine_chunk_of(const struct engine *engine, sample_id id);
/* engine_forget_chunks: the numbers of a dataset's chunks, all of them, will mean others; between steps. Samples that have
 * their places there have none from now on: until a job comes that places them anew each is loaded alone. Whether running
 * jobs have such samples is the caller's affair. */
void engine_forget_chunks(struct engine *engine, uint32_t chunk_base, uint32_t chunk_count);

/* engine_check goes through all state and CHECKs every invariant: budgets, quotas, pins, want counts against the remaining
 * sets, and that nothing is lost. Linear in what is resident: for the simulator, and for tests. */
void engine_check(const struct engine *engine);

/* ── what it knows ──────────────────────────────────────────────────────────────────────────────────────────────────── */

struct engine_totals {
    uint64_t samples_loaded, loaded_bytes, reads;
    uint64_t redirected_prepared, redirected_encoded; /* picks served by another sample of their fiber */
    uint64_t samples_decoded; /* tasks that made an instance of pixels */
    uint64_t instances_prepared;
    uint64_t samples_delivered;
    uint64_t bad_samples[ENGINE_REASONS]; /* by enum bad_reason */
    uint64_t evicted_prepared, evicted_encoded;
    uint64_t ahead_shortened; /* times that a job had to give look-ahead back */
    uint64_t arena_used_bytes, arena_pinned_bytes, arena_quota_bytes;
    uint64_t encoded_used_bytes, encoded_ahead_bytes; /* the last: what all jobs look ahead would take at once */
    uint32_t jobs, loads_inflight, prepares_inflight;
    uint64_t unknown_releases;
    uint64_t source_retries; /* loads that their source did not answer: tried again, where somebody waits for them */
    uint32_t source_waits;   /* jobs that wait for their source now */
};

struct engine_job_status {
    char name[ENGINE_NAME_MAX];
    uint32_t job, pipeline, batch_size, epoch, epochs;
    double weight;
    bool started; /* an epoch has begun */
    uint32_t prefetch;  /* batches ahead that the quota lets it have now */
    uint32_t prefetch_asked;
    uint32_t look_ahead; /* batches ahead that the rank with most use for it needs now, at most prefetch */
    uint64_t client, view_samples, remaining, quota_bytes, held_slots;
    uint64_t samples_delivered, batches_delivered, samples_shared, bad_samples;
    uint32_t ready_batches, leased_batches, credits; /* all ranks together, as the rest */
    double wait_s; /* credits outstanding and nothing ready */
    uint64_t epoch_delivered; /* samples delivered in this epoch */
    uint64_t epoch_lost;      /* samples of this epoch that were left out, because they are bad */
    bool waits_for_source;    /* it does not answer; for source_wait_s now */
    double source_wait_s;
    uint32_t world_size, attached; /* ranks that are there now */
};

/* engine_waits_for_room: some job waits until room that lies in pieces is given back: it needs a TICK now and then. */
bool engine_waits_for_room(const struct engine *engine);

/* engine_wakes_ns: when it needs a TICK at the latest, so that a source that does not answer is asked again;
 * UINT64_MAX: none does. */
uint64_t engine_wakes_ns(const struct engine *engine);

/* One rank's queue. */
struct engine_queue_status {
    uint32_t rank;
    bool attached;
    bool done; /* has had its share of the epoch, or left it */
    uint64_t client, held_slots, samples_delivered, batches_delivered, epoch_delivered;
    uint32_t ready_batches, leased_batches, credits;
    double wait_s;
};

/* engine_totals and the statuses take no longer for what is in memory: their work goes by jobs and ranks. */
void engine_totals(const struct engine *engine, struct engine_totals *out);
/* engine_job_statuses fills up to max rows in order of place; returns how many jobs there are. now_ns closes open waits. */
size_t engine_job_statuses(const struct engine *engine, uint64_t now_ns, struct engine_job_status *out, size_t max);
/* engine_queue_statuses fills up to max rows of a job that is there, by rank; returns its world size. */
size_t engine_queue_statuses(const struct engine *engine, uint32_t job, uint64_t now_ns, struct engine_queue_status *out,
                             size_t max);

#endif
