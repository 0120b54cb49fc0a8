/* scenario.c: draws a scenario from its seed. Most are small, so that many run; a few are large, crowded or starved. */
#include "tests/simulation/scenario.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/memory/extent.h"
#include "common/check.h"
#include "common/clock.h"
#include "tests/simulation/solo.h"

#define KEY_SCENARIO UINT64_C(0x5ce7a210)
#define KEY_RANKS UINT64_C(0x3a9c5)
#define KEY_WEIGHTS UINT64_C(0x3e167)
#define KEY_RAW UINT64_C(0x2a90)
#define KEY_AHEAD UINT64_C(0xa4ead)
#define KEY_HABITS UINT64_C(0x4ab17)
#define KEY_ENDS UINT64_C(0xe4d5)
#define KEY_SCATTER UINT64_C(0x5ca77e2)
#define KEY_TIGHT UINT64_C(0x719487)
#define KEY_FORGET UINT64_C(0xf0c607)
#define KEY_UNFIT UINT64_C(0x0f17)
#define KEY_RECORDS UINT64_C(0x4ec04d)
#define KEY_OUTAGES UINT64_C(0x0074a6e5)
#define VARIANTS 50 /* and 0 is none, whose mix is 0 */
#define SLOW_LANE_EVERY 17
#define SLOW_LANE_FACTOR 60
#define HEAVY_FACTOR_MAX 300.0

enum mood {
    MOOD_PLAIN,
    MOOD_CROWDED, /* more jobs than there are places for */
    MOOD_PIECES, /* slots of many sizes in an arena that is all promised, and clients that stop: free space in pieces */
    MOOD_SCATTERED, /* small slots of clients that stop, all over the arena, before others come that need large ones */
    MOOD_TIGHT, /* as MOOD_PIECES, and no more room than jobs are sure of; clients hold what they may */
};

static bool has_pieces(enum mood mood)
{
    return mood == MOOD_PIECES || mood == MOOD_SCATTERED || mood == MOOD_TIGHT;
}

static uint64_t between(struct rng *rng, uint64_t low, uint64_t high)
{
    return low + random_below(rng, high - low + 1);
}

static bool chance(struct rng *rng, unsigned percent)
{
    return random_below(rng, 100) < percent;
}

uint64_t latency_draw(const struct latency *latency, struct rng *rng, uint64_t lane)
{
    double u = random_unit(rng);
    switch (latency->kind) {
    case LATENCY_CONSTANT:
        return latency->mean_ns;
    case LATENCY_UNIFORM:
        return (uint64_t)(2 * u * (double)latency->mean_ns);
    case LATENCY_HEAVY: {
        double factor = 0.3 / (1.0 - u) / (1.0 - u); /* Pareto with exponent 1/2: no mean of its own, so it is cut */
        return (uint64_t)((factor < HEAVY_FACTOR_MAX ? factor : HEAVY_FACTOR_MAX) * (double)latency->mean_ns);
    }
    case LATENCY_ONE_SLOW:
        return latency->mean_ns * (lane % SLOW_LANE_EVERY == 0 ? SLOW_LANE_FACTOR : 1);
    default:
        return 0;
    }
}

static struct latency draw_latency(struct rng *rng, uint64_t mean_max_ns)
{
    return (struct latency){.kind = (enum latency_kind)random_below(rng, LATENCY_KINDS),
                            .mean_ns = between(rng, 1, mean_max_ns)};
}

static void draw_samples(struct scenario *sc, struct rng *rng, enum mood mood)
{
    uint64_t size = random_below(rng, 100);
    sc->n_samples = (uint32_t)(mood == MOOD_CROWDED ? between(rng, 1, 20)
                               : size < 50          ? between(rng, 1, 40)
                               : size < 86          ? between(rng, 20, 250)
                               : size < 98          ? between(rng, 250, 1000)
                                                    : between(rng, 1000, 3000));
    sc->samples = xcalloc(sc->n_samples, sizeof *sc->samples);
    uint64_t bytes_max = chance(rng, 10) ? 1 : between(rng, 100, 200000);
    uint64_t faulty = chance(rng, 70) ? 0 : chance(rng, 10) ? 1000 : between(rng, 1, 200);
    for (uint32_t i = 0; i < sc->n_samples; i++) {
        struct scenario_sample *sample = &sc->samples[i];
        sample->bytes = chance(rng, 1) ? 0 : chance(rng, 3) ? bytes_max : between(rng, 1, bytes_max);
        if (random_below(rng, 1000) < faulty)
            sample->fault = chance(rng, 50) ? FAULT_LOAD : FAULT_PREPARE;
    }
    sc->load_faults = chance(rng, 85) ? 0 : (uint32_t)between(rng, 1, 80);
    sc->prepare_faults = chance(rng, 85) ? 0 : (uint32_t)between(rng, 1, 80);
}

