/* redox.c: an epoch of the papers' rule. The nodes' orders are a permutation of all samples, dealt in turn; and they
 * take turns at each step. */
#include "tests/bench/virtual/redox.h"

#include <math.h>
#include <stdlib.h>

#include "common/check.h"
#include "tests/bench/virtual/redox_priv.h"

/* ── the orders ── */

static uint32_t *permutation(struct rng *rng, uint32_t count)
{
    uint32_t *out = xcalloc(count, sizeof *out);
    for (uint32_t i = 0; i < count; i++)
        out[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = (uint32_t)random_below(rng, i), swap = out[j];
        out[j] = out[i - 1];
        out[i - 1] = swap;
    }
    return out;
}

static uint32_t slot_of(const struct redox_settings *settings, uint32_t sample)
{
    uint32_t of = sample / settings->chunk / settings->chunks_a_virtual;
    return of * settings->chunk + sample % settings->chunk;
}

static void deal_orders(struct redox *redox)
{
    const struct redox_settings *settings = &redox->settings;
    uint32_t *all = permutation(&redox->rng, settings->samples);
    for (uint32_t i = 0; i < settings->samples; i++) {
        uint32_t number = i % settings->nodes, slot = slot_of(settings, all[i]);
        struct redox_node *node = &redox->nodes[number];
        struct redox_pair *pair = &node->pairs[redox_home(redox, slot)];
        node->order[node->count++] = slot;
        pair->wants[pair->count++] = slot;
    }
    free(all);
}

/* ── making it ── */

static uint32_t *nones(uint32_t count)
{
    uint32_t *out = xcalloc(count + (size_t)1, sizeof *out);
    for (uint32_t i = 0; i < count; i++)
        out[i] = REDOX_NONE;
    return out;
}

static void begin_node(struct redox *redox, struct redox_node *node)
{
    uint32_t share = redox->settings.samples / redox->settings.nodes;
    node->order = xcalloc(share, sizeof *node->order);
    node->ahead = nones(redox->n_slots);
    node->in_windows = xcalloc(redox->n_slots, sizeof *node->in_windows);
    for (uint32_t home = 0; home < redox->settings.nodes; home++) {
        node->pairs[home].wants = xcalloc(share, sizeof *node->pairs[home].wants);
        node->pairs[home].window = nones(redox->settings.window);
    }
}

static struct redox *begin(const struct redox_settings *settings)
{
    struct redox *redox = xcalloc(1, sizeof *redox);
    redox->settings = *settings;
    random_seed(&redox->rng, settings->seed);
    redox->n_chunks = settings->samples / settings->chunk;
    redox->n_virtual = redox->n_chunks / settings->chunks_a_virtual;
    redox->n_slots = redox->n_virtual * settings->chunk;
    redox->valid = xcalloc(redox->n_virtual, sizeof *redox->valid);
    redox->lies = nones(redox->n_slots);
    redox->left = xcalloc(redox->n_chunks, sizeof *redox->left);
    redox->given = xcalloc(settings->samples, sizeof *redox->given);
    spread_create(&redox->spread, redox->n_chunks);
    for (uint32_t chunk = 0; chunk < redox->n_chunks; chunk++) {
        redox->left[chunk] = UINT64_MAX >> (REDOX_CHUNK_MAX - settings->chunk);
        redox->spread.in_chunk[chunk] = settings->chunk;
    }
    for (uint32_t i = 0; i < settings->nodes; i++)
        begin_node(redox, &redox->nodes[i]);
    deal_orders(redox);
    return redox;
}

static void end(struct redox *redox)
{
    for (uint32_t i = 0; i < redox->settings.nodes; i++) {
        struct redox_node *node = &redox->nodes[i];
        for (uint32_t home = 0; home < redox->settings.nodes; home++) {
            free(node->pairs[home].wants);
            free(node->pairs[home].window);
        }
        free(node->order);
        free(node->ahead);
        free(node->in_windows);
    }
    spread_free(&redox->spread);
    free(redox->valid);
    free(redox->lies);
    free(redox->left);
    free(redox->given);
    free(redox);
}

/* ── an epoch ── */

