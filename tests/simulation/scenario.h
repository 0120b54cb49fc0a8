/* scenario.h: what one seed stands for: samples, datasets, pipelines, budgets, delays, and what each client will do.
 *
 * Plain data, fixed before the engine exists and unchanged afterwards, made from the seed alone. */
#ifndef LARDER_SIMULATION_SCENARIO_H
#define LARDER_SIMULATION_SCENARIO_H

#include "common/random.h"
#include "common/types.h"
#include "server/engine/engine.h"

#define SCENARIO_NEVER UINT64_MAX
#define SCENARIO_SLOT_LEAST_MAX 4096
#define SCENARIO_NOT_THERE UINT32_MAX
#define SCENARIO_GATHER_MAX 32

enum latency_kind { LATENCY_NONE, LATENCY_CONSTANT, LATENCY_UNIFORM, LATENCY_HEAVY, LATENCY_ONE_SLOW, LATENCY_KINDS };

struct latency {
    enum latency_kind kind;
    uint64_t mean_ns;
};

enum fault {
    FAULT_NONE,
    FAULT_LOAD,
    FAULT_PREPARE,
    FAULT_SOURCE /* reading it fails as if its source did not answer */
};

struct scenario_sample {
    uint64_t bytes;   /* encoded */
    enum fault fault; /* always fails like this */
    uint32_t unfit;   /* pipelines, as bits, that can make nothing of it */
};

struct scenario_dataset {
    const struct scenario *scenario;
    sample_id *ids; /* in the dataset's order */
    uint32_t n_ids;
    uint32_t *position;               /* by sample id: its place in ids, or SCENARIO_NOT_THERE */
    bool in_chunks;                   /* its ids, in order, fill its chunks */
    uint32_t chunk_base, chunk_count; /* the model's numbers of these: no other dataset has one of them */
    uint32_t users;                   /* living jobs: the model's count */
    uint32_t dead_calls;              /* of sample_bytes while there were none: the world's count */
    uint64_t changed_ns; /* from then on some of its samples are others than were indexed; SCENARIO_NEVER */
    uint32_t changed_every, changed_first; /* which: every so many'th */
};

/* A time in which no load from the dataset comes. */
struct scenario_outage {
    uint32_t dataset;
    uint64_t from_ns, to_ns;
};
#define SCENARIO_OUTAGES_MAX 4
#define SCENARIO_CRASHES_MAX 6

enum release_order { RELEASE_OLDEST, RELEASE_NEWEST, RELEASE_ANY };

struct client_plan {
    char name[24];
    uint32_t dataset;
    uint32_t pipeline; /* what is computed; the number the engine knows it by is given at registration */
    sample_id *view;   /* ascending */
    uint32_t n_view;
    sample_id *order; /* the view in the dataset's order */
    /* How often each of them comes in an epoch, and what it would be by another seed; NULL: once. */
    struct multiset *multiset, *other;
    uint32_t n_draws; /* of an epoch: n_view without a multiset */
    uint32_t batch_size, prefetch, epochs;
    bool drop_last;
    enum shuffle_mode shuffle;
    enum bad_policy bad_policy;
    uint64_t seed;
    uint64_t quota_bytes; /* what it asks for where there is plenty */
    bool invalid;         /* a field is out of its range: must be refused */
    bool ordered;
    uint64_t variant;          /* whose instances it may be given */
    uint32_t world_size, rank; /* of a job that several clients are the ranks of */
    double weight;             /* 0: the default */
    uint32_t reweigh_percent;  /* of batches after which somebody gives its job another weight */

    uint32_t run_epochs; /* how many it trains before it leaves */
    uint32_t ask;        /* credits it keeps outstanding */
    uint32_t hold;       /* batches it keeps after training on them, at most held_max - 1 */
    enum release_order release_order;
    struct latency train;
    uint64_t join_ns, vanish_ns, stop_ns;
    uint64_t return_ns;        /* after it vanished, once; SCENARIO_NEVER */
    uint64_t stop_for_ns;      /* SCENARIO_NEVER: until all others have finished */
    uint32_t break_percent;    /* of batches after which it gives up the epoch */
    uint32_t mischief_percent; /* of batches after which it asks for something wrong */
    uint32_t retries;          /* after a refusal */
    bool asks_again;           /* when it has returned: for the epoch before the one it is told */
    bool leaves_twice;         /* so that nobody waits for the job's ranks */
    uint64_t cancel_ns;        /* when somebody cancels its job; SCENARIO_NEVER */
    uint64_t clings_ns;        /* how long it keeps what it holds after it heard that its job has failed */

    /* With restarts. Plans with the same group are of one training run. Its legs follow each other: each goes on from
     * the last state that was saved in an earlier one. */
    uint32_t group, leg;
    uint32_t stop_after;   /* batches after which a rank ends the leg, once a state is saved; UINT32_MAX: it does not */
    uint32_t save_percent; /* of batches after which it saves the state of its job */
    bool copies;           /* a batch is given back when it is taken */
    uint64_t cut_ns;       /* when its connection breaks; SCENARIO_NEVER */
};

