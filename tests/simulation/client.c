/* client.c: a training script as the engine sees it: it asks ahead, trains, gives back late and out of order; and it
 * stops, breaks off, asks for nonsense or is gone. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "tests/simulation/world_priv.h"

#define CREDITS_MAX 64 /* what a session lets through in one NEXT */

/* What alarms call a client: its number, and which of its lives. */
static uint64_t life_of(const struct world *world, const struct client *client)
{
    return (uint64_t)client->lives << 32 | client_number(world, client);
}

static void alarm_client(struct world *world, const struct client *client, uint64_t after_ns, enum alarm_kind kind)
{
    world_alarm(world, after_ns, kind, life_of(world, client), 0, 0);
}

static void parcels_add(struct parcels *parcels, struct parcel parcel)
{
    parcels->items = xgrow(parcels->items, sizeof *parcels->items, &parcels->cap, parcels->count + 1);
    parcels->items[parcels->count++] = parcel;
}

static struct parcel parcels_take(struct parcels *parcels, uint32_t at)
{
    struct parcel parcel = parcels->items[at];
    parcels->count--;
    memmove(&parcels->items[at], &parcels->items[at + 1], (parcels->count - at) * sizeof *parcels->items);
    return parcel;
}

static void send_next(struct world *world, struct client *client, uint32_t epoch, uint32_t credits)
{
    world_event(world,
                &(struct engine_event){.type = ENGINE_NEXT,
                                       .rank = client->plan->rank,
                                       .next = {.job = client->job, .epoch = epoch, .credits = credits}},
                NULL);
}

void client_release(struct world *world, struct client *client, uint64_t batch)
{
    client->released = batch;
    world_event(world,
                &(struct engine_event){.type = ENGINE_RELEASE,
                                       .rank = client->plan->rank,
                                       .release = {.job = client->job, .batch = batch}},
                NULL);
}

/* Gone a second time it ends a job that nobody is there of. */
static void leave(struct world *world, struct client *client)
{
    struct engine_event gone = {.type = ENGINE_JOB_GONE, .rank = client->plan->rank, .job_gone = {.job = client->job}};
    for (int times = 0; client->state == CLIENT_TRAINING && times <= client->plan->leaves_twice; times++)
        world_event(world, &gone, NULL);
    client->state = CLIENT_DONE;
}

void client_kill(struct world *world, struct client *client)
{
    leave(world, client);
}

/* Dies, and where the plan says so comes back with nothing but what the daemon tells it. */
static void vanish(struct world *world, struct client *client)
{
    leave(world, client);
    if (client->plan->return_ns == SCENARIO_NEVER || client->lives > 0)
        return;
    client->lives++;
    client->state = CLIENT_AWAY;
    client->stopped = client->clings = client->admitted = client->asked = client->training = client->trained = false;
    client->inbox.count = client->kept.count = 0;
    client->tries = 0;
    alarm_client(world, client, client->plan->return_ns, ALARM_JOIN);
}

void client_action(struct world *world, const struct engine_action *action)
{
    struct client *client = &world->clients[action->client];
    uint64_t transit_ns = latency_draw(&world->scenario->transit, &world->rng, action->client);
    switch (action->type) {
    case ENGINE_JOB_ADDED:
        if (!action->job_added.attached)
            world->number_users[client_pipeline_number(world, client->plan->pipeline)]++;
        client->state = CLIENT_TRAINING;
        if (!client->placed) /* one that comes back goes on by itself */
            client->epoch = client->epochs_run = action->job_added.epoch;
        client->placed = world->scenario->restarts;
        client->job = action->job;
        client->held_max = action->job_added.held_max;
        alarm_client(world, client, transit_ns, ALARM_ADMITTED);
        break;
    case ENGINE_JOB_REFUSED:
        client->state = CLIENT_DONE;
        if (client->tries <= client->plan->retries) {
            client->state = CLIENT_JOINING;
            alarm_client(world, client, random_below(&world->rng, CLOCK_NS_PER_S), ALARM_JOIN);
        }
        break;
    case ENGINE_JOB_ENDED: world->number_users[action->job_ended.pipeline]--; break;
    case ENGINE_JOB_ERROR: alarm_client(world, client, transit_ns, ALARM_FAILED); break;
    default:
        CHECK(action->type == ENGINE_DELIVER);
        if (world->scenario->restarts)
            transit_ns = client_send(world, client, action, transit_ns);
        world_alarm(world, transit_ns, ALARM_ARRIVED, life_of(world, client), action->deliver.batch,
                    (uint64_t)action->deliver.epoch * 2 + action->deliver.last);
    }
}

