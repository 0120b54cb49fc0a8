/* jobs_loaded.c: what loads bring: a sample's bytes, or why there are none.
 *
 * A load is from one dataset, and other datasets may have the same sample: where it is bad or changed, that is so for the jobs
 * of this dataset alone, and who else waits for the sample has it loaded from his own. */
#include "common/check.h"
#include "preprocess/prepare.h"
#include "server/engine/encoded.h"
#include "server/engine/jobs.h"
#include "server/engine/prepared.h"
#include "server/engine/tasks.h"

/* Takes the waiters of the instance that read from the dataset off its list, and gives them as one. */
static uint32_t take_waiters(struct engine *engine, uint32_t instance, const void *dataset)
{
    uint32_t taken = ENGINE_NONE, *end = &taken, *link = &engine->prepared.instances[instance].waiters;
    while (*link != ENGINE_NONE) {
        struct entry *entry = &engine->queues.entries[*link];
        if (job_at(&engine->jobs, entry->job)->terms.dataset == dataset) {
            *end = *link;
            *link = entry->next_waiter;
            end = &entry->next_waiter;
            *end = ENGINE_NONE;
        } else {
            link = &entry->next_waiter;
        }
    }
    return taken;
}

static uint32_t fail_waiters(struct engine *engine, uint32_t instance, const void *dataset, bool changed)
{
    uint32_t count = 0;
    for (uint32_t waiter = take_waiters(engine, instance, dataset), next; waiter != ENGINE_NONE; waiter = next, count++) {
        next = engine->queues.entries[waiter].next_waiter;
        prepared_clear_had(&engine->prepared, engine->queues.entries[waiter].job, instance);
        prepared_unpin(&engine->prepared, instance);
        engine->queues.entries[waiter].instance = ENGINE_NONE;
        if (changed)
            jobs_entry_changed(engine, waiter);
        else
            jobs_entry_bad(engine, waiter);
    }
    return count;
}

static void load_again(struct engine *engine, uint32_t index)
{
    struct task *task = &engine->tasks.tasks[index];
    task->job = tasks_heir(&engine->tasks, task, task->job);
    CHECK(task->job != ENGINE_NONE);
    tasks_to_load(&engine->tasks, index, true);
}

/* The task is in no list. RUNNING keeps a job that fails over this sample from cancelling outputs under our feet. */
static void settle_task(struct engine *engine, uint32_t index, const void *dataset, bool changed)
{
    uint32_t failed = 0, kept = 0;
    for (uint32_t i = 0; i < engine->tasks.tasks[index].n_outputs; i++)
        failed += fail_waiters(engine, engine->tasks.tasks[index].outputs[i], dataset, changed);
    if (!changed)
        engine->env.totals.bad_samples[engine->failing] += failed > 0;
    struct task *task = &engine->tasks.tasks[index];
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        if (engine->prepared.instances[task->outputs[i]].waiters != ENGINE_NONE)
            task->outputs[kept++] = task->outputs[i];
        else
            prepared_free(&engine->prepared, task->outputs[i]);
    }
    task->n_outputs = kept;
    if (kept > 0)
        load_again(engine, index);
    else
        tasks_end(&engine->tasks, index);
}

static void load_failed(struct engine *engine, uint32_t index, const struct engine_event *event)
{
    struct encoded encoded = engine->encoded.encodeds[index];
    int reason = event->loaded.reason;
    engine->encoded.encodeds[index].tasks = ENGINE_NONE;
    engine->encoded.samples[encoded.id].failed = true;
    for (uint32_t task = encoded.tasks; task != ENGINE_NONE; task = engine->tasks.tasks[task].in_list.next) {
        engine->tasks.tasks[task].state = TASK_RUNNING;
        engine->tasks.tasks[task].encoded = ENGINE_NONE;
    }
    encoded_free(&engine->encoded, index, false);
    bool again = event->loaded.fate == ENGINE_FATE_SOURCE && tasks_source_failed(&engine->tasks, &encoded, encoded.tasks, reason);
    if (event->loaded.fate != ENGINE_FATE_SOURCE)
        tasks_source_answered(&engine->tasks, &encoded);
    engine->failing = reason > 0 && reason < BAD_REASONS ? reason : BAD_CORRUPT;
    for (uint32_t task = encoded.tasks, next; task != ENGINE_NONE; task = next) {
        next = engine->tasks.tasks[task].in_list.next;
        if (again)
            load_again(engine, task);
        else
            settle_task(engine, task, encoded.dataset, event->loaded.fate == ENGINE_FATE_CHANGED);
    }
}

void jobs_on_loaded(struct engine *engine, const struct engine_event *event)
{
    sample_id id = event->loaded.id;
    CHECK(id < engine->env.ids && engine->encoded.samples[id].encoded != ENGINE_NONE);
    uint32_t index = engine->encoded.samples[id].encoded;
    struct encoded *encoded = &engine->encoded.encodeds[index];
    CHECK(encoded->state == ENCODED_LOADING && engine->encoded.loading > 0);
    engine->encoded.loading--;
    if (!event->loaded.encoded) {
        load_failed(engine, index, event);
        return;
    }
    CHECK(event->loaded.bytes == encoded->bytes);
    encoded->state = ENCODED_READY;
    engine->encoded.samples[id].failed = false;
    encoded->handle = event->loaded.encoded;
    engine->env.totals.samples_loaded++;
    engine->env.totals.loaded_bytes += encoded->bytes;
    tasks_source_answered(&engine->tasks, encoded);
    uint32_t task = encoded->tasks;
    encoded->tasks = ENGINE_NONE;
    while (task != ENGINE_NONE) {
        uint32_t next = engine->tasks.tasks[task].in_list.next;
        tasks_to_prepare(&engine->tasks, task);
        task = next;
    }
    encoded_unpin(&engine->encoded, index);
}
