/* scenario_job.c: what JOB_ADD says of a plan. */
#include <stdlib.h>

#include "common/check.h"
#include "tests/simulation/scenario.h"

uint64_t scenario_planes(void *ctx, const void *dataset, sample_id id)
{
    (void)dataset;
    const struct scenario *sc = ctx;
    return id % 4 == 3 ? 0 : sc->samples[id].bytes * (7 + id % 6) / 9 + 1;
}

uint64_t scenario_load_bytes(const struct scenario *sc, sample_id id)
{
    uint64_t bytes = sc->samples[id].bytes, planes = sc->planes ? scenario_planes((void *)sc, NULL, id) : 0;
    return planes > bytes && planes <= sc->config.encoded_bytes ? planes : bytes;
}

uint64_t scenario_bytes(const struct scenario_dataset *dataset, sample_id id)
{
    bool there = id < dataset->scenario->n_samples && dataset->position[id] != SCENARIO_NOT_THERE;
    return there ? dataset->scenario->samples[id].bytes : ENGINE_NOT_THERE;
}

static int descending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

uint64_t scenario_mean_slot(const struct scenario *sc, const struct client_plan *plan)
{
    if (!(sc->sized >> plan->pipeline & 1) || plan->n_view == 0)
        return sc->slot_bytes[plan->pipeline];
    uint64_t longest = (uint64_t)plan->batch_size * plan->world_size, sum = 0;
    longest = longest && longest < plan->n_view ? longest : plan->n_view;
    uint64_t *sizes = malloc(plan->n_view * sizeof *sizes);
    CHECK(sizes);
    for (uint32_t i = 0; i < plan->n_view; i++)
        sizes[i] = scenario_begun_bytes(sc, plan->pipeline, plan->view[i]);
    qsort(sizes, plan->n_view, sizeof *sizes, descending);
    for (uint64_t i = 0; i < longest; i++)
        sum += engine_slot_bytes(&sc->config, sizes[i]);
    free(sizes);
    return (sum + longest - 1) / longest;
}

/* By the seed, which ranks of one job have in common. */
uint32_t scenario_hold(const struct client_plan *plan)
{
    return plan->seed % 5 < 3 ? 0 : 1 + (uint32_t)(plan->seed / 5 % 9);
}

void scenario_chunk_key(uint32_t dataset, uint64_t key[ENGINE_CHUNK_KEY])
{
    for (uint32_t i = 0; i < ENGINE_CHUNK_KEY; i++)
        key[i] = dataset + i;
}

void scenario_job_make(const struct scenario *sc, const struct client_plan *plan, uint32_t pipeline_number,
                       uint64_t client, struct scenario_job *job)
{
    const struct scenario_dataset *dataset = &sc->datasets[plan->dataset];
    *job = (struct scenario_job){.places = xcalloc(plan->n_view, sizeof *job->places)};
    CHECK(idset_from_sorted(plan->view, plan->n_view, &job->view) == 0);
    for (uint32_t i = 0; i < plan->n_view; i++) {
        uint32_t position = dataset->position[plan->view[i]];
        job->places[i] = (struct chunk_slot){.chunk = position / sc->chunk_samples,
                                             .slot = position % sc->chunk_samples};
    }
    job->desc = (struct engine_job_desc){
        .client = client,
        .name = plan->name,
        .dataset = dataset,
        .pipeline = pipeline_number,
        .program = &sc->slot_bytes[plan->pipeline],
        .slot_bytes = sc->slot_bytes[plan->pipeline],
        .mean_slot_bytes = scenario_mean_slot(sc, plan),
        .repeatable = sc->repeatable >> plan->pipeline & 1,
        .raw = plan->pipeline == sc->raw_pipeline,
        .sized = sc->sized >> plan->pipeline & 1,
        .batch_size = plan->batch_size,
        .prefetch = plan->prefetch,
        .hold = scenario_hold(plan),
        .epochs = plan->epochs,
        .drop_last = plan->drop_last,
        .bad_policy = plan->bad_policy,
        .sampled = {.shuffle = plan->shuffle,
                    .seed = plan->seed,
                    .view = job->view,
                    .multiset = plan->multiset,
                    .order = plan->shuffle == SHUFFLE_NONE ? plan->order : NULL},
        .rank = plan->rank,
        .world_size = plan->world_size,
        .weight = plan->weight,
        .ordered = plan->ordered,
        .variant = plan->variant,
    };
    if (!dataset->in_chunks)
        return;
    job->desc.chunks.places = job->places;
    scenario_chunk_key(plan->dataset, job->desc.chunks.key);
    job->desc.chunks.count = dataset->chunk_count;
    job->desc.chunks.samples = sc->chunk_samples;
}

void scenario_job_free(struct scenario_job *job)
{
    idset_destroy(job->view);
    free(job->places);
}
