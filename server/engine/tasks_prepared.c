/* tasks_prepared.c: what preparations bring: instances, and entries that go without one. */
#include "common/check.h"
#include "server/engine/tasks.h"

void tasks_add_result(struct tasks *tasks, struct result result)
{
    tasks->results = xgrow(tasks->results, sizeof *tasks->results, &tasks->results_cap, tasks->n_results + 1);
    queue_making_ended(tasks->queues, &tasks->queues->entries[result.entry]);
    queue_unplaced(tasks->queues, result.entry);
    tasks->results[tasks->n_results++] = result;
}

/* output_failed frees an instance that could not be made; the entries that wait for it become results. */
static void output_failed(struct tasks *tasks, uint32_t instance, int reason)
{
    uint32_t waiter = tasks->prepared->instances[instance].waiters;
    tasks->prepared->instances[instance].waiters = ENGINE_NONE;
    prepared_free(tasks->prepared, instance);
    for (uint32_t next; waiter != ENGINE_NONE; waiter = next) {
        next = tasks->queues->entries[waiter].next_waiter;
        tasks_add_result(tasks, (struct result){.entry = waiter, .reason = reason});
    }
}

void tasks_fail(struct tasks *tasks, uint32_t index, int reason)
{
    const struct task *task = &tasks->tasks[index];
    tasks->env->counts.bad_samples[reason]++;
    for (uint32_t i = 0; i < task->n_outputs; i++)
        output_failed(tasks, task->outputs[i], reason);
    tasks_end(tasks, index);
}

/* output_made makes the instance READY, and the entries that wait for it. `bytes` is how long it is, if it is sized and
 * not raw. */
static void output_made(struct tasks *tasks, uint32_t index, uint32_t bytes)
{
    const struct instance *instance = &tasks->prepared->instances[index];
    if (instance->sized && !instance->raw)
        prepared_trim(tasks->prepared, index, bytes);
    uint32_t waiter = prepared_made(tasks->prepared, index);
    struct job *job = job_find_serial(tasks->jobs, tasks->prepared->instances[index].made_for);
    if (job)
        job->tallies.instances_prepared++;
    while (waiter != ENGINE_NONE) {
        uint32_t next = tasks->queues->entries[waiter].next_waiter;
        tasks_entry_ready(tasks, waiter);
        waiter = next;
    }
    prepared_unpin(tasks->prepared, index);
}

/* count_bad counts each reason once for which outputs failed that entries wait for. */
static void count_bad(struct tasks *tasks, const struct task *task, const uint8_t *reasons)
{
    bool counted[BAD_REASONS] = {false};
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        CHECK(reasons[i] < BAD_REASONS);
        if (!reasons[i] || counted[reasons[i]] || tasks->prepared->instances[task->outputs[i]].waiters == ENGINE_NONE)
            continue;
        counted[reasons[i]] = true;
        tasks->env->counts.bad_samples[reasons[i]]++;
    }
}

/* made_part returns a copy of the task with only those of its outputs that were made. */
static struct task made_part(const struct task *task, const uint8_t *reasons)
{
    struct task made = *task;
    made.n_outputs = 0;
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        if (!reasons[i])
            made.outputs[made.n_outputs++] = task->outputs[i];
    }
    return made;
}

/* ran counts a task that runs no more. */
static void ran(struct tasks *tasks, uint32_t index)
{
    const struct task *task = &tasks->tasks[index];
    if (task->copy) {
        CHECK(tasks->copies > 0);
        tasks->copies--;
        tasks->copies_bytes -= tasks_copy_bytes(tasks, task);
    } else {
        CHECK(tasks->running > 0);
        tasks->running--;
        tasks->running_ns -= task->cost_ns;
    }
}

void tasks_on_prepared(struct tasks *tasks, const struct engine_event *event)
{
    uint32_t index = event->prepared.task;
    const uint8_t *reasons = event->prepared.reasons;
    CHECK(index < tasks->slab.size && tasks->tasks[index].state == TASK_RUNNING);
    ran(tasks, index);
    const struct task *task = &tasks->tasks[index]; /* the task stays where it is, because no task begins here */
    struct task made = made_part(task, reasons);
    struct encoded *source = &tasks->encoded->encodeds[task->encoded];
    bool of_form = source->decoded;
    CHECK(source->readers > 0 && (task->granted || !event->prepared.decoded));
    source->readers--;
    if (task->granted)
        encoded_form_made(tasks->encoded, task->encoded, event->prepared.decoded, event->prepared.decoded_bytes);
    count_bad(tasks, task, reasons);
    if (made.n_outputs) {
        tasks_measure_prepare(tasks, task, event);
        tasks->env->counts.samples_decoded += !of_form && tasks_makes_pixels(tasks, &made);
        tasks->env->counts.samples_from_forms += of_form;
    }
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        if (reasons[i])
            output_failed(tasks, task->outputs[i], reasons[i]);
        else
            output_made(tasks, task->outputs[i], event->prepared.bytes[i]);
    }
    tasks_end(tasks, index);
}
