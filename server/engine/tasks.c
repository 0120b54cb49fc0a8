/* tasks.c: the life of a task.
 *
 * A task makes up to ENGINE_OUTPUTS_MAX instances of one sample, so the sample is fetched once and decoded once. The
 * task waits in the list of a job that waits for it, first to load and then to prepare. Few tasks are out at a time.
 * The next one always comes from the job with the lowest virtual time (tasks_turns.c). So a job with a long list delays
 * another job by no more than the tasks that are out. */
#include "server/engine/tasks.h"

#include <math.h>

#include "common/check.h"
#include "server/engine/encoded.h"
#include "server/engine/prepared.h"
#include "server/engine/sources.h"

SLAB(static, task, tasks, tasks, in_list.next)

uint32_t tasks_new(struct tasks *tasks)
{
    return task_new(tasks);
}

void tasks_to_load(struct tasks *tasks, uint32_t index, bool first)
{
    struct task *task = &tasks->tasks[index];
    task->state = TASK_TO_LOAD;
    if (first)
        tasks_prepend(tasks, index);
    else
        tasks_append(tasks, index);
    encoded_sample(tasks->encoded, task->id)->pending++;
    if (chunks_place(tasks->chunks, task->id)->chunk != ENGINE_NONE)
        tasks->chunks->chunks[chunks_place(tasks->chunks, task->id)->chunk].pending++;
}

void tasks_remove_to_load(struct tasks *tasks, uint32_t index)
{
    struct task *task = &tasks->tasks[index];
    tasks_remove(tasks, index);
    encoded_sample(tasks->encoded, task->id)->pending--;
    if (chunks_place(tasks->chunks, task->id)->chunk != ENGINE_NONE)
        tasks->chunks->chunks[chunks_place(tasks->chunks, task->id)->chunk].pending--;
}

void tasks_to_prepare(struct tasks *tasks, uint32_t index)
{
    tasks->tasks[index].state = TASK_TO_PREPARE;
    tasks_append(tasks, index);
}

void tasks_route(struct tasks *tasks, uint32_t index)
{
    struct task *task = &tasks->tasks[index];
    uint32_t encoded = encoded_sample(tasks->encoded, task->id)->encoded;
    if (encoded == ENGINE_NONE || (task->needs_encoded && encoded_is_other(tasks->encoded, task->id))) {
        tasks_to_load(tasks, index, false);
        return;
    }
    encoded_pin(tasks->encoded, encoded);
    task->encoded = encoded;
    if (tasks->encoded->encodeds[encoded].state == ENCODED_READY) {
        tasks_to_prepare(tasks, index);
    } else {
        task->state = TASK_LOADING;
        line_prepend(&tasks->encoded->encodeds[encoded].tasks, LINKS(tasks->tasks, in_list), index);
    }
}

void tasks_begin(struct tasks *tasks, uint32_t job, uint32_t instance)
{
    struct instance *made = &tasks->prepared->instances[instance];
    bool needs_encoded = job_at(tasks->jobs, job)->terms.needs_encoded;
    INSTANCES_OF(tasks->prepared, made->form.id, other) {
        if (other == instance || tasks->prepared->instances[other].state != INSTANCE_MAKING)
            continue;
        struct task *task = &tasks->tasks[tasks->prepared->instances[other].task];
        bool of_form = task->encoded != ENGINE_NONE && encoded_is_other(tasks->encoded, task->id);
        if (!tasks_is_out(task) && task->n_outputs < ENGINE_OUTPUTS_MAX && !(of_form && needs_encoded)) {
            task->needs_encoded = task->needs_encoded || needs_encoded;
            made->task = tasks->prepared->instances[other].task;
            task->outputs[task->n_outputs++] = instance;
            tasks_waiter_joined(tasks, made->task, job);
            return;
        }
    }
    uint32_t index = task_new(tasks);
    struct task *task = &tasks->tasks[index];
    *task = (struct task){.job = job,
                          .id = made->form.id,
                          .encoded = ENGINE_NONE,
                          .needs_encoded = needs_encoded,
                          .n_outputs = 1,
                          .outputs = {instance}};
    made->task = index;
    tasks_route(tasks, index);
}

/* unlist takes a task that does not run out of the list that it waits in. */
static void unlist(struct tasks *tasks, uint32_t index)
{
    struct task *task = &tasks->tasks[index];
    if (task->state == TASK_TO_LOAD) {
        tasks_remove_to_load(tasks, index);
    } else if (task->state == TASK_TO_PREPARE) {
        tasks_remove(tasks, index);
    } else {
        CHECK(task->state == TASK_LOADING);
        line_remove(&tasks->encoded->encodeds[task->encoded].tasks, LINKS(tasks->tasks, in_list), index);
    }
}

/* may_stay tells whether an output may be made with the task: it is for the task's job, or the turn of a job that waits
 * for it has come. */
static bool may_stay(const struct tasks *tasks, const struct task *task, uint32_t output, double limit)
{
    WAITERS_OF(tasks->queues, output, at) {
        uint32_t job = tasks->queues->entries[at].job;
        if (job == task->job || tasks_turn_came(tasks, job, limit))
            return true;
    }
    return false;
}

