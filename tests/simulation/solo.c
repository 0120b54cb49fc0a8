/* solo.c: the smallest world an engine can live in: every action is answered at once, in order. */
#include "tests/simulation/solo.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"

#define SOLO_SLOT_BYTES 64
#define SOLO_BATCH 16
#define SOLO_ARENA_BYTES (UINT64_C(1) << 20)
#define SOLO_INFLIGHT 8
#define SOLO_EVENTS_MAX 256 /* answers that wait: loads, prepares, a NEXT and a RELEASE */

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    return scenario_bytes(dataset, id);
}

static struct engine *start(uint64_t arena_bytes, uint64_t slot_least)
{
    struct engine_config config = {
        .seed = 1,
        .arena_bytes = arena_bytes,
        .slot_least = slot_least,
        .encoded_bytes = UINT64_C(1) << 40,
        .inflight_loads = SOLO_INFLIGHT,
        .inflight_prepares = SOLO_INFLIGHT,
        .sample_bytes = sample_bytes,
    };
    struct engine *engine;
    struct error err;
    CHECK(engine_create(&config, &engine, &err) == 0);
    return engine;
}

/* add gives JOB_ADDED's or JOB_REFUSED's action: the engine's, valid until the next step. */
static const struct engine_action *add(struct engine *engine, const struct engine_job_desc *desc)
{
    struct engine_event event = {.type = ENGINE_JOB_ADD, .job_add = desc};
    const struct engine_action *actions;
    size_t count = engine_step(engine, 0, &event, &actions);
    for (size_t i = 0; i < count; i++)
        if (actions[i].type == ENGINE_JOB_ADDED || actions[i].type == ENGINE_JOB_REFUSED)
            return &actions[i];
    CHECK(!"JOB_ADD must be answered");
    return NULL;
}

uint64_t solo_quota(const struct scenario *sc, const struct client_plan *plan)
{
    struct scenario_job job;
    scenario_job_make(sc, plan, 0, 0, &job);
    uint64_t slots = ((uint64_t)plan->prefetch + 4) * 4 * (plan->batch_size + 1) * (plan->world_size + 1);
    struct engine *engine = start(slots * (job.desc.slot_bytes + SCENARIO_SLOT_LEAST_MAX), sc->config.slot_least);
    const struct engine_action *answer = add(engine, &job.desc);
    uint64_t quota = answer->type == ENGINE_JOB_ADDED ? answer->job_added.quota_bytes : 0;
    engine_destroy(engine);
    scenario_job_free(&job);
    return quota;
}

struct solo {
    struct engine *engine;
    uint32_t job;
    struct engine_event events[SOLO_EVENTS_MAX];
    size_t first, end; /* counts: places are these modulo SOLO_EVENTS_MAX */
    sample_id *order;
    uint32_t n_order, n_view;
    bool over;
};

static void later(struct solo *solo, struct engine_event event)
{
    CHECK(solo->end - solo->first < SOLO_EVENTS_MAX);
    solo->events[solo->end++ % SOLO_EVENTS_MAX] = event;
}

static void answer(struct solo *solo, const struct engine_action *action, uint32_t epoch)
{
    static char encoded; /* nobody looks into it */
    switch (action->type) {
    case ENGINE_LOAD:
        later(solo, (struct engine_event){
                        .type = ENGINE_LOADED,
                        .loaded = {.id = action->load.id, .encoded = &encoded, .bytes = action->load.bytes},
                    });
        break;
    case ENGINE_PREPARE:
        later(solo, (struct engine_event){.type = ENGINE_PREPARED, .prepared = {.task = action->prepare.task}});
        break;
    case ENGINE_DELIVER:
        CHECK(solo->n_order + action->deliver.count <= solo->n_view);
        for (uint32_t i = 0; i < action->deliver.count; i++)
            solo->order[solo->n_order++] = action->deliver.entries[i].id;
        solo->over = action->deliver.last;
        later(solo, (struct engine_event){.type = ENGINE_RELEASE,
                                          .release = {.job = solo->job, .batch = action->deliver.batch}});
        later(solo,
              (struct engine_event){.type = ENGINE_NEXT, .next = {.job = solo->job, .epoch = epoch, .credits = 1}});
        break;
    default:
        break;
    }
}

sample_id *solo_order(const struct scenario *sc, const struct client_plan *plan, uint32_t epoch)
{
    struct scenario_job job;
    struct solo solo = {.engine = start(SOLO_ARENA_BYTES, 0), .n_view = plan->n_view};
    solo.order = xcalloc(plan->n_view, sizeof *solo.order);
    scenario_job_make(sc, plan, 0, 0, &job);
    job.desc.slot_bytes = SOLO_SLOT_BYTES;
    job.desc.by_size = false;
    job.desc.batch_size = SOLO_BATCH;
    job.desc.prefetch = 1;
    job.desc.epochs = 0;
    job.desc.drop_last = false;
    job.desc.world_size = 1;
    job.desc.rank = 0;
    const struct engine_action *added = add(solo.engine, &job.desc);
    CHECK(added->type == ENGINE_JOB_ADDED);
    solo.job = added->job;
    later(&solo, (struct engine_event){.type = ENGINE_NEXT, .next = {.job = solo.job, .epoch = epoch, .credits = 1}});
    while (!solo.over) {
        CHECK(solo.first < solo.end);
        struct engine_event event = solo.events[solo.first++ % SOLO_EVENTS_MAX];
        const struct engine_action *actions;
        size_t count = engine_step(solo.engine, 0, &event, &actions);
        for (size_t i = 0; i < count && !solo.over; i++)
            answer(&solo, &actions[i], epoch);
    }
    CHECK(solo.n_order == plan->n_view);
    engine_destroy(solo.engine);
    scenario_job_free(&job);
    return solo.order;
}
