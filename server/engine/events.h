/* events.h: the engine's contract: its configuration, the events that it takes, and the actions that it returns. */
#ifndef LARDER_SERVER_ENGINE_EVENTS_H
#define LARDER_SERVER_ENGINE_EVENTS_H

#include <stddef.h>

#include "cache/memory/extent.h"
#include "common/error.h"
#include "common/types.h"
#include "sampler/bag.h"
#include "sampler/sampler.h"
#include "server/engine/request.h"

#define ENGINE_OUTPUTS_MAX 16 /* instances that one prepare task makes */
#define ENGINE_AHEAD_WINDOWS 4
#define ENGINE_RANK_NONE UINT32_MAX

#define ENGINE_EVICTED_AT_ONCE 4096 /* evicting this many takes about a millisecond */

#define ENGINE_NOT_THERE UINT64_MAX
#define ENGINE_ASKS_AHEAD UINT32_MAX

/* With ENGINE_REDIRECT_HALF, the width of a dataset's fibers is half of one of its chunks, within the two bounds.
 * Measured with chunks of 8 to 512, one job, and encoded memory for 25, 10 and 4 % of its dataset: a chunk is loaded
 * 2.0 times an epoch, and keeps 0.75 to 0.93 of a full shuffle's spread. Narrower fibers load more often, most of all
 * for jobs out of step (w = 1, the papers' rule: 8.1 to 9.6 times). Wider ones put neighbours closer together.
 * docs/internals/sharing.md has more. */
#define ENGINE_REDIRECT_HALF UINT32_MAX
#define ENGINE_REDIRECT_HALF_MIN 8u
#define ENGINE_REDIRECT_HALF_MAX 128u

/* The engine's configuration; fixed from engine_create on. */
struct engine_config {
    uint64_t seed;
    uint64_t arena_bytes; /* budget for prepared instances: offsets in actions are below it */
    /* 0: the whole arena is reserved from the start. Otherwise none of it is, and each RESERVE asks for a multiple of
     * this many bytes; the last one may ask for less. A multiple of EXTENT_ALIGN. */
    uint64_t reserve_bytes;
    /* Encoded samples may have so much of arena_bytes while instances do not (split.h). It needs reserve_bytes. 0: they
     * have encoded_bytes alone. */
    uint64_t lent_bytes;
    /* Memory of the arena that was not needed for this long is returned. 0: none is returned for that reason. */
    uint64_t linger_ns;
    /* About the most instances that one step evicts to give memory back or to make room for a new job; 0:
     * ENGINE_EVICTED_AT_ONCE. */
    uint32_t evicted_at_once;
    uint64_t job_quota_bytes; /* the most of the arena that one job may pin; 0: all of it */
    /* The budget for encoded samples and for the records of instances. Loads in flight count. */
    uint64_t encoded_bytes;
    /* The part of encoded_bytes that the record of one instance takes. All records together take at most a quarter. */
    uint64_t instance_bytes;
    /* The least arena bytes of one instance. It bounds the number of records. */
    uint64_t slot_least;
    uint32_t inflight_loads;    /* samples that may be out as LOAD at once, ≥ 1 */
    uint32_t inflight_prepares; /* tasks that may be out as PREPARE at once, ≥ 1 */
    /* Short tasks are handed over in bundles: up to prepares_max may be out if together they take at most prepares_ns
     * of one core. 0: no more than inflight_prepares. */
    uint32_t prepares_max;
    uint64_t prepares_ns;
    /* A PREPARE that only copies a sample's encoded bytes, at most this many, is a copy: it needs no worker, and does
     * not count in inflight_prepares. 0: there are no copies. */
    uint64_t copy_bytes;
    bool decoded;            /* Samples may stand in encoded memory in decoded forms. */
    uint32_t redirect_width; /* w, the neighbouring slots of a fiber, or ENGINE_REDIRECT_HALF; 0: no redirection */
    uint32_t redirect_group; /* n, the chunks that share one place in memory; 0: the budgets decide */
    /* If all bytes stay in memory, redirection searches this many samples of a job's view for a prepared one; 0: enough
     * for jobs that are apart in their epochs to find each other's instances. */
    uint32_t redirect_reach;
    /* The node is one of a cluster, and prepares its chunks for the jobs of all nodes. Then jobs out of step need fewer
     * reads, and a chunk's samples are spread less. */
    bool home;
    /* How long a window is. The last ENGINE_AHEAD_WINDOWS windows tell how much look-ahead a queue needs. 0: need is
     * not measured, and each queue looks as far ahead as its quota lets it. */
    uint64_t ahead_window_ns;
    uint64_t rank_timeout_ns; /* time that ranks wait for another rank of their job; 0: forever */
    /* How long a job waits while what clients hold lies in the middle of free space; 0: forever. */
    uint64_t room_timeout_ns;
    uint64_t source_wait_ns; /* time that a job waits for a source that does not answer; 0: none */
    /* A job fails when more samples of an epoch are bad than the greater of bad_count and bad_share, or more than one
     * in ENGINE_BAD_PART. */
    bool bad_limited;
    uint64_t bad_count;
    double bad_share; /* part of the view */
    /* Returns the length of a sample's encoded bytes in a job's dataset; ENGINE_NOT_THERE when the dataset does not
     * have it. Called from engine_step only. */
    uint64_t (*sample_bytes)(const void *dataset, sample_id id);
    /* Returns the length of a sample's planes, which a LOAD may bring instead of its bytes; 0: there are none. NULL:
     * there never are. Called from engine_step only. */
    uint64_t (*planes_bytes)(void *ctx, const void *dataset, sample_id id);
    void *planes_ctx;
    /* Returns the most bytes that an instance of the sample takes, 1 … slot_bytes, for a job that is `sized`. It
     * returns the same for all jobs of a pipeline that have the sample. NULL: slot_bytes. Called from engine_step
     * only. */
    uint64_t (*made_bytes)(const void *dataset, const void *program, sample_id id);
    /* Number of residents that one step looks at after a change to all of them; 0: as many as a step has time for. */
    uint32_t sweep_residents;
    /* Tells whether the view still has a good sample of the class that this bad sample has. NULL: classes do not
     * matter. Called from engine_step only. */
    bool (*class_is_left)(const void *dataset, sample_id id, const struct idset *view, const struct idset *bad);
};

