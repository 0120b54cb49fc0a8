/* jobs_stall.c: how long clients stand still, and why.
 *
 * A client stands still from when it says so, with nothing on its way to it that it has not taken, until it is given
 * a batch. Asking ahead is no standing still. So the time is what the client's program waits for batches. A client of
 * an older version does not say: it is taken to stand still when it asks. Between two steps nothing changes: the cause
 * that one step finds is that of the time up to the next. */
#include "server/engine/jobs.h"
#include "server/engine/prepared.h"
#include "server/engine/queue.h"
#include "server/engine/tasks.h"

/* asks tells whether the rank's client waits for a batch of this epoch or of a later one. */
static bool asks(const struct job *job, const struct job_queue *queue)
{
    return job->state != JOB_FAILED && queue->client.presence == RANK_THERE &&
           (queue->next.asked || (job->state == JOB_RUNNING && queue->epoch.credits > 0));
}

static enum engine_stall find_cause(const struct engine *engine, const struct job *job, struct job_queue *queue)
{
    if (job->state != JOB_RUNNING || queue->next.asked)
        return ENGINE_STALL_RANK;
    uint32_t entry = queue_first_waiting(&engine->queues, queue);
    if (entry == ENGINE_NONE) /* memory that is just being reserved is not lacking */
        return engine->prepared.growth.asked_bytes ? ENGINE_STALL_PREPARE : ENGINE_STALL_ROOM;
    uint32_t task = engine->prepared.instances[engine->queues.entries[entry].instance].task;
    enum task_state state = task == ENGINE_NONE ? TASK_RUNNING : engine->tasks.tasks[task].state;
    bool comes = state == TASK_TO_LOAD || state == TASK_LOADING || state == TASK_EXPECTED;
    return comes ? ENGINE_STALL_LOAD : ENGINE_STALL_PREPARE;
}

static void count(struct engine *engine, struct rank_stall *stall)
{
    uint64_t ns = engine->env.now_ns - stall->counted_ns;
    stall->ns[stall->cause] += ns;
    if (stall->cause == ENGINE_STALL_LOAD || stall->cause == ENGINE_STALL_PREPARE)
        split_lost(&engine->split, ns);
    stall->counted_ns = engine->env.now_ns;
}

/* none_comes tells whether no batch is on its way to the client. If the client said how many it awaits, it must still
 * be owed as many. If it did not say, one of two things must hold. Either it holds no batch: a batch that it holds may
 * be one that it has not taken yet. Or its credits show that it has asked for all that it may. */
static bool none_comes(const struct job *job, const struct job_queue *queue, uint32_t awaited)
{
    uint32_t owed = queue->next.asked ? queue->next.credits : queue->epoch.credits;
    if (awaited)
        return awaited == owed;
    return queue->n_leases == 0 || queue->next.asked || owed >= job->terms.prefetch;
}

void jobs_stall_asked(const struct engine *engine, const struct job *job, struct job_queue *queue, uint32_t awaited)
{
    struct rank_stall *stall = &queue->tallies.stall;
    if (stall->now || !asks(job, queue) || !none_comes(job, queue, awaited))
        return;
    stall->now = true;
    stall->since_ns = stall->counted_ns = engine->env.now_ns;
    stall->cause = find_cause(engine, job, queue);
}

void jobs_stall_watch(struct engine *engine, const struct job *job, struct job_queue *queue)
{
    struct rank_stall *stall = &queue->tallies.stall;
    if (!stall->now)
        return;
    if (asks(job, queue)) {
        count(engine, stall);
        stall->cause = find_cause(engine, job, queue);
    } else {
        jobs_stall_end(engine, queue);
    }
}

uint64_t jobs_stall_end(struct engine *engine, struct job_queue *queue)
{
    struct rank_stall *stall = &queue->tallies.stall;
    if (!stall->now)
        return 0;
    count(engine, stall);
    stall->now = false;
    return engine->env.now_ns - stall->since_ns;
}
