/* solo.c: the smallest world an engine can live in: every action is answered at once, in order. */
#include "tests/simulation/solo.h"

#include <stdlib.h>

#include "common/check.h"
#include "server/plan/play.h"

#define SOLO_SLOT_BYTES 64
#define SOLO_BATCH 16
#define SOLO_ARENA_BYTES (UINT64_C(1) << 20)
#define SOLO_INFLIGHT 8

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    return scenario_bytes(dataset, id);
}

static void start(uint64_t arena_bytes, uint64_t slot_least, struct play *out)
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
    CHECK(play_create(config, out, NULL) == 0);
}

static bool see_quota(void *ctx, const struct engine_action *action)
{
    uint64_t *quota = ctx;
    if (action->type == ENGINE_JOB_ADDED)
        *quota = action->job_added.quota_bytes;
    return false;
}

uint64_t solo_quota(const struct scenario *sc, const struct client_plan *plan)
{
    struct scenario_job job;
    scenario_job_make(sc, plan, 0, 0, &job);
    uint64_t slots = ((uint64_t)plan->prefetch + 4) * 4 * (plan->batch_size + 1) * (plan->world_size + 1);
    uint64_t quota = 0;
    struct play play;
    start(slots * (job.desc.slot_bytes + SCENARIO_SLOT_LEAST_MAX), sc->config.slot_least, &play);
    play.see = see_quota;
    play.ctx = &quota;
    play_add(&play, &job.desc);
    play_end(&play);
    scenario_job_free(&job);
    return quota;
}

struct solo {
    sample_id *order;
    uint32_t n_order, n_view;
    bool over;
};

static bool see_order(void *ctx, const struct engine_action *action)
{
    struct solo *solo = ctx;
    if (action->type != ENGINE_DELIVER)
        return false;
    CHECK(solo->n_order + action->deliver.count <= solo->n_view);
    for (uint32_t i = 0; i < action->deliver.count; i++)
        solo->order[solo->n_order++] = action->deliver.entries[i].id;
    solo->over = action->deliver.last;
    return false;
}

sample_id *solo_order(const struct scenario *sc, const struct client_plan *plan, uint32_t epoch)
{
    struct scenario_job job;
    struct solo solo = {.order = xcalloc(plan->n_view, sizeof *solo.order), .n_view = plan->n_view};
    struct play play;
    scenario_job_make(sc, plan, 0, 0, &job);
    job.desc.slot_bytes = SOLO_SLOT_BYTES;
    job.desc.raw = job.desc.sized = false;
    job.desc.batch_size = SOLO_BATCH;
    job.desc.prefetch = 1;
    job.desc.epochs = 0;
    job.desc.drop_last = false;
    job.desc.world_size = 1;
    job.desc.rank = 0;
    start(SOLO_ARENA_BYTES, 0, &play);
    play.see = see_order;
    play.ctx = &solo;
    uint32_t number = play_add(&play, &job.desc);
    CHECK(number != UINT32_MAX);
    for (uint32_t before = 0; !solo.over; before = solo.n_order) {
        play_next(&play, number, 0, epoch, 1);
        CHECK(solo.over || solo.n_order > before);
    }
    CHECK(solo.n_order == plan->n_view);
    play_end(&play);
    scenario_job_free(&job);
    return solo.order;
}
