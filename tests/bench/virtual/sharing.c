#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "tests/bench/virtual/bound.h"
#include "tests/bench/virtual/seneca.h"
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
        const struct sharing_slot *slot = &bench->slots[action->deliver.entries[i].offset / bench->slot_bytes];
        CHECK(slot->id == action->deliver.entries[i].id);
        sharing_takes(bench, player, slot->id, slot->instance);
    }
    if (action->deliver.last)
        sharing_epoch_done(bench, player);
}

void sharing_sees(struct sharing_bench *bench, const struct engine_action *action)
{
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
            bench->slots[action->prepare.outputs[i].offset / bench->slot_bytes] = (struct sharing_slot){
                action->prepare.id, bench->instances + i};
        sharing_works(bench, 0, bench->at[action->job], action);
        break;
    case ENGINE_DELIVER: delivered(bench, action); break;
    case ENGINE_EXPECT: /* no job has homes */
    case ENGINE_DROP_ENCODED:
    case ENGINE_AHEAD:
    case ENGINE_SOURCE:
    case ENGINE_RESERVE: /* it comes at once */
    case ENGINE_RETURN:
    case ENGINE_JOB_ENDED: break;
    }
}

static bool see(void *ctx, const struct engine_action *action)
{
    sharing_sees(ctx, action);
    return false;
}

void sharing_peaks(struct sharing_bench *bench)
{
    struct engine_totals totals;
    engine_totals(bench->play.engine, &totals);
    bench->decoded = totals.counts.samples_decoded;
    if (totals.arena.used_bytes > bench->peak_prepared)
        bench->peak_prepared = totals.arena.used_bytes;
    if (totals.encoded.used_bytes > bench->peak_encoded)
        bench->peak_encoded = totals.encoded.used_bytes;
}

/* This takes the engine through all events at hand, and those that its actions bring, at one moment. */
static void settle(struct sharing_bench *bench)
{
    while (play_step(&bench->play))
        sharing_peaks(bench);
}

/* ── a run ── */

void sharing_join(struct sharing_bench *bench, uint32_t number)
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
        .slot_bytes = bench->slot_bytes,
        .batch_size = scenario->batch,
        .prefetch = scenario->prefetch,
        .epochs = player->desc->epochs,
        .sampled = {.shuffle = shuffle, .seed = scenario->seed + number, .view = player->view, .order = ids},
        .chunks = {.places = places, .count = bench->n_chunks, .samples = scenario->chunk}};
    bench->adding = player;
    play_push(&bench->play, (struct engine_event){.type = ENGINE_JOB_ADD, .job_add = &desc});
    settle(bench);
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

/* step plays a step of the scenario, in which a job of rate 1 takes a sample. It takes a millisecond: what the engine
 * puts off for a time must come. */
static bool step(struct sharing_bench *bench, uint64_t now)
{
    bool more = false;
    bench->play.now_ns = now * CLOCK_NS_PER_MS;
    for (uint32_t i = 0; i < bench->scenario->n_jobs; i++) {
        struct sharing_player *player = &bench->players[i];
        if (!player->running && !player->done && (double)now >= player->desc->start * bench->scenario->samples)
            sharing_join(bench, i);
        more |= !player->done;
        if (player->running)
            player->due += player->desc->rate;
    }
    while (consume(bench)) {
        settle(bench);
        leave_done(bench);
        settle(bench);
    }
    return more;
}

/* least returns what the look-ahead of all jobs that run at once takes, in samples. */
static uint64_t least(const struct sharing_scenario *scenario)
{
    uint32_t at_once = scenario->costs.at_once, jobs = scenario->n_jobs;
    return (uint64_t)(at_once && at_once < jobs ? at_once : jobs) * scenario->batch * (scenario->prefetch + 2);
}

uint64_t sharing_slots(const struct sharing_scenario *scenario)
{
    uint64_t slots = (uint64_t)llround(scenario->prepared * scenario->samples);
    return slots < least(scenario) ? least(scenario) : slots;
}

