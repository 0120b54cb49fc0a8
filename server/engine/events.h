/* events.h: the engine's contract: its configuration, the events that it takes, and the actions that it returns. */
#ifndef LARDER_SERVER_ENGINE_EVENTS_H
#define LARDER_SERVER_ENGINE_EVENTS_H

#include <stddef.h>

#include "cache/memory/extent.h"
#include "common/error.h"
#include "common/types.h"
#include "sampler/bag.h"
#include "sampler/sampler.h"

#define ENGINE_NAME_MAX 129    /* bytes of a job's name, its end included */
#define ENGINE_OUTPUTS_MAX 16  /* instances that one prepare task makes */
#define ENGINE_BATCH_MAX 8192  /* samples in a batch */
#define ENGINE_PREFETCH_MAX 64 /* batches that a queue may look ahead */
#define ENGINE_HOLD_MAX 65     /* batches a client may hold */
#define ENGINE_AHEAD_WINDOWS 4
/* Minimum room of each queue, in batches: one that the client holds, one that is being filled. */
#define ENGINE_ROWS_MIN 2
#define ENGINE_PIPELINES_MAX 256   /* pipelines in use at once; the caller gives them their numbers */
#define ENGINE_RANKS_MAX 256       /* ranks of a job */
#define ENGINE_ALL_RANKS_MAX 65536 /* the same with those at other nodes */
#define ENGINE_RANK_NONE UINT32_MAX
#define ENGINE_EPOCHS_MAX UINT32_MAX /* maximum epochs of a job; the epoch after the last one still has a number */
#define ENGINE_SEGMENTS_MAX 64       /* how often one epoch may be resumed with another number of ranks */

#define ENGINE_EVICTED_AT_ONCE 4096 /* evicting this many takes about a millisecond */

#define ENGINE_NOT_THERE UINT64_MAX
#define ENGINE_ASKS_AHEAD UINT32_MAX
#define ENGINE_CHUNK_KEY 5 /* words */

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

/* Copies that may be out at once, and the bytes that they write together. The first copy may write more. */
#define ENGINE_COPIES_MAX 4096
#define ENGINE_COPIES_BYTES (UINT64_C(1) << 20)

/* Bytes that the record of one instance takes, with those of the entries that wait for it. */
#define ENGINE_INSTANCE_BYTES 288

/* Records take at most encoded_bytes divided by this. */
#define ENGINE_RECORDS_PART 4

/* engine_slot_least returns the slot_least at which the records of an arena full of instances take a quarter of
 * encoded_bytes. */
static inline uint64_t engine_slot_least(uint64_t arena_bytes, uint64_t encoded_bytes, uint64_t instance_bytes)
{
    uint64_t records = encoded_bytes / ENGINE_RECORDS_PART / instance_bytes; /* records that there is room for */
    return extent_round(records ? arena_bytes / records + 1 : arena_bytes);
}

/* engine_slot_bytes returns the arena bytes that an instance of `bytes` takes. One of 0 bytes takes a slot too. */
static inline uint64_t engine_slot_bytes(const struct engine_config *config, uint64_t bytes)
{
    uint64_t rounded = extent_round(bytes ? bytes : 1);
    return rounded > config->slot_least ? rounded : extent_round(config->slot_least);
}

/* ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A sample's place in its dataset. The chunk is below engine_chunks.count, the slot below engine_chunks.samples. */
struct chunk_slot {
    uint32_t chunk, slot;
};

/* The dataset lies in `count` chunks, each of up to `samples` samples. A sample keeps the place that it got first:
 * another dataset that has it too does not move it. */
struct engine_chunks {
    /* The places of the view's samples, in ascending order of their ids; borrowed for the step. NULL: the dataset does
     * not lie in chunks, so the job's picks are never redirected. */
    const struct chunk_slot *places;
    uint64_t key[ENGINE_CHUNK_KEY]; /* datasets with equal keys have the same samples in the same chunks */
    uint32_t count, samples;
    uint32_t touched; /* number of chunks with samples of the view; 0: the engine counts them */
};

/* Placing this many samples takes the engine less than a millisecond. */
#define ENGINE_PLACED_AT_ONCE 8192u

/* Some samples of a dataset that a job will soon use, and their places in its chunks. Borrowed for the step. */
struct engine_placing {
    const sample_id *ids;        /* ascending; `count` of them */
    struct engine_chunks chunks; /* `places` is for these ids */
    uint32_t count;
};

