#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/random.h"
#include "server/bench/sharing_priv.h"

enum { KEY_PLACES = 1, KEY_VIEW = 2 };

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    (void)dataset;
    (void)id;
    return SHARING_SAMPLE_BYTES;
}

/* ── chunks: a seeded shuffle, as a chunk store makes it ── */

static void place_samples(struct sharing_bench *bench)
{
    const struct sharing_scenario *scenario = bench->scenario;
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

static void make_view(struct sharing_bench *bench, struct sharing_player *player)
{
    const struct sharing_job *job = player->desc;
    uint32_t samples = bench->scenario->samples;
    uint32_t first = job->view == SHARING_RANGE ? job->first : 0, end = job->view == SHARING_RANGE ? job->end : samples;
    CHECK(idset_create(&player->view) == 0);
    if (job->view != SHARING_FRACTION) {
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
    player->view_count = idset_count(player->view);
    for (uint32_t id = 0; id < samples; id++)
        player->spread.in_chunk[bench->chunk_of[id]] += idset_contains(player->view, id);
}

static void spread_make(struct sharing_spread *spread, uint32_t n_chunks)
{
    spread->sum = xcalloc(n_chunks, sizeof *spread->sum);
    spread->square = xcalloc(n_chunks, sizeof *spread->square);
    spread->in_chunk = xcalloc(n_chunks, sizeof *spread->in_chunk);
}

static void player_create(struct sharing_bench *bench, uint32_t number)
{
    struct sharing_player *player = &bench->players[number];
    uint32_t samples = bench->scenario->samples;
    player->desc = &bench->scenario->jobs[number];
    player->got = xcalloc(samples, sizeof *player->got);
    spread_make(&player->spread, bench->n_chunks);
    make_view(bench, player);
}

/* ── events and actions ── */

/* Variance of a chunk's positions against that of a full shuffle of n samples, once an epoch is whole. */
static void spread_epoch_done(struct sharing_spread *spread, uint32_t n_chunks, double n)
{
    double uniform = (n * n - 1) / 12;
    for (uint32_t chunk = 0; chunk < n_chunks; chunk++) {
        double k = spread->in_chunk[chunk];
        if (k >= 2) {
            double variance = (spread->square[chunk] - spread->sum[chunk] * spread->sum[chunk] / k) / (k - 1);
            spread->total += uniform > 0 ? sqrt(variance / uniform) : 1;
            spread->counted++;
        }
        spread->sum[chunk] = spread->square[chunk] = 0;
    }
}

static void epoch_done(struct sharing_bench *bench, struct sharing_player *player)
{
    for (uint32_t id = 0; id < bench->scenario->samples; id++) {
        bool in_view = idset_contains(player->view, id);
        player->tally.missing += in_view && player->got[id] == 0;
        player->tally.duplicates += player->got[id] > in_view ? player->got[id] - in_view : 0;
    }
    memset(player->got, 0, bench->scenario->samples);
    spread_epoch_done(&player->spread, bench->n_chunks, (double)player->view_count);
    player->position = 0;
    player->ended_epoch = true;
}

static void delivered(struct sharing_bench *bench, const struct engine_action *action)
{
    struct sharing_player *player = bench->at[action->job];
    for (uint32_t i = 0; i < action->deliver.count; i++) {
        sample_id id = action->deliver.entries[i].id;
        struct sharing_slot *slot = &bench->slots[action->deliver.entries[i].offset / SHARING_SLOT_BYTES];
        uint64_t bit = UINT64_C(1) << (player - bench->players);
        CHECK(slot->id == id);
        player->tally.repeats += (slot->had & bit) != 0;
        slot->had |= bit;
        player->got[id]++;
        if (bench->got)
            bench->got(bench->got_ctx, &(struct sharing_given){.job = (uint32_t)(player - bench->players),
                                                               .epoch = player->epoch,
                                                               .id = id,
                                                               .chunk = bench->chunk_of[id],
                                                               .position = player->position,
                                                               .kept = bench->loaded_at[id] <= player->loaded});
        double position = (double)player->position++;
        player->spread.sum[bench->chunk_of[id]] += position;
        player->spread.square[bench->chunk_of[id]] += position * position;
    }
    player->tally.delivered += action->deliver.count;
    bench->delivered += action->deliver.count;
    if (action->deliver.last)
        epoch_done(bench, player);
}

static bool see(void *ctx, const struct engine_action *action)
{
    struct sharing_bench *bench = ctx;
    switch (action->type) {
    case ENGINE_JOB_ADDED:
        bench->adding->place = action->job;
        bench->at[action->job] = bench->adding;
        break;
    case ENGINE_JOB_REFUSED:
    case ENGINE_JOB_ERROR: fprintf(stderr, "larder bench sharing: %s\n", action->error.error.text); exit(1);
    case ENGINE_LOAD:
        bench->reads += action->load.read != bench->last_read;
        bench->at[action->job]->tally.reads += action->load.read != bench->last_read;
        bench->last_read = action->load.read;
        bench->loaded_at[action->load.id] = ++bench->loaded;
        bench->at[action->job]->tally.loaded++;
        break;
    case ENGINE_PREPARE:
        for (uint32_t i = 0; i < action->prepare.n_outputs; i++) {
            const struct engine_output *output = &action->prepare.outputs[i];
            bench->slots[output->offset / SHARING_SLOT_BYTES] = (struct sharing_slot){.id = action->prepare.id};
        }
        bench->prepared += action->prepare.n_outputs;
        bench->at[action->job]->tally.prepared += action->prepare.n_outputs;
        break;
    case ENGINE_DELIVER: delivered(bench, action); break;
    case ENGINE_DROP_ENCODED:
    case ENGINE_AHEAD:
    case ENGINE_SOURCE:
    case ENGINE_RESERVE: /* all of the arena is there from the start */
    case ENGINE_RETURN:
    case ENGINE_JOB_ENDED: break;
    }
    return false;
}

/* This takes the engine through all events at hand, and those that its actions bring, at one moment. */
static void settle(struct sharing_bench *bench, uint64_t now)
{
    bench->play.now_ns = now;
    while (play_step(&bench->play)) {
        struct engine_totals totals;
        engine_totals(bench->play.engine, &totals);
        bench->decoded = totals.counts.samples_decoded;
        if (totals.arena.used_bytes > bench->peak_prepared)
            bench->peak_prepared = totals.arena.used_bytes;
        if (totals.encoded.used_bytes > bench->peak_encoded)
            bench->peak_encoded = totals.encoded.used_bytes;
    }
}

/* ── a run ── */

static void join(struct sharing_bench *bench, uint32_t number, uint64_t now)
{
    struct sharing_player *player = &bench->players[number];
    const struct sharing_scenario *scenario = bench->scenario;
    struct chunk_slot *places = xcalloc(player->view_count, sizeof *places);
    sample_id *ids = xcalloc(player->view_count, sizeof *ids);
    enum shuffle_mode shuffle = player->desc->own_shuffle ? player->desc->shuffle : scenario->shuffle;
    char name[16];
    idset_to_array(player->view, ids);
    for (uint64_t i = 0; i < player->view_count; i++)
        places[i] = (struct chunk_slot){bench->chunk_of[ids[i]], bench->slot_of[ids[i]]};
    snprintf(name, sizeof name, "job-%u", number);
    struct engine_job_desc desc = {
        .client = number + 1,
        .name = name,
        .dataset = bench,
        .pipeline = player->desc->pipeline,
        .slot_bytes = SHARING_SLOT_BYTES,
        .batch_size = scenario->batch,
        .prefetch = scenario->prefetch,
        .epochs = player->desc->epochs,
        .sampled = {.shuffle = shuffle, .seed = scenario->seed + number, .view = player->view, .order = ids},
        .chunks = {.places = places, .count = bench->n_chunks, .samples = scenario->chunk}};
    bench->adding = player;
    play_push(&bench->play, (struct engine_event){.type = ENGINE_JOB_ADD, .job_add = &desc});
    settle(bench, now);
    player->running = true;
    player->ended_epoch = false;
    free(places);
    free(ids);
}

/* This gives one batch to each job for which one is due. False: no batch is due. */
static bool consume(struct sharing_bench *bench)
{
    bool any = false;
    for (uint32_t i = 0; i < bench->scenario->n_jobs; i++) {
        struct sharing_player *player = &bench->players[i];
        if (!player->running || player->due < bench->scenario->batch - 1e-9)
            continue;
        player->due -= bench->scenario->batch;
        if (player->ended_epoch) {
            player->ended_epoch = false;
            player->epoch++;
            player->loaded = bench->loaded;
        }
        play_push(&bench->play,
                  (struct engine_event){.type = ENGINE_NEXT,
                                        .next = {.job = player->place, .epoch = player->epoch, .credits = 1}});
        any = true;
    }
    return any;
}

static void leave_done(struct sharing_bench *bench)
{
    for (uint32_t i = 0; i < bench->scenario->n_jobs; i++) {
        struct sharing_player *player = &bench->players[i];
        if (player->running && player->ended_epoch && player->epoch + 1 == player->desc->epochs) {
            play_push(&bench->play, (struct engine_event){.type = ENGINE_JOB_GONE, .job_gone = {.job = player->place}});
            player->running = false;
            player->done = true;
        }
    }
}

static bool step(struct sharing_bench *bench, uint64_t now)
{
    bool more = false;
    for (uint32_t i = 0; i < bench->scenario->n_jobs; i++) {
        struct sharing_player *player = &bench->players[i];
        if (!player->running && !player->done && (double)now >= player->desc->start * bench->scenario->samples)
            join(bench, i, now);
        more |= !player->done;
        if (player->running)
            player->due += player->desc->rate;
    }
    while (consume(bench)) {
        settle(bench, now);
        leave_done(bench);
        settle(bench, now);
    }
    return more;
}

int sharing_run(const struct sharing_scenario *scenario, sharing_got got, void *got_ctx, json_t **out)
{
    struct sharing_bench bench = {.scenario = scenario, .got = got, .got_ctx = got_ctx, .last_read = UINT64_MAX};
    uint64_t slots = (uint64_t)llround(scenario->prepared * scenario->samples);
    uint64_t least = (uint64_t)scenario->n_jobs * scenario->batch * (scenario->prefetch + 2);
    slots = slots < least ? least : slots;
    uint64_t encoded = (uint64_t)llround(scenario->encoded * scenario->samples);
    struct engine_config config = {.seed = scenario->seed,
                                   .arena_bytes = slots * SHARING_SLOT_BYTES,
                                   .encoded_bytes = (encoded ? encoded : least) * SHARING_SAMPLE_BYTES,
                                   .inflight_loads = scenario->chunk * 4,
                                   .inflight_prepares = 64,
                                   .redirect_width = scenario->redirect ? scenario->width : 0,
                                   .sample_bytes = sample_bytes};
    struct error err;
    if (play_create(config, &bench.play, &err)) {
        fprintf(stderr, "larder bench sharing: %s\n", err.text);
        return 1;
    }
    bench.play.see = see;
    bench.play.ctx = &bench;
    bench.slots = xcalloc(slots, sizeof *bench.slots);
    place_samples(&bench);
    for (uint32_t i = 0; i < scenario->n_jobs; i++)
        player_create(&bench, i);
    for (uint64_t now = 0; step(&bench, now);)
        now++;
    *out = sharing_report(&bench);
    CHECK(*out);
    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        struct sharing_player *player = &bench.players[i];
        idset_destroy(player->view);
        free(player->got);
        free(player->spread.sum);
        free(player->spread.square);
        free(player->spread.in_chunk);
    }
    play_end(&bench.play);
    free(bench.slots);
    free(bench.chunk_of);
    free(bench.slot_of);
    free(bench.loaded_at);
    return 0;
}

int sharing_bench_main(int argc, char **argv)
{
    struct sharing_scenario *scenario = xcalloc(1, sizeof *scenario);
    struct error err;
    json_t *json;
    int status = 2;
    if (argc != 2)
        fprintf(stderr, "usage: larder bench %s SCENARIO.yaml\n", argv[0]);
    else if (sharing_read(argv[1], scenario, &err))
        fprintf(stderr, "larder bench sharing: %s\n", err.text);
    else if ((status = sharing_run(scenario, NULL, NULL, &json)) == 0)
        status = sharing_print(json);
    free(scenario);
    return status;
}