uint64_t sharing_encoded(const struct sharing_scenario *scenario)
{
    uint64_t encoded = (uint64_t)llround(scenario->encoded * scenario->samples);
    return encoded ? encoded : least(scenario);
}

/* slot_bytes returns what an instance takes: with costs what they say, else so little that its length says nothing. */
static uint64_t slot_bytes(const struct sharing_scenario *scenario)
{
    double bytes = scenario->costs.there ? scenario->costs.prepared * SHARING_SAMPLE_BYTES : SHARING_SLOT_BYTES;
    return extent_round((uint64_t)llround(bytes));
}

int sharing_run(const struct sharing_scenario *scenario, sharing_got got, void *got_ctx, json_t **out)
{
    struct sharing_bench bench = {
        .scenario = scenario, .got = got, .got_ctx = got_ctx, .slot_bytes = slot_bytes(scenario)};
    uint64_t slots = sharing_slots(scenario);
    struct costs_machine machine = {.costs = &scenario->costs};
    bool shared = scenario->costs.there && scenario->shared;
    struct engine_config config = {.seed = scenario->seed,
                                   .arena_bytes = slots * bench.slot_bytes,
                                   .reserve_bytes = shared ? bench.slot_bytes : 0,
                                   .lent_bytes = shared ? slots * bench.slot_bytes : 0,
                                   .encoded_bytes = sharing_encoded(scenario) * SHARING_SAMPLE_BYTES,
                                   .inflight_loads = scenario->chunk * 4,
                                   .inflight_prepares = scenario->costs.there ? 2 * scenario->costs.cores : 64,
                                   .decoded = scenario->costs.there && scenario->decoded,
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
    if (scenario->costs.there)
        sharing_timed(&bench, &machine);
    for (uint64_t now = 0; !scenario->costs.there && step(&bench, now);)
        now++;
    *out = sharing_report(&bench);
    CHECK(*out);
    if (scenario->costs.there)
        json_object_set_new(*out, "costs", bound_report(scenario, &machine));
    sharing_end(&bench);
    play_end(&bench.play);
    free(bench.slots);
    return 0;
}

/* run plays the engine, or Seneca's rule with the split that its model chooses, or the given one. */
static int run(const struct sharing_scenario *scenario, bool seneca, const char *split, json_t **out)
{
    struct seneca_split parts = seneca ? seneca_best(scenario) : (struct seneca_split){0};
    if (!seneca)
        return sharing_run(scenario, NULL, NULL, out);
    if (split &&
        (sscanf(split, "%u,%u,%u", &parts.encoded, &parts.decoded, &parts.augmented) != 3 || parts.encoded > 100 ||
         parts.decoded > 100 || parts.augmented > 100 || parts.encoded + parts.decoded + parts.augmented != 100)) {
        fprintf(stderr, "larder_bench sharing: --split takes three whole numbers that come to 100, as 60,40,0\n");
        return 2;
    }
    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        if (!scenario->costs.there || scenario->jobs[i].view != SHARING_ALL || scenario->jobs[i].pipeline) {
            fprintf(stderr,
                    "larder_bench sharing: Seneca's rule needs `costs`, and jobs of one pipeline on all samples\n");
            return 2;
        }
    }
    seneca_run(scenario, &parts, out);
    return 0;
}

int sharing_bench_main(int argc, char **argv)
{
    struct sharing_scenario *scenario = xcalloc(1, sizeof *scenario);
    struct error err;
    json_t *json;
    int status = 2;
    bool seneca = argc >= 3 && strcmp(argv[2], "--seneca") == 0;
    bool split = seneca && argc == 5 && strcmp(argv[3], "--split") == 0;
    if (argc != 2 + seneca + 2 * split)
        fprintf(stderr, "usage: larder_bench %s SCENARIO.yaml [--seneca [--split E,D,A]]\n", argv[0]);
    else if (sharing_read(argv[1], false, scenario, &err))
        fprintf(stderr, "larder_bench sharing: %s\n", err.text);
    else if ((status = run(scenario, seneca, split ? argv[4] : NULL, &json)) == 0)
        status = sharing_print(json);
    free(scenario);
    return status;
}
