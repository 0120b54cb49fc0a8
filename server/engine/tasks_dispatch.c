/* tasks_dispatch.c: sends out loads and preparations, fairly among jobs (tasks_turns.c). */
#include "common/check.h"
#include "server/engine/encoded.h"
#include "server/engine/outbox.h"
#include "server/engine/queue.h"
#include "server/engine/tasks.h"

/* act_prepare adds the task's PREPARE, with its outputs. */
static void act_prepare(struct tasks *tasks, uint32_t index)
{
    struct task *task = &tasks->tasks[index];
    struct outbox *outbox = tasks->outbox;
    outbox->outputs = xgrow(outbox->outputs, sizeof *outbox->outputs, &outbox->outputs_cap,
                            outbox->n_outputs + task->n_outputs);
    struct engine_action *action = job_act(outbox, ENGINE_PREPARE, job_at(tasks->jobs, task->job));
    action->rank = task->rank;
    action->prepare.task = index;
    action->prepare.id = task->id;
    action->prepare.encoded = tasks->encoded->encodeds[task->encoded].handle;
    action->prepare.encoded_bytes = encoded_handle_bytes(tasks->encoded, task->encoded);
    action->prepare.decoded = tasks->encoded->encodeds[task->encoded].decoded;
    if (!task->copy)
        action->prepare.form_bytes = encoded_form_grant(tasks->encoded, task->encoded);
    task->granted = action->prepare.form_bytes > 0;
    tasks->encoded->encodeds[task->encoded].readers++;
    action->prepare.dataset = job_at(tasks->jobs, task->job)->terms.dataset;
    action->prepare.n_outputs = task->n_outputs;
    action->prepare.copy = task->copy;
    uint32_t serial = job_at(tasks->jobs, task->job)->terms.serial;
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        const struct instance *instance = &tasks->prepared->instances[task->outputs[i]];
        outbox->outputs[outbox->n_outputs++] = (struct engine_output){.pipeline = instance->form.pipeline,
                                                                      .offset = extent_offset(tasks->prepared->extents,
                                                                                              instance->block),
                                                                      .bytes = instance->bytes,
                                                                      .variant = instance->form.variant,
                                                                      .instance = instance->draw,
                                                                      .dataset = tasks_output_dataset(tasks, instance),
                                                                      .own = instance->made_for == serial};
    }
}

/* run sends the task of a list out, which has begun to run. */
static void run(struct tasks *tasks, uint32_t index)
{
    for (uint32_t i = 0; i < tasks->tasks[index].n_outputs; i++)
        queue_making_begun(tasks->queues, tasks->tasks[index].outputs[i]);
    act_prepare(tasks, index);
}

/* may_run tells whether one more preparation for the job may be out. */
static bool may_run(const struct tasks *tasks, uint32_t job)
{
    const struct engine_config *config = &tasks->env->config;
    return tasks->running < config->inflight_prepares ||
           (tasks->running < config->prepares_max &&
            tasks->running_ns + tasks_cost_ns(tasks, job) <= config->prepares_ns);
}

/* dispatch_prepares sends out preparations, fairly among jobs, until as many are out as may be. */
static void dispatch_prepares(struct tasks *tasks)
{
    for (;;) {
        uint32_t job = tasks_next_turn(tasks, TASK_PREPARES);
        tasks->busy = job != ENGINE_NONE && !may_run(tasks, job);
        if (job == ENGINE_NONE || tasks->busy)
            return;
        uint32_t index = tasks_next(tasks, job, TASK_PREPARES);
        tasks_remove(tasks, index);
        tasks_turn_begin(tasks, TASK_PREPARES, job);
        job_at(tasks->jobs, job)->turns.beside -= job_at(tasks->jobs, job)->turns.beside > 0;
        tasks->tasks[index].state = TASK_RUNNING;
        tasks->running++;
        tasks_part(tasks, index);
        tasks_add_companions(tasks, index);
        tasks->tasks[index].cost_ns = tasks_charge_prepare(tasks, index);
        tasks->running_ns += tasks->tasks[index].cost_ns;
        run(tasks, index);
    }
}

/* next_copy returns the job's next task if it is a copy; ENGINE_NONE otherwise. */
static uint32_t next_copy(const struct tasks *tasks, uint32_t job)
{
    if (!job_at(tasks->jobs, job)->terms.raw ||
        job_at(tasks->jobs, job)->turns.lists[TASK_PREPARES].tasks.head == ENGINE_NONE)
        return ENGINE_NONE;
    uint32_t index = tasks_next(tasks, job, TASK_PREPARES);
    const struct task *task = &tasks->tasks[index];
    return encoded_handle_bytes(tasks->encoded, task->encoded) <= tasks->env->config.copy_bytes &&
                   !tasks_makes_pixels(tasks, task)
               ? index
               : ENGINE_NONE;
}