/* How far each rank of a job in a fixed order (`strict`, `none`) came during a time in which the job had one number of
 * ranks.
 * Sequence 0 is the epoch's whole order. Position i of a sequence belongs to the part of rank i mod world_size, at
 * index i / world_size. A segment takes the first through[r] positions of rank r's part. The rest, in order, is the
 * next sequence. */
struct engine_segment {
    uint32_t world_size;     /* 1 … ENGINE_RANKS_MAX */
    const uint32_t *through; /* world_size of them */
};

/* Of a multiset: the draws of samples beyond the first of each, which a set beside it has. In any order; borrowed. */
struct engine_again {
    const sample_id *ids;
    uint64_t count;
};

/* A copy of a sample that a rank received. */
struct engine_copy {
    sample_id id;
    uint32_t rank;
};

/* Another rank that has received its whole share of the rest, as told by the rank that registers. The job does not wait
 * for that other rank. If it registers after all, its own word counts. The members mean the same as in
 * engine_resume. */
struct engine_done {
    uint32_t rank, batches;
    uint64_t delivered, through;
    const struct idset *turns;
    struct engine_again again;
};

/* The part of an epoch that was received before the job was made: a base, which all ranks share, and what this rank
 * received after it. The base is `key` and the members up to n_segments. Everything is borrowed for the step. */
struct engine_resume {
    uint32_t epoch;
    uint64_t key;          /* equal keys mean equal bases */
    uint32_t base_batches; /* batches of each rank in the base */
    /* dependent: the samples of the view that the base has received or replaced. NULL: none. */
    const struct idset *base;
    struct engine_again base_again;
    /* Where the copies of a sample go to different ranks: the base's copies of samples of which not all have come. What
     * is not there is not known. */
    const struct engine_copy *copies;
    uint32_t n_copies;
    /* strict, none: the part of the order that the base has received, the first segment first. The rest is dealt to
     * this job's ranks. */
    const struct engine_segment *segments;
    uint32_t n_segments;
    /* What this rank has received of the rest: batches, and the samples in them. `turns` (dependent) are the samples of
     * the view that these stand for; NULL: none. `through` (strict, none) is the number of positions of the rank's part
     * that were delivered or bad. If each rank goes on in the part that it had, the last segment is left out of
     * `segments`. Then `through` and `delivered` count that segment as well; engine_segment_delivered returns what to
     * add to `delivered`. */
    uint32_t batches;
    uint64_t delivered, through;
    const struct idset *turns;
    struct engine_again again;
    const struct engine_done *done; /* ranks that are done, each once; only with `presented` */
    uint32_t n_done;
    bool presented; /* The rank had a place in the job that it comes back to. false: it begins from a checkpoint. */
};

/* The ranks of a job here, when others are at other nodes: those from `first` on of world_size. In each epoch they have
 * a share of the view, or of the multiset that the epoch is. Every node works out the same, so nothing is sent. */
struct engine_part {
    uint32_t world_size, first; /* world_size 0: all ranks of the job are here */
    /* dependent: makes a new set with these ranks' share of an epoch, the same in each call, or of what of it is not
     * `gone` with the base that it is begun from; NULL: there is none. `deal` is borrowed until the job ends. In a
     * fixed order rank r gets the positions r, r + world_size, … of what the base leaves. LARDER_ENOMEM. */
    int (*share)(const void *deal, uint32_t epoch, const struct idset *gone, struct idset **out);
    /* For a multiset: takes how often each of its samples comes in the epoch, leaves how often it comes to these. */
    int (*draws)(const void *deal, uint32_t epoch, uint32_t *counts);
    const void *deal;
    uint64_t rule; /* of the deal: the same number for ranks that are dealt to alike */
    /* The samples of the view that are dealt here in most epochs, if these are the same ones; NULL: they are not. Their
     * bytes are worth keeping, and others' are not. Borrowed until the job ends. */
    const struct idset *home;
};

/* A dataset's chunks have homes: the nodes that prepare their samples for all jobs. A job's share of an epoch has two
 * parts: this engine draws and prepares one, and other nodes the other, elsewhere, in an order of their own. */
struct engine_homes {
    /* Makes a new set with the samples of the view that have homes elsewhere when the epoch begins. NULL: none have.
     * `left` has all that comes to the ranks here in this epoch and was not received before; nothing else is given.
     * `map` is borrowed until the job ends. LARDER_ENOMEM. The job must be dependent, and not raw. */
    int (*elsewhere)(const void *map, uint32_t epoch, const struct bag *left, struct idset **out);
    const void *map;
};

/* The instances that a job counts as received from its start, so that it gets none of them. When a guest of another
 * node's job is lost and comes again, it must not get an instance twice. */
