#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/check.h"
#include "common/clock.h"
#include "tests/bench/virtual/sharing_priv.h"

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    (void)dataset;
    (void)id;
    return SHARING_SAMPLE_BYTES;
}

/* ── events and actions ── */

static void delivered(struct sharing_bench *bench, const struct engine_action *action)
{
    struct sharing_player *player = bench->at[action->job];
    for (uint32_t i = 0; i < action->deliver.count; i++) {
        const struct sharing_slot *slot = &bench->slots[action->deliver.entries[i].offset / SHARING_SLOT_BYTES];
        CHECK(slot->id == action->deliver.entries[i].id);
        sharing_takes(bench, player, slot->id, slot->instance);
    }
    if (action->deliver.last)
        sharing_epoch_done(bench, player);
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
    case ENGINE_JOB_ERROR: fprintf(stderr, "larder_bench sharing: %s\n", action->error.error.text); exit(1);
    case ENGINE_LOAD: sharing_works(bench, 0, bench->at[action->job], action); break;
    case ENGINE_PREPARE:
        for (uint32_t i = 0; i < action->prepare.n_outputs; i++)
            bench->slots[action->prepare.outputs[i].offset / SHARING_SLOT_BYTES] = (struct sharing_slot){
                action->prepare.id, bench->instances + i};
        sharing_works(bench, 0, bench->at[action->job], action);
        break;
    case ENGINE_DELIVER: delivered(bench, action); break;
    case ENGINE_EXPECT: /* no job has homes */
    case ENGINE_DROP_ENCODED:
    case ENGINE_AHEAD:
    case ENGINE_SOURCE:
    case ENGINE_RESERVE: /* all of the arena is there from the start */
    case ENGINE_RETURN:
    case ENGINE_JOB_ENDED: break;
    }
    return false;
}

/* This takes the engine through all events at hand, and those that its actions bring, at one moment. A step of the
 * scenario, in which a job of rate 1 takes a sample, is a millisecond: what the engine puts off for a time must
 * come. */
static void settle(struct sharing_bench *bench, uint64_t now)
{
    bench->play.now_ns = now * CLOCK_NS_PER_MS;
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
    struct sharing_bench bench = {.scenario = scenario, .got = got, .got_ctx = got_ctx};
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
        fprintf(stderr, "larder_bench sharing: %s\n", err.text);
        return 1;
    }
    bench.play.see = see;
    bench.play.ctx = &bench;
    bench.slots = xcalloc(slots, sizeof *bench.slots);
    sharing_begin(&bench);
    for (uint64_t now = 0; step(&bench, now);)
        now++;
    *out = sharing_report(&bench);
    CHECK(*out);
    sharing_end(&bench);
    play_end(&bench.play);
    free(bench.slots);
    return 0;
}

int sharing_bench_main(int argc, char **argv)
{
    struct sharing_scenario *scenario = xcalloc(1, sizeof *scenario);
    struct error err;
    json_t *json;
    int status = 2;
    if (argc != 2)
        fprintf(stderr, "usage: larder_bench %s SCENARIO.yaml\n", argv[0]);
    else if (sharing_read(argv[1], false, scenario, &err))
        fprintf(stderr, "larder_bench sharing: %s\n", err.text);
    else if ((status = sharing_run(scenario, NULL, NULL, &json)) == 0)
        status = sharing_print(json);
    free(scenario);
    return status;
}