/* Algorithm 1. A node may get another sample than the one of its order, but one of the same slot. */
static void read_file(struct redox *redox, uint32_t number, uint32_t slot)
{
    uint32_t home = redox_home(redox, slot);
    uint32_t chunk = home == number ? redox_read_local(redox, slot) : redox_read_remote(redox, number, home);
    uint32_t sample = chunk * redox->settings.chunk + slot % redox->settings.chunk;
    CHECK(!redox->given[sample]);
    redox->given[sample] = 1;
    spread_takes(&redox->spread, chunk, (double)redox->delivered++);
}

/* All are delivered, so all memory is empty. */
static void check_end(const struct redox *redox)
{
    CHECK(redox->delivered == redox->settings.samples && redox->held == 0);
    for (uint32_t chunk = 0; chunk < redox->n_chunks; chunk++)
        CHECK(redox->left[chunk] == 0);
    for (uint32_t of = 0; of < redox->n_virtual; of++)
        CHECK(redox->valid[of] == 0);
}

static bool in_bounds(const struct redox_settings *settings)
{
    if (settings->nodes < 1 || settings->nodes > REDOX_NODES_MAX || settings->chunk < 1 ||
        settings->chunk > REDOX_CHUNK_MAX || settings->chunks_a_virtual < 1 || settings->samples < 1 ||
        settings->samples > REDOX_SAMPLES_MAX || settings->window > REDOX_WINDOW_MAX)
        return false;
    return settings->samples % ((uint64_t)settings->nodes * settings->chunk * settings->chunks_a_virtual) == 0;
}

bool redox_play(const struct redox_settings *settings, struct redox_result *out)
{
    if (!in_bounds(settings))
        return false;
    struct redox *redox = begin(settings);
    uint32_t share = settings->samples / settings->nodes;
    for (uint32_t i = 0; i < share; i++) {
        for (uint32_t number = 0; number < settings->nodes; number++)
            read_file(redox, number, redox->nodes[number].order[i]);
    }
    check_end(redox);
    spread_epoch_done(&redox->spread, redox->n_chunks, settings->samples);
    *out = (struct redox_result){
        .loads = (double)redox->loads / redox->n_chunks,
        .remote = (double)redox->remote / settings->samples,
        .requests = redox->remote ? (double)redox->requests / (double)redox->remote : 0,
        .spread = spread_mean(&redox->spread),
        .peak = (double)redox->peak / settings->samples,
    };
    end(redox);
    return true;
}

bool redox_mean(const struct redox_settings *settings, uint32_t n_seeds, struct redox_result *out)
{
    struct redox_settings one = *settings;
    struct redox_result sum = {0}, got;
    for (uint32_t i = 0; i < n_seeds; i++, one.seed++) {
        if (!redox_play(&one, &got))
            return false;
        sum.loads += got.loads / n_seeds;
        sum.remote += got.remote / n_seeds;
        sum.requests += got.requests / n_seeds;
        sum.spread += got.spread / n_seeds;
        sum.peak += got.peak / n_seeds;
    }
    *out = sum;
    return true;
}

/* ── the paper's table ── */

const struct redox_row redox_table[REDOX_ROWS] = {
    {"no prefetch, any chunk", false, false, 1.91, 8.54},
    {"no prefetch, fills most", false, true, 1.78, 8.54},
    {"prefetch, any chunk", true, false, 1.33, .46},
    {"prefetch, fills most", true, true, 1.26, .41},
};

static const double table_chunks = 20018, table_remote = 8.54e5;

double redox_row_loads(const struct redox_row *row)
{
    return row->misses * 1e5 / table_chunks;
}

double redox_row_requests(const struct redox_row *row)
{
    return row->requests * 1e5 / table_remote;
}

double redox_off(double figure, double printed)
{
    return figure / printed - 1;
}

struct redox_settings redox_row_settings(const struct redox_row *row, uint64_t seed)
{
    struct redox_settings settings = {.nodes = 3,
                                      .samples = 245760,
                                      .chunk = 64,
                                      .chunks_a_virtual = 10,
                                      .fills_most = row->fills_most,
                                      .seed = seed};
    if (row->ahead) {
        settings.window = (uint32_t)lround(.0048 * settings.samples);
        settings.room = (uint32_t)lround(1.5 / 135 * settings.samples); /* 1.5 GB of 135 */
    }
    return settings;
}
