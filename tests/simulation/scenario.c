/* scenario.c: draws a scenario from its seed. Most are small, so that many run; a few are large, crowded or starved. */
#include <stdlib.h>

#include "cache/memory/extent.h"
#include "common/check.h"
#include "common/clock.h"
#include "tests/simulation/scenario_priv.h"
#include "tests/simulation/solo.h"

/* With a key of its own, so that the scenarios of all seeds stay what they were but for this. */
static void draw_forgetting(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_FORGET, sc->seed, 0, 0);
    sc->forget_percent = chance(&rng, 15) ? (uint32_t)between(&rng, 10, 100) : 0;
}

/* With keys of their own, so that the scenarios of all seeds stay what they were but for these. */
static void draw_ahead(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_AHEAD, sc->seed, 0, 0);
    if (chance(&rng, 60))
        sc->config.ahead_window_ns = between(&rng, 1, 500 * CLOCK_NS_PER_MS);
    sc->config.room_timeout_ns = between(&rng, CLOCK_NS_PER_S / 10, 20 * CLOCK_NS_PER_S);
}

static void draw_arena(struct scenario *sc, struct rng *rng, enum mood mood)
{
    uint64_t largest = 1, sum = 0;
    for (uint32_t i = 0; i < sc->n_clients; i++) {
        struct client_plan *plan = &sc->clients[i];
        plan->quota_bytes = solo_quota(sc, plan);
        if (plan->rank > 0)
            continue;
        largest = plan->quota_bytes > largest ? plan->quota_bytes : largest;
        sum += plan->quota_bytes;
    }
    largest = largest > EXTENT_ALIGN ? largest : EXTENT_ALIGN;
    sum = sum > largest ? sum : largest;
    uint64_t kind = mood == MOOD_CROWDED ? 50 : random_below(rng, 100);
    sc->config.arena_bytes = has_pieces(mood) ? between(rng, sum / 4 + EXTENT_ALIGN, sum)
                             : kind < 15      ? largest
                             : kind < 22      ? between(rng, EXTENT_ALIGN, largest)
                             : kind < 45      ? between(rng, largest, sum)
                             : kind < 70      ? sum
                                              : sum * between(rng, 2, 20);
    sc->config.job_quota_bytes = has_pieces(mood) || chance(rng, 85) ? 0 : between(rng, 1, largest);
}

static void draw_budgets(struct scenario *sc, struct rng *rng)
{
    uint64_t largest = 1, sum = 1;
    for (uint32_t i = 0; i < sc->n_samples; i++) {
        largest = sc->samples[i].bytes > largest ? sc->samples[i].bytes : largest;
        sum += sc->samples[i].bytes;
    }
    uint64_t kind = random_below(rng, 100);
    sc->config.encoded_bytes = kind < 15   ? largest
                               : kind < 25 ? between(rng, 1, largest)
                               : kind < 45 ? largest * between(rng, 1, 10) + random_below(rng, largest)
                               : kind < 80 ? sum / 100 * between(rng, 5, 130) + largest /* a part of it stays */
                                           : sum * 2;
    sc->config.inflight_loads = (uint32_t)between(rng, 1, 16);
    sc->config.inflight_prepares = (uint32_t)between(rng, 1, 16);
    sc->config.seed = random_u64(rng);
}

/* What an instance takes at the least, of the arena and of the encoded budget, what is out at once, and what is a copy;
 * with keys of its own, as above. */
static void draw_records(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_RECORDS, sc->seed, 0, 0);
    if (chance(&rng, 15))
        sc->config.slot_least = between(&rng, 1, SCENARIO_SLOT_LEAST_MAX);
    if (chance(&rng, 15))
        sc->config.instance_bytes = between(&rng, 1, sc->config.encoded_bytes / 16 + 1);
    if (chance(&rng, 50)) {
        sc->config.prepares_max = (uint32_t)between(&rng, 1, 64);
        sc->config.prepares_ns = between(&rng, 1, 50 * CLOCK_NS_PER_MS);
    }
    if (chance(&rng, 50))
        sc->config.copy_bytes = between(&rng, 1, sc->samples[random_below(&rng, sc->n_samples)].bytes);
}

/* With a key of its own, as above: in some scenarios residents follow what changes for all of them far behind. */
static void draw_sweep(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_SWEEP, sc->seed, 0, 0);
    sc->wake_late_ns = 1;
    if (!chance(&rng, 30))
        return;
    sc->config.sweep_residents = (uint32_t)(chance(&rng, 50) ? between(&rng, 1, 4) : between(&rng, 1, 64));
    sc->wake_late_ns = between(&rng, 1, 20 * CLOCK_NS_PER_MS);
}

