/* world.c: what is to happen, and the loop that takes the engine through it. */
#include "tests/simulation/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "tests/simulation/world_priv.h"

#define KEY_WORLD UINT64_C(0x3027d)
#define KEY_FORGETTING UINT64_C(0xf0c6e8)
#define KEY_PLACING UINT64_C(0x91ace5)
#define KEY_GROWING UINT64_C(0x940b49)
#define KEY_OUTPUTS UINT64_C(0x007b17)
#define KEY_RESTARTING UINT64_C(0x4e57a4)
#define CHECK_CREDIT_PER_STEP 600 /* of samples gone through by engine_check */
#define LULL_TICKS 2              /* the first may find out that a rank is missed, the second that it is for too long */
#define STEPS_FIRST 20000
#define STEPS_PER_SAMPLE 40 /* a run that takes more is going round in circles */

void world_alarm(struct world *world, uint64_t after_ns, enum alarm_kind kind, uint64_t a, uint64_t b, uint64_t c)
{
    struct alarm alarm = {.due.at_ns = world->now_ns + after_ns, .kind = kind, .a = a, .b = b, .c = c};
    agenda_put(&world->agenda, &alarm);
}

/* ── a step ── */

static bool broken(const struct world *world)
{
    const char *text;
    return model_broken(world->model, &text) != RULE_NONE;
}

/* The answer to a RESERVE: all of it, or a part. */
static void reserve(struct world *world, uint64_t bytes)
{
    uint64_t here = model_reserved(world->model), unit = world->scenario->config.reserve_bytes;
    bool refused = random_below(&world->growth_rng, 100) < world->scenario->refuse_percent && bytes > here;
    if (refused)
        bytes = here + random_below(&world->growth_rng, (bytes - here + unit - 1) / unit) * unit;
    world_alarm(world, latency_draw(&world->scenario->reserve, &world->growth_rng, 0), ALARM_RESERVED, bytes, refused,
                0);
}

/* Bits: outputs whose pipelines can make nothing of the sample. */
static uint64_t unfit_outputs(const struct world *world, const struct engine_action *action)
{
    uint64_t unfit = 0, pipelines = world->scenario->samples[action->prepare.id].unfit;
    for (uint32_t i = 0; i < action->prepare.n_outputs; i++)
        unfit |= (pipelines >> (world->number_pipeline[action->prepare.outputs[i].pipeline] - 1) & 1) << i;
    return unfit;
}

static void act(struct world *world, const struct engine_action *action)
{
    const struct scenario *sc = world->scenario;
    uint64_t took_ns;
    world_see_action(world, action);
    model_action(world->model, action);
    if (broken(world))
        return;
    if (world->runs)
        runs_action(world, action);
    switch (action->type) {
    case ENGINE_LOAD:
        if (action->load.read != world->read || world->now_ns == 0)
            world->read_ns = latency_draw(&sc->load, &world->rng, action->load.id);
        world->read = action->load.read;
        world_alarm(world, world->read_ns, ALARM_LOADED, action->load.id,
                    (uint64_t)((const struct scenario_dataset *)action->load.dataset - sc->datasets), 0);
        break;
    case ENGINE_PREPARE:
        took_ns = latency_draw(&sc->prepare, &world->rng, action->prepare.id);
        world_alarm(world, took_ns, ALARM_PREPARED, action->prepare.task,
                    unfit_outputs(world, action) << 32 | action->prepare.id, took_ns);
        break;
    case ENGINE_RESERVE: reserve(world, action->reserve.bytes); break;
    case ENGINE_RETURN:
    case ENGINE_DROP_ENCODED:
    case ENGINE_AHEAD:
    case ENGINE_SOURCE: break;
    default: client_action(world, action);
    }
}

/* engine_check goes through all views and residents: in large scenarios it is called as often as its cost allows. A
 * sabotage is for the model to see: scenarios of the same kinds have the engine checked without one. */
static bool check_is_due(struct world *world)
{
    if (world->options.check_every)
        return world->steps % world->options.check_every == 0;
    if (world->sabotage)
        return false;
    uint64_t cost = (uint64_t)world->scenario->n_samples * (world->scenario->n_clients + 1);
    world->check_credit += CHECK_CREDIT_PER_STEP;
    if (world->check_credit < cost)
        return false;
    world->check_credit = 0;
    return true;
}

