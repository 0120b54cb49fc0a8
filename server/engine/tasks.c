/* tasks.c: what loaders and preparers are asked to do.
 *
 * A task makes up to ENGINE_OUTPUTS_MAX instances of one sample: fetch once, decode once. It waits in the list of a job
 * that waits for it (to load, then to prepare). Few are out at a time; the next is always taken from the job whose turn it
 * is (tasks_turns.c), so that a job with a long list delays another by at most what is out. */
#include "preprocess/prepare.h"
#include "server/engine/encoded.h"
#include "server/engine/outbox.h"
#include "server/engine/prepared.h"
#include "server/engine/sources.h"
#include "server/engine/tasks.h"

SLAB(task, tasks, tasks, in_list.next)

_Static_assert(BAD_REASONS <= ENGINE_REASONS, "totals have a place for every reason");

void tasks_to_load(struct engine *engine, uint32_t index, bool first)
{
    struct task *task = &engine->tasks.tasks[index];
    task->state = TASK_TO_LOAD;
    if (first)
        tasks_prepend(engine, TASK_LOADS, index);
    else
        tasks_append(engine, TASK_LOADS, index);
    engine->samples.all[task->id].pending++;
    if (engine->samples.all[task->id].chunk != ENGINE_NONE)
        engine->chunks.chunks[engine->samples.all[task->id].chunk].pending++;
}

void tasks_remove_to_load(struct engine *engine, uint32_t index)
{
    struct task *task = &engine->tasks.tasks[index];
    tasks_remove(engine, TASK_LOADS, index);
    engine->samples.all[task->id].pending--;
    if (engine->samples.all[task->id].chunk != ENGINE_NONE)
        engine->chunks.chunks[engine->samples.all[task->id].chunk].pending--;
}

void tasks_to_prepare(struct engine *engine, uint32_t index)
{
    engine->tasks.tasks[index].state = TASK_TO_PREPARE;
    tasks_append(engine, TASK_PREPARES, index);
}

/* Puts a task where the sample's bytes let it go: they are there, they are on their way, or they must be asked for. */
void tasks_route(struct engine *engine, uint32_t index)
{
    struct task *task = &engine->tasks.tasks[index];
    uint32_t encoded = engine->samples.all[task->id].encoded;
    if (encoded == ENGINE_NONE) {
        tasks_to_load(engine, index, false);
        return;
    }
    encoded_pin(engine, encoded);
    task->encoded = encoded;
    if (engine->encoded.encodeds[encoded].state == ENCODED_READY) {
        tasks_to_prepare(engine, index);
    } else {
        task->state = TASK_LOADING;
        task->in_list.next = engine->encoded.encodeds[encoded].tasks;
        engine->encoded.encodeds[encoded].tasks = index;
    }
}

void tasks_begin(struct engine *engine, uint32_t job, uint32_t instance)
{
    struct instance *made = &engine->prepared.instances[instance];
    for (uint32_t other = engine->samples.all[made->form.id].instances; other != ENGINE_NONE; other = engine->prepared.instances[other].next) {
        if (other == instance || engine->prepared.instances[other].state != INSTANCE_MAKING)
            continue;
        struct task *task = &engine->tasks.tasks[engine->prepared.instances[other].task];
        if (task->state != TASK_RUNNING && task->n_outputs < ENGINE_OUTPUTS_MAX) {
            made->task = engine->prepared.instances[other].task;
            task->outputs[task->n_outputs++] = instance;
            tasks_joined(engine, made->task, job);
            return;
        }
    }
    uint32_t index = task_new(&engine->tasks);
    struct task *task = &engine->tasks.tasks[index];
    *task = (struct task){.job = job, .id = made->form.id, .encoded = ENGINE_NONE, .n_outputs = 1, .outputs = {instance}};
    made->task = index;
    tasks_route(engine, index);
}

