/* sources.h: what datasets are read from, and whether it answers. sources.c has the rules.
 *
 * Invariant: a dataset that some job reads from has exactly one source, and `users` counts its jobs. While a source is
 * away, only the load of its probe begins. No task waits for it that another job could have loaded from a source that
 * answers. n_away counts the sources that are away.
 * Owners: sources.c (joining and leaving), tasks_sources.c (what answers tell), tasks_probe.c (probe and until_ns). */
#ifndef LARDER_SERVER_ENGINE_SOURCES_H
#define LARDER_SERVER_ENGINE_SOURCES_H

#include "server/engine/job.h"

/* The source of one dataset; see sources.c. */
struct data_source {
    const void *dataset;
    uint32_t users;  /* number of jobs that read from it; 0: the place is free */
    uint32_t failed; /* the value of sources.rounds at its last failure */
    /* The greatest value of sources.rounds at the beginning of a load that it answered. */
    uint32_t answered;
    bool away, told; /* away: it did not answer when it was asked last. told: an action has said so. */
    /* The sample that is being read to see whether the source answers; SAMPLE_NONE when none is. */
    sample_id probe;
    /* While it is away: since when, the present pause, and the time before which nothing is read from it. */
    uint64_t since_ns, pause_ns, until_ns;
    uint64_t retries; /* loads that it did not answer since since_ns */
};

/* All sources, indexed by job.source.at. Owners: sources.c, tasks_sources.c, tasks_probe.c; jobs_watch.c owns
 * n_waiting. */
struct sources {
    struct jobs *jobs;
    struct data_source all[JOBS_MAX];
    /* How many loads failed because of their source. It tells which load began after which failure. */
    uint32_t rounds;
    uint32_t n_away, n_waiting; /* sources that are away; jobs whose source.waits is set */
};

/* sources_away tells whether the job's source is away. */
static inline bool sources_away(const struct sources *sources, uint32_t job)
{
    return sources->all[job_at(sources->jobs, job)->source.at].away;
}

/* sources_find_source returns the source of the dataset; NULL when no job reads from it. */
struct data_source *sources_find_source(struct sources *sources, const void *dataset);
/* sources_join gives the job the source of its dataset, a new one if there is none. sources_leave takes it away
 * again. */
void sources_join(struct sources *sources, struct job *job);
void sources_leave(struct sources *sources, struct job *job);
/* sources_waits tells whether the job is running and has tasks to load from a source that is away. */
bool sources_waits(const struct sources *sources, uint32_t job);

#endif
