/* tasks_expected.c: instances that other nodes make. */
#include "common/check.h"
#include "server/engine/tasks.h"

/* ahead_elsewhere returns how many samples of the job's look-ahead are elsewhere, by what is left there. */
static uint64_t ahead_elsewhere(const struct engine_env *env, const struct job *job)
{
    uint64_t left = job_left(env, job);
    double part = left ? (double)job_left_elsewhere(env, job) / (double)left : 0;
    return (uint64_t)((double)(job->quota.slots * job->terms.world_size) * part);
}

void tasks_expect(struct tasks *tasks, uint32_t job, uint32_t index)
{
    struct instance *instance = &tasks->prepared->instances[index];
    instance->task = tasks_new(tasks);
    tasks->tasks[instance->task] = (struct task){.state = TASK_EXPECTED,
                                                 .job = job,
                                                 .id = instance->form.id,
                                                 .encoded = ENGINE_NONE,
                                                 .n_outputs = 1,
                                                 .outputs = {index}};
    prepared_expect(tasks->prepared, index);
    struct engine_action *action = job_act(tasks->outbox, ENGINE_EXPECT, job_at(tasks->jobs, job));
    action->expect.task = instance->task;
    action->expect.id = instance->form.id;
    action->expect.offset = extent_offset(tasks->prepared->extents, instance->block);
    action->expect.bytes = instance->bytes;
    action->expect.ahead = ahead_elsewhere(tasks->env, job_at(tasks->jobs, job));
    action->expect.dataset = job_at(tasks->jobs, job)->terms.dataset;
}

void tasks_rename(struct tasks *tasks, uint32_t index, sample_id id)
{
    struct task *task = &tasks->tasks[index];
    CHECK(task->state == TASK_EXPECTED);
    task->id = id;
    prepared_rename(tasks->prepared, task->outputs[0], id);
}

/* made makes the task's instance READY. It returns the entry that waits for it: at most one does, because no other job
 * can get the instance. */
static uint32_t made(struct tasks *tasks, uint32_t instance, uint32_t bytes)
{
    if (tasks->prepared->instances[instance].sized)
        prepared_trim(tasks->prepared, instance, bytes);
    uint32_t waiter = prepared_arrived(tasks->prepared, instance);
    CHECK(waiter != ENGINE_NONE && tasks->queues->entries[waiter].next_waiter == ENGINE_NONE);
    return waiter;
}

void tasks_arrived(struct tasks *tasks, uint32_t index, uint32_t bytes)
{
    uint32_t instance = tasks->tasks[index].outputs[0];
    tasks_entry_ready(tasks, made(tasks, instance, bytes));
    prepared_unpin(tasks->prepared, instance);
    tasks_end(tasks, index);
}

void tasks_arrived_early(struct tasks *tasks, uint32_t index, uint32_t bytes)
{
    uint32_t instance = tasks->tasks[index].outputs[0];
    queue_unplaced(tasks->queues, made(tasks, instance, bytes));
    prepared_unpin(tasks->prepared, instance);
    prepared_keep(tasks->prepared, instance);
    tasks_end(tasks, index);
}

void tasks_arrived_not(struct tasks *tasks, uint32_t index)
{
    struct instance *instance = &tasks->prepared->instances[tasks->tasks[index].outputs[0]];
    uint32_t waiter = instance->waiters;
    instance->waiters = ENGINE_NONE;
    prepared_free(tasks->prepared, tasks->tasks[index].outputs[0]);
    if (waiter != ENGINE_NONE)
        queue_unplaced(tasks->queues, waiter);
    tasks_end(tasks, index);
}
