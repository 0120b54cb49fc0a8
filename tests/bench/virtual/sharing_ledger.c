/* sharing_ledger.c: what the players of a run got, and in which order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cache/source/runs.h"
#include "common/check.h"
#include "common/random.h"
#include "server/cluster/deal.h"
#include "tests/bench/virtual/sharing_priv.h"

enum { KEY_PLACES = 1, KEY_VIEW = 2, SHARD_SAMPLES = 1000 };

/* ── chunks ── */

static uint32_t *shuffled(const struct sharing_scenario *scenario)
{
    uint32_t *order = xcalloc(scenario->samples, sizeof *order);
    struct rng rng;
    random_seed_keys(&rng, scenario->seed, KEY_PLACES, 0, 0);
    for (uint32_t i = 0; i < scenario->samples; i++)
        order[i] = i;
    for (uint32_t i = scenario->samples; i > 1; i--) {
        uint32_t j = (uint32_t)random_below(&rng, i), swap = order[j];
        order[j] = order[i - 1];
        order[i - 1] = swap;
    }
    return order;
}

/* As the catalog makes chunks of tar shards: samples lie in shards in this order, which becomes that of the chunks. */
static void deal_runs(const struct sharing_scenario *scenario, uint32_t *order)
{
    uint32_t count = scenario->samples, n_shards = (count + SHARD_SAMPLES - 1) / SHARD_SAMPLES;
    struct index index = {.sample_count = count, .blob_count = n_shards};
    uint32_t *lie = xcalloc(count, sizeof *lie);
    struct chunking chunking;
    index.blobs = xcalloc(n_shards, sizeof *index.blobs);
    for (uint32_t i = 0; i < n_shards; i++)
        index.blobs[i].first = (uint64_t)i * SHARD_SAMPLES;
    memcpy(lie, order, count * sizeof *lie);
    CHECK(runs_shuffle(&index, scenario->chunk, scenario->seed, &chunking) == 0);
    for (uint32_t i = 0; i < count; i++)
        order[i] = lie[chunking.members[i]];
    chunking_free(&chunking);
    free(index.blobs);
    free(lie);
}

static void place_samples(struct sharing_bench *bench)
{
    const struct sharing_scenario *scenario = bench->scenario;
    uint32_t *order = shuffled(scenario);
    for (uint32_t i = 0; scenario->chunks == SHARING_SORTED_SHARDS && i < scenario->samples; i++)
        order[i] = i;
    if (scenario->chunks != SHARING_STORE)
        deal_runs(scenario, order);
    bench->chunk_of = xcalloc(scenario->samples, sizeof *bench->chunk_of);
    bench->slot_of = xcalloc(scenario->samples, sizeof *bench->slot_of);
    bench->loaded_at = xcalloc(scenario->samples, sizeof *bench->loaded_at);
    for (uint32_t i = 0; i < scenario->samples; i++) {
        bench->chunk_of[order[i]] = i / scenario->chunk;
        bench->slot_of[order[i]] = i % scenario->chunk;
    }
    bench->n_chunks = (scenario->samples + scenario->chunk - 1) / scenario->chunk;
    free(order);
}

static void make_deal(struct sharing_bench *bench)
{
    uint32_t samples = bench->scenario->samples;
    sample_id *ids = xcalloc(samples, sizeof *ids);
    for (uint32_t id = 0; id < samples; id++)
        ids[id] = id;
    CHECK(deal_create(ids, bench->chunk_of, samples, bench->n_chunks, &bench->deal) == 0);
    CHECK(deal_create(ids, bench->chunk_of, samples, bench->n_chunks, &bench->home) == 0);
    free(ids);
}

static struct idset *dealt_view(const struct sharing_bench *bench, const struct sharing_job *job)
{
    struct deal_ranks ranks = {.world_size = job->world_size, .first = job->rank, .n_ranks = 1};
    struct idset *view;
    CHECK(deal_share(bench->deal, bench->scenario->seed, 0, NULL, &ranks, &view) == 0);
    return view;
}

int sharing_share(const struct sharing_bench *bench, const struct sharing_job *job, uint32_t epoch, struct idset **out)
{
    struct deal_ranks ranks = {.world_size = job->ranks, .first = job->of_rank, .n_ranks = 1};
    if (job->mix >= 0)
        deal_at_home(bench->home, (uint32_t)lround(job->mix * DEAL_MIX_ALL));
    return deal_share(job->mix >= 0 ? bench->home : bench->deal, bench->scenario->seed + job->training, epoch, NULL,
                      &ranks, out);
}

int sharing_home(const struct sharing_bench *bench, const struct sharing_job *job, struct idset **out)
{
    struct sharing_job still = *job;
    still.mix = 0;
    return sharing_share(bench, &still, 0, out);
}

void sharing_epoch_begins(struct sharing_bench *bench, struct sharing_player *player)
{
    if (player->desc->ranks > 1) {
        idset_destroy(player->share);
        CHECK(sharing_share(bench, player->desc, player->epoch, &player->share) == 0);
    } else if (player->epoch) {
        return;
    }
    const struct idset *share = player->share ? player->share : player->view;
    memset(player->spread.in_chunk, 0, bench->n_chunks * sizeof *player->spread.in_chunk);
    for (uint32_t id = 0; id < bench->scenario->samples; id++)
        player->spread.in_chunk[bench->chunk_of[id]] += idset_contains(share, id);
}

