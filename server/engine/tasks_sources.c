/* tasks_sources.c: sources that stop answering, and answer again; sources.c has the rules. */
#include "server/engine/encoded.h"
#include "server/engine/outbox.h"
#include "server/engine/sources.h"
#include "server/engine/tasks.h"

/* Which sources answer has changed: nothing waits for one that does not while another has it. */
static void rearrange(struct engine *engine)
{
    for (uint32_t job = 0; job < engine->jobs.end; job++) {
        if (!sources_waits(engine, job))
            continue;
        for (uint32_t index = engine->jobs.all[job].turns.lists[TASK_LOADS].tasks.head, next; index != ENGINE_NONE; index = next) {
            next = engine->tasks.tasks[index].in_list.next;
            uint32_t heir = tasks_heir(engine, &engine->tasks.tasks[index], job);
            CHECK(heir != ENGINE_NONE);
            if (!sources_away(engine, heir))
                tasks_move(engine, index, heir);
        }
    }
}

static struct engine_action *act_news(struct engine *engine, const struct data_source *source, enum engine_source_news news)
{
    struct engine_action *action = outbox_add(engine, ENGINE_SOURCE);
    action->source.news = news;
    action->source.dataset = source->dataset;
    action->source.id = SAMPLE_NONE;
    return action;
}

void tasks_source_answered(struct engine *engine, const struct encoded *encoded)
{
    struct data_source *source = sources_find_source(engine, encoded->dataset);
    if (!source)
        return;
    source->probe = source->probe == encoded->id ? SAMPLE_NONE : source->probe;
    if (encoded->round > source->answered)
        source->answered = encoded->round;
    if (!source->away || encoded->round < source->failed)
        return;
    source->away = false;
    engine->sources.n_away--;
    if (source->told) {
        struct engine_action *action = act_news(engine, source, ENGINE_SOURCE_BACK);
        action->source.waited_ns = engine->now_ns - source->since_ns;
        action->source.retries = source->retries;
    }
    rearrange(engine);
    encoded_read_ahead_again(engine);
}

/* Counts a failure against the sample when, since the one before, its source has answered for another. True: it has failed
 * often enough. */
static bool count_tries(struct engine *engine, const struct data_source *source, uint32_t first)
{
    bool enough = false;
    for (uint32_t index = first; index != ENGINE_NONE; index = engine->tasks.tasks[index].in_list.next) {
        struct task *task = &engine->tasks.tasks[index];
        if (task->tries == 0 || source->answered >= task->tried) {
            task->tries++;
            task->tried = engine->sources.rounds;
        }
        enough = enough || task->tries == ENGINE_SOURCE_TRIES;
    }
    for (uint32_t index = first; enough && index != ENGINE_NONE; index = engine->tasks.tasks[index].in_list.next)
        engine->tasks.tasks[index].tries = 0; /* another dataset may have it */
    return enough;
}

static void go_away(struct engine *engine, struct data_source *source)
{
    source->away = true;
    engine->sources.n_away++;
    source->told = false;
    source->since_ns = engine->now_ns;
    source->retries = 0;
    source->pause_ns = ENGINE_SOURCE_PAUSE_NS;
    source->until_ns = engine->now_ns + source->pause_ns;
    rearrange(engine);
}

static void stay_away(struct engine *engine, struct data_source *source)
{
    uint64_t pause_ns = source->pause_ns * 2;
    source->pause_ns = pause_ns < ENGINE_SOURCE_PAUSE_MAX_NS ? pause_ns : ENGINE_SOURCE_PAUSE_MAX_NS;
    source->until_ns = engine->now_ns + source->pause_ns;
    if (!source->told)
        act_news(engine, source, ENGINE_SOURCE_AWAY);
    source->told = true;
}

bool tasks_source_failed(struct engine *engine, const struct encoded *encoded, uint32_t first, int reason)
{
    struct data_source *source = sources_find_source(engine, encoded->dataset);
    if (!source) /* all its jobs have gone: who waits has another */
        return true;
    bool probe = source->probe == encoded->id;
    source->probe = probe ? SAMPLE_NONE : source->probe;
    source->failed = ++engine->sources.rounds;
    if (count_tries(engine, source, first)) {
        struct engine_action *action = act_news(engine, source, ENGINE_SOURCE_GAVE_UP);
        action->source.id = encoded->id;
        action->source.reason = reason;
        return false;
    }
    if (!source->away)
        go_away(engine, source);
    else if (probe)
        stay_away(engine, source);
    source->retries++;
    engine->totals.source_retries++;
    return true;
}
