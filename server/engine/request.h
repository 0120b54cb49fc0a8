/* request.h: the description of a job, as the JOB_ADD of each of its ranks has it: its dataset's chunks, what was
 * received of an epoch before, ranks at other nodes, and homes. */
#ifndef LARDER_SERVER_ENGINE_REQUEST_H
#define LARDER_SERVER_ENGINE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/types.h"
#include "sampler/bag.h"
#include "sampler/sampler.h"

#define ENGINE_NAME_MAX 129    /* bytes of a job's name, its end included */
#define ENGINE_BATCH_MAX 8192  /* samples in a batch */
#define ENGINE_PREFETCH_MAX 64 /* batches that a queue may look ahead */
#define ENGINE_HOLD_MAX 65     /* batches a client may hold */
/* Minimum room of each queue, in batches: one that the client holds, one that is being filled. */
#define ENGINE_ROWS_MIN 2
#define ENGINE_PIPELINES_MAX 256     /* pipelines in use at once; the caller gives them their numbers */
#define ENGINE_RANKS_MAX 256         /* ranks of a job */
#define ENGINE_ALL_RANKS_MAX 65536   /* the same with those at other nodes */
#define ENGINE_EPOCHS_MAX UINT32_MAX /* maximum epochs of a job; the epoch after the last one still has a number */
#define ENGINE_SEGMENTS_MAX 64       /* how often one epoch may be resumed with another number of ranks */
#define ENGINE_CHUNK_KEY 5           /* words */

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
    /* What an instance of a sized job may take, rounded by engine_slot_bytes, on the mean over the largest batch of all
     * ranks; 0: slot_bytes. It is what the job's batches are promised. A job with homes is promised slot_bytes, since
     * what comes from elsewhere is begun with that. */
    uint64_t mean_slot_bytes;
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

#endif
