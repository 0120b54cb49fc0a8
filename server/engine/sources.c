/* sources.c: sources that do not answer.
 *
 * A source is what the samples of one dataset are read from. A load may fail for no fault of its sample: the root or a folder is
 * away, the system says EIO, ESTALE, EACCES, there is no memory. Then the source is away, for all its jobs:
 *
 *   answers ── a load fails so ──▶ away: nothing is read ── pause over ──▶ one sample is read ── it comes, or is bad ──▶ answers
 *                                   ▲ pause, twice as long each time ──────────── fails so ──┘
 *
 * - What was to be loaded goes back to the front of its job's line and holds nothing meanwhile: no memory, no place among the
 *   loads in flight, no thread. Who has the sample from a source that answers has it from there.
 * - A load that nobody waits for is not tried again.
 * - What counts is loads that began after the last failure: what was read before tells nothing.
 * - A job that has waited for its source for source_wait_ns fails.
 * - The fault may be one sample's alone (a bad sector, a file that may not be read): what is read to see whether the source
 *   answers is another sample. One that has failed ENGINE_SOURCE_TRIES times, each after the source had answered for others, is
 *   bad. */
#include "server/engine/sources.h"

struct data_source *sources_find_source(struct engine *engine, const void *dataset)
{
    for (uint32_t i = 0; i < JOBS_MAX; i++) {
        if (engine->sources.all[i].users && engine->sources.all[i].dataset == dataset)
            return &engine->sources.all[i];
    }
    return NULL;
}

void sources_join(struct engine *engine, struct job *job)
{
    struct data_source *source = sources_find_source(engine, job->terms.dataset);
    for (uint32_t i = 0; !source; i++) {
        CHECK(i < JOBS_MAX); /* there are no more sources than jobs */
        if (engine->sources.all[i].users == 0)
            source = &engine->sources.all[i];
    }
    if (source->users++ == 0)
        *source = (struct data_source){
            .dataset = job->terms.dataset, .users = 1, .failed = engine->sources.rounds, .probe = SAMPLE_NONE};
    job->source.at = (uint32_t)(source - engine->sources.all);
}

void sources_leave(struct engine *engine, struct job *job)
{
    struct data_source *source = &engine->sources.all[job->source.at];
    CHECK(source->users > 0);
    if (--source->users > 0)
        return;
    engine->sources.n_away -= source->away;
    *source = (struct data_source){.probe = SAMPLE_NONE};
}

void sources_load(struct engine *engine, uint32_t job, uint32_t encoded)
{
    engine->encoded.encodeds[encoded].dataset = engine->jobs.all[job].terms.dataset;
    engine->encoded.encodeds[encoded].round = engine->sources.rounds;
}

bool sources_waits(const struct engine *engine, uint32_t job)
{
    return engine->jobs.all[job].state == JOB_RUNNING && sources_away(engine, job) &&
           engine->jobs.all[job].turns.lists[TASK_LOADS].tasks.head != ENGINE_NONE;
}
