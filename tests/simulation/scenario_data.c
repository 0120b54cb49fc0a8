/* scenario_data.c: samples, the datasets they are in, and the sources these are read from. */
#include <stdlib.h>

#include "common/check.h"
#include "common/clock.h"
#include "tests/simulation/scenario_priv.h"

#define SLOW_LANE_EVERY 17
#define SLOW_LANE_FACTOR 60
#define HEAVY_FACTOR_MAX 300.0

uint64_t latency_draw(const struct latency *latency, struct rng *rng, uint64_t lane)
{
    double u = random_unit(rng);
    switch (latency->kind) {
    case LATENCY_CONSTANT: return latency->mean_ns;
    case LATENCY_UNIFORM: return (uint64_t)(2 * u * (double)latency->mean_ns);
    case LATENCY_HEAVY: {
        double factor = 0.3 / (1.0 - u) / (1.0 - u); /* Pareto with exponent 1/2: no mean of its own, so it is cut */
        return (uint64_t)((factor < HEAVY_FACTOR_MAX ? factor : HEAVY_FACTOR_MAX) * (double)latency->mean_ns);
    }
    case LATENCY_ONE_SLOW: return latency->mean_ns * (lane % SLOW_LANE_EVERY == 0 ? SLOW_LANE_FACTOR : 1);
    default: return 0;
    }
}

struct latency scenario_draw_latency(struct rng *rng, uint64_t mean_max_ns)
{
    return (struct latency){.kind = (enum latency_kind)random_below(rng, LATENCY_KINDS),
                            .mean_ns = between(rng, 1, mean_max_ns)};
}

void scenario_draw_samples(struct scenario *sc, struct rng *rng, enum mood mood)
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

void scenario_draw_dataset(struct scenario *sc, struct scenario_dataset *dataset, struct rng *rng)
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

/* Samples that one pipeline can make nothing of and another can. Drawn apart, as ranks are. */
void scenario_draw_unfit(struct scenario *sc)
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
void scenario_draw_chunks(struct scenario *sc, struct rng *rng)
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
    struct rng own;
    random_seed_keys(&own, KEY_REACH, sc->seed, 0, 0);
    sc->config.redirect_reach = (uint32_t)(chance(&own, 50) ? 0 : between(&own, 1, 64));
}

/* With keys of its own, so that the scenarios of all seeds stay what they were but for this. */
void scenario_draw_raw(struct scenario *sc)
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

void scenario_draw_sized(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_SIZED, sc->seed, 0, 0);
    for (uint32_t i = 0; i < sc->n_pipelines; i++)
        sc->sized |= (uint32_t)(chance(&rng, 70) && i != sc->raw_pipeline) << i;
}

/* Half of the samples may be as long as the longest. */
uint64_t scenario_begun_bytes(const struct scenario *sc, uint32_t pipeline, sample_id id)
{
    struct rng rng;
    if (pipeline == sc->raw_pipeline)
        return sc->samples[id].bytes;
    if (!(sc->sized >> pipeline & 1))
        return sc->slot_bytes[pipeline];
    random_seed_keys(&rng, KEY_SIZED, sc->seed, (uint64_t)pipeline << 32 | id, UINT64_MAX);
    return random_below(&rng, 2) ? sc->slot_bytes[pipeline] : between(&rng, 1, sc->slot_bytes[pipeline]);
}

uint64_t scenario_most_bytes(const void *dataset, const void *program, sample_id id)
{
    const struct scenario *sc = ((const struct scenario_dataset *)dataset)->scenario;
    return scenario_begun_bytes(sc, (uint32_t)((const uint64_t *)program - sc->slot_bytes), id);
}

/* Some are as long as they may be, and some very short. */
uint64_t scenario_made_bytes(const struct scenario *sc, uint32_t pipeline, sample_id id, uint64_t instance)
{
    struct rng rng;
    if (!(sc->sized >> pipeline & 1))
        return sc->slot_bytes[pipeline];
    uint64_t most = scenario_begun_bytes(sc, pipeline, id);
    random_seed_keys(&rng, KEY_SIZED, sc->seed, (uint64_t)pipeline << 32 | id, instance);
    uint64_t kind = random_below(&rng, 8), bytes = between(&rng, 1, most);
    return kind == 0 ? most : kind == 1 ? 1 : bytes;
}

/* Jobs of such a pipeline share with each other: their variant is 0. */
void scenario_draw_repeatable(struct scenario *sc)
{
    struct rng rng;
    random_seed_keys(&rng, KEY_REPEATABLE, sc->seed, 0, 0);
    sc->repeatable = chance(&rng, 60) ? 0 : (uint32_t)between(&rng, 1, (UINT64_C(1) << sc->n_pipelines) - 1);
    for (uint32_t i = 0; i < sc->n_clients; i++) {
        if (sc->repeatable >> sc->clients[i].pipeline & 1)
            sc->clients[i].variant = 0;
    }
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

/* Sources that do not answer for a while, samples that alone cannot be read or are others by now, and a limit for
 * bad ones. With keys of its own, so that the scenarios of all seeds stay what they were but for these. */
void scenario_draw_troubles(struct scenario *sc)
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
