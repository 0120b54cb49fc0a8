#include "tests/play/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/clock.h"

static void see_deliver(struct ranks *ranks, const struct engine_action *action)
{
    struct seat *seat = &ranks->seats[action->rank];
    assert_true(seat->there && action->client == 100 + action->rank);
    for (uint32_t i = 0; i < action->deliver.count; i++) {
        sample_id id = action->deliver.entries[i].id;
        seat->got[seat->n_got++] = id;
        ranks->others += ranks->rank_of[id] != action->rank;
    }
    seat->batches++;
    seat->last = action->deliver.last;
}

/* Gives true when the preparation goes on until ranks_finish. */
static bool see_prepare(struct ranks *ranks, const struct engine_action *action)
{
    ranks->rank_of[action->prepare.id] = action->rank;
    if (!ranks->by_hand && action->prepare.id != ranks->slow)
        return false;
    assert_true(ranks->n_preparing < RANKS_AT_ONCE_MAX && action->rank < RANKS_WORLD_MAX);
    ranks->preparing[ranks->n_preparing++] = (struct preparation){action->rank, action->prepare.task,
                                                                  action->prepare.id};
    return true;
}

static bool see(void *ctx, const struct engine_action *action)
{
    struct ranks *ranks = ctx;
    struct seat *seat = &ranks->seats[action->rank < RANKS_WORLD_MAX ? action->rank : 0];
    switch (action->type) {
    case ENGINE_JOB_ADDED:
        seat->there = true;
        seat->epoch_told = action->job_added.epoch;
        seat->n_batches = action->job_added.n_batches;
        return false;
    case ENGINE_JOB_ERROR:
        seat->failed = action->error.error.code;
        strcpy(seat->text, action->error.error.text);
        return false;
    case ENGINE_LOAD:
        assert_true(action->rank < RANKS_WORLD_MAX);
        seat->loads++;
        return false;
    case ENGINE_PREPARE: return see_prepare(ranks, action);
    case ENGINE_DELIVER: see_deliver(ranks, action); return ranks->keep;
    case ENGINE_JOB_ENDED: ranks->ended = true; return false;
    default: return false;
    }
}

struct ranks *ranks_new(uint32_t samples, uint32_t world_size, uint32_t batch_size, uint32_t at_once)
{
    struct ranks *ranks = xcalloc(1, sizeof *ranks);
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = 128 * 1024,
                                   .encoded_bytes = 100000,
                                   .inflight_loads = 64,
                                   .inflight_prepares = at_once,
                                   .rank_timeout_ns = RANKS_TIMEOUT_S * CLOCK_NS_PER_S};
    assert_int_equal(play_create(config, &ranks->play, NULL), 0);
    assert_int_equal(idset_from_range(0, samples, &ranks->view), 0);
    ranks->play.see = see;
    ranks->play.ctx = ranks;
    ranks->play.check_every = PLAY_CHECK_EVERY;
    ranks->play.own_bytes = true;
    for (uint32_t i = 0; i < samples; i++)
        ranks->order[i] = samples - 1 - i;
    ranks->slow = SAMPLE_NONE;
    ranks->desc = (struct engine_job_desc){.name = "ddp",
                                           .dataset = ranks,
                                           .slot_bytes = 1000,
                                           .batch_size = batch_size,
                                           .prefetch = 2,
                                           .hold = 3,
                                           .world_size = world_size,
                                           .sampled = {.view = ranks->view, .order = ranks->order}};
    return ranks;
}

void ranks_free(struct ranks *ranks)
{
    for (uint32_t rank = 0; rank < ranks->desc.world_size; rank++) {
        if (ranks->seats[rank].there)
            ranks_leave(ranks, rank);
    }
    while (ranks->n_preparing)
        ranks_finish(ranks, 0);
    if (!ranks->ended)
        ranks_wait(ranks, RANKS_TIMEOUT_S + 1); /* for ranks that never came */
    assert_true(ranks->ended);
    play_end(&ranks->play);
    idset_destroy(ranks->view);
    free(ranks);
}

void ranks_attach(struct ranks *ranks, uint32_t rank)
{
    ranks->desc.rank = rank;
    ranks->desc.client = 100 + rank;
    play_add(&ranks->play, &ranks->desc);
}

void ranks_ask(struct ranks *ranks, uint32_t rank, uint32_t epoch, uint32_t credits)
{
    play_next(&ranks->play, ranks->play.job, rank, epoch, credits);
}

void ranks_leave(struct ranks *ranks, uint32_t rank)
{
    play_gone(&ranks->play, ranks->play.job, rank);
    ranks->seats[rank].there = false;
}

void ranks_wait(struct ranks *ranks, double seconds)
{
    ranks->play.now_ns += (uint64_t)(seconds * 1e9);
    play_event(&ranks->play, (struct engine_event){.type = ENGINE_TICK});
}

void ranks_finish(struct ranks *ranks, uint32_t at)
{
    uint32_t task = ranks->preparing[at].task;
    ranks->n_preparing--;
    memmove(&ranks->preparing[at], &ranks->preparing[at + 1], (ranks->n_preparing - at) * sizeof *ranks->preparing);
    play_event(&ranks->play, (struct engine_event){.type = ENGINE_PREPARED, .prepared = {.task = task}});
}

void ranks_count(const struct ranks *ranks, uint32_t counts[RANKS_IDS_MAX])
{
    memset(counts, 0, RANKS_IDS_MAX * sizeof *counts);
    for (uint32_t rank = 0; rank < RANKS_WORLD_MAX; rank++) {
        for (uint32_t i = 0; i < ranks->seats[rank].n_got; i++)
            counts[ranks->seats[rank].got[i]]++;
    }
}

uint32_t ranks_repeats(const struct ranks *ranks, uint32_t samples)
{
    uint32_t counts[RANKS_IDS_MAX], sum = 0;
    ranks_count(ranks, counts);
    for (uint32_t id = 0; id < samples; id++) {
        assert_true(counts[id] > 0);
        sum += counts[id] - 1;
    }
    return sum;
}