static void shuffle(struct rng *rng, sample_id *ids, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = (uint32_t)random_below(rng, i);
        sample_id swap = ids[i - 1];
        ids[i - 1] = ids[j];
        ids[j] = swap;
    }
}

static void draw_dataset(struct scenario *sc, struct scenario_dataset *dataset, struct rng *rng)
{
    unsigned percent = chance(rng, 40) ? 100 : (unsigned)between(rng, 1, 99);
    *dataset = (struct scenario_dataset){.scenario = sc, .ids = xcalloc(sc->n_samples, sizeof *dataset->ids)};
    dataset->position = xcalloc(sc->n_samples, sizeof *dataset->position);
    for (sample_id id = 0; id < sc->n_samples; id++) {
        if (!chance(rng, percent) && (dataset->n_ids || id + 1 < sc->n_samples))
            continue;
        dataset->ids[dataset->n_ids++] = id;
    }
    shuffle(rng, dataset->ids, dataset->n_ids);
    for (sample_id id = 0; id < sc->n_samples; id++)
        dataset->position[id] = SCENARIO_NOT_THERE;
    for (uint32_t i = 0; i < dataset->n_ids; i++)
        dataset->position[dataset->ids[i]] = i;
}

/* With a key of its own, so that the scenarios of all seeds stay what they were but for this. */
static void draw_forgetting(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_FORGET, sc->seed, 0, 0);
    sc->forget_percent = chance(&rng, 15) ? (uint32_t)between(&rng, 10, 100) : 0;
}

/* Samples that one pipeline can make nothing of and another can. Drawn apart, as ranks are. */
static void draw_unfit(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_UNFIT, sc->seed, 0, 0);
    uint64_t unfit = chance(&rng, 60) ? 0 : between(&rng, 1, 300);
    for (uint32_t i = 0; i < sc->n_samples; i++) {
        if (random_below(&rng, 1000) < unfit)
            sc->samples[i].unfit = (uint32_t)random_below(&rng, UINT64_C(1) << sc->n_pipelines);
    }
    sc->output_faults = chance(&rng, 85) ? 0 : (uint32_t)between(&rng, 1, 80);
}

/* How datasets lie in chunks, and how picks are redirected among these. */
static void draw_chunks(struct scenario *sc, struct rng *rng)
{
    static const uint32_t sizes[] = {1, 2, 4, 8, 16, 64};
    sc->chunk_samples = sizes[random_below(rng, sizeof sizes / sizeof sizes[0])];
    uint32_t base = 0;
    for (uint32_t i = 0; i < sc->n_datasets; i++) {
        struct scenario_dataset *dataset = &sc->datasets[i];
        dataset->in_chunks = chance(rng, 85);
        dataset->chunk_base = base;
        dataset->chunk_count = (dataset->n_ids + sc->chunk_samples - 1) / sc->chunk_samples;
        base += dataset->chunk_count;
    }
    uint64_t kind = random_below(rng, 100);
    sc->config.redirect_width = kind < 35   ? 0
                                : kind < 50 ? 1
                                : kind < 65 ? sc->chunk_samples
                                            : (uint32_t)between(rng, 1, sc->chunk_samples);
    sc->config.redirect_group = (uint32_t)(chance(rng, 40) ? 0 : between(rng, 1, chance(rng, 50) ? 4 : 64));
    sc->gather = (uint32_t)(chance(rng, 50) ? 1 : between(rng, 2, SCENARIO_GATHER_MAX));
}

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