static void draw_parts(struct scenario *sc, struct rng *rng, enum mood mood)
{
    static const uint64_t slot_sizes[] = {1, 3, 64, 100, 3072, 4096, 12345, 150528, 602112, 3 << 20};
    scenario_draw_samples(sc, rng, mood);
    sc->n_datasets = (uint32_t)between(rng, 1, 4);
    sc->datasets = xcalloc(sc->n_datasets, sizeof *sc->datasets);
    for (uint32_t i = 0; i < sc->n_datasets; i++)
        scenario_draw_dataset(sc, &sc->datasets[i], rng);
    sc->n_pipelines = (uint32_t)(!has_pieces(mood) && chance(rng, 50) ? 1 : between(rng, 2, 5));
    sc->slot_bytes = xcalloc(sc->n_pipelines, sizeof *sc->slot_bytes);
    for (uint32_t i = 0; i < sc->n_pipelines; i++)
        sc->slot_bytes[i] = mood == MOOD_SCATTERED
                                ? EXTENT_ALIGN * (i == 0 ? between(rng, 1, 2) : between(rng, 10, 200))
                            : has_pieces(mood)
                                ? EXTENT_ALIGN * between(rng, 1, chance(rng, 50) ? 8 : 60)
                                : slot_sizes[random_below(rng, sizeof slot_sizes / sizeof slot_sizes[0])];
    sc->load = scenario_draw_latency(rng, 3 * CLOCK_NS_PER_MS);
    sc->prepare = scenario_draw_latency(rng, 3 * CLOCK_NS_PER_MS);
    sc->transit = scenario_draw_latency(rng, CLOCK_NS_PER_MS / 5);
    sc->tick_ns = chance(rng, 70) ? 0 : between(rng, CLOCK_NS_PER_MS, 100 * CLOCK_NS_PER_MS);
}

static bool is_scattered(uint64_t seed)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_SCATTER, seed, 0, 0);
    return chance(&rng, 3);
}

static bool is_tight(uint64_t seed)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_TIGHT, seed, 0, 0);
    return chance(&rng, 2);
}

/* What a job is sure of, in bytes of the arena. */
static uint64_t least_bytes(const struct scenario *sc, const struct client_plan *plan)
{
    uint64_t share = (plan->n_draws + plan->world_size - 1) / plan->world_size, hold = scenario_hold(plan);
    uint64_t batch = plan->batch_size < share ? plan->batch_size : share;
    return (hold > ENGINE_ROWS_MIN ? hold : ENGINE_ROWS_MIN) * batch * plan->world_size *
           engine_slot_bytes(&sc->config, sc->slot_bytes[plan->pipeline]);
}

/* Mostly all jobs just fit. */
static void tighten(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_TIGHT, sc->seed, 1, 0);
    uint64_t sum = EXTENT_ALIGN;
    for (uint32_t i = 0; i < sc->n_clients; i++) {
        struct client_plan *plan = &sc->clients[i];
        sum += plan->rank == 0 ? least_bytes(sc, plan) : 0;
        plan->hold = chance(&rng, 75) ? ENGINE_HOLD_MAX : plan->hold;
        if (plan->stop_ns != SCENARIO_NEVER || chance(&rng, 50))
            continue;
        plan->stop_ns = plan->join_ns + random_below(&rng, CLOCK_NS_PER_S / 2);
        plan->stop_for_ns = chance(&rng, 60) ? SCENARIO_NEVER : random_below(&rng, 10 * CLOCK_NS_PER_S);
    }
    uint64_t percent = chance(&rng, 25) ? between(&rng, 40, 99) : between(&rng, 100, 115);
    sc->config.arena_bytes = sum / 100 * percent + EXTENT_ALIGN;
    sc->config.job_quota_bytes = 0;
}

/* With a key of its own, as others are. */
static void draw_orders(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_ORDERS, sc->seed, 0, 0);
    sc->orders_known = chance(&rng, 15);
}

/* Arenas that grow, with a key of their own. */
static void draw_growth(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_GROWTH, sc->seed, 0, 0);
    if (!chance(&rng, 50))
        return;
    uint64_t pieces = between(&rng, 1, chance(&rng, 50) ? 8 : 200);
    sc->config.reserve_bytes = extent_round(sc->config.arena_bytes / pieces + 1);
    sc->reserve = scenario_draw_latency(&rng, 10 * CLOCK_NS_PER_MS);
    sc->refuse_percent = chance(&rng, 50) ? 0 : (uint32_t)between(&rng, 1, 90);
    sc->shrink_ns = chance(&rng, 50) ? 0 : between(&rng, CLOCK_NS_PER_MS, CLOCK_NS_PER_S);
    sc->config.linger_ns = chance(&rng, 50) ? 0 : between(&rng, CLOCK_NS_PER_MS, 4 * CLOCK_NS_PER_S);
}

/* Arenas whose room encoded samples may have, with a key of their own. */
static void draw_lent(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_LENT, sc->seed, 0, 0);
    if (sc->config.reserve_bytes && chance(&rng, 50))
        sc->config.lent_bytes = chance(&rng, 50) ? sc->config.arena_bytes : between(&rng, 1, sc->config.arena_bytes);
}

