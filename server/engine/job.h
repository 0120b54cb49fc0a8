/* job.h: the table of jobs, and what is asked of one job. Changes nothing.
 *
 * Invariant: a name belongs to one job at most; places at and past jobs.end are FREE; a job's number is its place and
 * never changes. A job's terms are what JOB_ADD asked for and stay as they are until the job ends.
 * Owners: jobs_come.c makes and frees jobs, and fills terms and shape (residents_place: the chunks of the shape);
 * quota, sources and tasks own the job's parts of their names; jobs owns progress, client, epoch and next of each
 * rank. */
#ifndef LARDER_SERVER_ENGINE_JOB_H
#define LARDER_SERVER_ENGINE_JOB_H

#include "sampler/sampler.h"
#include "server/engine/env.h"
#include "server/engine/line.h"
#include "server/engine/outbox.h"

struct job_queue;
struct look_ahead;

enum task_kind { TASK_LOADS, TASK_PREPARES };
#define TASK_KINDS 2

struct task_list {
    struct line tasks;
    /* The virtual time of the job's next turn. Of the jobs that have work the lowest goes first. */
    double turn;
};

enum job_state { JOB_FREE, JOB_IDLE, JOB_RUNNING, JOB_FAILED };

/* What JOB_ADD asked for: fixed for as long as the job is there. */
struct job_terms {
    char name[ENGINE_NAME_MAX];
    /* The client of the rank that made the job; it names the job in instance.made_for, also after it has gone. */
    uint64_t client;
    const void *dataset;
    struct idset *view; /* The ids that the job trains on. The job owns it. */
    uint32_t world_size;
    enum shuffle_mode shuffle;
    uint64_t seed;
    bool ordered; /* Batches keep the planned order. */
    uint32_t pipeline;
    /* Bytes of one prepared instance; of raw samples the mean of the largest two batches. */
    uint64_t slot_bytes;
    bool raw; /* Its samples are their encoded bytes, as long as these are. */
    uint32_t batch_size, epochs;
    uint32_t prefetch, hold;
    bool drop_last;
    enum bad_policy bad_policy;
    /* The shuffle is `dependent` and the samples lie in chunks: its picks may be redirected. */
    bool redirected;
    uint64_t variant;
    double weight;
};

/* What follows from the terms and the dataset. */
struct job_shape {
    uint64_t view_samples;
    /* The mean of the encoded bytes of its samples, told from at most 256 of them; at least 1. */
    uint64_t mean_bytes;
    double chunk_samples;             /* of the view in a chunk that has any, on the mean; 0 without chunks */
    uint32_t chunk_base, chunk_count; /* of its dataset; 0 without */
    bool ample; /* Memory holds so much of its view that a read may bring all of a chunk, as at w = 1. */
    uint64_t batch_slots, row_bytes; /* samples of a batch; arena bytes of a batch for each rank */
};

/* What the job may take of the arena. A row is one batch for each rank. Owner: quota. */
struct job_quota {
    uint32_t ahead_min, ahead_max, ahead_asked; /* rows: its own for good; that it may get; with all it asked for */
    uint32_t ahead_now;                         /* rows that it has */
    uint64_t slots;           /* Samples that each of its queues may hold: ahead_now × batch_slots. */
    uint64_t bytes;           /* Arena bytes of ahead_now rows. */
    uint32_t held_max;        /* batches that a client may hold: at most ahead_min */
    struct look_ahead *needs; /* by rank */
};

/* Where the job is in its epochs. */
struct job_progress {
    bool began;         /* some epoch has begun */
    uint32_t epoch;     /* The epoch it is in, or was in last; valid while `began`. */
    uint64_t variant;   /* of this epoch */
    uint64_t drawn;     /* Picks of this epoch: in a fixed order the position of the next one. */
    uint64_t lost;      /* bad samples that were not replaced */
    struct idset *bad;  /* bad samples, replaced or not: each counts once, however often it is planned */
    uint64_t abandoned; /* samples left behind by ranks that went on */
    uint64_t repeats;   /* of all queues */
    /* with several ranks and a fixed order: its first world_size samples, for repeats; else NULL */
    sample_id *first;
};

/* The job's use of its source. Owner: sources. */
struct job_source {
    uint32_t at; /* its place in sources.all */
    bool waits;  /* The job has waited for it since waits_since_ns. */
    uint64_t waits_since_ns;
};

/* The job's share of the work. Owner: tasks. */
struct job_turns {
    struct task_list lists[TASK_KINDS]; /* Its tasks that are TO_LOAD, and those that are TO_PREPARE. */
    double weight;                      /* as it is set now */
    double effective_weight;            /* among the running jobs; see tasks_turns.c */
    /* Mean seconds that a worker took for one output for this job; 0: none was measured. */
    double cost_s;
    double pace_ns; /* The mean of its ranks' pace_ns, of those that are known; 0: none is. */
};

struct job_tallies {
    uint64_t came_ns;
    uint64_t samples_delivered, samples_shared, bad_samples;
};

struct job {
    enum job_state state;
    uint32_t no; /* its number: its place among the jobs */
    struct job_terms terms;
    struct job_shape shape;
    struct job_quota quota;
    /* Its ahead_min rows are slots of a zone. Before that only raw samples are planned; see prepared_zones.c. */
    bool zoned;
    struct job_progress progress;
    struct job_source source;
    struct job_turns turns;
    struct job_tallies tallies;
    uint32_t attached;        /* How many ranks have a client. */
    uint64_t empty_since_ns;  /* When the last client left; valid while attached is 0. */
    struct job_queue *queues; /* One for each rank, world_size of them. The job owns them. */
};

/* Jobs by place. */
struct jobs {
    struct engine_env *env;
    struct job *all; /* JOBS_MAX places, made once. A job never moves. */
    uint32_t end;    /* places at and past it are free */
};

static inline struct job *jobs_from(const struct jobs *jobs, uint32_t no)
{
    while (no < jobs->end && jobs->all[no].state == JOB_FREE)
        no++;
    return no < jobs->end ? &jobs->all[no] : NULL;
}

/* The jobs that are there, by number; NULL after the last. */
static inline struct job *jobs_first(const struct jobs *jobs)
{
    return jobs_from(jobs, 0);
}

static inline struct job *jobs_after(const struct jobs *jobs, const struct job *job)
{
    return jobs_from(jobs, job->no + 1);
}

static inline struct job *job_at(const struct jobs *jobs, uint32_t no)
{
    return &jobs->all[no];
}

uint32_t job_free_place(const struct jobs *jobs);
struct job *job_find_name(const struct jobs *jobs, const char *name);
uint32_t job_world_size(const struct engine_job_desc *desc);
double job_asked_weight(const struct engine_job_desc *desc);
bool job_well_formed(const struct engine_job_desc *desc);
uint64_t job_batch_slots(const struct engine_job_desc *desc);
const char *job_terms_differ(const struct job *job, const struct engine_job_desc *desc);
/* of a sample of the view, encoded */
uint64_t job_mean_bytes(const struct jobs *jobs, const struct engine_job_desc *desc);
/* job_act adds an action about the job, to the client of its first rank. */
struct engine_action *job_act(struct outbox *outbox, enum engine_action_type type, const struct job *job);

#endif
