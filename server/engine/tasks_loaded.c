/* tasks_loaded.c: what loads bring: a sample's bytes, or the reason why there are none.
 *
 * A load is from one dataset, and other datasets may have the same sample. If the sample is bad or changed, that is so
 * for the jobs of this dataset alone. Any other job that waits for the sample has it loaded from its own dataset. */
#include "common/check.h"
#include "server/engine/tasks.h"

/* fail_waiters takes those entries off the instance's list whose jobs read from the dataset. They become results. It
 * returns how many they are. */
static uint32_t fail_waiters(struct tasks *tasks, uint32_t instance, const void *dataset, struct result result)
{
    uint32_t count = 0, *link = &tasks->prepared->instances[instance].waiters;
    while (*link != ENGINE_NONE) {
        result.entry = *link;
        struct entry *entry = &tasks->queues->entries[result.entry];
        if (job_at(tasks->jobs, entry->job)->terms.dataset != dataset) {
            link = &entry->next_waiter;
            continue;
        }
        *link = entry->next_waiter;
        prepared_clear_had(tasks->prepared, entry->job, instance);
        prepared_unpin(tasks->prepared, instance);
        tasks_add_result(tasks, result);
        count++;
    }
    return count;
}

/* load_again puts a task that is in no list before all others of a job that waits for it. */
static void load_again(struct tasks *tasks, uint32_t index)
{
    struct task *task = &tasks->tasks[index];
    task->job = tasks_heir(tasks, task, task->job);
    CHECK(task->job != ENGINE_NONE);
    tasks_to_load(tasks, index, true);
}

/* settle_task settles a task that is in no list, after a load that failed for the dataset. Outputs that jobs of other
 * datasets wait for are loaded from elsewhere. */
static void settle_task(struct tasks *tasks, uint32_t index, const void *dataset, struct result result)
{
    struct task *task = &tasks->tasks[index];
    uint32_t failed = 0, kept = 0;
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        failed += fail_waiters(tasks, task->outputs[i], dataset, result);
        if (tasks->prepared->instances[task->outputs[i]].waiters != ENGINE_NONE)
            task->outputs[kept++] = task->outputs[i];
        else
            prepared_free(tasks->prepared, task->outputs[i]);
    }
    if (!result.changed)
        tasks->env->counts.bad_samples[result.reason] += failed > 0;
    task->n_outputs = kept;
    if (kept > 0)
        load_again(tasks, index);
    else
        tasks_end(tasks, index);
}

/* load_failed frees the encoded of a load that failed. Its tasks load again, or fail for the jobs of the dataset. */
static void load_failed(struct tasks *tasks, uint32_t index, const struct engine_event *event)
{
    struct encoded encoded = tasks->encoded->encodeds[index];
    int reason = event->loaded.reason;
    tasks->encoded->encodeds[index].tasks = LINE_EMPTY;
    for (uint32_t task = encoded.tasks.head; task != ENGINE_NONE; task = tasks->tasks[task].in_list.next)
        tasks->tasks[task].encoded = ENGINE_NONE;
    encoded_failed(tasks->encoded, index);
    bool again = event->loaded.fate == ENGINE_FATE_SOURCE &&
                 tasks_source_failed(tasks, &encoded, encoded.tasks.head, reason);
    if (event->loaded.fate != ENGINE_FATE_SOURCE)
        tasks_source_answered(tasks, &encoded);
    struct result result = {.reason = reason > 0 && reason < BAD_REASONS ? reason : BAD_CORRUPT,
                            .changed = event->loaded.fate == ENGINE_FATE_CHANGED};
    for (uint32_t task = encoded.tasks.head, next; task != ENGINE_NONE; task = next) {
        next = tasks->tasks[task].in_list.next;
        if (again)
            load_again(tasks, task);
        else
            settle_task(tasks, task, encoded.dataset, result);
    }
}

void tasks_on_loaded(struct tasks *tasks, const struct engine_event *event)
{
    sample_id id = event->loaded.id;
    CHECK(id < tasks->env->samples.ids && encoded_sample(tasks->encoded, id)->encoded != ENGINE_NONE);
    uint32_t index = encoded_sample(tasks->encoded, id)->encoded;
    struct encoded *encoded = &tasks->encoded->encodeds[index];
    if (!event->loaded.encoded) {
        load_failed(tasks, index, event);
        return;
    }
    encoded_arrived(tasks->encoded, index, event->loaded.encoded, event->loaded.bytes);
    tasks_source_answered(tasks, encoded);
    uint32_t task = encoded->tasks.head;
    encoded->readers = 0;
    encoded->planes = event->loaded.planes;
    while (task != ENGINE_NONE) {
        uint32_t next = tasks->tasks[task].in_list.next;
        if (encoded->planes && tasks->tasks[task].needs_encoded) {
            tasks->tasks[task].encoded = ENGINE_NONE;
            load_again(tasks, task);
            encoded_unpin(tasks->encoded, index); /* the load's own pin is left */
        } else {
            tasks_to_prepare(tasks, task);
        }
        task = next;
    }
    encoded_unpin(tasks->encoded, index);
}
