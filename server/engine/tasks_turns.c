/* tasks_turns.c: which job's work is next: weighted fair queueing.
 *
 * Each job has a list of tasks to load and a list of tasks to prepare. Each list has a virtual time, called its turn.
 * The job with the lowest one is next. Work that is done for a job moves its virtual time on by cost / weight. So jobs
 * that always have work waiting share in proportion to their weights. If no job waits, weights change nothing.
 *
 * - The cost of a preparation is a worker's CPU time: the mean over outputs for this job. The cost of a load is counted
 *   in samples.
 * - Work that several jobs wait for is charged to them in proportion to their weights. All their virtual times move on
 *   by the same cost / sum of weights, as if they were one job with that sum. Such a task is in the list that
 *   moves fastest: of the job whose weight is most for what its samples cost. So a heavy job does not wait in a light
 *   job's list, nor a job with cheap samples in the list of one with dear ones.
 * - A job that had no work saves up, or owes, no more than TURN_SLACK samples.
 * - No job starves. Each of n running jobs counts with at least the n-th part of 1 / 9 of all their weights. That is at
 *   least 1 / (10 · n) of the work while the job has some waiting. */
#include <math.h>

#include "server/engine/demand.h"
#include "server/engine/sources.h"
#include "server/engine/tasks.h"

#define TURN_SLACK 8.0
#define FLOOR_PART 9.0
#define COST_FIRST_S 0.005 /* before anything was measured: what a photograph takes */
#define COST_KEPT 0.9      /* the part of the mean that stays at each measurement */

/* cost_of returns what one output, in seconds, or one load, in samples, costs the job. */
static double cost_of(const struct tasks *tasks, uint32_t job, enum task_kind kind)
{
    if (kind == TASK_LOADS)
        return 1;
    double cost_s = job_at(tasks->jobs, job)->turns.cost_s > 0 ? job_at(tasks->jobs, job)->turns.cost_s : tasks->cost_s;
    return cost_s > 0 ? cost_s : COST_FIRST_S;
}

uint64_t tasks_cost_ns(const struct tasks *tasks, uint32_t job)
{
    return (uint64_t)(cost_of(tasks, job, TASK_PREPARES) * 1e9);
}

double tasks_rate(const struct tasks *tasks, uint32_t job, enum task_kind kind)
{
    return job_at(tasks->jobs, job)->turns.weight / cost_of(tasks, job, kind);
}

/* ── lists ── */

/* catch_up brings the virtual time of an empty list close to the present one: it saves up, or owes, no more than its
 * slack. */
static void catch_up(const struct tasks *tasks, uint32_t job, enum task_kind kind)
{
    struct job_turns *turns = &job_at(tasks->jobs, job)->turns;
    struct task_list *list = &turns->lists[kind];
    if (list->tasks.head != ENGINE_NONE)
        return;
    double slack = TURN_SLACK * cost_of(tasks, job, kind) / turns->effective_weight;
    double least = tasks->turn[kind] - slack, most = tasks->turn[kind] + slack;
    list->turn = list->turn < least ? least : list->turn > most ? most : list->turn;
}

/* list_for returns the list for the task. */
static struct task_list *list_for(struct tasks *tasks, const struct task *task)
{
    enum task_kind kind = tasks_kind(task);
    catch_up(tasks, task->job, kind);
    return &job_at(tasks->jobs, task->job)->turns.lists[kind];
}

void tasks_append(struct tasks *tasks, uint32_t index)
{
    struct task *task = &tasks->tasks[index];
    line_append(&list_for(tasks, task)->tasks, LINKS(tasks->tasks, in_list), index);
    tasks_rank_listed(tasks, task);
}

void tasks_prepend(struct tasks *tasks, uint32_t index)
{
    struct task *task = &tasks->tasks[index];
    line_prepend(&list_for(tasks, task)->tasks, LINKS(tasks->tasks, in_list), index);
    tasks_rank_listed(tasks, task);
}