static void draw_job(const struct scenario *sc, struct client_plan *plan, uint32_t index, struct rng *rng,
                     enum mood mood)
{
    snprintf(plan->name, sizeof plan->name, "job%u", chance(rng, 8) ? 0 : index);
    plan->dataset = (uint32_t)random_below(rng, sc->n_datasets);
    plan->pipeline = (uint32_t)random_below(rng, sc->n_pipelines);
    draw_view(&sc->datasets[plan->dataset], plan, rng);
    plan->batch_size =
        (uint32_t)(mood == MOOD_CROWDED || chance(rng, 50) ? between(rng, 1, 8)
                                                           : between(rng, 1, chance(rng, 80) ? 40 : 300));
    plan->prefetch = (uint32_t)(mood == MOOD_CROWDED ? 1 : between(rng, 1, 8));
    plan->drop_last = chance(rng, 25);
    plan->shuffle = chance(rng, 60) ? SHUFFLE_DEPENDENT : chance(rng, 50) ? SHUFFLE_STRICT : SHUFFLE_NONE;
    plan->bad_policy = chance(rng, 50) ? BAD_SKIP : chance(rng, 70) ? BAD_REPLACE : BAD_ERROR;
    plan->seed = random_u64(rng);
    plan->run_epochs = (uint32_t)(mood == MOOD_CROWDED ? 1 : between(rng, 1, 3));
    plan->epochs = chance(rng, 60) ? plan->run_epochs : chance(rng, 50) ? 0 : plan->run_epochs + 2;
    if (!chance(rng, 1))
        return;
    plan->invalid = true;
    switch (random_below(rng, 4)) {
    case 0:
        plan->batch_size = 0;
        break;
    case 1:
        plan->batch_size = ENGINE_BATCH_MAX + 1;
        break;
    case 2:
        plan->prefetch = 0;
        break;
    default:
        plan->prefetch = ENGINE_PREFETCH_MAX + 1;
    }
}

static void draw_behaviour(struct client_plan *plan, struct rng *rng, uint64_t join_spread_ns, bool calm)
{
    plan->ask = (uint32_t)between(rng, 1, chance(rng, 50) ? 2 : 10);
    plan->hold = (uint32_t)(chance(rng, 50) ? 0 : between(rng, 1, 8));
    plan->release_order = (enum release_order)random_below(rng, 3);
    plan->train = draw_latency(rng, chance(rng, 30) ? CLOCK_NS_PER_MS / 10 : 30 * CLOCK_NS_PER_MS);
    plan->join_ns = chance(rng, 40) ? 0 : random_below(rng, join_spread_ns);
    plan->vanish_ns = plan->stop_ns = plan->return_ns = SCENARIO_NEVER;
    plan->stop_for_ns = 0;
    plan->retries = (uint32_t)between(rng, 0, 6);
    if (calm)
        return;
    uint64_t life_ns =
        plan->train.mean_ns * plan->run_epochs * (plan->n_view / (plan->batch_size ? plan->batch_size : 1) + 2);
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

/* One more rank of a job: the same job, a life of its own. */
static void draw_rank(const struct scenario *sc, const struct client_plan *first, struct client_plan *plan,
                      uint32_t rank, struct rng *rng)
{
    *plan = *first;
    plan->rank = rank;
    plan->view = copy_ids(first->view, first->n_view);
    plan->order = copy_ids(first->order, first->n_view);
    draw_behaviour(plan, rng, chance(rng, 70) ? first->join_ns + 1 : 3 * CLOCK_NS_PER_S, chance(rng, 70));
    if (chance(rng, 30)) /* one that goes, and mostly comes back */
        plan->vanish_ns = plan->join_ns + random_below(rng, plan->train.mean_ns * (plan->n_view + 2));
    if (chance(rng, 70))
        plan->return_ns = random_below(rng, chance(rng, 80) ? CLOCK_NS_PER_S : 2 * sc->config.rank_timeout_ns);
    if (chance(rng, 15))
        plan->train.mean_ns *= 10;
}

/* Makes some of the jobs data-parallel: in about every third scenario. Drawn apart, so that the others stay as they
 * are. */
static void draw_ranks(struct scenario *sc, enum mood mood)
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
static void draw_weights(struct scenario *sc)
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

/* With keys of their own, so that the scenarios of all seeds stay what they were but for these. */
static void draw_ahead(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_AHEAD, sc->seed, 0, 0);
    if (chance(&rng, 60))
        sc->config.ahead_window_ns = between(&rng, 1, 500 * CLOCK_NS_PER_MS);
    sc->config.room_timeout_ns = between(&rng, CLOCK_NS_PER_S / 10, 20 * CLOCK_NS_PER_S);
}

