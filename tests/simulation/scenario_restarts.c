/* scenario_restarts.c: daemons that die, training runs that are stopped, and what goes on from where. The clients of
 * these scenarios lose their daemon often enough: they do little else that is odd. */
#include <stdio.h>

#include "common/check.h"
#include "common/clock.h"
#include "tests/simulation/scenario_priv.h"

#define LEGS_MAX 3 /* after the first */
#define RANKS_MAX 5
#define STEPS_BITS 13 /* a daemon lives for less than so many bits of steps */

/* The ranks of one job have its seed in common. */
static void draw_groups(struct scenario *sc)
{
    for (uint32_t i = 0; i < sc->n_clients; i++) {
        struct client_plan *plan = &sc->clients[i];
        uint32_t first = 0;
        while (first < i && (plan->world_size == 1 || sc->clients[first].seed != plan->seed))
            first++;
        plan->group = first < i ? sc->clients[first].group : sc->n_groups++;
        snprintf(plan->name, sizeof plan->name, "run%u", plan->group);
    }
}

/* Ranks come together, and leave no epoch. Nobody dies alone. */
static void calm(struct client_plan *plan, const struct client_plan *first, struct rng *rng)
{
    plan->vanish_ns = plan->return_ns = SCENARIO_NEVER;
    plan->mischief_percent = 0;
    plan->asks_again = plan->leaves_twice = false;
    plan->stop_after = UINT32_MAX;
    plan->copies = chance(rng, 60);
    plan->cut_ns = SCENARIO_NEVER;
    if (chance(rng, 15))
        plan->cut_ns = plan->join_ns +
                       random_below(rng, plan->train.mean_ns * (plan->n_view / plan->world_size + 1) + 1);
    if (!chance(rng, plan->world_size == 1 ? 50 : 10))
        plan->stop_ns = SCENARIO_NEVER;
    if (!chance(rng, 10))
        plan->cancel_ns = SCENARIO_NEVER;
    if (plan->world_size == 1)
        return;
    plan->break_percent = 0;
    plan->epochs = first->run_epochs;
    plan->join_ns = first->join_ns + random_below(rng, chance(rng, 80) ? 10 * CLOCK_NS_PER_MS : CLOCK_NS_PER_S);
}

/* One more leg: the same training with another number of ranks, or the same. */
static void draw_leg(struct scenario *sc, const struct client_plan *first, uint32_t leg, uint32_t world,
                     struct rng *rng)
{
    uint32_t batch_size = first->batch_size;
    if (chance(rng, 20))
        batch_size = (uint32_t)between(rng, 1,
                                       2 * (uint64_t)batch_size < ENGINE_BATCH_MAX ? 2 * batch_size : batch_size);
    for (uint32_t rank = 0; rank < world; rank++) {
        struct client_plan *plan = &sc->clients[sc->n_clients++];
        scenario_copy_plan(first, plan);
        plan->leg = leg;
        plan->rank = rank;
        plan->world_size = world;
        plan->batch_size = batch_size;
        plan->join_ns = plan->stop_ns = plan->cancel_ns = plan->cut_ns = SCENARIO_NEVER;
        plan->train.mean_ns = plan->train.mean_ns * between(rng, 5, 20) / 10 + 1;
        if (world > 1) {
            plan->break_percent = 0;
            plan->epochs = plan->run_epochs;
        }
    }
}

/* In about half of the training runs. */
static void draw_legs(struct scenario *sc, uint32_t at, struct rng *rng)
{
    uint32_t n_legs = 1 + (uint32_t)random_below(rng, LEGS_MAX), world = sc->clients[at].world_size;
    if (sc->clients[at].invalid || !chance(rng, 55))
        return;
    for (uint32_t leg = 1; leg <= n_legs; leg++) {
        if (!chance(rng, 35))
            world = (uint32_t)between(rng, 1, chance(rng, 30) ? 1 : RANKS_MAX);
        sc->clients = xrealloc(sc->clients, sc->n_clients + (size_t)world, sizeof *sc->clients);
        draw_leg(sc, &sc->clients[at], leg, world, rng);
    }
}

/* Some rank of each leg ends it; some save. */
static void draw_stops(struct scenario *sc, struct rng *rng)
{
    bool often = chance(rng, 50);
    for (uint32_t i = 0; i < sc->n_clients; i++) {
        struct client_plan *plan = &sc->clients[i];
        uint64_t batches = plan->n_view / plan->world_size / (plan->batch_size ? plan->batch_size : 1) + 1;
        if (chance(rng, 60))
            plan->stop_after = (uint32_t)between(rng, 1, (chance(rng, 70) ? 1 : plan->run_epochs) * batches);
        if (chance(rng, 60))
            plan->save_percent = (uint32_t)between(rng, 1, often ? 100 : 30);
    }
}

void scenario_draw_restarts(struct scenario *sc, enum mood mood)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_RESTARTS, sc->seed, 0, 0);
    draw_groups(sc);
    uint32_t n_clients = sc->n_clients;
    for (uint32_t i = 0; i < n_clients; i++) {
        uint32_t first = 0;
        while (sc->clients[first].group != sc->clients[i].group)
            first++;
        calm(&sc->clients[i], &sc->clients[first], &rng);
    }
    for (uint32_t i = 0; mood != MOOD_CROWDED && i < n_clients; i++) {
        if (sc->clients[i].rank == 0)
            draw_legs(sc, i, &rng);
    }
    draw_stops(sc, &rng);
    sc->config.rank_timeout_ns = between(&rng, 20 * CLOCK_NS_PER_S, 200 * CLOCK_NS_PER_S);
    sc->away_ns = chance(&rng, 60) ? 50 * CLOCK_NS_PER_MS : 2 * CLOCK_NS_PER_S;
    sc->n_crashes = chance(&rng, 15) ? 0 : (uint32_t)between(&rng, 1, SCENARIO_CRASHES_MAX);
    for (uint32_t i = 0; i < sc->n_crashes; i++)
        sc->crashes[i] = 1 + random_below(&rng, UINT64_C(1) << between(&rng, 1, STEPS_BITS));
}