/* Steps that evict little at once, with a key of their own. */
static void draw_evictions(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_EVICTIONS, sc->seed, 0, 0);
    sc->config.evicted_at_once = chance(&rng, 50) ? 0 : (uint32_t)between(&rng, 1, 8);
}

/* Memory for all samples, and for none to several times as much in forms. */
static void add_forms(struct scenario *sc)
{
    uint64_t all = 0;
    for (sample_id id = 0; id < sc->n_samples; id++)
        all += sc->samples[id].bytes;
    sc->config.decoded = true;
    if (random_mix64(sc->seed) % 8)
        sc->config.encoded_bytes += all * (1 + random_mix64(sc->seed + 1) % 5);
}

struct scenario *scenario_create(uint64_t seed, unsigned kind)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_SCENARIO, seed, 0, 0);
    struct scenario *sc = xcalloc(1, sizeof *sc);
    sc->seed = seed;
    sc->restarts = kind & SCENARIO_RESTARTS;
    sc->unlike = kind & SCENARIO_UNLIKE;
    sc->planes = kind & SCENARIO_PLANES;
    uint64_t drawn = random_below(&rng, 400);
    enum mood mood = drawn == 0 ? MOOD_CROWDED : drawn <= 20 ? MOOD_PIECES : MOOD_PLAIN;
    draw_ahead(sc);
    draw_orders(sc);
    bool calm = chance(&rng, 30);
    if (mood == MOOD_PLAIN && is_scattered(seed))
        mood = MOOD_SCATTERED;
    if (kind & SCENARIO_TIGHT || (mood == MOOD_PLAIN && is_tight(seed)))
        mood = MOOD_TIGHT;
    draw_parts(sc, &rng, mood);
    if (mood == MOOD_PLAIN || mood == MOOD_TIGHT)
        scenario_draw_raw(sc);
    else
        sc->raw_pipeline = sc->n_pipelines;
    sc->n_clients = (uint32_t)(mood == MOOD_CROWDED ? between(&rng, JOBS_MAX, JOBS_MAX + 40)
                               : chance(&rng, 90)   ? between(&rng, 1, 5)
                                                    : between(&rng, 5, 12));
    sc->clients = xcalloc(sc->n_clients, sizeof *sc->clients);
    uint64_t join_spread_ns = between(&rng, 1, chance(&rng, 50) ? 20 * CLOCK_NS_PER_MS : 2 * CLOCK_NS_PER_S);
    for (uint32_t i = 0; i < sc->n_clients; i++) {
        scenario_draw_job(sc, &sc->clients[i], i, &rng, mood);
        scenario_draw_behaviour(&sc->clients[i], &rng, mood == MOOD_CROWDED ? 1 : join_spread_ns,
                                calm && !has_pieces(mood));
        if (mood == MOOD_SCATTERED)
            scenario_scatter(sc, &sc->clients[i], i, &rng);
    }
    scenario_draw_weights(sc);
    scenario_draw_ranks(sc, mood);
    scenario_draw_habits(sc);
    scenario_draw_ends(sc);
    if (sc->restarts)
        scenario_draw_restarts(sc, mood);
    for (uint32_t i = 0; i < sc->n_clients; i++)
        sc->clients[i].n_draws = sc->clients[i].n_view;
    if (kind & SCENARIO_MULTISETS)
        scenario_draw_multisets(sc);
    sc->drain_ns = chance(&rng, 94) ? SCENARIO_NEVER : random_below(&rng, join_spread_ns);
    draw_budgets(sc, &rng);
    scenario_draw_chunks(sc, &rng);
    draw_forgetting(sc);
    scenario_draw_unfit(sc);
    scenario_draw_repeatable(sc);
    if (kind & SCENARIO_RAGGED)
        scenario_draw_sized(sc);
    draw_records(sc);
    draw_sweep(sc);
    scenario_draw_troubles(sc);
    draw_arena(sc, &rng, mood);
    if (mood == MOOD_TIGHT)
        tighten(sc);
    draw_growth(sc);
    draw_lent(sc);
    draw_evictions(sc);
    if (kind & SCENARIO_FORMS)
        add_forms(sc);
    return sc;
}

void scenario_destroy(struct scenario *sc)
{
    for (uint32_t i = 0; i < sc->n_clients; i++) {
        free(sc->clients[i].order);
        free(sc->clients[i].view);
        multiset_destroy(sc->clients[i].multiset);
        multiset_destroy(sc->clients[i].other);
    }
    for (uint32_t i = 0; i < sc->n_datasets; i++) {
        free(sc->datasets[i].ids);
        free(sc->datasets[i].position);
    }
    free(sc->clients);
    free(sc->datasets);
    free(sc->slot_bytes);
    free(sc->samples);
    free(sc);
}
