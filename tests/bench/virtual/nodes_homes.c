/* nodes_homes.c: what Larder's nodes hold. Each chunk has one home, which alone reads, keeps and hands out its samples
 * (docs/reference/storage.md, docs/internals/sharing.md, server/engine/encoded_keep.c). */
#include <math.h>
#include <stdlib.h>

#include "common/check.h"
#include "common/random.h"
#include "tests/bench/virtual/nodes_priv.h"

enum {
    KEY_HOMES = 23,
    CHUNK = 64,      /* samples */
    BOUND = 105,     /* No home has more than so many percent of the mean share, and one chunk. */
    REST_CHUNKS = 8, /* What does not stay needs memory for at least so many chunks, */
    REST_PART = 12,  /* and for one part in so many of it. */
    KEPT_PART = 20   /* Less than one part in so many is not kept. */
};

static const double AHEAD_SHARE = 0.9; /* of the memory for what does not stay, that reads ahead fill */
/* What waits to be written: a part of memory, in MB, within these limits. */
static const double BEHIND_PART = 0.5, BEHIND_MIN = 4, BEHIND_MAX = 64;

static double memory_of(const struct nodes_scenario *scenario)
{
    return scenario->n_classes > 1 ? scenario->classes[1].capacity : 0;
}

static void give_homes(struct nodes_homes *homes, const struct nodes_scenario *scenario)
{
    uint64_t chunks = (scenario->samples + CHUNK - 1) / CHUNK, has[NODES_MAX] = {0};
    uint64_t most = (chunks * BOUND + 100 * scenario->nodes - 1) / (100 * scenario->nodes);
    struct rng rng;
    random_seed_keys(&rng, scenario->seed, KEY_HOMES, 0, 0);
    for (uint64_t chunk = 0; chunk < chunks; chunk++) {
        uint32_t node = (uint32_t)random_below(&rng, scenario->nodes);
        while (has[node] == most)
            node = (uint32_t)((node + 1) % scenario->nodes);
        has[node]++;
        for (uint64_t id = chunk * CHUNK; id < scenario->samples && id < (chunk + 1) * CHUNK; id++)
            homes->home[id] = (uint8_t)node;
    }
}

/* keepable gives how much of a home's share stays in its memory. */
static double keepable(double memory, double share, double chunk)
{
    double part = 1.0 / REST_PART, most = fmin((memory - share * part) / (1 - part), memory - REST_CHUNKS * chunk);
    return memory >= share ? share : most * KEPT_PART < share ? 0 : most;
}

/* choose_kept marks whole chunks, as many as stay, and gives what is left of memory to the others. */
static void choose_kept(struct nodes_homes *homes, const struct nodes_scenario *scenario, const double *sizes)
{
    double share[NODES_MAX] = {0}, room[NODES_MAX], memory = memory_of(scenario);
    for (uint64_t id = 0; id < scenario->samples; id++)
        share[homes->home[id]] += sizes[id];
    for (uint32_t node = 0; node < scenario->nodes; node++) {
        room[node] = keepable(memory, share[node], scenario->mean * CHUNK) * (1 + 1e-9); /* rounding of the sum */
        homes->stock[node] = fmax(0, memory - room[node]) * AHEAD_SHARE;
    }
    for (uint64_t id = 0; id < scenario->samples; id += CHUNK) {
        uint32_t node = homes->home[id];
        uint64_t end = id + CHUNK < scenario->samples ? id + CHUNK : scenario->samples;
        double bytes = 0;
        for (uint64_t of = id; of < end; of++)
            bytes += sizes[of];
        for (uint64_t of = id; bytes <= room[node] && of < end; of++)
            homes->kept[of] = true;
        room[node] = bytes <= room[node] ? room[node] - bytes : 0;
    }
}

void nodes_homes_create(struct nodes_homes *homes, const struct nodes_scenario *scenario, const double *sizes)
{
    *homes = (struct nodes_homes){.home = xcalloc(scenario->samples, 1),
                                  .disk = xcalloc(scenario->samples, 1),
                                  .kept = xcalloc(scenario->samples, sizeof *homes->kept),
                                  .until = xcalloc(scenario->samples, sizeof *homes->until)};
    give_homes(homes, scenario);
    choose_kept(homes, scenario, sizes);
}

void nodes_homes_free(struct nodes_homes *homes)
{
    free(homes->home);
    free(homes->disk);
    free(homes->kept);
    free(homes->until);
}

/* holds says that the home has the sample in this class now; 0: in none. */
static void holds(struct nodes_places *places, uint32_t home, uint32_t id, uint8_t class)
{
    places->own[(uint64_t)home * places->scenario->samples + id] = class;
    places->lowest[id] = class;
}

bool nodes_homes_room(const struct nodes_homes *homes, const struct nodes_places *places, uint32_t id)
{
    uint32_t home = homes->home[id];
    return homes->kept[id] || homes->stocked[home] + places->sizes[id] <= homes->stock[home];
}

void nodes_homes_reserve(struct nodes_homes *homes, const struct nodes_places *places, uint32_t id)
{
    if (!homes->kept[id])
        homes->stocked[homes->home[id]] += places->sizes[id];
    homes->until[id] = INFINITY;
}

void nodes_homes_in_memory(struct nodes_homes *homes, struct nodes_places *places, uint32_t id)
{
    homes->until[id] = 0;
    holds(places, homes->home[id], id, 1);
}

void nodes_homes_used(struct nodes_homes *homes, struct nodes_places *places, uint32_t id)
{
    if (homes->kept[id]) {
        nodes_homes_in_memory(homes, places, id);
    } else if (places->lowest[id] == 1) {
        homes->stocked[homes->home[id]] -= places->sizes[id];
        holds(places, homes->home[id], id, homes->disk[id]);
    }
}

void nodes_homes_write_behind(struct nodes_homes *homes, struct nodes_places *places, const struct nodes_costs *costs,
                              uint32_t id, double now)
{
    const struct nodes_scenario *scenario = places->scenario;
    uint32_t home = homes->home[id], class = 2;
    double size = places->sizes[id];
    double room = fmin(BEHIND_MAX, fmax(BEHIND_MIN, BEHIND_PART * memory_of(scenario)));
    for (; !homes->disk[id] && class < scenario->n_classes; ++class) {
        double *used = &places->used[home][class], *until = &homes->behind[home][class];
        double seconds = costs->write[class] / costs->threads[class]; /* for one MB */
        if (*used + size > scenario->classes[class].capacity || costs->own[class] > costs->pfs[scenario->nodes])
            continue;
        if (fmax(0, *until - now) + size * seconds > room * seconds)
            return;
        *until = fmax(*until, now) + size * seconds;
        *used += size;
        homes->disk[id] = (uint8_t) class;
        if (!places->lowest[id])
            holds(places, home, id, homes->disk[id]);
    }
}