/* ── training ── */

static void release_one(struct world *world, struct client *client)
{
    uint32_t at = 0;
    if (client->plan->release_order == RELEASE_NEWEST)
        at = client->kept.count - 1;
    else if (client->plan->release_order == RELEASE_ANY)
        at = (uint32_t)random_below(&world->rng, client->kept.count);
    client_release(world, client, parcels_take(&client->kept, at).batch);
}

static void release_surplus(struct world *world, struct client *client)
{
    uint32_t keep = client->plan->hold < client->held_max ? client->plan->hold : client->held_max - 1;
    while (client->kept.count > keep)
        release_one(world, client);
}

static void mischief(struct world *world, struct client *client)
{
    const struct client *other = &world->clients[random_below(&world->rng, world->scenario->n_clients)];
    switch (random_below(&world->rng, 6)) {
    case 0:
        if (client->epoch > 0)
            send_next(world, client, (uint32_t)random_below(&world->rng, client->epoch), 1);
        break;
    case 1: send_next(world, client, client->epoch, CREDITS_MAX); break;
    case 2:
        if (client->plan->epochs > 0)
            send_next(world, client, client->plan->epochs + (uint32_t)random_below(&world->rng, 3), CREDITS_MAX);
        break;
    case 3:
        client_release(world, client, client->released); /* once more */
        break;
    case 4: client_release(world, client, UINT64_MAX - random_below(&world->rng, 3)); break;
    default:
        if (other != client && other->kept.count > 0)
            client_release(world, client, other->kept.items[0].batch);
    }
}

static void reweigh(struct world *world, const struct client *client)
{
    double weight = random_below(&world->rng, 2) ? JOB_WEIGHT_MAX : (double)(1 + random_below(&world->rng, 1000)) / 100;
    world_event(world, &(struct engine_event){.type = ENGINE_WEIGHT, .weight = {.job = client->job, .weight = weight}},
                NULL);
    uint64_t batch_ns = (uint64_t)(weight * 1e6);
    struct engine_event pace = {.type = ENGINE_PACE, .rank = client->plan->rank, .pace = {client->job, batch_ns}};
    world_event(world, &pace, NULL);
}

static void next_epoch(struct world *world, struct client *client)
{
    if (++client->epochs_run >= client->plan->run_epochs) {
        client->finished = true;
        /* or it goes with batches in its hands, which are then not had */
        if (random_below(&world->rng, 2) || world->scenario->restarts)
            while (client->kept.count > 0)
                release_one(world, client);
        leave(world, client);
        return;
    }
    bool skip_one = client->plan->epochs == 0 && random_below(&world->rng, 8) == 0 && !world->scenario->restarts;
    client->epoch += 1 + skip_one;
    client->asked = false;
}

static void go_on(struct world *world, struct client *client);

static void end_training(struct world *world, struct client *client)
{
    struct parcel parcel = parcels_take(&client->inbox, 0);
    const struct client_plan *plan = client->plan;
    free(parcel.turns);
    parcel.turns = NULL;
    client->training = client->trained = false;
    if (!parcel.foreign)
        parcels_add(&client->kept, parcel);
    if (random_below(&world->rng, 100) < plan->mischief_percent)
        mischief(world, client);
    if (plan->reweigh_percent && random_below(&world->rng, 100) < plan->reweigh_percent)
        reweigh(world, client);
    bool current = parcel.epoch == client->epoch;
    bool over = current && (parcel.last || random_below(&world->rng, 100) < plan->break_percent);
    if (over && world->scenario->restarts)
        client_epoch_over(world, client, parcel.last);
    if (over)
        next_epoch(world, client);
    else if (current && client->asked)
        send_next(world, client, client->epoch, 1);
    if (client->state == CLIENT_TRAINING)
        go_on(world, client);
}

