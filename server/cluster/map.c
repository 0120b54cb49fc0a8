/* map.c: bounded rendezvous hashing. */
#include "server/cluster/map.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/check.h"

#define MAP_MAGIC UINT32_C(0x3a9c4a9d)

/* The hashed bytes: fingerprint, chunk (little-endian), node id, number of the unit of weight. */
enum {
    HASHED_CHUNK = MAP_FINGERPRINT_BYTES,
    HASHED_NODE = HASHED_CHUNK + 4,
    HASHED_UNIT = HASHED_NODE + MAP_NODE_ID_BYTES,
    HASHED_BYTES
};

struct map {
    uint32_t magic;
    uint32_t n_chunks, n_nodes;
    uint32_t counts[MAP_NODES_MAX]; /* number of chunks in each node's shard */
    struct map_chunk *chunks;
};

void map_destroy(struct map *map)
{
    if (map == NULL)
        return;
    CHECK_MAGIC(map, MAP_MAGIC);
    free(map->chunks);
    map->magic = 0;
    free(map);
}

static void check_desc(const struct map_desc *desc)
{
    CHECK(desc->n_nodes >= 1 && desc->n_nodes <= MAP_NODES_MAX);
    CHECK(desc->bound >= 100 && desc->bound <= MAP_BOUND_MAX);
    for (uint32_t i = 0; i < desc->n_nodes; i++) {
        CHECK(desc->nodes[i].weight >= 1 && desc->nodes[i].weight <= MAP_WEIGHT_MAX);
        CHECK(i == 0 || memcmp(desc->nodes[i - 1].id, desc->nodes[i].id, MAP_NODE_ID_BYTES) < 0);
    }
}

static void score_nodes(const struct map_desc *desc, uint32_t chunk, uint64_t scores[MAP_NODES_MAX])
{
    uint8_t hashed[HASHED_BYTES];
    memcpy(hashed, desc->fingerprint, MAP_FINGERPRINT_BYTES);
    for (unsigned i = 0; i < 4; i++)
        hashed[HASHED_CHUNK + i] = (uint8_t)(chunk >> 8 * i);
    for (uint32_t n = 0; n < desc->n_nodes; n++) {
        memcpy(hashed + HASHED_NODE, desc->nodes[n].id, MAP_NODE_ID_BYTES);
        scores[n] = 0;
        for (uint32_t unit = 0; unit < desc->nodes[n].weight; unit++) {
            hashed[HASHED_UNIT] = (uint8_t)unit;
            uint64_t score = XXH3_64bits(hashed, sizeof hashed);
            scores[n] = score > scores[n] ? score : scores[n];
        }
    }
}

/* The node with the best score of those that are not taken yet; of equal ones the first. It is taken then. */
static uint8_t take_best(const uint64_t scores[MAP_NODES_MAX], uint32_t n_nodes, uint64_t *taken)
{
    uint8_t best = MAP_NODE_NONE;
    for (uint32_t n = 0; n < n_nodes; n++)
        if (!(*taken >> n & 1) && (best == MAP_NODE_NONE || scores[n] > scores[best]))
            best = (uint8_t)n;
    if (best != MAP_NODE_NONE)
        *taken |= UINT64_C(1) << best;
    return best;
}

/* Which nodes are homes of some chunks: all, or as many as have MAP_CHUNKS_MIN each, but one at least. */
static uint64_t choose_homes(const struct map_desc *desc)
{
    uint64_t scores[MAP_NODES_MAX], homes = 0;
    uint32_t most = desc->n_chunks / MAP_CHUNKS_MIN;
    score_nodes(desc, UINT32_MAX, scores);
    for (uint32_t n = 0; n < desc->n_nodes && (n < most || n == 0); n++)
        (void)take_best(scores, desc->n_nodes, &homes);
    return homes;
}

/* How many chunks each node takes at most, rounded up. They are enough for all chunks, since the bound is 100 percent
 * at least. */
static void limit_loads(const struct map_desc *desc, uint32_t limits[MAP_NODES_MAX])
{
    uint64_t weights = 0, homes = choose_homes(desc);
    for (uint32_t i = 0; i < desc->n_nodes; i++)
        weights += homes >> i & 1 ? desc->nodes[i].weight : 0;
    for (uint32_t i = 0; i < desc->n_nodes; i++) {
        uint64_t wanted = (uint64_t)desc->bound * desc->n_chunks * desc->nodes[i].weight;
        uint64_t limit = (wanted + 100 * weights - 1) / (100 * weights);
        limits[i] = !(homes >> i & 1) ? 0 : limit < desc->n_chunks ? (uint32_t)limit : desc->n_chunks;
    }
}

/* Gives the chunk its home. The runners-up are the next nodes by score, and after the last the full ones that stand
 * before the home, so that there are two wherever there are three nodes. */
static void place_chunk(struct map *map, struct map_chunk *chunk, const uint64_t scores[MAP_NODES_MAX],
                        const uint32_t limits[MAP_NODES_MAX])
{
    uint64_t taken = 0, full = 0;
    uint8_t home = take_best(scores, map->n_nodes, &taken);
    while (home != MAP_NODE_NONE && map->counts[home] >= limits[home]) {
        full |= UINT64_C(1) << home;
        home = take_best(scores, map->n_nodes, &taken);
    }
    CHECK(home != MAP_NODE_NONE);
    chunk->nodes[0] = home;
    chunk->number = map->counts[home]++;
    for (unsigned i = 1; i < MAP_PLACES; i++) {
        chunk->nodes[i] = take_best(scores, map->n_nodes, &taken);
        if (chunk->nodes[i] == MAP_NODE_NONE && full) {
            taken &= ~full;
            full = 0;
            chunk->nodes[i] = take_best(scores, map->n_nodes, &taken);
        }
    }
}

int map_create(const struct map_desc *desc, struct map **out)
{
    check_desc(desc);
    struct map *map = xcalloc(1, sizeof *map);
    map->magic = MAP_MAGIC;
    map->n_chunks = desc->n_chunks;
    map->n_nodes = desc->n_nodes;
    map->chunks = malloc(((size_t)desc->n_chunks + 1) * sizeof *map->chunks);
    if (map->chunks == NULL) {
        map_destroy(map);
        return LARDER_ENOMEM;
    }
    uint32_t limits[MAP_NODES_MAX];
    uint64_t scores[MAP_NODES_MAX];
    limit_loads(desc, limits);
    for (uint32_t c = 0; c < desc->n_chunks; c++) {
        score_nodes(desc, c, scores);
        place_chunk(map, &map->chunks[c], scores, limits);
    }
    *out = map;
    return 0;
}

const struct map_chunk *map_chunk_at(const struct map *map, uint32_t chunk)
{
    CHECK_MAGIC(map, MAP_MAGIC);
    CHECK(chunk < map->n_chunks);
    return &map->chunks[chunk];
}