/* Jobs that are cancelled, in about every fourth scenario, and clients that stay after that. */
static void draw_ends(struct scenario *sc)
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

/* What few do. Drawn apart, as ranks are. */
static void draw_habits(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_HABITS, sc->seed, 0, 0);
    uint32_t n_clients = sc->n_clients;
    bool variants = chance(&rng, 30), few = chance(&rng, 50), doubles = chance(&rng, 15);
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

/* With keys of its own, so that the scenarios of all seeds stay what they were but for this. */
static void draw_raw(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_RAW, sc->seed, 0, 0);
    sc->raw_pipeline = sc->n_pipelines;
    if (!chance(&rng, 20))
        return;
    sc->raw_pipeline = (uint32_t)random_below(&rng, sc->n_pipelines);
    uint64_t longest = 1;
    for (uint32_t i = 0; i < sc->n_samples; i++) {
        sc->samples[i].bytes += sc->samples[i].bytes == 0; /* the model tells instances apart by the bytes they take */
        longest = sc->samples[i].bytes > longest ? sc->samples[i].bytes : longest;
    }
    sc->slot_bytes[sc->raw_pipeline] = longest;
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
                             : kind < 15         ? largest
                             : kind < 22         ? between(rng, EXTENT_ALIGN, largest)
                             : kind < 45         ? between(rng, largest, sum)
                             : kind < 70         ? sum
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
    sc->config.encoded_bytes = kind < 20   ? largest
                               : kind < 30 ? between(rng, 1, largest)
                               : kind < 60 ? largest * between(rng, 1, 10) + random_below(rng, largest)
                                           : sum * 2;
    sc->config.inflight_loads = (uint32_t)between(rng, 1, 16);
    sc->config.inflight_prepares = (uint32_t)between(rng, 1, 16);
    sc->config.seed = random_u64(rng);
}

/* What an instance takes at the least, of the arena and of the encoded budget; with keys of its own, as above. */
static void draw_records(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_RECORDS, sc->seed, 0, 0);
    if (chance(&rng, 15))
        sc->config.slot_least = between(&rng, 1, SCENARIO_SLOT_LEAST_MAX);
    if (chance(&rng, 15))
        sc->config.instance_bytes = between(&rng, 1, sc->config.encoded_bytes / 16 + 1);
}

static void draw_parts(struct scenario *sc, struct rng *rng, enum mood mood)
{
    static const uint64_t slot_sizes[] = {1, 3, 64, 100, 3072, 4096, 12345, 150528, 602112, 3 << 20};
    draw_samples(sc, rng, mood);
    sc->n_datasets = (uint32_t)between(rng, 1, 4);
    sc->datasets = xcalloc(sc->n_datasets, sizeof *sc->datasets);
    for (uint32_t i = 0; i < sc->n_datasets; i++)
        draw_dataset(sc, &sc->datasets[i], rng);
    sc->n_pipelines = (uint32_t)(!has_pieces(mood) && chance(rng, 50) ? 1 : between(rng, 2, 5));
    sc->slot_bytes = xcalloc(sc->n_pipelines, sizeof *sc->slot_bytes);
    for (uint32_t i = 0; i < sc->n_pipelines; i++)
        sc->slot_bytes[i] = mood == MOOD_SCATTERED
                                ? EXTENT_ALIGN * (i == 0 ? between(rng, 1, 2) : between(rng, 10, 200))
                            : has_pieces(mood)
                                ? EXTENT_ALIGN * between(rng, 1, chance(rng, 50) ? 8 : 60)
                                : slot_sizes[random_below(rng, sizeof slot_sizes / sizeof slot_sizes[0])];
    sc->load = draw_latency(rng, 3 * CLOCK_NS_PER_MS);
    sc->prepare = draw_latency(rng, 3 * CLOCK_NS_PER_MS);
    sc->transit = draw_latency(rng, CLOCK_NS_PER_MS / 5);
    sc->tick_ns = chance(rng, 70) ? 0 : between(rng, CLOCK_NS_PER_MS, 100 * CLOCK_NS_PER_MS);
}

static bool is_scattered(uint64_t seed)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_SCATTER, seed, 0, 0);
    return chance(&rng, 3);
}

/* Those with small slots come first and stop, the others come later. */
static void scatter(const struct scenario *sc, struct client_plan *plan, uint32_t index, struct rng *rng)
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

