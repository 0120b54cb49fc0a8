/* scenario_clients.c: the jobs and ranks, and what their clients do. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "tests/simulation/scenario_priv.h"

/* The most samples of a view whose epochs are a multiset, and draws of it: a sample's turns are counted in a byte. */
#define MULTISET_DRAWN 250
#define VARIANTS 50 /* and 0 is none, whose mix is 0 */

static int compare_ids(const void *a, const void *b)
{
    sample_id x = *(const sample_id *)a, y = *(const sample_id *)b;
    return (x > y) - (x < y);
}

static void draw_view(const struct scenario_dataset *dataset, struct client_plan *plan, struct rng *rng)
{
    plan->order = xcalloc(dataset->n_ids, sizeof *plan->order);
    plan->view = xcalloc(dataset->n_ids, sizeof *plan->view);
    unsigned percent = chance(rng, 50) ? 100 : chance(rng, 4) ? 0 : (unsigned)between(rng, 1, 99);
    uint32_t end = chance(rng, 20) ? (uint32_t)between(rng, 1, dataset->n_ids) : dataset->n_ids;
    for (uint32_t i = 0; i < end; i++)
        if (chance(rng, percent))
            plan->order[plan->n_view++] = dataset->ids[i];
    memcpy(plan->view, plan->order, plan->n_view * sizeof *plan->view);
    qsort(plan->view, plan->n_view, sizeof *plan->view, compare_ids);
}

void scenario_draw_job(const struct scenario *sc, struct client_plan *plan, uint32_t index, struct rng *rng,
                       enum mood mood)
{
    snprintf(plan->name, sizeof plan->name, "job%u", chance(rng, 8) ? 0 : index);
    plan->dataset = (uint32_t)random_below(rng, sc->n_datasets);
    plan->pipeline = (uint32_t)random_below(rng, sc->n_pipelines);
    draw_view(&sc->datasets[plan->dataset], plan, rng);
    plan->batch_size = (uint32_t)(mood == MOOD_CROWDED || chance(rng, 50)
                                      ? between(rng, 1, 8)
                                      : between(rng, 1, chance(rng, 80) ? 40 : 300));
    plan->prefetch = (uint32_t)(mood == MOOD_CROWDED ? 1 : between(rng, 1, 8));
    plan->drop_last = chance(rng, 25);
    bool dependent = chance(rng, 60) && !sc->orders_known;
    plan->shuffle = dependent ? SHUFFLE_DEPENDENT : chance(rng, 50) ? SHUFFLE_STRICT : SHUFFLE_NONE;
    plan->bad_policy = chance(rng, 50) ? BAD_SKIP : chance(rng, 70) ? BAD_REPLACE : BAD_ERROR;
    plan->seed = random_u64(rng);
    plan->run_epochs = (uint32_t)(mood == MOOD_CROWDED ? 1 : between(rng, 1, 3));
    plan->epochs = chance(rng, 60) ? plan->run_epochs : chance(rng, 50) ? 0 : plan->run_epochs + 2;
    if (!chance(rng, 1))
        return;
    plan->invalid = true;
    switch (random_below(rng, 4)) {
    case 0: plan->batch_size = 0; break;
    case 1: plan->batch_size = ENGINE_BATCH_MAX + 1; break;
    case 2: plan->prefetch = 0; break;
    default: plan->prefetch = ENGINE_PREFETCH_MAX + 1;
    }
}

void scenario_draw_behaviour(struct client_plan *plan, struct rng *rng, uint64_t join_spread_ns, bool calm)
{
    plan->ask = (uint32_t)between(rng, 1, chance(rng, 50) ? 2 : 10);
    plan->hold = (uint32_t)(chance(rng, 50) ? 0 : between(rng, 1, 8));
    plan->release_order = (enum release_order)random_below(rng, 3);
    plan->train = scenario_draw_latency(rng, chance(rng, 30) ? CLOCK_NS_PER_MS / 10 : 30 * CLOCK_NS_PER_MS);
    plan->join_ns = chance(rng, 40) ? 0 : random_below(rng, join_spread_ns);
    plan->vanish_ns = plan->stop_ns = plan->return_ns = SCENARIO_NEVER;
    plan->stop_for_ns = 0;
    plan->retries = (uint32_t)between(rng, 0, 6);
    if (calm)
        return;
    uint64_t life_ns = plan->train.mean_ns * plan->run_epochs *
                       (plan->n_view / (plan->batch_size ? plan->batch_size : 1) + 2);
    if (chance(rng, 20))
        plan->vanish_ns = plan->join_ns + random_below(rng, life_ns + 1);
    if (chance(rng, 25)) {
        plan->stop_ns = plan->join_ns + random_below(rng, life_ns + 1);
        plan->stop_for_ns = chance(rng, 60) ? SCENARIO_NEVER : random_below(rng, 10 * CLOCK_NS_PER_S);
    }
    plan->break_percent = chance(rng, 80) ? 0 : (uint32_t)between(rng, 1, 40);
    plan->mischief_percent = chance(rng, 75) ? 0 : (uint32_t)between(rng, 1, 60);
}