void world_flush(struct world *world)
{
    const struct engine_action *actions;
    if (world->n_events == 0 || broken(world))
        return;
    world->steps++;
    uint64_t began_ns = world->options.timed ? clock_thread_ns() : 0;
    size_t count = engine_step(world->engine, world->now_ns, world->events, world->n_events, &actions);
    uint64_t took_ns = world->options.timed ? clock_thread_ns() - began_ns : 0;
    world->longest_ns = took_ns > world->longest_ns ? took_ns : world->longest_ns;
    world->n_events = 0;
    for (size_t i = 0; i < count && !broken(world); i++) {
        struct engine_action out[SABOTAGE_ACTIONS_MAX] = {actions[i]};
        size_t n_out = world->sabotage ? sabotage_action(world->sabotage, &actions[i], out) : 1;
        for (size_t k = 0; k < n_out && !broken(world); k++)
            act(world, &out[k]);
    }
    if (world->runs)
        runs_settle(world);
    if (broken(world))
        return;
    bool thorough = check_is_due(world);
    if (thorough)
        engine_check(world->engine);
    model_settle(world->model, world->engine, world->now_ns, thorough || sabotage_done(world->sabotage));
    uint64_t wake_ns = engine_wakes_ns(world->engine);
    if (wake_ns < world->wake_ns) {
        world_alarm(world, wake_ns > world->now_ns ? wake_ns - world->now_ns : world->scenario->wake_late_ns,
                    ALARM_WAKE, wake_ns, 0, 0);
        world->wake_ns = wake_ns;
    }
}

void world_event(struct world *world, const struct engine_event *event, const struct client_plan *plan)
{
    if (broken(world))
        return;
    world_see_event(world, event);
    model_event(world->model, world->now_ns, event, plan);
    if (world->runs)
        runs_event(world, event);
    struct engine_event told = *event;
    if (!world->sabotage || sabotage_event(world->sabotage, &told, plan))
        world->events[world->n_events++] = told;
    if (world->n_events >= world->scenario->gather)
        world_flush(world);
}

/* ── what happens ── */

uint64_t world_sample_bytes(const void *dataset, sample_id id)
{
    struct scenario_dataset *asked = (struct scenario_dataset *)dataset; /* the engine hands back what it was handed */
    asked->dead_calls += asked->users == 0;
    return scenario_bytes(asked, id);
}

static bool fails(struct world *world, sample_id id, enum fault fault, uint32_t per_thousand)
{
    bool passing = random_below(&world->rng, 1000) < per_thousand;
    return passing || world->scenario->samples[id].fault == fault;
}

static void loaded(struct world *world, sample_id id, uint32_t dataset)
{
    const struct scenario *sc = world->scenario;
    struct engine_event event = {.type = ENGINE_LOADED, .loaded = {.id = id, .bytes = sc->samples[id].bytes}};
    bool bad = fails(world, id, FAULT_LOAD, sc->load_faults);
    event.loaded.reason = BAD_UNREADABLE;
    if (scenario_is_away(sc, dataset, world->now_ns) || sc->samples[id].fault == FAULT_SOURCE)
        event.loaded.fate = ENGINE_FATE_SOURCE;
    else if (scenario_has_changed(sc, dataset, id, world->now_ns))
        event.loaded.fate = ENGINE_FATE_CHANGED;
    else if (bad)
        event.loaded.fate = ENGINE_FATE_SAMPLE;
    else
        event.loaded.encoded = model_load_handle(world->model, &event);
    world_event(world, &event, NULL);
}

static uint8_t draw_reason(struct rng *rng)
{
    return (uint8_t)(1 + random_below(rng, BAD_REASONS - 1));
}

/* All outputs fail, or each for itself. */
static void prepared(struct world *world, uint32_t task, sample_id id, uint64_t unfit, uint64_t took_ns)
{
    struct engine_event event = {.type = ENGINE_PREPARED, .prepared = {.task = task, .core_ns = took_ns}};
    if (fails(world, id, FAULT_PREPARE, world->scenario->prepare_faults))
        memset(event.prepared.reasons, draw_reason(&world->rng), sizeof event.prepared.reasons);
    for (uint32_t i = 0; i < ENGINE_OUTPUTS_MAX; i++) {
        if (unfit >> i & 1 || random_below(&world->output_rng, 1000) < world->scenario->output_faults)
            event.prepared.reasons[i] = draw_reason(&world->output_rng);
    }
    model_make_form(world->model, &event, event.prepared.reasons[0]);
    model_measure(world->model, &event);
    world_event(world, &event, NULL);
}