static bool is_tight(uint64_t seed)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_TIGHT, seed, 0, 0);
    return chance(&rng, 2);
}

/* What a job is sure of, in bytes of the arena. */
static uint64_t least_bytes(const struct scenario *sc, const struct client_plan *plan)
{
    uint64_t share = (plan->n_view + plan->world_size - 1) / plan->world_size, hold = scenario_hold(plan);
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

static void draw_outages(struct scenario *sc, struct rng *rng)
{
    sc->config.source_wait_ns = between(rng, CLOCK_NS_PER_S / 5, 5 * CLOCK_NS_PER_S);
    sc->n_outages = (uint32_t)between(rng, 1, SCENARIO_OUTAGES_MAX);
    for (uint32_t i = 0; i < sc->n_outages; i++) {
        uint64_t from_ns = random_below(rng, chance(rng, 50) ? CLOCK_NS_PER_S / 20 : 2 * CLOCK_NS_PER_S);
        uint64_t most_ns = chance(rng, 60) ? CLOCK_NS_PER_S / 2 : 2 * sc->config.source_wait_ns;
        sc->outages[i] = (struct scenario_outage){.dataset = (uint32_t)random_below(rng, sc->n_datasets),
                                                  .from_ns = from_ns,
                                                  .to_ns = from_ns + between(rng, 1, most_ns)};
    }
}

/* Sources that do not answer for a while, samples that alone cannot be read or are others by now, and a limit for bad ones. With
 * keys of its own, so that the scenarios of all seeds stay what they were but for these. */
static void draw_troubles(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_OUTAGES, sc->seed, 0, 0);
    for (uint32_t i = 0; i < sc->n_datasets; i++)
        sc->datasets[i].changed_ns = SCENARIO_NEVER;
    if (!chance(&rng, 35))
        return;
    draw_outages(sc, &rng);
    bool single = chance(&rng, 40);
    for (uint32_t i = 0; single && i < sc->n_samples; i++) {
        if (sc->samples[i].fault == FAULT_NONE && chance(&rng, 4))
            sc->samples[i].fault = FAULT_SOURCE;
    }
    for (uint32_t i = 0; i < sc->n_datasets; i++) {
        if (!chance(&rng, 10))
            continue;
        sc->datasets[i].changed_ns = random_below(&rng, CLOCK_NS_PER_S);
        sc->datasets[i].changed_every = (uint32_t)between(&rng, 2, 200);
        sc->datasets[i].changed_first = (uint32_t)random_below(&rng, sc->datasets[i].changed_every);
    }
    sc->config.bad_limited = chance(&rng, 50);
    sc->config.bad_count = between(&rng, 0, 20);
    sc->config.bad_share = (double)between(&rng, 0, 20) / 100;
}

bool scenario_is_away(const struct scenario *sc, uint32_t dataset, uint64_t now_ns)
{
    for (uint32_t i = 0; i < sc->n_outages; i++) {
        if (sc->outages[i].dataset == dataset && now_ns >= sc->outages[i].from_ns && now_ns < sc->outages[i].to_ns)
            return true;
    }
    return false;
}

bool scenario_has_changed(const struct scenario *sc, uint32_t dataset, sample_id id, uint64_t now_ns)
{
    const struct scenario_dataset *in = &sc->datasets[dataset];
    return in->changed_ns <= now_ns && id % in->changed_every == in->changed_first;
}