static sample_id *copy_ids(const sample_id *ids, uint32_t count)
{
    sample_id *copy = xcalloc(count, sizeof *copy);
    if (count)
        memcpy(copy, ids, count * sizeof *copy);
    return copy;
}

void scenario_copy_plan(const struct client_plan *from, struct client_plan *to)
{
    *to = *from;
    to->view = copy_ids(from->view, from->n_view);
    to->order = copy_ids(from->order, from->n_view);
}

/* One more rank of a job: the same job, a life of its own. */
static void draw_rank(const struct scenario *sc, const struct client_plan *first, struct client_plan *plan,
                      uint32_t rank, struct rng *rng)
{
    scenario_copy_plan(first, plan);
    plan->rank = rank;
    scenario_draw_behaviour(plan, rng, chance(rng, 70) ? first->join_ns + 1 : 3 * CLOCK_NS_PER_S, chance(rng, 70));
    if (chance(rng, 30)) /* one that goes, and mostly comes back */
        plan->vanish_ns = plan->join_ns + random_below(rng, plan->train.mean_ns * (plan->n_view + 2));
    if (chance(rng, 70))
        plan->return_ns = random_below(rng, chance(rng, 80) ? CLOCK_NS_PER_S : 2 * sc->config.rank_timeout_ns);
    if (chance(rng, 15))
        plan->train.mean_ns *= 10;
}

/* Makes some of the jobs data-parallel: in about every third scenario. Drawn apart, so that the others stay as they
 * are. */
void scenario_draw_ranks(struct scenario *sc, enum mood mood)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_RANKS, sc->seed, 0, 0);
    uint32_t n_jobs = sc->n_clients;
    for (uint32_t i = 0; i < n_jobs; i++) {
        sc->clients[i].world_size = 1;
        sc->clients[i].ordered = chance(&rng, 50);
    }
    if (mood == MOOD_CROWDED || !chance(&rng, 35))
        return;
    sc->config.rank_timeout_ns = between(&rng, CLOCK_NS_PER_S / 2, 20 * CLOCK_NS_PER_S);
    for (uint32_t i = 0; i < n_jobs; i++) {
        uint32_t world = (uint32_t)(chance(&rng, 40) ? 1 : between(&rng, 2, chance(&rng, 80) ? 4 : 9));
        sc->clients[i].world_size = world;
        sc->clients = xrealloc(sc->clients, sc->n_clients + world, sizeof *sc->clients);
        for (uint32_t rank = 1; rank < world; rank++)
            draw_rank(sc, &sc->clients[i], &sc->clients[sc->n_clients++], rank, &rng);
        if (world > 1 && chance(&rng, 50))
            sc->clients[i].return_ns = random_below(&rng, CLOCK_NS_PER_S);
    }
}

static double draw_weight(struct rng *rng)
{
    return chance(rng, 20) ? JOB_WEIGHT_MIN : chance(rng, 20) ? JOB_WEIGHT_MAX : (double)between(rng, 1, 100) / 10;
}

/* In every second scenario. */
void scenario_draw_weights(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_WEIGHTS, sc->seed, 0, 0);
    bool weighted = chance(&rng, 50);
    for (uint32_t i = 0; weighted && i < sc->n_clients; i++) {
        sc->clients[i].weight = chance(&rng, 30) ? 0 : draw_weight(&rng);
        sc->clients[i].reweigh_percent = chance(&rng, 80) ? 0 : (uint32_t)between(&rng, 1, 30);
        if (sc->clients[i].invalid && chance(&rng, 50))
            sc->clients[i].weight = chance(&rng, 50) ? NAN : -1;
    }
}