/* A job fails when more than one in this many of its samples is bad, whatever limit was set: it no longer trains on the
 * dataset that it was given. */
#define ENGINE_BAD_PART 10
/* Most bad samples that an error names. */
#define ENGINE_BAD_NAMED 3

struct engine_bad {
    sample_id id;
    int reason; /* enum bad_reason */
};

/* Copies that may be out at once, and the bytes that they write together. The first copy may write more. */
#define ENGINE_COPIES_MAX 4096
#define ENGINE_COPIES_BYTES (UINT64_C(1) << 20)

/* Bytes that the record of one instance takes, with those of the entries that wait for it. */
#define ENGINE_INSTANCE_BYTES 288

/* Records take at most encoded_bytes divided by this. */
#define ENGINE_RECORDS_PART 4

/* engine_slot_least returns the slot_least at which the records of an arena full of instances take a quarter of
 * encoded_bytes. */
static inline uint64_t engine_slot_least(uint64_t arena_bytes, uint64_t encoded_bytes)
{
    uint64_t records = encoded_bytes / ENGINE_RECORDS_PART / ENGINE_INSTANCE_BYTES; /* that there is room for */
    return extent_round(records ? arena_bytes / records + 1 : arena_bytes);
}

/* engine_slot_bytes returns the arena bytes that an instance of `bytes` takes. One of 0 bytes takes a slot too. */
static inline uint64_t engine_slot_bytes(const struct engine_config *config, uint64_t bytes)
{
    uint64_t rounded = extent_round(bytes ? bytes : 1);
    return rounded > config->slot_least ? rounded : extent_round(config->slot_least);
}

/* ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum engine_event_type {
    /* Time has passed, and nothing else has happened. A tick notices, say, that a rank has been away for too long. */
    ENGINE_TICK,
    /* A rank registers; JOB_ADDED or JOB_REFUSED is the answer. A rank with a resume first ends a job of its name that
     * has no rank attached: JOB_ENDED comes before the answer, and the new job may get the same number. */
    ENGINE_JOB_ADD,
    /* The rank's client has left, for any reason: everything that it held is returned. If the rank had no client, and
     * no rank of the job has one, the job ends. */
    ENGINE_JOB_GONE,
    /* The job fails, as it does over a bad sample. Each attached rank gets a JOB_ERROR, and keeps what it holds until
     * it releases it or leaves. Nothing happens when the job has failed already, or does not exist. */
    ENGINE_JOB_CANCEL,
    ENGINE_WEIGHT, /* the job's weight changes */
    /* How long the rank's client trains on a batch, as measured. It orders work among a job's ranks. */
    ENGINE_PACE,
    /* The rank's queue may send `credits` more batches of `epoch`. `awaited` is the number of batches, with these, that
     * the client lacks while its program stands still; ENGINE_ASKS_AHEAD: the program goes on meanwhile; 0: not
     * known. */
    ENGINE_NEXT,
    ENGINE_RELEASE, /* The client has finished with a batch. An unknown batch is counted and ignored. */
    ENGINE_LOADED,  /* a sample of a LOAD arrived, or failed */
    /* A PREPARE has ended. Each output was made, or has failed: then it is bad for the jobs that wait for it. */
    ENGINE_PREPARED,
    /* The answer to an EXPECT: another node's sample lies at the offset, or is bad, or no sample will come. */
    ENGINE_ARRIVED,
    /* Samples that were elsewhere are drawn here from now on. It does nothing unless the job is in that epoch. EXPECTs
     * that are out stay out, and the caller answers them. */
    ENGINE_BACK,
    /* The number of a pipeline, which no job uses, will mean another pipeline: its instances are forgotten. */
    ENGINE_PIPELINE_GONE,
    /* Ids that no job's dataset has will mean other samples: what is kept under them is forgotten. */
    ENGINE_SAMPLES_GONE,
    /* The answer to RESERVE. If it has less than was asked for, the engine asks again: at once, or after a while if
     * memory was refused. */
    ENGINE_RESERVED,
    /* Memory is short: the engine evicts what no running job wants, and RETURN gives that memory back. */
    ENGINE_SHRINK,
    ENGINE_DRAIN, /* No new job is taken after this. Ranks of jobs that are there may still come. */
    /* After this nothing is planned, begun or delivered. The arena stays as it is, even when clients leave. */
    ENGINE_HALT,
    /* Places samples before the job that uses them is added. JOB_ADD places those that are left, so a PLACE only makes
     * its step shorter. It does nothing when there is no memory. */
    ENGINE_PLACE,
    /* The job's samples with these homes are elsewhere from now on, but for those that are planned or received. It does
     * nothing unless the job is in that epoch, and nothing is elsewhere yet. */
    ENGINE_AWAY,
};

/* The outcome of a LOAD. */
enum engine_fate {
    ENGINE_FATE_SAMPLE, /* The sample was read, or it cannot be read and is bad. */
    ENGINE_FATE_SOURCE, /* The source did not answer, which is no fault of the sample: the load is tried again. */
    /* The file is no longer what the dataset says: jobs that read from this dataset cannot have the sample. */
    ENGINE_FATE_CHANGED,
};

/* One event. The caller owns it and what it points to; the engine reads it during the step. */
struct engine_event {
    enum engine_event_type type;
    uint32_t rank; /* the rank of a JOB_GONE, PACE, NEXT or RELEASE */
    union {
        const struct engine_job_desc *job_add;
        const struct engine_placing *place;
        struct {
            uint32_t job;
            bool died; /* the client is gone without a word */
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
            uint32_t job, epoch, credits, awaited;
        } next;
        struct {
            uint32_t job;
            uint64_t batch;
        } release;
        struct {
            sample_id id;
            /* The caller's handle of the bytes, which the engine gives back in DROP_ENCODED. NULL: the load failed. */
            void *encoded;
            uint64_t bytes; /* the LOAD's; or fewer, with planes_bytes */
            bool planes;    /* these are not the sample's own bytes, but give the same pixels */
            int reason;     /* enum bad_reason of a load that failed */
            enum engine_fate fate;
        } loaded;
        struct {
            uint32_t task;
            uint8_t reasons[ENGINE_OUTPUTS_MAX]; /* enum bad_reason of each output; 0: the output was made */
            /* Of an output for a `sized` job: how long it is, 1 … the output's bytes. Of others it is not read. */
            uint32_t bytes[ENGINE_OUTPUTS_MAX];
            uint64_t core_ns;                    /* a worker's time on a core, for all outputs; 0: not known */
            uint32_t own_ns[ENGINE_OUTPUTS_MAX]; /* the part of core_ns that was spent on this output alone */
            /* For a PREPARE with form_bytes: the caller's handle of a decoded form, which the engine gives back in
             * DROP_ENCODED, and what it takes. NULL: it takes more than that, or there is none; then decoded_bytes is
             * what it would take, or 0. */
            void *decoded;
            uint64_t decoded_bytes;
        } prepared;
        struct {
            uint32_t task;  /* the EXPECT's task */
            sample_id id;   /* SAMPLE_NONE: none comes; the engine expects another one elsewhere, or draws one here */
            int reason;     /* enum bad_reason of a sample that the other node could not prepare */
            uint32_t bytes; /* length of a good sample of a `sized` job, as in `prepared`; else not read */
            /* *taken, set: the sample counts as received. Not set: the job must not get it. Then the EXPECT still needs
             * an answer, unless *over is set, which says that nobody waits for it any more. */
            bool *taken, *over;
        } arrived;
        struct {
            uint32_t job, epoch;
            const struct idset *ids; /* with all their draws that are elsewhere; borrowed for the step */
        } back;
        struct {
            uint32_t job, epoch;
            const struct idset *ids; /* samples of the view; borrowed for the step */
            struct bag **moved;      /* set to a new bag of those that are elsewhere now; NULL: nothing has changed */
        } away;
        struct {
            uint64_t bytes; /* bytes reserved now, counted from the start of the arena */
            bool refused;   /* fewer than were asked for, because there is no memory */
        } reserved;
        struct {
            uint32_t pipeline;
        } pipeline_gone;
        struct {
            /* The caller's array. The engine moves the ids that are still in use to its front. */
            sample_id *ids;
            uint32_t count;
            /* Set to the number of those ids. They keep their meaning, and may be tried again. */
            uint32_t *kept;
        } samples_gone;
    };
};

