/* tasks_check.c: what must hold of tasks, and of the sources that they wait for, between steps. */
#include "common/check.h"
#include "server/engine/tasks.h"

uint32_t *tasks_count_users(const struct tasks *tasks)
{
    uint32_t *users = xcalloc(tasks->encoded->slab.size, sizeof *users);
    for (uint32_t task = 0; task < tasks->slab.size; task++) {
        if (tasks->tasks[task].state != TASK_FREE && tasks->tasks[task].encoded != ENGINE_NONE)
            users[tasks->tasks[task].encoded]++;
    }
    return users;
}

/* list_length returns the length of a job's list, and checks that its ranks count as many. */
static uint32_t list_length(const struct tasks *tasks, enum task_kind kind, uint32_t job)
{
    enum task_state state = kind == TASK_LOADS ? TASK_TO_LOAD : TASK_TO_PREPARE;
    uint32_t count = 0, ranks = 0;
    for (uint32_t index = job_at(tasks->jobs, job)->turns.lists[kind].tasks.head; index != ENGINE_NONE;
         index = tasks->tasks[index].in_list.next) {
        CHECK(tasks->tasks[index].state == state && tasks->tasks[index].job == job);
        count++;
    }
    for (uint32_t rank = 0; rank < job_at(tasks->jobs, job)->terms.world_size; rank++)
        ranks += job_at(tasks->jobs, job)->queues[rank].listed[kind];
    CHECK(ranks == count);
    return count;
}

/* A task that does not run is in the list of a job that waits for it. */
static bool is_waited_for(const struct tasks *tasks, const struct task *task)
{
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        WAITERS_OF(tasks->queues, task->outputs[i], at) {
            if (tasks->queues->entries[at].job == task->job)
                return true;
        }
    }
    return false;
}

/* check_lists checks that each task is in the right list, or in none, and that outputs and tasks name each other. */
static void check_lists(const struct tasks *tasks)
{
    uint32_t listed = 0, waiting = 0, running = 0, copies = 0, outputs = 0;
    uint64_t running_ns = 0;
    for (uint32_t no = 0; no < tasks->jobs->end; no++) {
        if (job_at(tasks->jobs, no)->state == JOB_FREE)
            continue;
        listed += list_length(tasks, TASK_LOADS, no);
        listed += list_length(tasks, TASK_PREPARES, no);
    }
    for (uint32_t index = 0; index < tasks->slab.size; index++) {
        const struct task *task = &tasks->tasks[index];
        waiting += tasks_is_listed(task);
        running += task->state == TASK_RUNNING && !task->copy;
        copies += task->state == TASK_RUNNING && task->copy;
        running_ns += task->state == TASK_RUNNING ? task->cost_ns : 0;
        CHECK(task->state == TASK_FREE || tasks_is_out(task) || is_waited_for(tasks, task));
        for (uint32_t i = 0; task->state != TASK_FREE && i < task->n_outputs; i++, outputs++) {
            const struct instance *instance = &tasks->prepared->instances[task->outputs[i]];
            CHECK(instance->state == INSTANCE_MAKING && instance->task == index && instance->form.id == task->id);
            CHECK(tasks_is_out(task) || instance->waiters != ENGINE_NONE);
            CHECK(instance->expected == (task->state == TASK_EXPECTED));
        }
    }
    for (uint32_t index = 0; index < tasks->prepared->slab.size; index++)
        outputs -= tasks->prepared->instances[index].state == INSTANCE_MAKING;
    CHECK(outputs == 0); /* each instance that is being made is the output of a task */
    CHECK(listed == waiting);
    CHECK(running == tasks->running &&
          (running <= tasks->env->config.inflight_prepares || running <= tasks->env->config.prepares_max));
    CHECK(running_ns == tasks->running_ns);
    CHECK(copies == tasks->copies && copies <= ENGINE_COPIES_MAX);
}

/* From a source that is away nothing is read, except to see whether it answers. No task waits for it that another job
 * could have loaded from a source that answers. */
static void check_sources(const struct tasks *tasks)
{
    uint32_t users[JOBS_MAX] = {0}, away = 0;
    for (const struct job *job = jobs_first(tasks->jobs); job; job = jobs_after(tasks->jobs, job)) {
        users[job->source.at]++;
        CHECK(tasks->sources->all[job->source.at].dataset == job->terms.dataset);
        for (uint32_t index = job->turns.lists[TASK_LOADS].tasks.head; index != ENGINE_NONE;
             index = tasks->tasks[index].in_list.next) {
            uint32_t heir = tasks_heir(tasks, &tasks->tasks[index], job->no);
            CHECK(!sources_away(tasks->sources, job->no) || sources_away(tasks->sources, heir));
        }
    }
    for (uint32_t i = 0; i < JOBS_MAX; i++) {
        const struct data_source *source = &tasks->sources->all[i];
        CHECK(source->users == users[i]);
        away += source->away;
        CHECK(source->probe == SAMPLE_NONE ||
              (source->away && encoded_sample(tasks->encoded, source->probe)->encoded != ENGINE_NONE));
    }
    CHECK(tasks->sources->n_away == away);
}

void tasks_check(const struct tasks *tasks)
{
    check_lists(tasks);
    check_sources(tasks);
}