/* dispatch_copies sends out copies, of one job after the other. They take no worker's time, so jobs are not charged for
 * them. When not all may go, the jobs that got none are the first next time. */
static void dispatch_copies(struct tasks *tasks)
{
    uint32_t jobs = tasks->env->config.copy_bytes ? tasks->jobs->end : 0;
    for (uint32_t i = 0; i < jobs; i++) {
        uint32_t job = (tasks->copies_from + i) % jobs;
        bool some = false;
        for (uint32_t index; (index = next_copy(tasks, job)) != ENGINE_NONE;) {
            struct task *task = &tasks->tasks[index];
            uint64_t bytes = tasks_copy_bytes(tasks, task);
            if (tasks->copies == ENGINE_COPIES_MAX ||
                (tasks->copies && tasks->copies_bytes + bytes > ENGINE_COPIES_BYTES)) {
                tasks->copies_from = some ? job + 1 : job;
                return;
            }
            tasks_remove(tasks, index);
            task->state = TASK_RUNNING;
            task->copy = true;
            some = true;
            tasks->copies++;
            tasks->copies_bytes += bytes;
            run(tasks, index);
        }
    }
}

/* dispatch_load begins the load that the job's next task needs. If the source may have no more in flight, the job
 * waits. It returns false if there is no room for the load now, or never will be: then the task has failed. */
static bool dispatch_load(struct tasks *tasks, uint32_t job)
{
    uint32_t index = tasks_next(tasks, job, TASK_LOADS);
    sample_id id = tasks->tasks[index].id;
    uint32_t form = encoded_sample(tasks->encoded, id)->encoded;
    /* A task whose sample is in memory or on its way is not TO_LOAD, unless it needs the bytes and a form is there. */
    CHECK(form == ENGINE_NONE || (tasks->tasks[index].needs_encoded && encoded_is_other(tasks->encoded, id)));
    if (form != ENGINE_NONE && residency_pins(tasks->encoded->residency, form) > 0) {
        tasks_turn_hold(tasks, job);
        return true;
    }
    if (form != ENGINE_NONE)
        encoded_free(tasks->encoded, form, true);
    uint64_t bytes = tasks_load_bytes(tasks, job_at(tasks->jobs, job)->terms.dataset, id);
    CHECK(bytes != ENGINE_NOT_THERE);
    if (bytes > tasks->env->config.encoded_bytes) {
        tasks_source_beyond(tasks, job_at(tasks->jobs, job)->terms.dataset, id);
        tasks_remove_to_load(tasks, index);
        tasks_fail(tasks, index, BAD_TOO_LARGE);
        return false;
    }
    enum encoded_bar bar = encoded_bar_to_read(tasks->encoded, job, id, bytes);
    if (bar == ENCODED_NO_SHARE)
        tasks_turn_hold(tasks, job);
    if (bar != ENCODED_FREE_TO_READ)
        return bar == ENCODED_NO_SHARE;
    tasks_turn_begin(tasks, TASK_LOADS, job);
    if (!tasks_load(tasks, job, id, bytes))
        return false;
    tasks->encoded->encodeds[encoded_sample(tasks->encoded, id)->encoded].in_order =
        job_at(tasks->jobs, job)->terms.shuffle == SHUFFLE_NONE;
    tasks_load_mates(tasks, job, id);
    tasks->env->counts.reads++;
    return true;
}

bool tasks_dispatch(struct tasks *tasks)
{
    uint32_t job = ENGINE_NONE;
    tasks->ahead_left = false;
    tasks_weigh(tasks);
    encoded_forms_shed(tasks->encoded);
    encoded_shed(tasks->encoded);
    tasks_probe(tasks);
    tasks->held = (struct jobset){{0}};
    while (tasks->encoded->loading < tasks->env->config.inflight_loads) {
        job = tasks_next_turn(tasks, TASK_LOADS);
        if (job == ENGINE_NONE || !dispatch_load(tasks, job))
            break;
    }
    if (tasks->n_results > 0)
        return false;
    if (job == ENGINE_NONE)
        tasks_read_ahead(tasks);
    dispatch_copies(tasks);
    dispatch_prepares(tasks);
    encoded_shed(tasks->encoded); /* companions may have taken new records */
    return true;
}