/* ── actions ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum engine_action_type {
    ENGINE_JOB_ADDED,
    ENGINE_JOB_REFUSED,
    ENGINE_LOAD,
    ENGINE_PREPARE,
    /* The caller has another node give a sample of the job, and answers with ARRIVED. */
    ENGINE_EXPECT,
    ENGINE_DROP_ENCODED,
    ENGINE_DELIVER,
    /* The rank cannot go on: the caller tells its client, which stays until it leaves. When the job as a whole has
     * failed (policy `error`, a rank missing, cancelled), each attached rank gets one. From then on the job's quota is
     * only what its clients may hold. */
    ENGINE_JOB_ERROR,
    ENGINE_AHEAD,  /* the job's quota has changed, and with it its look-ahead */
    ENGINE_SOURCE, /* A source has not answered twice, or answers again, or one of its samples was given up. */
    /* The caller reserves more of the arena, and answers with RESERVED. No other RESERVE follows before. */
    ENGINE_RESERVE,
    /* Nothing lies in this range of the arena, and nothing will until a RESERVE includes it: the caller frees its
     * memory. It may have been returned before. */
    ENGINE_RETURN,
    ENGINE_JOB_ENDED, /* The job's number is free again. The job no longer uses its dataset and its pipeline number. */
};

/* One instance that a PREPARE makes. */
struct engine_output {
    uint32_t pipeline;
    uint64_t offset; /* offset of the instance in the arena */
    uint64_t bytes;
    /* The last parts of the random key. `variant` is the variant, under SHUFFLE_STRICT that of job and epoch.
     * `instance` is how many instances of this sample were begun before; 0 for a variant under SHUFFLE_STRICT. */
    uint64_t variant, instance;
    const void *dataset; /* the dataset of a job that waits for the instance, or wants it */
    bool own;            /* It was begun for the job of the action. */
};

/* One sample of a DELIVER: where it lies in the arena, in bytes, and its id. */
struct engine_entry {
    uint64_t offset;
    uint64_t bytes;
    sample_id id;
    /* The sample of the view that this one counts as: itself, or the bad sample that it replaces. SAMPLE_NONE: a
     * repeat, which counts as none. */
    sample_id turn;
};

enum engine_source_news {
    ENGINE_SOURCE_AWAY,
    ENGINE_SOURCE_BACK,
    ENGINE_SOURCE_GAVE_UP, /* the sample failed again and again while others could be read: it is bad */
    ENGINE_SOURCE_BEYOND,  /* encoded memory has no room for the sample, and never will: it is bad */
};

/* Why a client that has asked for a batch stands still: the cause is that of the next batch's first entry. */
enum engine_stall {
    ENGINE_STALL_LOAD,    /* its bytes are not there yet */
    ENGINE_STALL_PREPARE, /* its instance is not made yet */
    ENGINE_STALL_ROOM,    /* the arena has no room for it, or the job's quota none for another entry */
    ENGINE_STALL_RANK,    /* other ranks have not finished the epoch, or have not come yet */
};
#define ENGINE_STALLS 4