/* Does what there is to do now: ask for the epoch's first batches, throw away those of an epoch given up, train. */
static void go_on(struct world *world, struct client *client)
{
    release_surplus(world, client);
    if (client->admitted && !client->asked) {
        client->asked = true;
        if (!client->training || !client->inbox.items[0].last) /* it may have lost its daemon during the last batch */
            send_next(world, client, client->epoch, client->plan->ask);
    }
    while (!client->training && client->inbox.count > 0 && client->inbox.items[0].epoch < client->epoch) {
        free(client->inbox.items[0].turns);
        client_release(world, client, parcels_take(&client->inbox, 0).batch);
    }
    if (client->training || client->inbox.count == 0)
        return;
    client->training = true;
    if (world->scenario->restarts)
        client_take(world, client);
    alarm_client(world, client, latency_draw(&client->plan->train, &world->rng, client_number(world, client)),
                 ALARM_TRAINED);
}

void client_resume(struct world *world, struct client *client)
{
    client->stopped = client->clings;
    if (client->late) {
        client->late = false;
        client_join(world, client);
    }
    if (client->clings || client->state != CLIENT_TRAINING || !client->admitted)
        return;
    if (client->trained)
        end_training(world, client);
    else
        go_on(world, client);
}

static void stop(struct world *world, struct client *client)
{
    client->stopped = true;
    if (client->plan->stop_for_ns != SCENARIO_NEVER)
        alarm_client(world, client, client->plan->stop_for_ns, ALARM_RESUME);
}

/* The job has failed: it leaves now, or keeps what it holds for a while, and gives some of it back. */
static void hear_failure(struct world *world, struct client *client)
{
    if (client->clings || client->plan->clings_ns == 0) {
        leave(world, client);
        return;
    }
    client->clings = client->stopped = true;
    if (client->kept.count > 0 && random_below(&world->rng, 2))
        release_one(world, client);
    alarm_client(world, client, client->plan->clings_ns, ALARM_FAILED);
}

void client_alarm(struct world *world, const struct alarm *alarm)
{
    struct client *client = &world->clients[(uint32_t)alarm->a];
    struct parcel parcel;
    if (client->state == CLIENT_DONE || client->lives != alarm->a >> 32)
        return;
    switch (alarm->kind) {
    case ALARM_JOIN:
        client->late = client->stopped && client->placed;
        if (!client->late)
            client_join(world, client);
        break;
    case ALARM_ADMITTED:
        client->admitted = true;
        if (client->epoch > 0 && client->epoch >= client->plan->run_epochs) { /* it came back when all was over */
            client->finished = true;
            leave(world, client);
            break;
        }
        if (client->lives > 0 && client->epoch > 0 && client->plan->asks_again)
            send_next(world, client, client->epoch - 1, 1);
        if (!client->stopped && client->trained)
            end_training(world, client);
        else if (!client->stopped)
            go_on(world, client);
        break;
    case ALARM_ARRIVED:
        parcel = world->scenario->restarts ? client_receive(client) : (struct parcel){0};
        parcel.batch = alarm->b;
        parcel.epoch = (uint32_t)(alarm->c / 2);
        parcel.last = alarm->c & 1;
        parcels_add(&client->inbox, parcel);
        if (!client->stopped)
            go_on(world, client);
        break;
    case ALARM_TRAINED:
        client->trained = true;
        if (!client->stopped && client->admitted)
            end_training(world, client);
        break;
    case ALARM_CANCEL:
        if (client->state == CLIENT_TRAINING)
            world_event(world, &(struct engine_event){.type = ENGINE_JOB_CANCEL, .job_cancel = {.job = client->job}},
                        NULL);
        break;
    case ALARM_STOP: stop(world, client); break;
    case ALARM_CUT: client_lose_connection(world, client); break;
    case ALARM_RESUME: client_resume(world, client); break;
    default:
        CHECK(alarm->kind == ALARM_VANISH || alarm->kind == ALARM_FAILED);
        if (alarm->kind == ALARM_VANISH)
            vanish(world, client);
        else
            hear_failure(world, client);
    }
}
