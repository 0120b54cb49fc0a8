/* runs.c: training runs: the states that they save, and the legs that go on from these. What the daemon keeps of a
 * job's deliveries is the real module of the driver, told what the driver would tell it. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "tests/simulation/world_priv.h"

void runs_create(struct world *world)
{
    const struct scenario *sc = world->scenario;
    world->runs = xcalloc(sc->n_groups, sizeof *world->runs);
    for (uint32_t i = 0; i < sc->n_clients; i++) {
        const struct client_plan *plan = &sc->clients[i];
        struct run *run = &world->runs[plan->group];
        if (run->plan)
            continue;
        run->plan = plan;
        run->known = UINT32_MAX;
        run->ledger = ledger_create(sc, plan, world->model);
    }
}

static void forget_job(struct run *run)
{
    history_destroy(run->history);
    run->history = NULL;
    run->asks = false;
    run->known = UINT32_MAX;
}

void runs_destroy(struct world *world)
{
    for (uint32_t i = 0; world->runs && i < world->scenario->n_groups; i++) {
        struct run *run = &world->runs[i];
        forget_job(run);
        ledger_destroy(run->ledger);
        for (struct saved *saved = run->saved, *before; saved; saved = before) {
            before = saved->before;
            state_free(&saved->state);
            free(saved);
        }
    }
    free(world->runs);
}

struct run *runs_of(const struct world *world, const struct client *client)
{
    return &world->runs[client->plan->group];
}

/* ── states ── */

static void save(struct world *world, struct run *run, struct state state)
{
    struct saved *saved = xcalloc(1, sizeof *saved);
    saved->state = state;
    saved->before = run->saved;
    run->saved = saved;
    world->restarts.states++;
    world_say(world, "'%s' saves epoch %u, batch %u", run->plan->name, state.record.epoch, state.record.batches);
}

void runs_save_between(struct world *world, const struct client *client, uint32_t epoch)
{
    struct state state;
    struct record record = state_about(world->scenario, client->plan, epoch);
    state_keep(&record, &state);
    save(world, runs_of(world, client), state);
}

/* A rank that has no others works it out itself, or asks as they do. */
void runs_save(struct world *world, const struct client *client)
{
    struct run *run = runs_of(world, client);
    const struct memory *memory = &client->memory;
    if (client->plan->world_size == 1 && random_below(&world->restart_rng, 2)) {
        struct state state;
        memory_token(memory, world->scenario, client->plan, &state);
        if (ledger_epoch(run->ledger) == memory->epoch)
            ledger_check_token(run->ledger, &state.record, memory->n_batches);
        save(world, run, state);
        return;
    }
    run->asks = true;
    run->asks_epoch = memory->epoch;
    run->asks_batches = memory->n_batches;
}

/* Answered when each rank has had so many batches. */
static void answer(struct world *world, struct run *run)
{
    struct record token;
    struct state state;
    struct error err;
    uint32_t epoch;
    if (run->history == NULL || !history_epoch(run->history, &epoch) || epoch < run->asks_epoch)
        return;
    for (uint32_t rank = 0; rank < run->plan->world_size && epoch == run->asks_epoch; rank++) {
        if (history_has(run->history, rank) < run->asks_batches)
            return;
    }
    run->asks = false;
    if (epoch > run->asks_epoch)
        return;
    int code = history_token(run->history, run->asks_batches, &token, &err);
    if (code == LARDER_EGONE && run->known_epoch == epoch && run->asks_batches > run->known)
        return;
    if (!code && world->sabotage && sabotage_refuses(world->sabotage))
        code = error_set(&err, LARDER_EGONE, "a state is refused that can be given");
    if (code) {
        model_break(world->model, RULE_STATE, "'%s' gets no state: %s", run->plan->name, err.text);
        return;
    }
    state_keep(&token, &state);
    if (world->sabotage && ledger_is_known(run->ledger))
        sabotage_token(world->sabotage, world->scenario, run->plan, &state);
    ledger_check_token(run->ledger, &state.record, run->asks_batches);
    save(world, run, state);
}