static void happen(struct world *world, const struct alarm *alarm)
{
    switch (alarm->kind) {
    case ALARM_LOADED: loaded(world, (sample_id)alarm->a, (uint32_t)alarm->b); break;
    case ALARM_WAKE:
        if (world->wake_ns == alarm->a)
            world->wake_ns = SCENARIO_NEVER;
        world_event(world, &(struct engine_event){.type = ENGINE_TICK}, NULL);
        break;
    case ALARM_PREPARED: prepared(world, (uint32_t)alarm->a, (sample_id)alarm->b, alarm->b >> 32, alarm->c); break;
    case ALARM_TICK:
        world_event(world, &(struct engine_event){.type = ENGINE_TICK}, NULL);
        if (world->agenda.length > (world->scenario->shrink_ns > 0) &&
            world->scenario->tick_ns) /* ticks alone are no sign of life */
            world_alarm(world, world->scenario->tick_ns, ALARM_TICK, 0, 0, 0);
        break;
    case ALARM_RESERVED:
        world_event(world,
                    &(struct engine_event){.type = ENGINE_RESERVED,
                                           .reserved = {.bytes = alarm->a, .refused = alarm->b}},
                    NULL);
        break;
    case ALARM_SHRINK:
        world_event(world, &(struct engine_event){.type = ENGINE_SHRINK}, NULL);
        if (world->agenda.length > (world->scenario->tick_ns > 0)) /* nor are these */
            world_alarm(world, world->scenario->shrink_ns, ALARM_SHRINK, 0, 0, 0);
        break;
    case ALARM_DRAIN: world_event(world, &(struct engine_event){.type = ENGINE_DRAIN}, NULL); break;
    case ALARM_END_LEG: runs_end_leg(world, (uint32_t)alarm->a, (uint32_t)alarm->b); break;
    default: client_alarm(world, alarm);
    }
}

/* A rank may have to wait for the next epoch, for nothing else: stopped ranks go on, and for those that are away there
 * is a time limit. */
static bool waits_for_ranks(struct world *world, const struct client *client)
{
    bool away = false;
    if (client->state != CLIENT_TRAINING || !model_rank_waits(world->model, client->job, client->plan->rank))
        return false;
    for (uint32_t i = 0; i < world->scenario->n_clients; i++) {
        const struct client *other = &world->clients[i];
        if (other == client || strcmp(other->plan->name, client->plan->name) != 0)
            continue;
        if (other->stopped && other->state != CLIENT_DONE)
            return true;
        away = away || other->state == CLIENT_DONE;
    }
    return away && world->lull_ticks < LULL_TICKS;
}

/* Time passes for that too. */
static bool waits_for_room(const struct world *world, const struct client *client)
{
    return client->state == CLIENT_TRAINING && model_may_lack_room(world->model, client->job) &&
           world->lull_ticks < LULL_TICKS;
}

/* Nothing is under way. Whoever waits now waits for ever, unless it is stopped: those go on, one at a time. */
static bool revive(struct world *world)
{
    bool time_passes = false;
    struct client *stopped = NULL;
    for (uint32_t i = 0; i < world->scenario->n_clients; i++) {
        struct client *client = &world->clients[i];
        if (client->state == CLIENT_DONE)
            continue;
        if (!client->stopped && (waits_for_ranks(world, client) || waits_for_room(world, client)))
            time_passes = true;
        else if (!client->stopped)
            model_break(world->model, RULE_STUCK, "nothing is under way, but job %u ('%s') waits in epoch %u",
                        client->job, client->plan->name, client->epoch);
        else if (!stopped)
            stopped = client;
    }
    time_passes = time_passes || (!stopped && model_jobs(world->model) > 0); /* jobs that wait for their ranks */
    if (time_passes && !broken(world) && world->lull_ticks++ < LULL_TICKS) {
        const struct engine_config *config = &world->scenario->config;
        uint64_t ranks_ns = config->rank_timeout_ns, room_ns = config->room_timeout_ns;
        world_alarm(world, ranks_ns > room_ns ? ranks_ns : room_ns, ALARM_TICK, 0, 0, 0);
        return true;
    }
    if (!stopped || broken(world))
        return false;
    world_say(world, "all others have finished: '%s' goes on", stopped->plan->name);
    world->lull_ticks = 0; /* if it leaves at once, others may have to wait for it */
    client_resume(world, stopped);
    return true;
}