/* Jobs that are cancelled, in about every fourth scenario, and clients that stay after that. */
void scenario_draw_ends(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_ENDS, sc->seed, 0, 0);
    bool cancels = chance(&rng, 25);
    for (uint32_t i = 0; i < sc->n_clients; i++) {
        struct client_plan *plan = &sc->clients[i];
        uint64_t life_ns = plan->train.mean_ns * (plan->n_view / (plan->batch_size ? plan->batch_size : 1) + 4);
        plan->clings_ns = chance(&rng, 50) ? 0 : random_below(&rng, 3 * CLOCK_NS_PER_S);
        plan->cancel_ns = SCENARIO_NEVER;
        if (cancels && chance(&rng, 40))
            plan->cancel_ns = plan->join_ns + random_below(&rng, life_ns + 1);
    }
}

/* A job's epochs: each sample several times, by weights, or each class as often. By the job's seed, which its ranks
 * have in common. */
static void draw_multiset(struct client_plan *plan, uint64_t seed)
{
    struct rng rng;
    struct error err;
    double weights[MULTISET_DRAWN];
    int32_t labels[MULTISET_DRAWN];
    struct multiset_spec spec = {.ids = plan->order, .weights = weights, .labels = labels, .count = plan->n_view};
    random_seed_keys(&rng, KEY_MULTISETS, seed, plan->seed, 0);
    for (uint32_t i = 0; i < plan->n_view; i++) {
        weights[i] = i > 0 && chance(&rng, 20) ? 0 : (double)between(&rng, 1, 9);
        labels[i] = (int32_t)random_below(&rng, 5);
    }
    spec.kind = (enum multiset_kind)between(&rng, MULTISET_REPEAT, MULTISET_BALANCED);
    spec.copies = (uint32_t)between(&rng, 2, 5);
    spec.draws = spec.kind == MULTISET_REPEAT ? 0 : between(&rng, 1, MULTISET_DRAWN);
    spec.seed = plan->seed;
    CHECK(multiset_create(&spec, &plan->multiset, &err) == 0);
    spec.seed++;
    CHECK(multiset_create(&spec, &plan->other, &err) == 0);
    plan->n_draws = (uint32_t)multiset_draws(plan->multiset);
}

void scenario_draw_multisets(struct scenario *sc)
{
    for (uint32_t i = 0; i < sc->n_clients; i++) {
        struct client_plan *plan = &sc->clients[i];
        if (plan->shuffle == SHUFFLE_DEPENDENT && plan->n_view > 0 && plan->n_view <= MULTISET_DRAWN &&
            plan->seed % 4 > 0)
            draw_multiset(plan, sc->seed);
    }
}

/* What few do. Drawn apart, as ranks are. */
void scenario_draw_habits(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_HABITS, sc->seed, 0, 0);
    uint32_t n_clients = sc->n_clients;
    bool variants = chance(&rng, 30), few = chance(&rng, 50), doubles = chance(&rng, 15) && !sc->restarts;
    for (uint32_t i = 0; i < n_clients; i++) {
        sc->clients[i].asks_again = chance(&rng, 20);
        sc->clients[i].leaves_twice = chance(&rng, 10);
        if (variants) /* by the seed, which ranks of a job have in common */
            sc->clients[i].variant = random_mix64(sc->clients[i].seed % (few ? 3 : VARIANTS));
        if (!doubles || sc->clients[i].world_size == 1 || !chance(&rng, 40))
            continue;
        sc->clients = xrealloc(sc->clients, sc->n_clients + 1, sizeof *sc->clients);
        draw_rank(sc, &sc->clients[i], &sc->clients[sc->n_clients++], sc->clients[i].rank, &rng); /* one too many */
    }
}

/* Those with small slots come first and stop, the others come later. */
void scenario_scatter(const struct scenario *sc, struct client_plan *plan, uint32_t index, struct rng *rng)
{
    bool small = index == 0 || chance(rng, 50);
    plan->pipeline = small ? 0 : (uint32_t)between(rng, 1, sc->n_pipelines - 1);
    plan->join_ns = small ? 0 : random_below(rng, 2 * CLOCK_NS_PER_S);
    if (!small || chance(rng, 30))
        return;
    plan->stop_ns = random_below(rng, CLOCK_NS_PER_S / 2);
    plan->stop_for_ns = SCENARIO_NEVER;
    plan->hold = (uint32_t)between(rng, 0, 8);
}