/* Takes a task that is not running out of the list it waits in. */
static void unlist(struct engine *engine, uint32_t index)
{
    struct task *task = &engine->tasks.tasks[index];
    if (task->state == TASK_TO_LOAD) {
        tasks_remove_to_load(engine, index);
    } else if (task->state == TASK_TO_PREPARE) {
        tasks_remove(engine, TASK_PREPARES, index);
    } else {
        CHECK(task->state == TASK_LOADING);
        uint32_t *link = &engine->encoded.encodeds[task->encoded].tasks;
        while (*link != index) {
            CHECK(*link != ENGINE_NONE);
            link = &engine->tasks.tasks[*link].in_list.next;
        }
        *link = task->in_list.next;
    }
}

void tasks_end(struct engine *engine, uint32_t index)
{
    uint32_t encoded = engine->tasks.tasks[index].encoded;
    task_drop(&engine->tasks, index);
    if (encoded != ENGINE_NONE)
        encoded_unpin(engine, encoded);
}

/* An instance that nobody waits for any more is not made, unless that is under way: then it becomes cache. */
void tasks_cancel_output(struct engine *engine, uint32_t instance)
{
    uint32_t index = engine->prepared.instances[instance].task;
    struct task *task = &engine->tasks.tasks[index];
    if (task->state == TASK_RUNNING)
        return;
    uint32_t at = 0;
    while (task->outputs[at] != instance)
        CHECK(++at < task->n_outputs);
    task->outputs[at] = task->outputs[--task->n_outputs];
    prepared_free(engine, instance);
    if (task->n_outputs == 0) {
        unlist(engine, index);
        tasks_end(engine, index);
    } else {
        tasks_left(engine, index, task->job);
    }
}

/* ── whose line ── */

/* Never for a task that is under way. It goes behind what its new job waits for already. */
void tasks_move(struct engine *engine, uint32_t index, uint32_t job)
{
    struct task *task = &engine->tasks.tasks[index];
    if (task->state == TASK_TO_LOAD)
        tasks_remove(engine, TASK_LOADS, index);
    else if (task->state == TASK_TO_PREPARE)
        tasks_remove(engine, TASK_PREPARES, index);
    task->job = job;
    if (task->state == TASK_TO_LOAD)
        tasks_append(engine, TASK_LOADS, index);
    else if (task->state == TASK_TO_PREPARE)
        tasks_append(engine, TASK_PREPARES, index);
}

/* Is the task better off in a's line than in b's? One that is to be loaded waits for no source that does not answer
 * while another has the sample too. */
static bool better_off(const struct engine *engine, const struct task *task, uint32_t a, uint32_t b)
{
    bool a_away = sources_away(engine, a), b_away = sources_away(engine, b);
    if (task->encoded == ENGINE_NONE && a_away != b_away)
        return b_away;
    return engine->jobs.all[a].turns.weight > engine->jobs.all[b].turns.weight;
}

void tasks_joined(struct engine *engine, uint32_t index, uint32_t job)
{
    const struct task *task = &engine->tasks.tasks[index];
    if (task->state != TASK_RUNNING && better_off(engine, task, job, task->job))
        tasks_move(engine, index, job);
}

/* The job keeps it as long as it waits for another output, unless its source keeps it from being loaded. */
uint32_t tasks_heir(const struct engine *engine, const struct task *task, uint32_t job)
{
    uint32_t best = ENGINE_NONE;
    bool stays = !(task->encoded == ENGINE_NONE && sources_away(engine, job));
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        for (uint32_t at = engine->prepared.instances[task->outputs[i]].waiters; at != ENGINE_NONE; at = engine->queues.entries[at].next_waiter) {
            uint32_t waiting = engine->queues.entries[at].job;
            if (waiting == job && stays)
                return job;
            if (best == ENGINE_NONE || better_off(engine, task, waiting, best))
                best = waiting;
        }
    }
    return best;
}

void tasks_left(struct engine *engine, uint32_t index, uint32_t job)
{
    const struct task *task = &engine->tasks.tasks[index];
    uint32_t heir = task->state != TASK_RUNNING && task->job == job ? tasks_heir(engine, task, job) : job;
    CHECK(heir != ENGINE_NONE);
    if (heir != job)
        tasks_move(engine, index, heir);
}

bool tasks_is_running(const struct engine *engine, const struct instance *instance)
{
    return instance->state == INSTANCE_MAKING && engine->tasks.tasks[instance->task].state == TASK_RUNNING;
}