static void begin(struct world *world)
{
    const struct scenario *sc = world->scenario;
    for (uint32_t i = 0; i < sc->n_clients; i++) {
        const struct client_plan *plan = &sc->clients[i];
        world->clients[i].plan = plan;
        if (plan->leg > 0) {
            world->clients[i].state = CLIENT_DONE; /* until its leg begins */
            continue;
        }
        world_alarm(world, plan->join_ns, ALARM_JOIN, i, 0, 0); /* of its first life, as all these */
        if (plan->vanish_ns != SCENARIO_NEVER)
            world_alarm(world, plan->vanish_ns, ALARM_VANISH, i, 0, 0);
        if (plan->cancel_ns != SCENARIO_NEVER)
            world_alarm(world, plan->cancel_ns, ALARM_CANCEL, i, 0, 0);
        if (plan->stop_ns != SCENARIO_NEVER)
            world_alarm(world, plan->stop_ns, ALARM_STOP, i, 0, 0);
        if (sc->restarts && plan->cut_ns != SCENARIO_NEVER)
            world_alarm(world, plan->cut_ns, ALARM_CUT, i, 0, 0);
    }
    if (sc->tick_ns)
        world_alarm(world, sc->tick_ns, ALARM_TICK, 0, 0, 0);
    if (sc->shrink_ns)
        world_alarm(world, sc->shrink_ns, ALARM_SHRINK, 0, 0, 0);
    if (sc->drain_ns != SCENARIO_NEVER)
        world_alarm(world, sc->drain_ns, ALARM_DRAIN, 0, 0, 0);
}

static uint64_t steps_limit(const struct scenario *sc)
{
    uint64_t samples = 0;
    for (uint32_t i = 0; i < sc->n_clients; i++)
        samples += (uint64_t)sc->clients[i].n_draws * (sc->clients[i].run_epochs + 1);
    return STEPS_FIRST * (sc->n_crashes + 1) + STEPS_PER_SAMPLE * samples * (sc->n_crashes + 1);
}

static void live(struct world *world)
{
    uint64_t limit = steps_limit(world->scenario), happened = 0;
    do {
        while ((world->agenda.length > 0 || world->n_events > 0) && !broken(world)) {
            if (agenda_next_ns(&world->agenda) > world->now_ns)
                world_flush(world); /* the moment is over */
            if (world->agenda.length == 0)
                continue;
            struct alarm alarm;
            agenda_take(&world->agenda, &alarm);
            world->now_ns = alarm.due.at_ns;
            bool of_time = alarm.kind == ALARM_TICK || alarm.kind == ALARM_SHRINK;
            happened += !of_time;
            /* an arena that looks again and again whether it is needed is no sign of life either */
            bool looks = alarm.kind == ALARM_WAKE && world->scenario->config.linger_ns > 0;
            if (!of_time && !looks)
                world->lull_ticks = 0;
            happen(world, &alarm);
            if (world->steps >= world->crash_step && !broken(world))
                world_crash(world);
            if (happened > limit)
                model_break(world->model, RULE_STUCK, "no end after %llu alarms", (unsigned long long)happened);
        }
    } while (!broken(world) && revive(world));
    if (!broken(world))
        engine_check(world->engine);
    if (!broken(world))
        model_finish(world->model, world->engine);
    if (!broken(world) && world->runs)
        runs_finish(world);
}

void world_run(struct scenario *scenario, const struct world_options *options, struct world_result *result)
{
    struct world world = {.scenario = scenario, .options = *options, .agenda = {.row_bytes = sizeof(struct alarm)}};
    random_seed_keys(&world.rng, KEY_WORLD, scenario->seed, 0, 0);
    random_seed_keys(&world.forget_rng, KEY_FORGETTING, scenario->seed, 0, 0);
    random_seed_keys(&world.place_rng, KEY_PLACING, scenario->seed, 0, 0);
    random_seed_keys(&world.output_rng, KEY_OUTPUTS, scenario->seed, 0, 0);
    random_seed_keys(&world.growth_rng, KEY_GROWING, scenario->seed, 0, 0);
    random_seed_keys(&world.restart_rng, KEY_RESTARTING, scenario->seed, 0, 0);
    world.model = model_create(scenario);
    if (options->sabotage != SABOTAGE_NONE)
        world.sabotage = sabotage_create(options->sabotage, scenario, world.model);
    world.clients = xcalloc(scenario->n_clients, sizeof *world.clients);
    if (scenario->restarts)
        runs_create(&world);
    CHECK(world_start_engine(&world) == 0);
    begin(&world);
    live(&world);

    struct engine_totals totals;
    engine_totals(world.engine, &totals);
    world_end_engine(&world);
    const char *text;
    *result = (struct world_result){
        .hash = world.hash, .steps = world.steps, .virtual_ns = world.now_ns, .longest_ns = world.longest_ns};
    result->broken = model_broken(world.model, &text);
    snprintf(result->text, sizeof result->text, "%s", text);
    result->sabotaged = sabotage_done(world.sabotage);
    result->no_rooms = model_no_rooms(world.model);
    result->restarts = world.restarts;
    result->totals = totals;
    world_add_counts(&result->totals.counts, &world.before);
    runs_destroy(&world);
    model_destroy(world.model);
    sabotage_destroy(world.sabotage);
    for (uint32_t i = 0; i < scenario->n_clients; i++)
        client_free(&world.clients[i]);
    free(world.clients);
    agenda_free(&world.agenda);
}
