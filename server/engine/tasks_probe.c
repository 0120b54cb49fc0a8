/* tasks_probe.c: a sample is read to see whether its source answers again. */
#include "common/check.h"
#include "server/engine/encoded.h"
#include "server/engine/sources.h"
#include "server/engine/tasks.h"

enum { PROBE_DRAWS = 64 }; /* samples that are looked at to find one to read */

/* may_probe tells whether the sample may be read to see whether the source answers. With `fresh`, the sample must not
 * have failed itself. An encoded that lies in memory without pins is evicted, to be read anew. */
static bool may_probe(struct tasks *tasks, const struct job *job, sample_id id, bool fresh)
{
    uint32_t encoded = encoded_sample(tasks->encoded, id)->encoded;
    uint64_t bytes = tasks_load_bytes(tasks, job->terms.dataset, id);
    if (bytes == ENGINE_NOT_THERE || bytes > tasks->env->config.encoded_bytes ||
        (fresh && encoded_sample(tasks->encoded, id)->failed))
        return false;
    if (encoded == ENGINE_NONE)
        return true;
    if (tasks->encoded->encodeds[encoded].state != ENCODED_READY ||
        residency_pins(tasks->encoded->residency, encoded) > 0)
        return false;
    encoded_free(tasks->encoded, encoded, true);
    return true;
}

/* draw_probe returns any sample of the job's view, if possible one that has not failed; SAMPLE_NONE when all that were
 * drawn are in use. */
static sample_id draw_probe(struct tasks *tasks, const struct job *job)
{
    for (int fresh = 1; fresh >= 0; fresh--) {
        for (int draws = 0; draws < PROBE_DRAWS; draws++) {
            sample_id id;
            CHECK(idset_select(job->terms.view, random_below(&tasks->env->rng, job->shape.view_samples), &id));
            if (may_probe(tasks, job, id, fresh))
                return id;
        }
    }
    return SAMPLE_NONE;
}

/* ask begins a load of such a sample. When there is no room for it now, the source is asked after the next pause. */
static void ask(struct tasks *tasks, struct data_source *source, uint32_t job)
{
    source->until_ns = tasks->env->now_ns + source->pause_ns;
    if (tasks->encoded->loading == tasks->env->config.inflight_loads)
        return;
    sample_id id = draw_probe(tasks, job_at(tasks->jobs, job));
    if (id == SAMPLE_NONE ||
        !tasks_load(tasks, job, id, tasks_load_bytes(tasks, job_at(tasks->jobs, job)->terms.dataset, id)))
        return;
    tasks->env->counts.reads++;
    source->probe = id;
}

void tasks_probe(struct tasks *tasks)
{
    if (tasks->sources->n_away == 0)
        return;
    for (uint32_t job = 0; job < tasks->jobs->end; job++) {
        struct data_source *source = &tasks->sources->all[job_at(tasks->jobs, job)->source.at];
        if (sources_waits(tasks->sources, job) && source->probe == SAMPLE_NONE &&
            tasks->env->now_ns >= source->until_ns)
            ask(tasks, source, job);
    }
}
