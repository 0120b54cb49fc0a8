/* sources.h: what datasets are read from, and whether it answers. sources.c has the rules.
 *
 * Invariant: a dataset that some job reads from has exactly one source, and `users` counts its jobs. While a source is
 * away no load of it begins but the one of its probe, and no task waits for it that another job could have loaded from
 * a source that answers. n_away counts the sources that are away.
 * Owner: sources.c (joining and leaving) and tasks_sources.c (what answers tell), tasks_probe.c
 * (probe and until_ns). */
#ifndef LARDER_SERVER_ENGINE_SOURCES_H
#define LARDER_SERVER_ENGINE_SOURCES_H

#include "server/engine/job.h"

/* What one dataset's samples are read from; see sources.c. */
struct data_source {
    const void *dataset;
    uint32_t users;  /* Jobs that read from it; 0: the place is free. */
    uint32_t failed; /* The value of sources.rounds at its last failure. */
    /* The greatest value of sources.rounds at the begin of a load that it answered. */
    uint32_t answered;
    bool away, told; /* it did not answer when it was asked last; and that was said */
    /* The sample that is being read to see whether it answers; SAMPLE_NONE: none is. */
    sample_id probe;
    uint64_t since_ns, pause_ns, until_ns; /* of being away: nothing is read before the last */
    uint64_t retries;                      /* Loads that it did not answer since since_ns. */
};

/* What datasets are read from, by job->source. Owners: sources.c, tasks_sources.c. */
struct sources {
    struct jobs *jobs;
    struct data_source all[JOBS_MAX];
    /* How many loads failed for their source: it tells which load began after which failure. */
    uint32_t rounds;
    uint32_t n_away, n_waiting; /* sources that are; jobs whose source_waits is set */
};

static inline bool sources_away(const struct sources *sources, uint32_t job)
{
    return sources->all[job_at(sources->jobs, job)->source.at].away;
}

struct data_source *sources_find_source(struct sources *sources, const void *dataset);
void sources_join(struct sources *sources, struct job *job);
void sources_leave(struct sources *sources, struct job *job);
bool sources_waits(const struct sources *sources, uint32_t job);

#endif