void tasks_remove(struct tasks *tasks, uint32_t index)
{
    struct task *task = &tasks->tasks[index];
    struct job_turns *turns = &job_at(tasks->jobs, task->job)->turns;
    line_remove(&turns->lists[tasks_kind(task)].tasks, LINKS(tasks->tasks, in_list), index);
    tasks_rank_unlisted(tasks, task);
}

/* ── weights ── */

void tasks_weigh(struct tasks *tasks)
{
    double sum = 0;
    uint32_t running = 0;
    for (uint32_t job = 0; job < tasks->jobs->end; job++) {
        if (job_at(tasks->jobs, job)->state == JOB_RUNNING) {
            sum += job_at(tasks->jobs, job)->turns.weight;
            running++;
        }
    }
    for (uint32_t job = 0; running && job < tasks->jobs->end; job++) {
        double least = sum / running / FLOOR_PART, weight = job_at(tasks->jobs, job)->turns.weight;
        job_at(tasks->jobs, job)->turns.effective_weight = weight > least ? weight : least;
    }
}

/* ── virtual time ── */

uint32_t tasks_next_turn(const struct tasks *tasks, enum task_kind kind)
{
    uint32_t best = ENGINE_NONE;
    for (uint32_t job = 0; job < tasks->jobs->end; job++) {
        const struct task_list *list = &job_at(tasks->jobs, job)->turns.lists[kind];
        bool held_up = kind == TASK_LOADS && (sources_away(tasks->sources, job) || jobset_has(&tasks->held, job));
        if (job_at(tasks->jobs, job)->state != JOB_FREE && list->tasks.head != ENGINE_NONE && !held_up &&
            (best == ENGINE_NONE || list->turn < job_at(tasks->jobs, best)->turns.lists[kind].turn))
            best = job;
    }
    return best;
}

void tasks_turn_hold(struct tasks *tasks, uint32_t job)
{
    struct job_turns *turns = &job_at(tasks->jobs, job)->turns;
    double least = tasks->turn[TASK_LOADS] - TURN_SLACK / turns->effective_weight;
    jobset_add(&tasks->held, job);
    if (turns->lists[TASK_LOADS].turn < least)
        turns->lists[TASK_LOADS].turn = least;
}

void tasks_turn_begin(struct tasks *tasks, enum task_kind kind, uint32_t job)
{
    double turn = job_at(tasks->jobs, job)->turns.lists[kind].turn;
    if (tasks->turn[kind] < turn)
        tasks->turn[kind] = turn;
}

/* is_short tells whether a client of the job has less than a batch ready, besides the one that it may have now, though
 * more is on its way. */
static bool is_short(const struct job *job)
{
    bool is = false;
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        const struct job_queue *queue = &job->queues[rank];
        uint32_t least = job->terms.batch_size * (queue_may_have_batch(job, queue) ? 2 : 1);
        is = is || (queue->client.presence == RANK_THERE && queue->line.ready < queue->line.queued &&
                    queue->line.ready < least);
    }
    return is;
}

double tasks_turn_limit(const struct tasks *tasks, uint32_t job)
{
    double limit = INFINITY;
    for (uint32_t no = 0; no < tasks->jobs->end; no++) {
        const struct job *other = job_at(tasks->jobs, no);
        const struct task_list *list = &other->turns.lists[TASK_PREPARES];
        bool waits = other->state == JOB_RUNNING && (no == job || list->tasks.head != ENGINE_NONE);
        if (!waits || !is_short(other))
            continue;
        double cost = no == job ? cost_of(tasks, job, TASK_PREPARES) / other->turns.effective_weight : 0;
        limit = fmin(limit, list->turn + cost);
    }
    return limit;
}

bool tasks_turn_came(const struct tasks *tasks, uint32_t job, double limit)
{
    if (limit == INFINITY)
        return true;
    catch_up(tasks, job, TASK_PREPARES);
    return job_at(tasks->jobs, job)->turns.lists[TASK_PREPARES].turn <= limit;
}