void runs_settle(struct world *world)
{
    for (uint32_t i = 0; i < world->scenario->n_groups; i++) {
        if (world->runs[i].asks)
            answer(world, &world->runs[i]);
    }
}

/* ── what the driver tells ── */

/* The first rank that comes makes the history. One that presents a later epoch than the others has gone on from it. */
static void note_rank(struct world *world, const struct client *client, const struct engine_action *action)
{
    struct run *run = runs_of(world, client);
    struct record about = state_about(world->scenario, client->plan, 0);
    struct state state;
    uint32_t epoch;
    world->run_at[action->job] = run;
    if (!action->job_added.attached) {
        forget_job(run);
        CHECK(history_create(client->plan->world_size, &about, &run->history) == 0);
    }
    if (!client_has_state(world, client)) {
        if (!action->job_added.attached)
            ledger_anew(run->ledger);
        return;
    }
    client_state(world, client, &state);
    if (!history_epoch(run->history, &epoch) || state.record.epoch > epoch) {
        epoch = state.record.epoch;
        CHECK(history_epoch_begin(run->history, epoch, &state.record) == 0);
    }
    if (state.record.epoch == epoch && state.record.world_size)
        CHECK(history_presented(run->history, &state.record) == 0);
    state_free(&state);
}

static void note_batch(struct world *world, const struct client *client, const struct engine_action *action)
{
    struct run *run = runs_of(world, client);
    const struct scenario_dataset *dataset = &world->scenario->datasets[client->plan->dataset];
    uint32_t *turns = xcalloc(action->deliver.count + (size_t)1, sizeof *turns), n_turns = 0, epoch;
    for (uint32_t i = 0; i < action->deliver.count; i++) {
        if (action->deliver.entries[i].turn != SAMPLE_NONE)
            turns[n_turns++] = dataset->position[action->deliver.entries[i].turn];
    }
    if (!history_epoch(run->history, &epoch) || action->deliver.epoch > epoch) {
        epoch = action->deliver.epoch;
        CHECK(history_epoch_begin(run->history, epoch, NULL) == 0);
    }
    struct history_batch batch = {
        .number = action->deliver.batch, .through = action->deliver.through, .turns = turns, .n_turns = n_turns};
    if (action->deliver.epoch == epoch)
        CHECK(history_delivered(run->history, action->rank, &batch) == 0);
    free(turns);
}

void runs_action(struct world *world, const struct engine_action *action)
{
    const struct client *client = &world->clients[action->client];
    switch (action->type) {
    case ENGINE_JOB_ADDED: note_rank(world, client, action); break;
    case ENGINE_DELIVER:
        ledger_deliver(runs_of(world, client)->ledger, action);
        note_batch(world, client, action);
        break;
    case ENGINE_JOB_ENDED:
        forget_job(world->run_at[action->job]);
        world->run_at[action->job] = NULL;
        break;
    default: break;
    }
}

/* gap_of finds the first batch that the client has not released, if it has released a later one of the same epoch. What
 * the daemon keeps of the rank, when the client goes, is then not the rank's first batches. */
static uint32_t gap_of(const struct client *client)
{
    const struct memory *memory = &client->memory;
    const struct parcel *now = client->training ? &client->inbox.items[0] : NULL;
    uint32_t first = UINT32_MAX, unreleased = now && !now->foreign && now->told.delivered > 0;
    for (uint32_t i = 0; i < client->kept.count; i++) {
        const struct parcel *parcel = &client->kept.items[i];
        if (parcel->epoch != memory->epoch || parcel->told.delivered == 0)
            continue;
        first = parcel->index < first ? parcel->index : first;
        unreleased++;
    }
    return first < UINT32_MAX && memory->n_batches - first > unreleased ? first : UINT32_MAX;
}

