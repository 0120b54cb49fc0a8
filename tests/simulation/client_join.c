/* client_join.c: a registration, and what the engine is told to forget or to place before it. */
#include <stdlib.h>

#include "common/check.h"
#include "tests/play/inside.h"
#include "tests/simulation/world_priv.h"

enum { PIECES = 4 }; /* that samples are placed in at the most */

/* The number by which the engine knows the pipeline; else the lowest unused one, taken from what it meant before. */
uint32_t client_pipeline_number(struct world *world, uint32_t pipeline)
{
    uint32_t idle = ENGINE_PIPELINES_MAX;
    for (uint32_t number = ENGINE_PIPELINES_MAX; number-- > 0;) {
        if (world->number_pipeline[number] == pipeline + 1)
            return number;
        if (world->number_users[number] == 0)
            idle = number;
    }
    CHECK(idle < ENGINE_PIPELINES_MAX);
    if (world->number_pipeline[idle])
        world_event(world, &(struct engine_event){.type = ENGINE_PIPELINE_GONE, .pipeline_gone = {.pipeline = idle}},
                    NULL);
    world->number_pipeline[idle] = pipeline + 1;
    return idle;
}

static void forget(struct world *world, uint32_t dataset)
{
    uint64_t key[ENGINE_CHUNK_KEY];
    scenario_chunk_key(dataset, key);
    world_say(world, "chunks of dataset %u are forgotten", dataset);
    inside_forget_chunks(world->engine, key);
}

/* Now and then the chunks of a dataset are forgotten, or of all: whoever runs. Between steps. */
static void forget_chunks(struct world *world)
{
    const struct scenario *sc = world->scenario;
    uint32_t first = (uint32_t)random_below(&world->forget_rng, sc->n_datasets);
    if (random_below(&world->forget_rng, 100) >= sc->forget_percent)
        return;
    if (random_below(&world->forget_rng, 2)) {
        forget(world, first);
        return;
    }
    for (uint32_t i = 0; i < sc->n_datasets; i++)
        forget(world, i);
}

/* Some of the samples that no job's dataset has, the one's that is about to come included: as where its samples are
 * given ids that others had. */
static void forget_samples(struct world *world)
{
    const struct scenario *sc = world->scenario;
    if (!sc->forget_percent || random_below(&world->forget_rng, 100) >= sc->forget_percent)
        return;
    sample_id *ids = xcalloc(sc->n_samples, sizeof *ids);
    bool *used = xcalloc(sc->n_samples, sizeof *used);
    uint32_t count = 0, kept = 0, percent = (uint32_t)random_below(&world->forget_rng, 100) + 1;
    for (uint32_t i = 0; i < sc->n_datasets; i++) {
        for (uint32_t at = 0; sc->datasets[i].users && at < sc->datasets[i].n_ids; at++)
            used[sc->datasets[i].ids[at]] = true;
    }
    for (uint32_t id = 0; id < sc->n_samples; id++) {
        if (!used[id] && random_below(&world->forget_rng, 100) < percent)
            ids[count++] = id;
    }
    if (count > 0) {
        kept = count;
        world_event(world,
                    &(struct engine_event){.type = ENGINE_SAMPLES_GONE,
                                           .samples_gone = {.ids = ids, .count = count, .kept = &kept}},
                    NULL);
        world_flush(world);
        world_say(world, "      %u of them are kept", kept);
        model_forgotten(world->model, ids + kept, count - kept);
    }
    free(ids);
    free(used);
}

/* Before one registration in four, some of the samples that the job comes with get their places. `placings` is lent
 * until the next flush. */
static void place_samples(struct world *world, const struct client_plan *plan, const struct engine_chunks *chunks,
                          struct engine_placing placings[PIECES])
{
    if (!chunks->places || random_below(&world->place_rng, 4))
        return;
    for (uint32_t piece = 0, from = 0, n; piece < PIECES && from < plan->n_view; piece++, from += n) {
        n = 1 + (uint32_t)random_below(&world->place_rng, plan->n_view - from);
        placings[piece] = (struct engine_placing){.ids = plan->view + from, .count = n, .chunks = *chunks};
        placings[piece].chunks.places += from;
        if (random_below(&world->place_rng, 2))
            world_event(world, &(struct engine_event){.type = ENGINE_PLACE, .place = &placings[piece]}, NULL);
        if (random_below(&world->place_rng, 4) == 0)
            world_flush(world);
    }
}

void client_join(struct world *world, struct client *client)
{
    client->state = CLIENT_JOINING;
    client->tries++;
    struct scenario_job job;
    struct engine_placing placings[PIECES];
    uint32_t number = client_pipeline_number(world, client->plan->pipeline);
    scenario_job_make(world->scenario, client->plan, number, client_number(world, client), &job);
    struct state state = {0};
    struct state_resume *resume = NULL;
    if (client_has_state(world, client)) {
        resume = xcalloc(1, sizeof *resume);
        client_state(world, client, &state);
        if (world->sabotage && client->placed)
            sabotage_record(world->sabotage, world->scenario, client->plan, &state);
        state_resume_make(world->scenario, client->plan, &state.record, client->placed, resume);
        job.desc.resume = &resume->desc;
    }
    world_flush(world);
    forget_chunks(world);
    forget_samples(world);
    place_samples(world, client->plan, &job.desc.chunks, placings);
    world_event(world, &(struct engine_event){.type = ENGINE_JOB_ADD, .job_add = &job.desc}, client->plan);
    world_flush(world); /* the description is lent for the step */
    scenario_job_free(&job);
    if (resume)
        state_resume_free(resume);
    free(resume);
    state_free(&state);
}
