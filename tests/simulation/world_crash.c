/* world_crash.c: the daemon dies, and another one is there. */
#include <string.h>

#include "common/check.h"
#include "tests/simulation/world_priv.h"

#define KEY_ENGINE UINT64_C(0xe491e5)

int world_start_engine(struct world *world)
{
    const struct scenario *sc = world->scenario;
    struct engine_config config = sc->config;
    struct error err;
    config.sample_bytes = world_sample_bytes;
    config.planes_bytes = sc->planes ? scenario_planes : NULL;
    config.planes_ctx = (void *)sc;
    config.made_bytes = scenario_most_bytes;
    if (world->restarts.crashes > 0)
        config.seed = random_mix64(sc->config.seed ^ (KEY_ENGINE + world->restarts.crashes));
    world->wake_ns = SCENARIO_NEVER;
    world->crash_step = SCENARIO_NEVER;
    if (world->restarts.crashes < sc->n_crashes)
        world->crash_step = world->steps + sc->crashes[world->restarts.crashes];
    else if (world->sabotage)
        sabotage_last_daemon(world->sabotage);
    if (world->sabotage)
        sabotage_config(world->sabotage, sc, &config);
    return engine_create(&config, &world->engine, &err);
}

/* What was on its way from the daemon, or to it. */
static bool dies_with_it(enum alarm_kind kind)
{
    switch (kind) {
    case ALARM_LOADED:
    case ALARM_PREPARED:
    case ALARM_WAKE:
    case ALARM_RESERVED:
    case ALARM_ADMITTED:
    case ALARM_ARRIVED:
    case ALARM_FAILED: return true;
    default: return false;
    }
}

static bool concerns(const struct world *world, const struct client *client, const struct alarm *alarm)
{
    bool of_client = alarm->kind == ALARM_ADMITTED || alarm->kind == ALARM_ARRIVED || alarm->kind == ALARM_FAILED;
    return client == NULL || (of_client && (uint32_t)alarm->a == client_number(world, client));
}

void world_drop_alarms(struct world *world, const struct client *client)
{
    struct agenda old = world->agenda;
    world->agenda = (struct agenda){.row_bytes = old.row_bytes};
    while (old.length > 0) {
        struct alarm alarm;
        agenda_take(&old, &alarm);
        if (!dies_with_it(alarm.kind) || !concerns(world, client, &alarm))
            agenda_put(&world->agenda, &alarm);
    }
    agenda_free(&old);
}

void world_add_counts(struct engine_counts *sum, const struct engine_counts *counts)
{
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)counts;
    _Static_assert(sizeof *sum % sizeof *to == 0, "all of them are 64-bit counts");
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] += from[i];
}

/* What the engine has not been told of is not its to give back. */
void world_end_engine(struct world *world)
{
    for (uint32_t i = 0; i < world->n_events; i++) {
        if (world->events[i].type == ENGINE_LOADED && world->events[i].loaded.encoded)
            model_drop_handle(world->events[i].loaded.encoded);
        if (world->events[i].type == ENGINE_PREPARED && world->events[i].prepared.decoded)
            model_drop_handle(world->events[i].prepared.decoded);
    }
    world->n_events = 0;
    engine_destroy(world->engine, model_drop_handle);
    if (!world->sabotage)
        model_ended(world->model);
}

void world_crash(struct world *world)
{
    struct engine_totals totals;
    world_say(world, "the daemon dies");
    engine_totals(world->engine, &totals);
    world_add_counts(&world->before, &totals.counts);
    world_end_engine(world);
    world->restarts.crashes++;
    world->read = UINT64_MAX;
    memset(world->number_pipeline, 0, sizeof world->number_pipeline);
    memset(world->number_users, 0, sizeof world->number_users);
    model_crash(world->model);
    runs_crash(world);
    world_drop_alarms(world, NULL);
    for (uint32_t i = 0; i < world->scenario->n_clients; i++)
        client_lose_daemon(world, &world->clients[i]);
    CHECK(world_start_engine(world) == 0);
}