enum engine_inherits {
    ENGINE_INHERITS_NOTHING,
    ENGINE_INHERITS_JOB, /* those of `predecessor`, the number of a job that is there */
    ENGINE_INHERITS_ALL, /* all that exist: it is not known which were received */
};

/* The request of a JOB_ADD. Pointers are borrowed for the step unless said otherwise. */
struct engine_job_desc {
    uint64_t client;     /* the caller's name for the connection; it comes back in actions */
    const char *name;    /* the job's name, unique among jobs; copied */
    const void *dataset; /* the caller's handle; it comes back in actions, and goes to sample_bytes */
    /* The caller's number of the pipeline, < ENGINE_PIPELINES_MAX. Two jobs have the same number exactly when their
     * pipelines are the same. */
    uint32_t pipeline;
    const void *program; /* the caller's handle of the pipeline; it goes to made_bytes */
    uint64_t slot_bytes; /* bytes of one prepared instance, > 0 */
    /* The pipeline draws nothing at random, so the job may get an instance again, once in each epoch. All jobs with one
     * pipeline have the same value. */
    bool repeatable;
    /* An instance is as long as its sample's encoded bytes. Then slot_bytes is what an instance takes, rounded by
     * engine_slot_bytes, on the mean over the largest two batches that the job may hold. */
    bool raw;
    /* Instances differ in length: slot_bytes is what the longest one may take, and PREPARED says what each one takes.
     * Not for raw samples, whose lengths are known before. */
    bool sized;
    /* An instance can be made of the encoded bytes alone, and not of a decoded form. Raw samples are such. */
    bool needs_encoded;
    uint32_t batch_size; /* 1 … ENGINE_BATCH_MAX */
    uint32_t prefetch;   /* batches prepared ahead of the client, 1 … ENGINE_PREFETCH_MAX */
    /* Batches that the client wants to hold unreleased at a time, 1 … ENGINE_HOLD_MAX; 0 means ENGINE_ROWS_MIN. As many
     * of them as fit are promised to it for good. */
    uint32_t hold;
    uint32_t epochs; /* 0: ENGINE_EPOCHS_MAX */
    bool drop_last;
    enum bad_policy bad_policy;
    bool bad_unlimited;         /* another node's job: that node decides when too many samples are bad */
    bool own_labels;            /* the script has its own labels: the dataset's classes mean nothing to it */
    struct sampler_job sampled; /* the job's order and view, without a part; the view is borrowed for the step */
    /* Jobs share instances only with jobs of the same pipeline and variant. 0 is shared by all; a variant of its own
     * keeps a job's augmentation private. Under SHUFFLE_STRICT the epoch counts too, and nothing else does. */
    uint64_t variant;
    struct engine_chunks chunks;
    /* All ranks of a job give the same name, world_size and settings above, except `client`. Views must be equal, not
     * at the same address. Dataset, order and chunks are those of the first rank. */
    uint32_t rank, world_size; /* among the ranks at this node; world_size 0 is 1 */
    struct engine_part part;
    struct engine_homes homes; /* taken from the first rank, as is `inherits` */
    enum engine_inherits inherits;
    uint32_t predecessor;
    /* Jobs of one family, dataset, pipeline and variant are parts of one training, whose ranks are at several nodes. No
     * two of them want the same sample in an epoch. What one had counts as had by all. One that comes when others are
     * there inherits nothing else. One that comes alone inherits all, unless its pipeline draws nothing at random:
     * others of its family may have been there before. 0: none. */
    uint64_t family;
    double weight; /* JOB_WEIGHT_MIN … JOB_WEIGHT_MAX; 0 is 1 */
    bool ordered;  /* batches keep the planned order */
    /* What the ranks received of an epoch before the job was made; NULL: the job begins with a whole epoch. */
    const struct engine_resume *resume;
};

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
            uint64_t bytes;
            int reason; /* enum bad_reason of a load that failed */
            enum engine_fate fate;
        } loaded;
        struct {
            uint32_t task;
            uint8_t reasons[ENGINE_OUTPUTS_MAX]; /* enum bad_reason of each output; 0: the output was made */
            /* Of an output for a `sized` job: how long it is, 1 … the output's bytes. Of others it is not read. */
            uint32_t bytes[ENGINE_OUTPUTS_MAX];
            uint64_t core_ns; /* a worker's time on a core, for all outputs; 0: not known */
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
            uint32_t bytes; /* of a good one for a `sized` job: how long it is, as in `prepared`; else not read */
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
            sample_id others[ENGINE_BAD_NAMED - 1];
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
