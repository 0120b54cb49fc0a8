/* tasks_sources.c: sources that stop answering, and answer again; sources.c has the rules. */
#include "common/check.h"
#include "server/engine/encoded.h"
#include "server/engine/outbox.h"
#include "server/engine/sources.h"
#include "server/engine/tasks.h"

/* the pause before a source that did not answer is asked again; each further pause is twice as long */
#define SOURCE_PAUSE_NS UINT64_C(50000000)
#define SOURCE_PAUSE_MAX_NS UINT64_C(2000000000)
/* A sample is bad when this many of its loads failed, each after its source had answered for another sample. */
#define SOURCE_TRIES 3

/* rearrange moves tasks when a source went away or answers again: no task waits for a source that is away while another
 * job has its sample in one that answers. */
static void rearrange(struct tasks *tasks)
{
    for (uint32_t job = 0; job < tasks->jobs->end; job++) {
        if (!sources_waits(tasks->sources, job))
            continue;
        for (uint32_t index = job_at(tasks->jobs, job)->turns.lists[TASK_LOADS].tasks.head, next; index != ENGINE_NONE;
             index = next) {
            next = tasks->tasks[index].in_list.next;
            uint32_t heir = tasks_heir(tasks, &tasks->tasks[index], job);
            CHECK(heir != ENGINE_NONE);
            if (!sources_away(tasks->sources, heir))
                tasks_move(tasks, index, heir);
        }
    }
}

/* act_news adds a SOURCE action. The caller fills in what belongs to the news. */
static struct engine_action *act_news(struct tasks *tasks, const struct data_source *source,
                                      enum engine_source_news news)
{
    struct engine_action *action = outbox_add(tasks->outbox, ENGINE_SOURCE);
    action->source.news = news;
    action->source.dataset = source->dataset;
    action->source.id = SAMPLE_NONE;
    return action;
}

void tasks_source_answered(struct tasks *tasks, const struct encoded *encoded)
{
    struct data_source *source = sources_find_source(tasks->sources, encoded->dataset);
    if (!source)
        return;
    source->probe = source->probe == encoded->id ? SAMPLE_NONE : source->probe;
    if (encoded->round > source->answered)
        source->answered = encoded->round;
    if (!source->away || encoded->round < source->failed)
        return;
    source->away = false;
    tasks->sources->n_away--;
    if (source->told) {
        struct engine_action *action = act_news(tasks, source, ENGINE_SOURCE_BACK);
        action->source.waited_ns = tasks->env->now_ns - source->since_ns;
        action->source.retries = source->retries;
    }
    rearrange(tasks);
    encoded_read_ahead_again(tasks->encoded);
}

/* count_tries counts a failure against the sample, if its source has answered for another since the failure before.
 * True: the sample has failed often enough. */
static bool count_tries(struct tasks *tasks, const struct data_source *source, uint32_t first)
{
    bool enough = false;
    for (uint32_t index = first; index != ENGINE_NONE; index = tasks->tasks[index].in_list.next) {
        struct task *task = &tasks->tasks[index];
        if (task->tries == 0 || source->answered >= task->tried) {
            task->tries++;
            task->tried = tasks->sources->rounds;
        }
        enough = enough || task->tries == SOURCE_TRIES;
    }
    for (uint32_t index = first; enough && index != ENGINE_NONE; index = tasks->tasks[index].in_list.next)
        tasks->tasks[index].tries = 0; /* another dataset may have the sample */
    return enough;
}

/* go_away notes that a source that answered is away. */
static void go_away(struct tasks *tasks, struct data_source *source)
{
    source->away = true;
    tasks->sources->n_away++;
    source->told = false;
    source->since_ns = tasks->env->now_ns;
    source->retries = 0;
    source->pause_ns = SOURCE_PAUSE_NS;
    source->until_ns = tasks->env->now_ns + source->pause_ns;
    rearrange(tasks);
}

/* stay_away notes that a probe failed: the next pause is longer. The first time, an action says that the source is
 * away. */
static void stay_away(struct tasks *tasks, struct data_source *source)
{
    uint64_t pause_ns = source->pause_ns * 2;
    source->pause_ns = pause_ns < SOURCE_PAUSE_MAX_NS ? pause_ns : SOURCE_PAUSE_MAX_NS;
    source->until_ns = tasks->env->now_ns + source->pause_ns;
    if (!source->told)
        act_news(tasks, source, ENGINE_SOURCE_AWAY);
    source->told = true;
}

void tasks_source_beyond(struct tasks *tasks, const void *dataset, sample_id id)
{
    act_news(tasks, sources_find_source(tasks->sources, dataset), ENGINE_SOURCE_BEYOND)->source.id = id;
}

bool tasks_source_failed(struct tasks *tasks, const struct encoded *encoded, uint32_t first, int reason)
{
    struct data_source *source = sources_find_source(tasks->sources, encoded->dataset);
    if (!source) /* all its jobs have gone: a job that still waits has another source */
        return true;
    bool probe = source->probe == encoded->id;
    source->probe = probe ? SAMPLE_NONE : source->probe;
    source->failed = ++tasks->sources->rounds;
    if (source->away && probe)
        stay_away(tasks, source);
    if (count_tries(tasks, source, first)) {
        struct engine_action *action = act_news(tasks, source, ENGINE_SOURCE_GAVE_UP);
        action->source.id = encoded->id;
        action->source.reason = reason;
        return false;
    }
    if (!source->away)
        go_away(tasks, source);
    source->retries++;
    tasks->env->counts.source_retries++;
    return true;
}
