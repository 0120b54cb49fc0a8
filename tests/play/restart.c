#include "tests/play/restart.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/random.h"

enum { TIMEOUT_S = 10 };

uint32_t run_length(const struct run *run, sample_id id)
{
    return (uint32_t)(run->desc.sized ? 1 + random_mix64(id) % run->desc.slot_bytes : run->desc.slot_bytes);
}

uint64_t run_most_bytes(const void *dataset, const void *program, sample_id id)
{
    (void)program;
    return run_length(dataset, id);
}

static void see_deliver(struct run *run, const struct engine_action *action)
{
    struct run_rank *rank = &run->ranks[action->rank];
    assert_true(rank->n_batches < RUN_BATCHES_MAX && action->deliver.count <= RUN_BATCH_MAX);
    assert_int_equal(action->client, 100 + action->rank);
    rank->numbers[rank->n_batches] = action->deliver.batch;
    struct run_batch *batch = &rank->batches[rank->n_batches++];
    *batch = (struct run_batch){.epoch = action->deliver.epoch,
                                .index = action->deliver.index,
                                .count = action->deliver.count,
                                .through = action->deliver.through,
                                .lost = action->deliver.lost,
                                .last = action->deliver.last};
    for (uint32_t i = 0; i < batch->count; i++) {
        batch->ids[i] = action->deliver.entries[i].id;
        batch->turns[i] = action->deliver.entries[i].turn;
        assert_false(run->bad[batch->ids[i]]);
        assert_int_equal(action->deliver.entries[i].bytes, run_length(run, batch->ids[i]));
    }
}

static void see_prepare(struct run *run, const struct engine_action *action)
{
    struct engine_event event = {.type = ENGINE_PREPARED, .prepared = {.task = action->prepare.task}};
    for (uint32_t i = 0; i < action->prepare.n_outputs; i++) {
        event.prepared.reasons[i] = run->bad[action->prepare.id] ? BAD_CORRUPT : BAD_NONE;
        event.prepared.bytes[i] = run_length(run, action->prepare.id);
    }
    run->prepared++;
    play_push(&run->play, event);
}

static bool see(void *ctx, const struct engine_action *action)
{
    struct run *run = ctx;
    struct run_rank *rank = &run->ranks[action->rank < RUN_WORLD_MAX ? action->rank : 0];
    switch (action->type) {
    case ENGINE_JOB_ADDED:
        rank->epoch_told = action->job_added.epoch;
        rank->batch_told = action->job_added.batch;
        return false;
    case ENGINE_JOB_ERROR:
        rank->failed = action->error.error.code;
        strcpy(rank->text, action->error.error.text);
        return false;
    case ENGINE_PREPARE: see_prepare(run, action); return true;
    case ENGINE_DELIVER: see_deliver(run, action); return run->keep;
    case ENGINE_JOB_ENDED: run->ended++; return false;
    default: return false;
    }
}

struct run *run_new(enum shuffle_mode shuffle, uint32_t samples, uint32_t world_size, uint32_t batch_size)
{
    struct run *run = xcalloc(1, sizeof *run);
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = 256 * 1024,
                                   .encoded_bytes = 100000,
                                   .inflight_loads = 8,
                                   .inflight_prepares = 4,
                                   .made_bytes = run_most_bytes,
                                   .rank_timeout_ns = TIMEOUT_S * CLOCK_NS_PER_S};
    assert_true(samples <= RUN_IDS_MAX && world_size <= RUN_WORLD_MAX && batch_size <= RUN_BATCH_MAX);
    assert_int_equal(play_create(config, &run->play, NULL), 0);
    assert_int_equal(idset_from_range(0, samples, &run->view), 0);
    run->samples = samples;
    run->play.see = see;
    run->play.ctx = run;
    run->play.check_every = PLAY_CHECK_EVERY;
    for (uint32_t i = 0; i < samples; i++)
        run->order[i] = i % 2 ? i / 2 : samples - 1 - i / 2;
    run->desc = (struct engine_job_desc){
        .name = "run",
        .dataset = run,
        .slot_bytes = 1000,
        .batch_size = batch_size,
        .prefetch = 2,
        .hold = 3,
        .world_size = world_size,
        .sampled = {.shuffle = shuffle, .seed = 7, .view = run->view, .order = run->order}};
    return run;
}

