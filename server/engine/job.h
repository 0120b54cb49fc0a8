/* job.h: the table of jobs, and functions that answer questions about one job. None of them changes state.
 *
 * Invariant: a name belongs to one job at most. Jobs with numbers from jobs.end on are FREE. A job's number never
 * changes. A job's terms are what JOB_ADD asked for, and stay as they are until the job ends.
 * Owners: jobs_come.c makes and frees jobs, and fills in terms and shape; residents_place fills in the chunks of the
 * shape. quota, sources and tasks own the parts of the job that have their names. jobs owns progress, and of each rank
 * client, epoch and next. */
#ifndef LARDER_SERVER_ENGINE_JOB_H
#define LARDER_SERVER_ENGINE_JOB_H

#include "sampler/sampler.h"
#include "server/engine/env.h"
#include "server/engine/line.h"
#include "server/engine/outbox.h"
#include "server/engine/part.h"

struct job_queue;
struct look_ahead;
struct resume;

/* The two kinds of work that a task can wait for. */
enum task_kind { TASK_LOADS, TASK_PREPARES };
#define TASK_KINDS 2

/* A job's tasks that wait for one kind of work, and its virtual time for that kind (weighted fair queueing). */
struct task_list {
    struct line tasks;
    /* The job's virtual time. Among jobs with work, the one with the lowest goes first. */
    double turn;
};

enum job_state { JOB_FREE, JOB_IDLE, JOB_RUNNING, JOB_FAILED };

/* The request of JOB_ADD, fixed for the life of the job. */
struct job_terms {
    char name[ENGINE_NAME_MAX];
    uint64_t client; /* the client of the rank that made the job */
    uint32_t serial; /* No other job that comes has it. It names the job in instance.made_for. */
    const void *dataset;
    struct idset *view;              /* The ids that the job trains on. The job owns it. */
    const struct multiset *multiset; /* how often each comes in an epoch, borrowed; NULL: once */
    uint32_t world_size;
    struct engine_part part;
    struct engine_homes homes;
    uint64_t family;
    enum shuffle_mode shuffle;
    uint64_t seed;
    bool ordered; /* Batches keep the planned order. */
    uint32_t pipeline;
    const void *program;
    /* Bytes of one prepared instance. For raw samples: the mean over the largest two batches. For others that are
     * sized: what the longest may take. */
    uint64_t slot_bytes;
    bool raw;           /* Its instances are the encoded bytes of their samples, and as long. */
    bool sized;         /* Its instances differ in length: raw ones, and those that are cut off once they are made. */
    bool needs_encoded; /* Its instances cannot be made of decoded forms. */
    bool repeatable;    /* It may get an instance again, once in each epoch. */
    uint32_t batch_size, epochs;
    uint32_t prefetch, hold;
    bool drop_last;
    enum bad_policy bad_policy;
    bool bad_unlimited, own_labels;
    /* The shuffle is `dependent` and the samples lie in chunks, so the job's picks may be redirected. */
    bool redirected;
    uint64_t variant;
    double weight;
};

/* Values that follow from the terms and the dataset. */
struct job_shape {
    uint64_t view_samples;
    /* Samples of an epoch: all of the view, a part's share of it, or the draws of a multiset or of a
     * part's share of it. */
    uint64_t epoch_samples;
    /* For a part: samples that its ranks together get in an epoch. All ranks of the job get equally many, so repeats
     * are included. */
    uint64_t part_samples;
    /* The mean length of the encoded bytes of its samples, taken from at most 256 of them; at least 1. */
    uint64_t mean_bytes;
    /* Mean number of the view's samples in a chunk that has any of them; 0 without chunks. */
    double chunk_samples;
    uint32_t chunk_base, chunk_count; /* numbers of its dataset's chunks; 0 without chunks */
    uint64_t batch_slots, row_bytes;  /* samples of a batch; arena bytes of one row */
};

/* The job's share of the arena, in rows. A row is one batch for each rank. Owner: quota. */
struct job_quota {
    /* Rows: what it keeps for good, the most that it may get, and what it asked for. */
    uint32_t ahead_min, ahead_max, ahead_asked;
    uint32_t ahead_now; /* rows that it has now */
    uint64_t slots;     /* Samples that each of its queues may hold: ahead_now × batch_slots. */
    uint64_t bytes;     /* Arena bytes of ahead_now rows. */
    uint32_t held_max;  /* batches that a client may hold: at most ahead_min */
    /* The need of each rank, by rank. The job owns the array. */
    struct look_ahead *needs;
};