struct scenario *scenario_create(uint64_t seed, bool tight)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_SCENARIO, seed, 0, 0);
    struct scenario *sc = xcalloc(1, sizeof *sc);
    sc->seed = seed;
    uint64_t drawn = random_below(&rng, 400);
    enum mood mood = drawn == 0 ? MOOD_CROWDED : drawn <= 20 ? MOOD_PIECES : MOOD_PLAIN;
    draw_ahead(sc);
    bool calm = chance(&rng, 30);
    if (mood == MOOD_PLAIN && is_scattered(seed))
        mood = MOOD_SCATTERED;
    if (tight || (mood == MOOD_PLAIN && is_tight(seed)))
        mood = MOOD_TIGHT;
    draw_parts(sc, &rng, mood);
    if (mood == MOOD_PLAIN || mood == MOOD_TIGHT)
        draw_raw(sc);
    else
        sc->raw_pipeline = sc->n_pipelines;
    sc->n_clients = (uint32_t)(mood == MOOD_CROWDED ? between(&rng, JOBS_MAX, JOBS_MAX + 40)
                               : chance(&rng, 90)   ? between(&rng, 1, 5)
                                                    : between(&rng, 5, 12));
    sc->clients = xcalloc(sc->n_clients, sizeof *sc->clients);
    uint64_t join_spread_ns = between(&rng, 1, chance(&rng, 50) ? 20 * CLOCK_NS_PER_MS : 2 * CLOCK_NS_PER_S);
    for (uint32_t i = 0; i < sc->n_clients; i++) {
        draw_job(sc, &sc->clients[i], i, &rng, mood);
        draw_behaviour(&sc->clients[i], &rng, mood == MOOD_CROWDED ? 1 : join_spread_ns, calm && !has_pieces(mood));
        if (mood == MOOD_SCATTERED)
            scatter(sc, &sc->clients[i], i, &rng);
    }
    draw_weights(sc);
    draw_ranks(sc, mood);
    draw_habits(sc);
    draw_ends(sc);
    sc->drain_ns = chance(&rng, 94) ? SCENARIO_NEVER : random_below(&rng, join_spread_ns);
    draw_budgets(sc, &rng);
    draw_chunks(sc, &rng);
    draw_forgetting(sc);
    draw_unfit(sc);
    draw_records(sc);
    draw_troubles(sc);
    draw_arena(sc, &rng, mood);
    if (mood == MOOD_TIGHT)
        tighten(sc);
    return sc;
}

void scenario_destroy(struct scenario *sc)
{
    for (uint32_t i = 0; i < sc->n_clients; i++) {
        free(sc->clients[i].order);
        free(sc->clients[i].view);
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

uint64_t scenario_bytes(const struct scenario_dataset *dataset, sample_id id)
{
    bool there = id < dataset->scenario->n_samples && dataset->position[id] != SCENARIO_NOT_THERE;
    return there ? dataset->scenario->samples[id].bytes : ENGINE_NOT_THERE;
}

/* By the seed, which ranks of one job have in common. */
uint32_t scenario_hold(const struct client_plan *plan)
{
    return plan->seed % 5 < 3 ? 0 : 1 + (uint32_t)(plan->seed / 5 % 9);
}

void scenario_job_make(const struct scenario *sc, const struct client_plan *plan, uint32_t pipeline_number,
                       uint64_t client, struct scenario_job *job)
{
    const struct scenario_dataset *dataset = &sc->datasets[plan->dataset];
    *job = (struct scenario_job){.places = xcalloc(plan->n_view, sizeof *job->places)};
    CHECK(idset_from_sorted(plan->view, plan->n_view, &job->view) == 0);
    for (uint32_t i = 0; i < plan->n_view; i++) {
        uint32_t position = dataset->position[plan->view[i]];
        job->places[i] = (struct engine_place){.chunk = dataset->chunk_base + position / sc->chunk_samples,
                                               .slot = position % sc->chunk_samples};
    }
    job->desc = (struct engine_job_desc){
        .client = client,
        .name = plan->name,
        .dataset = dataset,
        .pipeline = pipeline_number,
        .slot_bytes = sc->slot_bytes[plan->pipeline],
        .by_size = plan->pipeline == sc->raw_pipeline,
        .batch_size = plan->batch_size,
        .prefetch = plan->prefetch,
        .hold = scenario_hold(plan),
        .epochs = plan->epochs,
        .drop_last = plan->drop_last,
        .shuffle = plan->shuffle,
        .bad_policy = plan->bad_policy,
        .seed = plan->seed,
        .view = job->view,
        .order = plan->shuffle == SHUFFLE_NONE ? plan->order : NULL,
        .rank = plan->rank,
        .world_size = plan->world_size,
        .weight = plan->weight,
        .ordered = plan->ordered,
        .variant = plan->variant,
    };
    if (!dataset->in_chunks)
        return;
    job->desc.places = job->places;
    job->desc.chunk_base = dataset->chunk_base;
    job->desc.chunk_count = dataset->chunk_count;
    job->desc.chunk_samples = sc->chunk_samples;
}

void scenario_job_free(struct scenario_job *job)
{
    idset_destroy(job->view);
    free(job->places);
}
