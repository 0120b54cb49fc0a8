/* tasks_probe.c: a sample is read to see whether its source answers again. */
#include "server/engine/encoded.h"
#include "server/engine/sources.h"
#include "server/engine/tasks.h"

enum { PROBE_DRAWS = 64 }; /* samples that are looked at for one to be read */

/* May the sample be read to see whether the source answers? `fresh`: only one that has not failed itself. What lies in memory
 * unused is read anew. */
static bool may_probe(struct engine *engine, const struct job *job, sample_id id, bool fresh)
{
    const struct sample_state *sample = &engine->samples.all[id];
    uint64_t bytes = engine->config.sample_bytes(job->terms.dataset, id);
    if (bytes == ENGINE_NOT_THERE || bytes > engine->config.encoded_bytes || (fresh && sample->failed))
        return false;
    if (sample->encoded == ENGINE_NONE)
        return true;
    if (engine->encoded.encodeds[sample->encoded].state != ENCODED_READY || residency_pins(engine->encoded.residency, sample->encoded) > 0)
        return false;
    encoded_free(engine, sample->encoded, true);
    return true;
}

/* Any sample of the job's view, best one that has not failed; SAMPLE_NONE: all that were drawn are in use. */
static sample_id draw_probe(struct engine *engine, const struct job *job)
{
    for (int fresh = 1; fresh >= 0; fresh--) {
        for (int draws = 0; draws < PROBE_DRAWS; draws++) {
            sample_id id;
            CHECK(idset_select(job->terms.view, random_below(&engine->rng, job->shape.view_samples), &id));
            if (may_probe(engine, job, id, fresh))
                return id;
        }
    }
    return SAMPLE_NONE;
}

/* When there is no room for it now it is asked later. */
static void ask(struct engine *engine, struct data_source *source, uint32_t job)
{
    source->until_ns = engine->now_ns + source->pause_ns;
    if (engine->encoded.loading == engine->config.inflight_loads)
        return;
    sample_id id = draw_probe(engine, &engine->jobs.all[job]);
    if (id == SAMPLE_NONE || !tasks_load(engine, job, id, engine->config.sample_bytes(engine->jobs.all[job].terms.dataset, id)))
        return;
    engine->totals.reads++;
    source->probe = id;
}

void tasks_probe(struct engine *engine)
{
    if (engine->sources.n_away == 0)
        return;
    for (uint32_t job = 0; job < engine->jobs.end; job++) {
        struct data_source *source = &engine->sources.all[engine->jobs.all[job].source.at];
        if (sources_waits(engine, job) && source->probe == SAMPLE_NONE && engine->now_ns >= source->until_ns)
            ask(engine, source, job);
    }
}