static void make_view(struct sharing_bench *bench, struct sharing_player *player)
{
    const struct sharing_job *job = player->desc;
    uint32_t samples = bench->scenario->samples;
    uint32_t first = job->view == SHARING_RANGE ? job->first : 0, end = job->view == SHARING_RANGE ? job->end : samples;
    CHECK(idset_create(&player->view) == 0);
    if (job->view == SHARING_DEALT) {
        idset_destroy(player->view);
        player->view = dealt_view(bench, job);
    } else if (job->view != SHARING_FRACTION) {
        idset_destroy(player->view);
        CHECK(idset_from_range(first, end, &player->view) == 0);
    } else { /* exactly round(fraction · samples) of them */
        struct rng rng;
        random_seed_keys(&rng, job->view_seed, KEY_VIEW, 0, 0);
        uint64_t left = (uint64_t)llround(job->fraction * samples);
        for (uint32_t id = 0; id < samples && left; id++) {
            if (random_below(&rng, samples - id) < left) {
                idset_add(player->view, id);
                left--;
            }
        }
    }
}

static void player_create(struct sharing_bench *bench, uint32_t number)
{
    struct sharing_player *player = &bench->players[number];
    uint32_t samples = bench->scenario->samples;
    player->desc = &bench->scenario->jobs[number];
    player->got = xcalloc(samples, sizeof *player->got);
    spread_create(&player->spread, bench->n_chunks);
    make_view(bench, player);
    player->view_count = idset_count(player->view);
    sharing_epoch_begins(bench, player);
}

void sharing_begin(struct sharing_bench *bench)
{
    place_samples(bench);
    make_deal(bench);
    for (uint32_t i = 0; i < bench->scenario->n_jobs; i++)
        player_create(bench, i);
}

void sharing_end(struct sharing_bench *bench)
{
    for (uint32_t i = 0; i < bench->scenario->n_jobs; i++) {
        struct sharing_player *player = &bench->players[i];
        idset_destroy(player->view);
        idset_destroy(player->share);
        free(player->got);
        spread_free(&player->spread);
    }
    deal_destroy(bench->deal);
    deal_destroy(bench->home);
    free(bench->chunk_of);
    free(bench->slot_of);
    free(bench->loaded_at);
    free(bench->had);
}

/* ── what they get ── */

void sharing_takes(struct sharing_bench *bench, struct sharing_player *player, sample_id id, uint64_t instance)
{
    uint64_t bit = UINT64_C(1) << player->desc->training;
    CHECK(instance < bench->instances);
    player->tally.repeats += (bench->had[instance] & bit) != 0;
    bench->had[instance] |= bit;
    player->got[id]++;
    if (bench->got)
        bench->got(bench->got_ctx, &(struct sharing_given){.job = (uint32_t)(player - bench->players),
                                                           .epoch = player->epoch,
                                                           .id = id,
                                                           .chunk = bench->chunk_of[id],
                                                           .position = player->position,
                                                           .kept = bench->loaded_at[id] <= player->loaded});
    spread_takes(&player->spread, bench->chunk_of[id], (double)player->position++);
    player->tally.delivered++;
    bench->delivered++;
}

void sharing_epoch_done(struct sharing_bench *bench, struct sharing_player *player)
{
    const struct idset *share = player->share ? player->share : player->view;
    for (uint32_t id = 0; id < bench->scenario->samples; id++) {
        bool wanted = idset_contains(share, id);
        player->tally.missing += wanted && player->got[id] == 0;
        player->tally.duplicates += player->got[id] > wanted ? player->got[id] - wanted : 0;
    }
    memset(player->got, 0, bench->scenario->samples);
    spread_epoch_done(&player->spread, bench->n_chunks, (double)idset_count(share));
    player->position = 0;
    player->ended_epoch = true;
}

/* ── what is done for them ── */

static void loads(struct sharing_bench *bench, uint32_t node, struct sharing_tally *tally,
                  const struct engine_action *action)
{
    bool read = action->load.read + 1 != bench->last_read[node];
    bench->last_read[node] = action->load.read + 1;
    bench->reads += read;
    bench->loaded_at[action->load.id] = ++bench->loaded;
    tally->reads += read;
    tally->loaded++;
}

void sharing_works(struct sharing_bench *bench, uint32_t node, struct sharing_player *player,
                   const struct engine_action *action)
{
    struct sharing_tally nobody = {0}, *tally = player ? &player->tally : &nobody;
    if (action->type == ENGINE_LOAD) {
        loads(bench, node, tally, action);
        return;
    }
    uint32_t outputs = action->prepare.n_outputs;
    size_t before = bench->had_cap;
    bench->had = xgrow(bench->had, sizeof *bench->had, &bench->had_cap, bench->instances + outputs);
    memset(bench->had + before, 0, (bench->had_cap - before) * sizeof *bench->had);
    bench->instances += outputs;
    bench->prepared += outputs;
    tally->prepared += outputs;
}
