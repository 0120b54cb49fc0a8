/* sources.h: what datasets are read from, and whether it answers. Owners: sources.c, tasks_sources.c and tasks_probe.c. */
#ifndef LARDER_SERVER_ENGINE_SOURCES_H
#define LARDER_SERVER_ENGINE_SOURCES_H

#include "server/engine/job.h"

#define ENGINE_SOURCE_PAUSE_NS UINT64_C(50000000) /* before a source that did not answer is asked again; then twice as long */
#define ENGINE_SOURCE_PAUSE_MAX_NS UINT64_C(2000000000)
#define ENGINE_SOURCE_TRIES 3 /* of a sample, each after its source has answered for another: then it is bad */

/* What one dataset's samples are read from; see sources.c. */
struct data_source {
    const void *dataset;
    uint32_t users;   /* jobs; 0: the place is free */
    uint32_t failed;   /* sources.rounds at its last failure, and at the begin of the load that it answered last */
    uint32_t answered;
    bool away, told;  /* it did not answer when it was asked last; and that was said */
    sample_id probe;  /* being read to see whether it answers; SAMPLE_NONE: none */
    uint64_t since_ns, pause_ns, until_ns; /* of being away: nothing is read before the last */
    uint64_t retries; /* loads that it did not answer since then */
};

/* What datasets are read from, by job->source. Owners: sources.c, tasks_sources.c. */
struct sources {
    struct engine_env *env;
    struct jobs *jobs;
    struct data_source all[JOBS_MAX];
    uint32_t rounds; /* loads that failed for their source: tells what was begun after what */
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