/* The job's present epoch, and how far it is. */
struct job_progress {
    bool began;       /* some epoch has begun */
    uint32_t epoch;   /* The epoch that it is in, or was in last; valid while `began`. */
    uint64_t variant; /* the variant of this epoch's instances; 0: those of every job with its pipeline */
    /* The samples that this epoch deals to the ranks here: shape.epoch_samples, less the base that the epoch is begun
     * from; for a part those with repeats, as shape.part_samples, and those that all ranks of the job get. */
    uint64_t samples, part_samples, draws;
    /* For a multiset: the ids of which the ranks here get some draw of this epoch; if they get none, those that the
     * epoch has. The job owns it. */
    struct idset *support;
    struct idset *away; /* For a dependent part: the view less this epoch's share and base. The job owns it. */
    /* For a job with homes: samples of the view that have their homes here; NULL: no epoch has begun. The job owns
     * it. */
    struct idset *here;
    /* For a job with homes whose copies are dealt together: the samples of which all copies are dealt, as often as they
     * come, while other nodes have yet to give all of them. The job owns it. */
    struct bag *whole;
    /* Batches of each rank in that base, and its key. When the epoch was begun whole: 0, and the key is not valid. */
    uint32_t base_batches;
    uint64_t base_key;
    /* Samples of each rank beyond its last whole batch when the epoch was resumed: the ranks had batches of another
     * size, or bad samples. Under drop_last whole batches count from there. */
    uint64_t odd;
    uint64_t drawn; /* Picks of this epoch. In a fixed order this is the position of the next one that is dealt. */
    uint64_t lost;  /* bad samples that were not replaced */
    uint64_t lost_before;                          /* those lost before the epoch was begun here */
    struct idset *bad;                             /* bad samples, replaced or not */
    struct engine_bad first_bad[ENGINE_BAD_NAMED]; /* the first of them, as many as there are */
    uint64_t abandoned;                            /* samples left behind by ranks that went on */
    uint64_t repeats;                              /* repeats in all queues */
    /* The first world_size samples of a fixed order, for repeats, if there are several ranks and all are here; else
     * NULL. The job owns it. */
    sample_id *first;
};

/* The job's use of its source. Owner: sources. */
struct job_source {
    uint32_t at; /* the source's index in sources.all */
    bool waits;  /* The job has waited for its source since waits_since_ns. */
    uint64_t waits_since_ns;
};

/* The job's share of the work. Owner: tasks. */
struct job_turns {
    struct task_list lists[TASK_KINDS]; /* Its tasks that are TO_LOAD, and those that are TO_PREPARE. */
    double weight;                      /* the present weight */
    double effective_weight;            /* the weight that counts, among the running jobs; see tasks_turns.c */
    /* Mean seconds that a worker took for one output of this job; 0 when none was measured. */
    double cost_s;
    double pace_ns; /* The mean of the pace_ns of its ranks, of those that are known; 0 when none is known. */
    /* Instances that were made for it with other jobs' tasks, less its own tasks since; 0 … two batches. */
    uint32_t beside;
};

/* The job among its family (family.h): the next member, and the bit that stands for it in `had`. Owner: family. */
struct job_kin {
    uint32_t next, had;
};

/* The job's totals since it came. */
struct job_tallies {
    uint64_t came_ns;
    uint64_t samples_delivered, samples_shared, bad_samples;
    uint64_t instances_prepared; /* those that were begun for this job, and made */
};

/* One job. jobs_come.c makes and frees it. */
struct job {
    enum job_state state;
    uint32_t no; /* its number, by which everything else names it */
    struct job_terms terms;
    struct job_shape shape;
    struct job_quota quota;
    /* A zone has slots for its ahead_min rows. Until then only raw samples are planned for it; see prepared_zones.c. */
    bool zoned;
    uint32_t zone_slots; /* slots that a zone has for it: none, some while room is being made, or all */
    struct job_progress progress;
    struct job_source source;
    struct job_turns turns;
    struct job_tallies tallies;
    struct job_kin kin;
    /* What its ranks received of an epoch before the job was made. While it is not NULL the job is restoring: nothing
     * is drawn before all of its ranks are there. NULL once the epoch has begun. The job owns it. */
    struct resume *resume;
    uint32_t attached;        /* How many of its ranks have a client. */
    uint64_t empty_since_ns;  /* When the last client left; valid while attached is 0. */
    struct job_queue *queues; /* One for each rank, world_size of them. The job owns them. */
};

/* All jobs, by number. */
struct jobs {
    struct engine_env *env;
    struct job *all;   /* JOBS_MAX of them, allocated once. A job never moves. */
    uint32_t end;      /* jobs with this number or a higher one are FREE */
    uint32_t n_serial; /* serials that were given */
};

