#include "server/plan/play.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"

struct later {
    struct due due;
    struct engine_event event;
};

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    (void)dataset, (void)id;
    return PLAY_SAMPLE_BYTES;
}

int play_create(struct engine_config config, struct play *out, struct error *err)
{
    struct engine *engine;
    config.sample_bytes = config.sample_bytes ? config.sample_bytes : sample_bytes;
    int code = engine_create(&config, &engine, err);
    if (!code)
        *out = (struct play){.engine = engine, .later = {.row_bytes = sizeof(struct later)}};
    return code;
}

void play_end(struct play *play)
{
    engine_destroy(play->engine, play->own_bytes ? free : NULL);
    free(play->at_hand.all);
    free(play->taken.all);
    agenda_free(&play->later);
}

void play_push(struct play *play, struct engine_event event)
{
    struct play_events *events = &play->at_hand;
    events->all = xgrow(events->all, sizeof *events->all, &events->cap, events->count + 1);
    events->all[events->count++] = event;
}

void play_push_at(struct play *play, uint64_t at_ns, struct engine_event event)
{
    if (at_ns <= play->now_ns)
        play_push(play, event);
    else
        agenda_put(&play->later, &(struct later){.due.at_ns = at_ns, .event = event});
}

void play_answer_at(struct play *play, uint64_t at_ns, const struct engine_action *action)
{
    static char bytes; /* the bytes of every sample without its own: the engine never looks at them */
    struct engine_event event = {.rank = action->rank};
    if (action->type == ENGINE_LOAD) {
        event.type = ENGINE_LOADED;
        event.loaded.id = action->load.id;
        event.loaded.encoded = play->own_bytes ? xmalloc(1) : &bytes;
        event.loaded.bytes = action->load.bytes;
    } else if (action->type == ENGINE_PREPARE) {
        event.type = ENGINE_PREPARED;
        event.prepared.task = action->prepare.task;
    } else if (action->type == ENGINE_RESERVE) {
        event.type = ENGINE_RESERVED;
        event.reserved.bytes = action->reserve.bytes;
    } else {
        CHECK(action->type == ENGINE_DELIVER);
        event.type = ENGINE_RELEASE;
        event.release.job = action->job;
        event.release.batch = action->deliver.batch;
    }
    play_push_at(play, at_ns, event);
}

static void react(struct play *play, const struct engine_action *action)
{
    if (action->type == ENGINE_JOB_ADDED) {
        play->job = action->job;
    } else if (action->type == ENGINE_JOB_REFUSED || action->type == ENGINE_JOB_ERROR) {
        *(action->type == ENGINE_JOB_ERROR ? &play->failed : &play->refused) = action->error.error.code;
        strcpy(play->text, action->error.error.text);
    } else if (action->type == ENGINE_DROP_ENCODED && play->own_bytes) {
        free(action->drop.encoded);
    }
    bool answered = play->see && play->see(play->ctx, action);
    if (!answered && (action->type == ENGINE_LOAD || action->type == ENGINE_PREPARE || action->type == ENGINE_DELIVER ||
                      action->type == ENGINE_RESERVE))
        play_answer_at(play, play->now_ns, action);
}

bool play_step(struct play *play)
{
    struct play_events taken = play->at_hand;
    const struct engine_action *actions;
    if (taken.count == 0 && (play->steps == 0 || engine_wakes_ns(play->engine) > play->now_ns))
        return false;
    play->at_hand = play->taken;
    play->at_hand.count = 0;
    play->taken = taken;
    uint64_t began_ns = play->timed ? clock_thread_ns() : 0;
    size_t count = engine_step(play->engine, play->now_ns, taken.all, taken.count, &actions);
    uint64_t took_ns = play->timed ? clock_thread_ns() - began_ns : 0;
    play->longest_ns = took_ns > play->longest_ns ? took_ns : play->longest_ns;
    if (play->check_every && play->steps % play->check_every == 0)
        engine_check(play->engine);
    play->steps++;
    for (size_t i = 0; i < count; i++)
        react(play, &actions[i]);
    return true;
}

void play_settle(struct play *play)
{
    while (play_step(play))
        ;
}

void play_until(struct play *play, uint64_t until_ns)
{
    play_settle(play);
    while (play->later.length && agenda_next_ns(&play->later) <= until_ns) {
        play->now_ns = agenda_next_ns(&play->later);
        while (agenda_next_ns(&play->later) == play->now_ns) {
            struct later later;
            agenda_take(&play->later, &later);
            play_push(play, later.event);
        }
        play_settle(play);
    }
    play->now_ns = until_ns;
}

void play_event(struct play *play, struct engine_event event)
{
    play_push(play, event);
    play_settle(play);
}

uint32_t play_add(struct play *play, const struct engine_job_desc *desc)
{
    play->refused = 0;
    play_event(play, (struct engine_event){.type = ENGINE_JOB_ADD, .job_add = desc});
    return play->refused ? UINT32_MAX : play->job;
}

void play_next(struct play *play, uint32_t job, uint32_t rank, uint32_t epoch, uint32_t credits)
{
    play_event(play, (struct engine_event){.type = ENGINE_NEXT, .rank = rank, .next = {job, epoch, credits, 0}});
}

void play_release(struct play *play, uint32_t job, uint32_t rank, uint64_t batch)
{
    play_event(play, (struct engine_event){.type = ENGINE_RELEASE, .rank = rank, .release = {job, batch}});
}

void play_gone(struct play *play, uint32_t job, uint32_t rank)
{
    play_event(play, (struct engine_event){.type = ENGINE_JOB_GONE, .rank = rank, .job_gone = {.job = job}});
}
