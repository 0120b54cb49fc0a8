/* tasks_turns.c: which job's work is next: weighted fair queueing.
 *
 * Each job has a list of tasks to load and a list of tasks to prepare. Each list has a virtual time, called its turn.
 * The job with the lowest one is next. Work that is done for a job moves its virtual time on by cost / weight. So jobs
 * that always have work waiting share in proportion to their weights. If no job waits, weights change nothing.
 *
 * - The cost of a preparation is a worker's CPU time: the mean over outputs for this job. The cost of a load is counted
 *   in samples.
 * - Work that several jobs wait for is charged to them in proportion to their weights. All their virtual times move on
 *   by the same cost / sum of weights, as if they were one job with that sum. Such a task is in the list of the
 *   heaviest of them, so that a heavy job does not wait in a light job's list.
 * - A job that had no work saves up, or owes, no more than TURN_SLACK samples.
 * - No job starves. Each of n running jobs counts with at least the n-th part of 1 / 9 of all their weights. That is at
 *   least 1 / (10 · n) of the work while the job has some waiting. */
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

/* ── lists ── */

/* list_for returns the list for the task. If the list was empty, its virtual time is brought close to the present one:
 * it saves up, or owes, no more than its slack. */
static struct task_list *list_for(struct tasks *tasks, const struct task *task)
{
    enum task_kind kind = tasks_kind(task);
    struct job_turns *turns = &job_at(tasks->jobs, task->job)->turns;
    struct task_list *list = &turns->lists[kind];
    if (list->tasks.head == ENGINE_NONE) {
        double slack = TURN_SLACK * cost_of(tasks, task->job, kind) / turns->effective_weight;
        double least = tasks->turn[kind] - slack, most = tasks->turn[kind] + slack;
        list->turn = list->turn < least ? least : list->turn > most ? most : list->turn;
    }
    return list;
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

/* charge moves the virtual times of the jobs on for one output or load that all of them wait for. */
static void charge(struct tasks *tasks, enum task_kind kind, const struct jobset *jobs)
{
    double weights = 0, cost = 0;
    JOBSET_EACH(job, jobs) {
        weights += job_at(tasks->jobs, job)->turns.effective_weight;
        cost += job_at(tasks->jobs, job)->turns.effective_weight * cost_of(tasks, job, kind);
    }
    JOBSET_EACH(job, jobs)
        /* the mean cost, divided by the sum of weights */
        job_at(tasks->jobs, job)->turns.lists[kind].turn += cost / weights / weights;
}

/* add_waiters adds the jobs that wait for the instance. */
static void add_waiters(const struct tasks *tasks, uint32_t instance, struct jobset *jobs)
{
    WAITERS_OF(tasks->queues, instance, at)
        jobset_add(jobs, tasks->queues->entries[at].job);
}

/* An instance that no entry waits for is made for the jobs that want it, so they pay. */
void tasks_charge_prepare(struct tasks *tasks, uint32_t index)
{
    const struct task *task = &tasks->tasks[index];
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        struct jobset jobs = {{0}};
        const struct instance *made = &tasks->prepared->instances[task->outputs[i]];
        add_waiters(tasks, task->outputs[i], &jobs);
        prepared_settle(tasks->prepared, task->outputs[i]);
        for (uint32_t job = 0; made->waiters == ENGINE_NONE && job < tasks->jobs->end; job++) {
            if (demand_wants_instance(tasks->jobs, job, &made->form))
                jobset_add(&jobs, job);
        }
        charge(tasks, TASK_PREPARES, &jobs);
    }
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

void tasks_measure_prepare(struct tasks *tasks, const struct task *task, uint64_t core_ns)
{
    double took_s = (double)core_ns / 1e9 / task->n_outputs;
    if (core_ns == 0)
        return;
    measure(&tasks->cost_s, took_s);
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        struct jobset jobs = {{0}};
        add_waiters(tasks, task->outputs[i], &jobs);
        JOBSET_EACH(job, &jobs)
            measure(&job_at(tasks->jobs, job)->turns.cost_s, took_s);
    }
}
