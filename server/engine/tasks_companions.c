/* tasks_companions.c: one decode for all pipelines.
 *
 * Jobs of one pipeline share an instance. Jobs of different pipelines or variants share the decode: a task that is
 * about to run also makes an instance for each other job that wants the sample and has none of it. Such an instance is
 * cache, and nobody's quota pays for it. It takes only room that nobody wants and that no queue is about to fill;
 * otherwise it would be evicted before any job took it. And it takes no core from a client that is short of samples: if
 * one is, an instance is made for a job whose turn has come, as if the job had a task of its own (tasks_turns.c). A
 * later pick of that job gets it like any resident, as the pick's own sample or by redirection inside its fiber. So
 * every draw stays what it is. */
#include <math.h>
#include <stdlib.h>

#include "common/check.h"
#include "server/engine/demand.h"
#include "server/engine/prepared.h"
#include "server/engine/quota.h"
#include "server/engine/tasks.h"

bool tasks_makes_pixels(const struct tasks *tasks, const struct task *task)
{
    for (uint32_t i = 0; i < task->n_outputs; i++)
        if (!tasks->prepared->instances[task->outputs[i]].raw)
            return true;
    return false;
}

/* same_order tells whether two jobs with orders of their own take the same samples in the same order. Then what the one
 * ahead decodes, the other wants soon. */
static bool same_order(const struct job *ahead, const struct job *behind)
{
    bool strict = behind->terms.shuffle == SHUFFLE_STRICT;
    bool alike = ahead->terms.shuffle == behind->terms.shuffle && ahead->terms.dataset == behind->terms.dataset;
    return behind->terms.shuffle != SHUFFLE_DEPENDENT && alike &&
           (!strict || (ahead->terms.seed == behind->terms.seed && ahead->progress.epoch == behind->progress.epoch &&
                        ahead->shape.view_samples == behind->shape.view_samples));
}

/* lacks tells whether an instance of the sample, which the maker decodes, would be of use to the job. A job whose order
 * is fixed, and another than the maker's, comes too late to find the instance still there. */
static bool lacks(const struct tasks *tasks, uint32_t job, uint32_t maker, sample_id id)
{
    const struct job *wanting = job_at(tasks->jobs, job);
    if (wanting->terms.needs_encoded && encoded_is_other(tasks->encoded, id))
        return false;
    if (wanting->state != JOB_RUNNING || wanting->terms.raw || !sampler_wants(tasks->env->sampler, job, id) ||
        !(wanting->terms.redirected || same_order(job_at(tasks->jobs, maker), wanting)))
        return false;
    return prepared_find(tasks->prepared, job, id) == ENGINE_NONE;
}

/* is_due tells whether an instance may be made for the job now. While a client is short, one is made only in the job's
 * turn. Of its turns its own tasks that wait get half: what they make is needed before what it may pick later. */
static bool is_due(const struct tasks *tasks, uint32_t no, double limit)
{
    const struct job *job = job_at(tasks->jobs, no);
    bool own = job->turns.lists[TASK_PREPARES].tasks.head != ENGINE_NONE;
    bool its_turn = !(own && job->turns.beside >= job->terms.batch_size) && tasks_turn_came(tasks, no, limit);
    return limit == INFINITY || its_turn;
}

/* count_beside counts an instance that is made for the job with another job's task. It stops at two batches: what is
 * made while the job asks for nothing is not held against it when it goes on. */
static void count_beside(struct job *job)
{
    job->turns.beside += job->turns.beside < 2 * job->terms.batch_size;
}

/* spare_bytes returns the bytes that are free or hold unwanted instances, less those that queues will claim until they
 * are full. At an epoch's end a queue runs empty, and the next epoch fills it at once. */
static uint64_t spare_bytes(const struct tasks *tasks)
{
    uint64_t used = prepared_used_bytes(tasks->prepared) - prepared_zones_free_bytes(tasks->prepared);
    uint64_t taken = tasks->prepared->slab.taken, claimed = 0;
    uint64_t most = tasks->prepared->growth.refused ? prepared_there_bytes(tasks->prepared)
                                                    : tasks->prepared->growth.most_bytes;
    uint64_t spare = (most > used ? most - used : 0) + prepared_idle(tasks->prepared) * (taken ? used / taken : 0);
    for (uint32_t no = 0; no < tasks->jobs->end; no++) {
        const struct job *job = job_at(tasks->jobs, no);
        for (uint32_t rank = 0; rank < job->terms.world_size && job->state != JOB_FAILED; rank++) {
            const struct job_queue *queue = &job->queues[rank];
            uint64_t depth = quota_depth_slots(job, queue->rank);
            if (queue->client.presence == RANK_THERE && queue->held_slots < depth)
                claimed += (depth - queue->held_slots) * engine_slot_bytes(&tasks->env->config, job->terms.slot_bytes);
        }
    }
    return spare > claimed ? spare - claimed : 0;
}

void tasks_add_companions(struct tasks *tasks, uint32_t index)
{
    struct task *task = &tasks->tasks[index];
    if (!tasks_makes_pixels(tasks, task))
        return;
    uint64_t spare = spare_bytes(tasks);
    double limit = -1; /* not worked out yet */
    for (uint32_t job = 0; job < tasks->jobs->end && task->n_outputs < ENGINE_OUTPUTS_MAX; job++) {
        uint64_t bytes = engine_slot_bytes(&tasks->env->config, job_at(tasks->jobs, job)->terms.slot_bytes);
        if (bytes > spare || !lacks(tasks, job, task->job, task->id))
            continue;
        limit = limit < 0 ? tasks_turn_limit(tasks, task->job) : limit;
        if (!is_due(tasks, job, limit))
            continue;
        uint32_t instance = prepared_begin_spare(tasks->prepared, job, task->id);
        if (instance == ENGINE_NONE)
            return;
        count_beside(job_at(tasks->jobs, job));
        spare -= bytes;
        tasks->prepared->instances[instance].task = index;
        task->outputs[task->n_outputs++] = instance;
    }
}

const void *tasks_output_dataset(const struct tasks *tasks, const struct instance *instance)
{
    if (instance->waiters != ENGINE_NONE)
        return job_at(tasks->jobs, tasks->queues->entries[instance->waiters].job)->terms.dataset;
    uint32_t job = 0;
    prepared_settle(tasks->prepared, (uint32_t)(instance - tasks->prepared->instances));
    while (!demand_wants_instance(tasks->jobs, job, &instance->form))
        CHECK(++job < tasks->jobs->end);
    return job_at(tasks->jobs, job)->terms.dataset;
}