static void note_gone(const struct world *world, struct run *run, uint32_t rank)
{
    const struct client *client = world->clients;
    while (client->plan->group != run->plan->group || client->plan->leg != run->plan->leg || client->plan->rank != rank)
        client++;
    uint32_t gap = gap_of(client);
    if (gap == UINT32_MAX)
        return;
    if (client->memory.epoch != run->known_epoch || gap < run->known)
        run->known = gap;
    run->known_epoch = client->memory.epoch;
}

void runs_event(struct world *world, const struct engine_event *event)
{
    struct run *run = event->type == ENGINE_RELEASE    ? world->run_at[event->release.job]
                      : event->type == ENGINE_NEXT     ? world->run_at[event->next.job]
                      : event->type == ENGINE_JOB_GONE ? world->run_at[event->job_gone.job]
                                                       : NULL;
    uint32_t epoch;
    if (run == NULL || !history_epoch(run->history, &epoch))
        return;
    if (event->type == ENGINE_RELEASE)
        history_released(run->history, event->rank, event->release.batch);
    else if (event->type == ENGINE_JOB_GONE) {
        note_gone(world, run, event->rank);
        history_rank_gone(run->history, event->rank);
    } else if (event->next.epoch > epoch && (run->plan->epochs == 0 || event->next.epoch < run->plan->epochs))
        history_rank_through(run->history, event->rank);
}

void runs_crash(struct world *world)
{
    for (uint32_t i = 0; i < world->scenario->n_groups; i++) {
        forget_job(&world->runs[i]);
        ledger_crash(world->runs[i].ledger);
    }
    memset(world->run_at, 0, sizeof world->run_at);
}

/* ── legs ── */

static bool is_of(const struct client *client, uint32_t group, uint32_t leg)
{
    return client->plan->group == group && client->plan->leg == leg;
}

/* All ranks are killed. What they did since the state was saved is done again. */
void runs_end_leg(struct world *world, uint32_t group, uint32_t leg)
{
    struct run *run = &world->runs[group];
    const struct client_plan *next = NULL;
    bool runs = false;
    for (uint32_t i = 0; i < world->scenario->n_clients; i++) {
        if (is_of(&world->clients[i], group, leg + 1) && world->clients[i].plan->rank == 0)
            next = world->clients[i].plan;
        runs = runs || (is_of(&world->clients[i], group, leg) && world->clients[i].state != CLIENT_DONE);
    }
    if (run->plan->leg != leg || next == NULL || !runs)
        return;
    run->asks = false;
    world_say(world, "leg %u of '%s' ends, %u ranks go on", leg, run->plan->name, next->world_size);
    for (uint32_t i = 0; i < world->scenario->n_clients; i++) {
        if (is_of(&world->clients[i], group, leg))
            client_kill(world, &world->clients[i]);
    }
    world_flush(world);
    run->plan = next;
    ledger_cut(run->ledger, next, run->saved ? &run->saved->state.record : NULL);
    for (uint32_t i = 0; i < world->scenario->n_clients; i++) {
        if (is_of(&world->clients[i], group, leg + 1))
            client_begin_leg(world, &world->clients[i]);
    }
    world->restarts.legs++;
}

/* ── the end ── */

void runs_finish(struct world *world)
{
    for (uint32_t i = 0; i < world->scenario->n_groups; i++) {
        struct run *run = &world->runs[i];
        bool finished = true;
        for (uint32_t at = 0; at < world->scenario->n_clients; at++) {
            if (is_of(&world->clients[at], i, run->plan->leg))
                finished = finished && world->clients[at].finished;
        }
        if (finished)
            ledger_finish(run->ledger);
        world->restarts.runs++;
        world->restarts.dead += !finished;
        world->restarts.epochs += ledger_whole_epochs(run->ledger);
    }
    world->restarts.resumed = model_resumed(world->model);
}
