/* sources.c: sources that do not answer.
 *
 * A source is what the samples of one dataset are read from. A load may fail through no fault of its sample: the root
 * or a folder is away, the system says EIO, ESTALE or EACCES, or there is no memory. Then the source is away for all
 * its jobs:
 *
 *   answers ── a load fails so ──▶ away: nothing is read ── pause ──▶ one is read ── it comes, or is bad ──▶ answers
 *                                   ▲ pause, twice as long each time ───────── fails so ──┘
 *
 * - A load goes back to the front of its job's list. While it waits it holds nothing: no memory, no place among the
 *   loads in flight, no thread. A job that has the sample in a source that answers gets it from there.
 * - A load that nobody waits for is not tried again.
 * - Only loads that began after the last failure count: an earlier read tells nothing.
 * - A job that has waited for its source for source_wait_ns fails.
 * - The fault may be one sample's alone (a bad sector, a file that may not be read). So another sample is read to see
 *   whether the source answers. A sample is bad when it has failed SOURCE_TRIES times, each time after the source had
 *   answered for others. */
#include "server/engine/sources.h"
#include "common/check.h"

struct data_source *sources_find_source(struct sources *sources, const void *dataset)
{
    for (uint32_t i = 0; i < JOBS_MAX; i++) {
        if (sources->all[i].users && sources->all[i].dataset == dataset)
            return &sources->all[i];
    }
    return NULL;
}

void sources_join(struct sources *sources, struct job *job)
{
    struct data_source *source = sources_find_source(sources, job->terms.dataset);
    for (uint32_t i = 0; !source; i++) {
        CHECK(i < JOBS_MAX); /* there are no more sources than jobs */
        if (sources->all[i].users == 0)
            source = &sources->all[i];
    }
    if (source->users++ == 0)
        *source = (struct data_source){
            .dataset = job->terms.dataset, .users = 1, .failed = sources->rounds, .probe = SAMPLE_NONE};
    job->source.at = (uint32_t)(source - sources->all);
}

void sources_leave(struct sources *sources, struct job *job)
{
    struct data_source *source = &sources->all[job->source.at];
    CHECK(source->users > 0);
    if (--source->users > 0)
        return;
    sources->n_away -= source->away;
    *source = (struct data_source){.probe = SAMPLE_NONE};
}

bool sources_waits(const struct sources *sources, uint32_t job)
{
    return job_at(sources->jobs, job)->state == JOB_RUNNING && sources_away(sources, job) &&
           job_at(sources->jobs, job)->turns.lists[TASK_LOADS].tasks.head != ENGINE_NONE;
}
