/* tasks_dispatch.c: loads and preparations go out, job by job in their turns. */
#include "preprocess/prepare.h"
#include "server/engine/encoded.h"
#include "server/engine/jobs.h"
#include "server/engine/outbox.h"
#include "server/engine/queue.h"
#include "server/engine/tasks.h"

static void act_prepare(struct engine *engine, uint32_t index)
{
    struct task *task = &engine->tasks[index];
    if (engine->n_outputs + task->n_outputs > engine->outputs_cap) {
        engine->outputs_cap = engine->outputs_cap * 2 + ENGINE_OUTPUTS_MAX;
        engine->outputs = xrealloc(engine->outputs, engine->outputs_cap, sizeof *engine->outputs);
    }
    struct engine_action *action = outbox_add_job(engine, ENGINE_PREPARE, task->job);
    action->rank = task->rank;
    action->prepare.task = index;
    action->prepare.id = task->id;
    action->prepare.encoded = engine->encoded[task->encoded].handle;
    action->prepare.encoded_bytes = engine->encoded[task->encoded].bytes;
    action->prepare.dataset = engine->jobs[task->job].dataset;
    action->prepare.n_outputs = task->n_outputs;
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        const struct instance *instance = &engine->instances[task->outputs[i]];
        engine->outputs[engine->n_outputs++] = (struct engine_output){.pipeline = instance->pipeline,
                                                                      .offset = extent_offset(engine->extents, instance->block),
                                                                      .bytes = instance->bytes,
                                                                      .variant = instance->variant,
                                                                      .instance = instance->ordinal,
                                                                      .dataset = tasks_output_dataset(engine, instance)};
    }
}

static void dispatch_prepares(struct engine *engine)
{
    while (engine->prepares_inflight < engine->config.inflight_prepares) {
        uint32_t job = tasks_next_turn(engine, TASK_PREPARES);
        if (job == ENGINE_NONE)
            return;
        uint32_t index = tasks_next(engine, job, TASK_PREPARES);
        tasks_remove(engine, TASK_PREPARES, index);
        tasks_turn_begin(engine, TASK_PREPARES, job);
        engine->tasks[index].state = TASK_RUNNING;
        engine->prepares_inflight++;
        tasks_add_companions(engine, index);
        tasks_charge_prepare(engine, index);
        queue_rank_begun(engine, &engine->tasks[index]);
        act_prepare(engine, index);
    }
}

/* Begins the load that a job's first task needs; false when there is no room for it now. */
static bool dispatch_load(struct engine *engine, uint32_t job)
{
    uint32_t index = tasks_next(engine, job, TASK_LOADS);
    sample_id id = engine->tasks[index].id;
    CHECK(engine->samples[id].encoded == ENGINE_NONE); /* else the task would not wait here */
    uint64_t bytes = engine->config.sample_bytes(engine->jobs[job].dataset, id);
    CHECK(bytes != ENGINE_NOT_THERE);
    if (bytes > engine->config.encoded_bytes) {
        tasks_remove_to_load(engine, index);
        jobs_task_failed(engine, index, BAD_TOO_LARGE);
        return true;
    }
    if (!encoded_room_for_read(engine, id) || !encoded_memory_for_read(engine, job, id, bytes))
        return false;
    tasks_turn_begin(engine, TASK_LOADS, job);
    if (!tasks_load(engine, job, id, bytes))
        return false;
    engine->encoded[engine->samples[id].encoded].in_order = engine->jobs[job].shuffle == SHUFFLE_NONE;
    tasks_load_mates(engine, job, id);
    engine->totals.reads++;
    return true;
}

void tasks_dispatch(struct engine *engine)
{
    uint32_t job = ENGINE_NONE;
    tasks_weigh(engine);
    encoded_shed(engine);
    tasks_probe(engine);
    while (engine->loads_inflight < engine->config.inflight_loads) {
        job = tasks_next_turn(engine, TASK_LOADS);
        if (job == ENGINE_NONE || !dispatch_load(engine, job))
            break;
    }
    if (job == ENGINE_NONE)
        tasks_read_ahead(engine);
    dispatch_prepares(engine);
}