/* charge moves the virtual times of the jobs on for one output or load that is for all of them, and returns what it
 * costs. */
static double charge(struct tasks *tasks, enum task_kind kind, const struct jobset *jobs)
{
    double weights = 0, cost = 0;
    JOBSET_EACH(job, jobs) {
        weights += job_at(tasks->jobs, job)->turns.effective_weight;
        cost += job_at(tasks->jobs, job)->turns.effective_weight * cost_of(tasks, job, kind);
    }
    JOBSET_EACH(job, jobs)
        /* the mean cost, divided by the sum of weights */
        job_at(tasks->jobs, job)->turns.lists[kind].turn += cost / weights / weights;
    return weights > 0 ? cost / weights : 0;
}

/* add_waiters adds the jobs that wait for the instance. */
static void add_waiters(const struct tasks *tasks, uint32_t instance, struct jobset *jobs)
{
    WAITERS_OF(tasks->queues, instance, at)
        jobset_add(jobs, tasks->queues->entries[at].job);
}

/* payers returns the jobs that an output is made for: those that wait for it; if none waits, those that want it. */
static struct jobset payers(const struct tasks *tasks, uint32_t instance)
{
    struct jobset jobs = {{0}};
    const struct instance *made = &tasks->prepared->instances[instance];
    add_waiters(tasks, instance, &jobs);
    prepared_settle(tasks->prepared, instance);
    for (uint32_t job = 0; made->waiters == ENGINE_NONE && job < tasks->jobs->end; job++) {
        if (demand_wants_instance(tasks->jobs, job, &made->form))
            jobset_add(&jobs, job);
    }
    return jobs;
}

uint64_t tasks_charge_prepare(struct tasks *tasks, uint32_t index)
{
    const struct task *task = &tasks->tasks[index];
    double cost_s = 0;
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        struct jobset jobs = payers(tasks, task->outputs[i]);
        cost_s += charge(tasks, TASK_PREPARES, &jobs);
    }
    return (uint64_t)(cost_s * 1e9);
}

/* The jobs that wait for the sample pay for its load; when none waits, those that want it pay. This is called before
 * the sample's tasks are routed. */
void tasks_charge_load(struct tasks *tasks, sample_id id)
{
    struct jobset jobs = {{0}};
    INSTANCES_OF(tasks->prepared, id, index) {
        if (tasks->prepared->instances[index].state == INSTANCE_MAKING)
            add_waiters(tasks, index, &jobs);
    }
    for (uint32_t job = 0; jobset_empty(&jobs) && job < tasks->jobs->end; job++) {
        if (demand_wants_encoded(tasks->jobs, job, id))
            jobset_add(&jobs, job);
    }
    charge(tasks, TASK_LOADS, &jobs);
}

/* measure adds one measurement to a moving mean; the first one is the mean. */
static void measure(double *mean_s, double took_s)
{
    *mean_s = *mean_s > 0 ? *mean_s * COST_KEPT + took_s * (1 - COST_KEPT) : took_s;
}

/* Outputs share what was spent on no output alone: the decode above all. */
void tasks_measure_prepare(struct tasks *tasks, const struct task *task, const struct engine_event *event)
{
    uint64_t own_ns = 0;
    uint32_t made = 0;
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        own_ns += event->prepared.own_ns[i];
        made += event->prepared.reasons[i] == 0;
    }
    if (event->prepared.core_ns == 0 || made == 0)
        return;
    uint64_t shared_ns = event->prepared.core_ns > own_ns ? event->prepared.core_ns - own_ns : 0;
    double shared_s = (double)shared_ns / 1e9 / made;
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        double took_s = shared_s + (double)event->prepared.own_ns[i] / 1e9;
        if (event->prepared.reasons[i])
            continue;
        measure(&tasks->cost_s, took_s);
        struct jobset jobs = payers(tasks, task->outputs[i]);
        JOBSET_EACH(job, &jobs)
            measure(&job_at(tasks->jobs, job)->turns.cost_s, took_s);
    }
}