void run_free(struct run *run)
{
    for (uint32_t rank = 0; rank < run->desc.world_size; rank++)
        run_leave(run, rank);
    play_end(&run->play);
    idset_destroy(run->view);
    free(run);
}

/* ── what ranks bring along ── */

/* own_segment returns the number of the base's segment in whose parts the ranks go on; n_segments: there is none. */
static uint32_t own_segment(const struct run *run)
{
    uint32_t last = run->base.n_segments - 1;
    return run->base.n_segments && run->base.world_size[last] == run->desc.world_size ? last : run->base.n_segments;
}

static void pack_sets(const struct run *run, uint32_t rank, const struct run *before, uint32_t batches,
                      struct engine_resume *resume)
{
    struct idset *base, *turns;
    assert_int_equal(idset_create(&base), 0);
    assert_int_equal(idset_create(&turns), 0);
    for (sample_id id = 0; id < run->samples; id++)
        if (run->base.turns[id])
            idset_add(base, id);
    for (uint32_t at = 0; at < batches; at++) {
        const struct run_batch *batch = run_find(before, rank, run->base.epoch, at);
        for (uint32_t i = 0; i < batch->count; i++)
            if (batch->turns[i] != SAMPLE_NONE)
                idset_add(turns, batch->turns[i]);
    }
    resume->base = base;
    resume->turns = turns;
}

static void pack_segments(const struct run *run, uint32_t rank, struct luggage *luggage)
{
    uint32_t own = own_segment(run);
    struct engine_resume *resume = &luggage->resume;
    for (uint32_t i = 0; i < run->base.n_segments; i++) {
        memcpy(luggage->through[i], run->base.through[i], sizeof luggage->through[i]);
        luggage->segments[i] = (struct engine_segment){run->base.world_size[i], luggage->through[i]};
    }
    resume->segments = luggage->segments;
    resume->n_segments = own;
    if (own < run->base.n_segments) {
        uint64_t left = engine_segments_left(luggage->segments, own, run->samples);
        resume->delivered = engine_segment_delivered(&luggage->segments[own], left);
        resume->through = run->base.through[own][rank];
    }
}

void run_pack(const struct run *run, uint32_t rank, const struct run *before, uint32_t batches, struct luggage *luggage)
{
    struct engine_resume *resume = &luggage->resume;
    *luggage = (struct luggage){.resume = {.epoch = run->base.epoch,
                                           .key = 1 + run->base.epoch * UINT64_C(1000) + run->base.batches,
                                           .base_batches = run->base.batches,
                                           .batches = batches}};
    if (run->desc.sampled.shuffle == SHUFFLE_DEPENDENT)
        pack_sets(run, rank, before, batches, resume);
    else
        pack_segments(run, rank, luggage);
    for (uint32_t at = 0; at < batches; at++) {
        const struct run_batch *batch = run_find(before, rank, run->base.epoch, at);
        assert_non_null(batch);
        resume->delivered += batch->count;
        resume->through = batch->through;
    }
}

void run_unpack(struct luggage *luggage)
{
    idset_destroy((struct idset *)luggage->resume.base);
    idset_destroy((struct idset *)luggage->resume.turns);
}