struct scenario {
    uint64_t seed;
    struct scenario_sample *samples;
    uint32_t n_samples;
    struct scenario_dataset *datasets;
    uint32_t n_datasets;
    uint32_t chunk_samples;
    uint64_t *slot_bytes;  /* by pipeline */
    uint32_t raw_pipeline; /* gives the encoded bytes themselves, slot_bytes at most; n_pipelines: none does */
    uint32_t n_pipelines;
    uint32_t sized;      /* a bit for each pipeline: what it makes differs in length, slot_bytes at most */
    uint32_t repeatable; /* a bit for each pipeline: it draws nothing at random */
    bool orders_known;   /* no job's shuffle is `dependent` */
    struct client_plan *clients;
    uint32_t n_clients;
    struct engine_config config; /* but for sample_bytes, which is the world's */
    struct latency load, prepare, transit;
    uint32_t load_faults, prepare_faults; /* transient ones, per thousand */
    uint32_t output_faults;               /* the same of single outputs */
    struct scenario_outage outages[SCENARIO_OUTAGES_MAX];
    uint32_t n_outages;
    struct latency reserve;  /* what reserving more of the arena takes */
    uint32_t refuse_percent; /* of RESERVEs: they get less than they ask for, or nothing */
    uint64_t shrink_ns;      /* between two SHRINKs; 0: none */
    uint64_t tick_ns;        /* 0: no ticks */
    uint64_t wake_late_ns;   /* An engine that asks for a TICK at once gets it so late. */
    uint64_t drain_ns;
    uint32_t gather;         /* events of one moment that make one step */
    uint32_t forget_percent; /* of registrations before which the engine forgets chunks, and numbers mean others */
    bool unlike;             /* own_ns of outputs differ by their pipelines */
    bool planes;             /* loads may bring planes */
    bool restarts;           /* daemons die, and training runs go on from states */
    uint32_t n_groups;
    uint64_t crashes[SCENARIO_CRASHES_MAX]; /* steps that a daemon takes before it dies */
    uint32_t n_crashes;
    uint64_t away_ns; /* how long a client is away after that, at the most */
};

enum scenario_kind {
    /* In an arena that is hardly larger than what the jobs are sure of, for slots of several sizes and clients that
     * hold what they may, and stop. Without it a few seeds are so too. */
    SCENARIO_TIGHT = 1,
    /* Daemons die and others come, clients come back with what they took, and runs go on from saved states, with other
     * numbers of ranks. */
    SCENARIO_RESTARTS = 2,
    /* Epochs of most dependent jobs are multisets. Not with restarts. */
    SCENARIO_MULTISETS = 4,
    /* Samples may stand in memory in decoded forms, and memory has room for some. */
    SCENARIO_FORMS = 8,
    /* Loads may bring planes of samples, of another length, in place of their bytes. */
    SCENARIO_PLANES = 64,
    /* What most pipelines make differs in length. */
    SCENARIO_RAGGED = 16,
    /* What pipelines make of one sample takes times far apart. */
    SCENARIO_UNLIKE = 32,
};

/* scenario_create: `kind` is of the bits above. */
struct scenario *scenario_create(uint64_t seed, unsigned kind);
void scenario_destroy(struct scenario *scenario);
/* What JOB_ADD says of a plan, and what it borrows. */
struct scenario_job {
    struct engine_job_desc desc;
    struct idset *view;
    struct chunk_slot *places;
};
/* scenario_mean_slot returns what a sample of the job's batches is promised: of a sized job the mean of its largest
 * batches, else what each sample takes. */
uint64_t scenario_mean_slot(const struct scenario *scenario, const struct client_plan *plan);
uint32_t scenario_hold(const struct client_plan *plan); /* batches it asks to be allowed to hold; 0: says nothing */
void scenario_job_make(const struct scenario *scenario, const struct client_plan *plan, uint32_t pipeline_number,
                       uint64_t client, struct scenario_job *job);
void scenario_chunk_key(uint32_t dataset, uint64_t key[ENGINE_CHUNK_KEY]); /* what JOB_ADD calls the dataset */
void scenario_job_free(struct scenario_job *job);
/* scenario_planes is what engine_config.planes_bytes shall say; ctx is the scenario. A load may take the greater of
 * this and the sample's bytes, as long as memory has room for that: scenario_load_bytes. */
uint64_t scenario_planes(void *ctx, const void *dataset, sample_id id);
uint64_t scenario_load_bytes(const struct scenario *sc, sample_id id);
/* scenario_bytes is what engine_config.sample_bytes shall say. */
uint64_t scenario_bytes(const struct scenario_dataset *dataset, sample_id id);
/* scenario_begun_bytes returns the most that an instance of a sample takes; scenario_most_bytes is what
 * engine_config.made_bytes shall say, and `program` a pipeline's place in slot_bytes. */
uint64_t scenario_begun_bytes(const struct scenario *scenario, uint32_t pipeline, sample_id id);
uint64_t scenario_most_bytes(const void *dataset, const void *program, sample_id id);
/* scenario_made_bytes returns how long an instance of a pipeline that is `sized` is, and slot_bytes of others. */
uint64_t scenario_made_bytes(const struct scenario *scenario, uint32_t pipeline, sample_id id, uint64_t instance);
/* scenario_is_away: does the dataset's source answer nobody now? scenario_has_changed: is the sample another by now? */
bool scenario_is_away(const struct scenario *scenario, uint32_t dataset, uint64_t now_ns);
bool scenario_has_changed(const struct scenario *scenario, uint32_t dataset, sample_id id, uint64_t now_ns);
uint64_t latency_draw(const struct latency *latency, struct rng *rng, uint64_t lane);

#endif
