/* tasks_dispatch.c: loads and preparations go out, job by job in their turns. */
#include "server/engine/encoded.h"
#include "server/engine/outbox.h"
#include "server/engine/queue.h"
#include "server/engine/tasks.h"

static void act_prepare(struct engine *engine, uint32_t index)
{
    struct task *task = &engine->tasks.tasks[index];
    if (engine->outbox.n_outputs + task->n_outputs > engine->outbox.outputs_cap) {
        engine->outbox.outputs_cap = engine->outbox.outputs_cap * 2 + ENGINE_OUTPUTS_MAX;
        engine->outbox.outputs = xrealloc(engine->outbox.outputs, engine->outbox.outputs_cap, sizeof *engine->outbox.outputs);
    }
    struct engine_action *action = outbox_add_job(engine, ENGINE_PREPARE, task->job);
    action->rank = task->rank;
    action->prepare.task = index;
    action->prepare.id = task->id;
    action->prepare.encoded = engine->encoded.encodeds[task->encoded].handle;
    action->prepare.encoded_bytes = engine->encoded.encodeds[task->encoded].bytes;
    action->prepare.dataset = engine->jobs.all[task->job].terms.dataset;
    action->prepare.n_outputs = task->n_outputs;
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        const struct instance *instance = &engine->prepared.instances[task->outputs[i]];
        engine->outbox.outputs[engine->outbox.n_outputs++] = (struct engine_output){.pipeline = instance->form.pipeline,
                                                                      .offset = extent_offset(engine->prepared.extents, instance->block),
                                                                      .bytes = instance->bytes,
                                                                      .variant = instance->form.variant,
                                                                      .instance = instance->draw,
                                                                      .dataset = tasks_output_dataset(engine, instance)};
    }
}

static void dispatch_prepares(struct engine *engine)
{
    while (engine->tasks.running < engine->config.inflight_prepares) {
        uint32_t job = tasks_next_turn(engine, TASK_PREPARES);
        if (job == ENGINE_NONE)
            return;
        uint32_t index = tasks_next(engine, job, TASK_PREPARES);
        tasks_remove(engine, TASK_PREPARES, index);
        tasks_turn_begin(engine, TASK_PREPARES, job);
        engine->tasks.tasks[index].state = TASK_RUNNING;
        engine->tasks.running++;
        tasks_add_companions(engine, index);
        tasks_charge_prepare(engine, index);
        queue_rank_begun(engine, &engine->tasks.tasks[index]);
        act_prepare(engine, index);
    }
}

/* Begins the load that a job's first task needs; false when there is no room for it now, or never (*unfit). */
static bool dispatch_load(struct engine *engine, uint32_t job, uint32_t *unfit)
{
    uint32_t index = tasks_next(engine, job, TASK_LOADS);
    sample_id id = engine->tasks.tasks[index].id;
    CHECK(engine->samples.all[id].encoded == ENGINE_NONE); /* else the task would not wait here */
    uint64_t bytes = engine->config.sample_bytes(engine->jobs.all[job].terms.dataset, id);
    CHECK(bytes != ENGINE_NOT_THERE);
    if (bytes > engine->config.encoded_bytes) {
        tasks_remove_to_load(engine, index);
        *unfit = index;
        return false;
    }
    if (!encoded_room_for_read(engine, id) || !encoded_memory_for_read(engine, job, id, bytes))
        return false;
    tasks_turn_begin(engine, TASK_LOADS, job);
    if (!tasks_load(engine, job, id, bytes))
        return false;
    engine->encoded.encodeds[engine->samples.all[id].encoded].in_order = engine->jobs.all[job].terms.shuffle == SHUFFLE_NONE;
    tasks_load_mates(engine, job, id);
    engine->totals.reads++;
    return true;
}

uint32_t tasks_dispatch(struct engine *engine)
{
    uint32_t job = ENGINE_NONE, unfit = ENGINE_NONE;
    tasks_weigh(engine);
    encoded_shed(engine);
    tasks_probe(engine);
    while (engine->encoded.loading < engine->config.inflight_loads) {
        job = tasks_next_turn(engine, TASK_LOADS);
        if (job == ENGINE_NONE || !dispatch_load(engine, job, &unfit))
            break;
    }
    if (unfit != ENGINE_NONE)
        return unfit;
    if (job == ENGINE_NONE)
        tasks_read_ahead(engine);
    dispatch_prepares(engine);
    return ENGINE_NONE;
}
