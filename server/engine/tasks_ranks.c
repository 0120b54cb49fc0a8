/* tasks_ranks.c: which rank's task is next when its job is chosen.
 *
 * Ranks of one job train in step, so the slowest queue stalls all of them. A job's next task is the first one of its
 * list, unless that task belongs to a queue that will run dry more than STRAGGLE_NS later than another. Then the next
 * task is one of the queue that runs dry first. A queue's time to run dry follows from the samples that it has ahead,
 * less those that its client has asked for, and from the client's pace. tasks_turns.c decides how much work a job gets.
 * Here only ranks with more samples ahead lose anything. */
#include <math.h>

#include "common/check.h"
#include "server/engine/queue.h"
#include "server/engine/tasks.h"

enum { RANK_LOOK = 256 }; /* tasks of a list that are looked at */
#define STRAGGLE_NS 10e6  /* the governor's τ */

/* rank_of returns the rank of the task's job that waits for it. */
static uint32_t rank_of(const struct tasks *tasks, const struct task *task)
{
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        uint32_t at = tasks->prepared->instances[task->outputs[i]].waiters;
        for (; at != ENGINE_NONE; at = tasks->queues->entries[at].next_waiter) {
            if (tasks->queues->entries[at].job == task->job)
                return tasks->queues->entries[at].rank;
        }
    }
    return 0;
}

void tasks_rank_listed(struct tasks *tasks, struct task *task)
{
    task->rank = rank_of(tasks, task);
    job_at(tasks->jobs, task->job)->queues[task->rank].listed[tasks_kind(task)]++;
}

void tasks_rank_unlisted(struct tasks *tasks, const struct task *task)
{
    struct job_queue *queue = &job_at(tasks->jobs, task->job)->queues[task->rank];
    CHECK(queue->listed[tasks_kind(task)] > 0);
    queue->listed[tasks_kind(task)]--;
}

/* moved counts a listed task for another rank, when the entry that waits for it has changed places. */
static void moved(struct tasks *tasks, uint32_t index)
{
    struct task *task = &tasks->tasks[index];
    if (!tasks_is_listed(task))
        return;
    tasks_rank_unlisted(tasks, task);
    tasks_rank_listed(tasks, task);
}

void tasks_entry_ready(struct tasks *tasks, uint32_t entry)
{
    uint32_t other = queue_ready(tasks->queues, entry);
    if (other != ENGINE_NONE)
        moved(tasks, tasks->prepared->instances[tasks->queues->entries[other].instance].task);
}

/* dry_ns returns the nanoseconds until the queue runs dry of the samples for which this kind of work was begun. */
static double dry_ns(const struct job *job, const struct job_queue *queue, enum task_kind kind)
{
    uint64_t begun = kind == TASK_PREPARES                      ? queue->line.ready + queue->line.making
                     : queue->line.queued > queue->listed[kind] ? queue->line.queued - queue->listed[kind]
                                                                : 0;
    return queue_dry_ns(job, queue, begun);
}

/* soonest_dry_ns returns the nanoseconds until the first of the queues that have listed tasks runs dry. */
static double soonest_dry_ns(const struct job *job, enum task_kind kind)
{
    double soonest_ns = INFINITY;
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        double its_ns = job->queues[rank].listed[kind] ? dry_ns(job, &job->queues[rank], kind) : INFINITY;
        soonest_ns = its_ns < soonest_ns ? its_ns : soonest_ns;
    }
    return soonest_ns;
}

uint32_t tasks_next(const struct tasks *tasks, uint32_t job_index, enum task_kind kind)
{
    const struct job *job = job_at(tasks->jobs, job_index);
    uint32_t best = job->turns.lists[kind].tasks.head, at = best;
    if (job->terms.world_size == 1)
        return best;
    double best_ns = dry_ns(job, &job->queues[tasks->tasks[best].rank], kind);
    double enough_ns = soonest_dry_ns(job, kind) + STRAGGLE_NS;
    for (uint32_t looked = 0; at != ENGINE_NONE && looked < RANK_LOOK && best_ns > enough_ns;
         looked++, at = tasks->tasks[at].in_list.next) {
        double its_ns = dry_ns(job, &job->queues[tasks->tasks[at].rank], kind);
        if (its_ns + STRAGGLE_NS < best_ns) {
            best = at;
            best_ns = its_ns;
        }
    }
    return best;
}

uint32_t tasks_load_rank(const struct tasks *tasks, uint32_t job, sample_id id)
{
    INSTANCES_OF(tasks->prepared, id, at) {
        if (tasks->prepared->instances[at].state != INSTANCE_MAKING)
            continue;
        const struct task *task = &tasks->tasks[tasks->prepared->instances[at].task];
        if (task->state == TASK_TO_LOAD && task->job == job)
            return task->rank;
    }
    return ENGINE_RANK_NONE;
}

void tasks_on_pace(struct tasks *tasks, const struct engine_event *event)
{
    struct job *job = job_at(tasks->jobs, event->pace.job);
    double sum = 0;
    uint32_t known = 0;
    if (job->state == JOB_FREE || event->rank >= job->terms.world_size)
        return;
    job->queues[event->rank].pace_ns = event->pace.batch_ns;
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        sum += (double)job->queues[rank].pace_ns;
        known += job->queues[rank].pace_ns > 0;
    }
    job->turns.pace_ns = known ? sum / known : 0;
}
