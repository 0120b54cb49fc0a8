/* client_state.c: what a client keeps of its epoch, so that it can go on with another daemon. A batch is taken when the
 * training loop gets it. What was only received is lost with the daemon that sent it. */
#include <stdlib.h>

#include "common/check.h"
#include "tests/simulation/world_priv.h"

static bool draws(struct world *world, uint32_t percent)
{
    return random_below(&world->restart_rng, 100) < percent;
}

static void drop_parcels(struct parcels *parcels, uint32_t keep)
{
    while (parcels->count > keep)
        free(parcels->items[--parcels->count].turns);
}

void client_free(struct client *client)
{
    drop_parcels(&client->inbox, 0);
    drop_parcels(&client->kept, 0);
    drop_parcels(&client->under_way, 0);
    free(client->inbox.items);
    free(client->kept.items);
    free(client->under_way.items);
    memory_free(&client->memory);
}

/* ── batches ── */

/* A connection keeps the order. Gives when the batch is there, in nanoseconds from now. */
uint64_t client_send(struct world *world, struct client *client, const struct engine_action *action,
                     uint64_t transit_ns)
{
    const struct scenario_dataset *dataset = &world->scenario->datasets[client->plan->dataset];
    struct parcels *parcels = &client->under_way;
    struct parcel parcel = {.told = {.delivered = action->deliver.count, .through = action->deliver.through},
                            .turns = xcalloc(action->deliver.count + (size_t)1, sizeof *parcel.turns)};
    for (uint32_t i = 0; client->plan->shuffle == SHUFFLE_DEPENDENT && i < action->deliver.count; i++) {
        if (action->deliver.entries[i].turn != SAMPLE_NONE)
            parcel.turns[parcel.told.n_turns++] = dataset->position[action->deliver.entries[i].turn];
    }
    parcels->items = xgrow(parcels->items, sizeof *parcels->items, &parcels->cap, parcels->count + (size_t)1);
    parcels->items[parcels->count++] = parcel;
    if (world->now_ns + transit_ns > client->arrives_ns)
        client->arrives_ns = world->now_ns + transit_ns;
    return client->arrives_ns - world->now_ns;
}

struct parcel client_receive(struct client *client)
{
    struct parcels *parcels = &client->under_way;
    struct parcel first = parcels->items[0];
    CHECK(parcels->count > 0);
    parcels->count--;
    for (uint32_t i = 0; i < parcels->count; i++)
        parcels->items[i] = parcels->items[i + 1];
    return first;
}

/* An empty batch only ends the epoch. The memory of an epoch stays until a batch of a later one is taken: until then
 * another rank may still be in it. */
void client_take(struct world *world, struct client *client)
{
    struct parcel *parcel = &client->inbox.items[0];
    ledger_take(runs_of(world, client)->ledger, client->plan->rank, parcel->epoch);
    parcel->foreign = client->plan->copies;
    if (client->plan->copies)
        client_release(world, client, parcel->batch);
    if (parcel->told.delivered == 0)
        return;
    if (parcel->epoch != client->memory.epoch) {
        memory_begin(&client->memory, parcel->epoch, NULL);
        if (draws(world, client->plan->save_percent))
            runs_save_between(world, client, parcel->epoch);
    }
    parcel->index = client->memory.n_batches;
    memory_take(&client->memory, &parcel->told, parcel->turns);
    if (draws(world, client->plan->save_percent))
        runs_save(world, client);
    if (++client->taken >= client->plan->stop_after && runs_of(world, client)->saved)
        world_alarm(world, random_below(&world->restart_rng, 1 + client->plan->train.mean_ns), ALARM_END_LEG,
                    client->plan->group, client->plan->leg, 0);
}

/* What a job's only rank saves between epochs needs nobody. */
void client_epoch_over(struct world *world, struct client *client, bool whole)
{
    if (!whole)
        ledger_break(runs_of(world, client)->ledger, client->epoch);
    else if (client->plan->world_size == 1 && draws(world, client->plan->save_percent))
        runs_save_between(world, client, client->epoch + 1);
}

/* ── coming and going ── */

/* It goes on training on the batch that it has taken. */
void client_lose_daemon(struct world *world, struct client *client)
{
    if (client->state != CLIENT_TRAINING)
        return;
    drop_parcels(&client->under_way, 0);
    drop_parcels(&client->kept, 0);
    drop_parcels(&client->inbox, client->training);
    if (client->clings) { /* it had heard already that its job has failed */
        client->state = CLIENT_DONE;
        return;
    }
    if (client->training)
        client->inbox.items[0].foreign = true;
    client->state = CLIENT_AWAY;
    client->admitted = client->asked = false;
    client->tries = 0;
    world_alarm(world, random_below(&world->restart_rng, world->scenario->away_ns), ALARM_JOIN,
                (uint64_t)client->lives << 32 | client_number(world, client), 0, 0);
}

/* The daemon hears of it, and lives on. */
void client_lose_connection(struct world *world, struct client *client)
{
    struct engine_event gone = {.type = ENGINE_JOB_GONE, .rank = client->plan->rank, .job_gone = {.job = client->job}};
    if (client->state != CLIENT_TRAINING || client->clings)
        return;
    world_say(world, "the connection of rank %u of '%s' breaks", client->plan->rank, client->plan->name);
    world_event(world, &gone, NULL);
    world_flush(world);
    world_drop_alarms(world, client);
    ledger_lose(runs_of(world, client)->ledger, client->plan->rank);
    client_lose_daemon(world, client);
}

void client_begin_leg(struct world *world, struct client *client)
{
    const struct saved *saved = runs_of(world, client)->saved;
    uint64_t spread_ns = draws(world, 80) ? world->scenario->away_ns / 10 + 1 : world->scenario->away_ns;
    memory_begin(&client->memory, saved ? saved->state.record.epoch : 0, saved ? &saved->state : NULL);
    client->state = CLIENT_AWAY;
    world_alarm(world, random_below(&world->restart_rng, spread_ns), ALARM_JOIN, client_number(world, client), 0, 0);
}

bool client_has_state(const struct world *world, const struct client *client)
{
    return world->scenario->restarts && (client->placed || client->memory.base);
}

/* One that had no place yet begins from the state as it was saved. */
void client_state(const struct world *world, const struct client *client, struct state *out)
{
    if (client->placed)
        memory_record(&client->memory, world->scenario, client->plan, out);
    else
        state_keep(&client->memory.base->record, out);
}