/* One action. The engine owns it and what it points to; it is valid until the next step. */
struct engine_action {
    enum engine_action_type type;
    uint64_t client; /* the client of the rank, if the action is about one */
    /* job: ENGINE_NONE when the action is about no job. rank: for LOAD and PREPARE the rank whose queue waits for it,
     * ENGINE_RANK_NONE when none does yet. */
    uint32_t job, rank;
    union {
        struct {
            uint32_t n_batches;     /* batches of an epoch, for each rank */
            uint32_t held_max;      /* batches that the client may hold unreleased */
            uint64_t quota_bytes;   /* quota of the whole job */
            uint32_t ahead;         /* batches of look-ahead that the quota lets each rank have */
            uint64_t wanted_bytes;  /* arena bytes of all that all jobs asked for */
            uint64_t encoded_bytes; /* encoded memory that the look-ahead of all jobs would take at once */
            /* The rank has joined a job that was there: the dataset, order and places of its JOB_ADD are not kept. */
            bool attached;
            bool restoring; /* The job still waits for its ranks to tell what they have received. */
            /* The first epoch that the rank can ask for, and the index of its next batch in it. They are the resume's
             * own if the rank comes with one. */
            uint32_t epoch, batch;
        } job_added;
        struct {
            struct error error;
            sample_id id;    /* the bad sample that a JOB_ERROR is about; else SAMPLE_NONE */
            int reason;      /* enum bad_reason of that sample */
            bool of_all_bad; /* It is about all bad samples of this epoch; `others` are some more of them. */
            struct engine_bad others[ENGINE_BAD_NAMED - 1];
            uint32_t n_others;
            const void *dataset;
            bool of_source; /* the job's source did not answer */
        } error;            /* JOB_REFUSED, JOB_ERROR */
        struct {
            const void *dataset;
            sample_id id;
            uint64_t bytes;
            uint64_t read; /* LOADs in a row with the same number lie in one chunk: one read brings them. */
        } load;
        struct {
            uint32_t task;
            sample_id id;
            void *encoded; /* The caller's handle of the sample's bytes, valid until the task's PREPARED event. */
            uint64_t encoded_bytes;
            bool decoded; /* The handle is that of a decoded form, and encoded_bytes what it takes. */
            /* The caller may make a decoded form that takes at most so much. 0: none is wanted. */
            uint64_t form_bytes;
            const void *dataset;
            const struct engine_output *outputs; /* valid until the next step */
            uint32_t n_outputs;
            bool copy; /* see engine_config.copy_bytes */
        } prepare;
        struct {
            uint32_t task;
            /* A random sample of those left elsewhere. The caller asks the node that has it for any sample of the
             * job's. So each node is asked in proportion to what it has left. */
            sample_id id;
            uint64_t offset, bytes; /* range of the arena; the caller's until it answers */
            uint64_t ahead;         /* about how many samples of the job's look-ahead are elsewhere */
            const void *dataset;
        } expect;
        struct {
            void *encoded;
        } drop;
        struct {
            uint64_t batch;
            uint32_t epoch, index;
            bool last; /* The last batch of the rank's epoch; it may be empty. */
            uint32_t count;
            const struct engine_entry *entries; /* valid until the next step */
            uint64_t lost;                      /* bad samples of the rank's epoch that were left out so far */
            /* In a fixed order: positions of the rank's part that were delivered or bad, this batch included. 0 for
             * dependent jobs. */
            uint32_t through;
            uint64_t stall_ns; /* time that the client has stood still for this batch */
        } deliver;
        struct {
            uint64_t quota_bytes;  /* the job's quota from this step on */
            uint32_t from, to;     /* each rank's look-ahead in batches, before and from this step on */
            uint64_t wanted_bytes; /* as in job_added */
            bool failed;           /* The job has failed: it looks ahead no more. */
        } ahead;
        struct {
            enum engine_source_news news;
            const void *dataset;
            sample_id id;       /* GAVE_UP, BEYOND: the sample */
            int reason;         /* GAVE_UP: enum bad_reason */
            uint64_t waited_ns; /* BACK: time since it first did not answer */
            uint64_t retries;   /* BACK: loads that it did not answer */
        } source;
        struct {
            uint64_t bytes; /* reserve at least this many bytes, counted from the start of the arena */
        } reserve;
        struct {
            uint64_t from, to; /* bytes of the arena */
        } give_back;
        struct {
            const void *dataset;
            uint32_t pipeline;
        } job_ended;
    };
};

#endif