/* jobs_from returns the first job that is there, from the number `no` on; NULL when there is none. */
static inline struct job *jobs_from(const struct jobs *jobs, uint32_t no)
{
    while (no < jobs->end && jobs->all[no].state == JOB_FREE)
        no++;
    return no < jobs->end ? &jobs->all[no] : NULL;
}

/* jobs_first and jobs_after go over the jobs that are there, by number. They return NULL after the last. */
static inline struct job *jobs_first(const struct jobs *jobs)
{
    return jobs_from(jobs, 0);
}

static inline struct job *jobs_after(const struct jobs *jobs, const struct job *job)
{
    return jobs_from(jobs, job->no + 1);
}

/* job_at returns the job with this number, which may be FREE. */
static inline struct job *job_at(const struct jobs *jobs, uint32_t no)
{
    return &jobs->all[no];
}

/* job_epochs returns how many epochs the job may have. */
static inline uint32_t job_epochs(const struct job *job)
{
    return job->terms.epochs ? job->terms.epochs : ENGINE_EPOCHS_MAX;
}

/* job_free_place returns the lowest number that no job has, here or in `had`; JOBS_MAX when all are taken. */
uint32_t job_free_place(const struct jobs *jobs);
/* job_in_step tells whether the job has several ranks, here or at other nodes. They train in step, so they have equal
 * shares whatever happens. */
static inline bool job_in_step(const struct job *job)
{
    return job->terms.world_size > 1 || job->terms.part.world_size > 0;
}

/* job_is_together tells whether the copies of a sample are dealt together. */
static inline bool job_is_together(const struct job *job)
{
    return job->terms.multiset && multiset_is_together(job->terms.multiset);
}

/* job_all_ranks returns the number of the job's ranks, those at other nodes included. */
static inline uint32_t job_all_ranks(const struct job *job)
{
    return job->terms.part.world_size ? job->terms.part.world_size : job->terms.world_size;
}

/* job_begun_bytes returns the bytes with which an instance of the sample is begun for a job. Where another node's
 * sample is expected, any of the job's may come. */
uint64_t job_begun_bytes(const struct engine_config *config, const struct job_terms *terms, sample_id id,
                         bool expected);

/* job_drawn returns the samples that this engine draws for the job in most epochs: its view, less what has homes
 * elsewhere, or what is dealt there. */
static inline const struct idset *job_drawn(const struct job *job)
{
    const struct idset *home = job->terms.part.home;
    return home ? home : job->progress.here ? job->progress.here : job->terms.view;
}

/* job_left_elsewhere returns how many samples of the epoch are elsewhere and not planned; job_left how many are to be
 * planned in all, those here included. */
static inline uint64_t job_left_elsewhere(const struct engine_env *env, const struct job *job)
{
    return job->terms.homes.elsewhere ? sampler_remaining(env->elsewhere, job->no) : 0;
}

static inline uint64_t job_left(const struct engine_env *env, const struct job *job)
{
    return sampler_remaining(env->sampler, job->no) + job_left_elsewhere(env, job);
}

/* job_find_name returns the job with this name; NULL when there is none. */
struct job *job_find_name(const struct jobs *jobs, const char *name);
/* job_find_serial returns the job with this serial; NULL when it has gone. */
struct job *job_find_serial(const struct jobs *jobs, uint32_t serial);
/* job_asked_weight returns what the description asks for, with its 0 read as 1. */
double job_asked_weight(const struct engine_job_desc *desc);
/* job_well_formed tells whether all arguments of the description are in their ranges. It does not look at the view. */
bool job_well_formed(const struct engine_job_desc *desc);
/* job_batch_slots returns the samples of a batch: batch_size, or a rank's share of the view when that is less. */
uint64_t job_batch_slots(const struct engine_job_desc *desc);
/* job_mean_slot returns the arena bytes that a sample of a batch is promised, on the mean. */
uint64_t job_mean_slot(const struct engine_config *config, const struct engine_job_desc *desc);
/* job_terms_differ returns the name of a setting in which the description differs from the job; NULL when there is
 * none. */
const char *job_terms_differ(const struct job *job, const struct engine_job_desc *desc);
/* job_mean_bytes returns the mean length of the encoded bytes of the view's samples, taken from at most 256 of them; at
 * least 1. */
uint64_t job_mean_bytes(const struct jobs *jobs, const struct engine_job_desc *desc);
/* job_act adds an action about the job. It is for the client of the rank that made the job; the caller may change
 * that. */
struct engine_action *job_act(struct outbox *outbox, enum engine_action_type type, const struct job *job);

#endif
