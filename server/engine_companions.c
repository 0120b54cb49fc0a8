/* engine_companions.c: one decode for all pipelines.
 *
 * Jobs of one pipeline share an instance, jobs of different pipelines (or variants) the decode: a task about to be run also
 * makes an instance for each other job that wants the sample and has none of it. Such an instance is cache: nobody's quota
 * pays for it, it takes only room that nobody wants, and a later pick of that job is served by it as by any resident, itself
 * or by redirection inside its fiber. So every draw stays what it is. */
#include "server/engine_priv.h"

bool engine_makes_pixels(const struct engine *engine, const struct task *task)
{
    for (uint32_t i = 0; i < task->n_outputs; i++)
        if (!engine->instances[task->outputs[i]].by_size)
            return true;
    return false;
}

/* Would an instance of the sample be of use to the job? One whose order is fixed takes it too late to find it still there. */
static bool lacks(const struct engine *engine, uint32_t job, sample_id id)
{
    const struct job *wanting = &engine->jobs[job];
    if (wanting->state != JOB_RUNNING || !wanting->redirected || wanting->by_size || !sampler_wants(engine->sampler, job, id))
        return false;
    for (uint32_t index = engine->samples[id].instances; index != ENGINE_NONE; index = engine->instances[index].next)
        if (!engine->instances[index].doomed && engine_suits(engine, job, &engine->instances[index]))
            return false;
    return true;
}

void engine_add_companions(struct engine *engine, uint32_t index)
{
    struct task *task = &engine->tasks[index];
    if (!engine_makes_pixels(engine, task))
        return;
    for (uint32_t job = 0; job < engine->jobs_end && task->n_outputs < ENGINE_OUTPUTS_MAX; job++) {
        if (!lacks(engine, job, task->id))
            continue;
        uint32_t instance = engine_begin_spare_instance(engine, job, task->id);
        if (instance == ENGINE_NONE)
            return;
        engine->instances[instance].task = index;
        task->outputs[task->n_outputs++] = instance;
    }
}

/* The dataset of a job that the instance is made for. */
const void *engine_output_dataset(const struct engine *engine, const struct instance *instance)
{
    if (instance->waiters != ENGINE_NONE)
        return engine->jobs[engine->entries[instance->waiters].job].dataset;
    uint32_t job = 0;
    while (engine->jobs[job].state != JOB_RUNNING || !engine_suits(engine, job, instance) ||
           !sampler_wants(engine->sampler, job, instance->id))
        CHECK(++job < engine->jobs_end);
    return engine->jobs[job].dataset;
}