/* wants_encoded tells whether a job that waits for the output needs the encoded bytes. */
static bool wants_encoded(const struct tasks *tasks, uint32_t output)
{
    bool wants = false;
    WAITERS_OF(tasks->queues, output, at)
        wants = wants || job_at(tasks->jobs, tasks->queues->entries[at].job)->terms.needs_encoded;
    return wants;
}

void tasks_part(struct tasks *tasks, uint32_t index)
{
    struct task *task = &tasks->tasks[index];
    double limit = task->n_outputs > 1 ? tasks_turn_limit(tasks, task->job) : INFINITY;
    struct task later = {.id = task->id, .encoded = task->encoded};
    uint32_t stay = 0;
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        uint32_t output = task->outputs[i];
        if (limit == INFINITY || may_stay(tasks, task, output, limit)) {
            task->outputs[stay++] = output;
        } else {
            later.outputs[later.n_outputs++] = output;
            later.needs_encoded = later.needs_encoded || wants_encoded(tasks, output);
        }
    }
    task->n_outputs = stay;
    if (later.n_outputs == 0)
        return;
    later.job = tasks_heir(tasks, &later, ENGINE_NONE);
    later.encoded = ENGINE_NONE;
    uint32_t own = task_new(tasks);
    tasks->tasks[own] = later;
    for (uint32_t i = 0; i < later.n_outputs; i++)
        tasks->prepared->instances[later.outputs[i]].task = own;
    tasks_route(tasks, own);
}

void tasks_end(struct tasks *tasks, uint32_t index)
{
    uint32_t encoded = tasks->tasks[index].encoded;
    task_drop(tasks, index);
    if (encoded != ENGINE_NONE)
        encoded_unpin(tasks->encoded, encoded);
}

void tasks_cancel_output(struct tasks *tasks, uint32_t instance)
{
    uint32_t index = tasks->prepared->instances[instance].task;
    struct task *task = &tasks->tasks[index];
    if (tasks_is_out(task))
        return;
    uint32_t at = 0;
    while (task->outputs[at] != instance)
        CHECK(++at < task->n_outputs);
    task->outputs[at] = task->outputs[--task->n_outputs];
    prepared_free(tasks->prepared, instance);
    if (task->n_outputs == 0) {
        unlist(tasks, index);
        tasks_end(tasks, index);
    } else {
        tasks_waiter_left(tasks, index, task->job);
    }
}

/* ── whose line ── */

/* The task goes behind what its new job waits for already. */
void tasks_move(struct tasks *tasks, uint32_t index, uint32_t job)
{
    struct task *task = &tasks->tasks[index];
    bool listed = tasks_is_listed(task);
    if (listed)
        tasks_remove(tasks, index);
    task->job = job;
    if (listed)
        tasks_append(tasks, index);
}

/* better_off tells whether the task is better off in a's list than in b's. A task that must be loaded does not wait for
 * a source that is away if another job has the sample too. */
static bool better_off(const struct tasks *tasks, const struct task *task, uint32_t a, uint32_t b)
{
    bool a_away = sources_away(tasks->sources, a), b_away = sources_away(tasks->sources, b);
    if (task->encoded == ENGINE_NONE && a_away != b_away)
        return b_away;
    enum task_kind kind = task->encoded == ENGINE_NONE ? TASK_LOADS : TASK_PREPARES;
    return tasks_rate(tasks, a, kind) > tasks_rate(tasks, b, kind);
}

void tasks_waiter_joined(struct tasks *tasks, uint32_t index, uint32_t job)
{
    const struct task *task = &tasks->tasks[index];
    if (!tasks_is_out(task) && better_off(tasks, task, job, task->job))
        tasks_move(tasks, index, job);
}

/* The job keeps the task as long as it waits for one of the outputs, unless its source keeps the task from being
 * loaded. */
uint32_t tasks_heir(const struct tasks *tasks, const struct task *task, uint32_t job)
{
    uint32_t best = ENGINE_NONE;
    bool stays = !(task->encoded == ENGINE_NONE && sources_away(tasks->sources, job));
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        WAITERS_OF(tasks->queues, task->outputs[i], at) {
            uint32_t waiting = tasks->queues->entries[at].job;
            if (waiting == job && stays)
                return job;
            if (best == ENGINE_NONE || better_off(tasks, task, waiting, best))
                best = waiting;
        }
    }
    return best;
}

void tasks_waiter_left(struct tasks *tasks, uint32_t index, uint32_t job)
{
    const struct task *task = &tasks->tasks[index];
    uint32_t heir = !tasks_is_out(task) && task->job == job ? tasks_heir(tasks, task, job) : job;
    CHECK(heir != ENGINE_NONE);
    if (heir != job)
        tasks_move(tasks, index, heir);
}

bool tasks_is_running(const struct tasks *tasks, const struct instance *instance)
{
    return instance->state == INSTANCE_MAKING && tasks_is_out(&tasks->tasks[instance->task]);
}