struct checkpoint run_checkpoint(const struct run *run, uint32_t epoch, uint32_t batches)
{
    bool goes_on = run->base.epoch == epoch;
    struct checkpoint at = goes_on ? run->base : (struct checkpoint){.epoch = epoch};
    uint32_t own = goes_on ? own_segment(run) : 0;
    at.batches += batches;
    if (batches == 0)
        return at;
    if (run->desc.sampled.shuffle == SHUFFLE_DEPENDENT) {
        uint32_t times[RUN_IDS_MAX] = {0};
        run_count(run, epoch, batches, times);
        for (sample_id id = 0; id < run->samples; id++)
            at.turns[id] = at.turns[id] || times[id];
        return at;
    }
    assert_true(own < RUN_SEGMENTS_MAX);
    at.n_segments = own + 1;
    at.world_size[own] = run->desc.world_size;
    for (uint32_t rank = 0; rank < run->desc.world_size; rank++)
        at.through[own][rank] = run_find(run, rank, epoch, batches - 1)->through;
    return at;
}

/* ── what happens ── */

void run_come_with(struct run *run, uint32_t rank, const struct luggage *luggage)
{
    run->desc.rank = rank;
    run->desc.client = 100 + rank;
    run->desc.resume = luggage ? &luggage->resume : NULL;
    play_add(&run->play, &run->desc);
}

void run_come(struct run *run, uint32_t rank, bool presented, const struct run *before, uint32_t batches)
{
    struct luggage luggage;
    run_pack(run, rank, before, batches, &luggage);
    luggage.resume.presented = presented;
    run_come_with(run, rank, &luggage);
    run_unpack(&luggage);
}

void run_come_without(struct run *run, uint32_t rank)
{
    run_come_with(run, rank, NULL);
}

void run_go_on(struct run *run, const struct checkpoint *from)
{
    run->base = *from;
    for (uint32_t rank = 0; rank < run->desc.world_size; rank++) {
        run_come(run, rank, false, NULL, 0);
        assert_int_equal(run->play.refused, 0);
        assert_int_equal(run->ranks[rank].epoch_told, from->epoch);
        assert_int_equal(run->ranks[rank].batch_told, from->batches);
    }
}

void run_leave(struct run *run, uint32_t rank)
{
    play_gone(&run->play, run->play.job, rank);
}

void run_ask(struct run *run, uint32_t rank, uint32_t epoch, uint32_t credits)
{
    play_next(&run->play, run->play.job, rank, epoch, credits);
}

void run_wait(struct run *run, double seconds)
{
    run->play.now_ns += (uint64_t)(seconds * 1e9);
    play_event(&run->play, (struct engine_event){.type = ENGINE_TICK});
}

void run_all(struct run *run, uint32_t epoch, uint32_t batches)
{
    for (uint32_t i = 0; i < batches; i++)
        for (uint32_t rank = 0; rank < run->desc.world_size; rank++)
            run_ask(run, rank, epoch, 1);
}

/* ── what ranks had ── */

const struct run_batch *run_find(const struct run *run, uint32_t rank, uint32_t epoch, uint32_t at)
{
    for (uint32_t i = 0; i < run->ranks[rank].n_batches; i++) {
        const struct run_batch *batch = &run->ranks[rank].batches[i];
        if (batch->epoch == epoch && batch->count > 0 && at-- == 0)
            return batch;
    }
    return NULL;
}

uint32_t run_had(const struct run *run, uint32_t rank, uint32_t epoch)
{
    uint32_t had = 0;
    while (run_find(run, rank, epoch, had))
        had++;
    return had;
}

uint32_t run_count(const struct run *run, uint32_t epoch, uint32_t batches, uint32_t times[RUN_IDS_MAX])
{
    uint32_t repeats = 0;
    for (uint32_t rank = 0; rank < run->desc.world_size; rank++) {
        for (uint32_t at = 0; at < batches && run_find(run, rank, epoch, at); at++) {
            const struct run_batch *batch = run_find(run, rank, epoch, at);
            for (uint32_t i = 0; i < batch->count; i++) {
                if (batch->turns[i] == SAMPLE_NONE)
                    repeats++;
                else
                    times[batch->turns[i]]++;
            }
        }
    }
    return repeats;
}
