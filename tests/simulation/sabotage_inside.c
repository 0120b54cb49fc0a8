/* sabotage_inside.c: wrong deeds inside the engine. The linker puts each into the place of its function. */
#include "server/engine/plan.h"
#include "server/engine/prepared.h"
#include "server/engine/tasks.h"
#include "tests/simulation/sabotage_priv.h"

/* The sabotage of the run; NULL: there is none. */
static struct sabotage *inside;

void sabotage_inside(struct sabotage *sabotage)
{
    inside = sabotage;
}

struct job_queue *__real_plan_next_copy(const struct job *job, struct job_queue *otherwise, bool *had);
struct job_queue *__wrap_plan_next_copy(const struct job *job, struct job_queue *otherwise, bool *had);

/* A copy goes to a rank that has had one, although another has not. */
struct job_queue *__wrap_plan_next_copy(const struct job *job, struct job_queue *otherwise, bool *had)
{
    bool wrong = inside && inside->kind == SABOTAGE_RANK_COPY && !inside->done, others[ENGINE_RANKS_MAX];
    const struct client_plan *plan = wrong ? model_clean_ranks(inside->model, job->no) : NULL;
    if (plan && !plan->drop_last && plan->n_draws <= plan->n_view * plan->world_size) {
        for (uint32_t rank = 0; rank < plan->world_size; rank++)
            others[rank] = !had[rank];
        struct job_queue *again = __real_plan_next_copy(job, NULL, others);
        if (again && had[again->rank] && sabotage_take(inside))
            return again;
    }
    return __real_plan_next_copy(job, otherwise, had);
}

void __real_tasks_part(struct tasks *tasks, uint32_t index);
void __wrap_tasks_part(struct tasks *tasks, uint32_t index);

/* What is taken out of a task waits for ever: it counts as a copy that is out, and none is. */
void __wrap_tasks_part(struct tasks *tasks, uint32_t index)
{
    const struct task before = tasks->tasks[index];
    __real_tasks_part(tasks, index);
    for (uint32_t i = 0; inside && inside->kind == SABOTAGE_LOSE_PARTED && i < before.n_outputs; i++) {
        uint32_t own = tasks->prepared->instances[before.outputs[i]].task;
        struct task *parted = &tasks->tasks[own];
        bool waits = own != index && parted->state == TASK_TO_PREPARE;
        if (!waits || inside->done || !inside->calm || !model_steady_plan(inside->model, parted->job) ||
            !sabotage_take(inside))
            continue;
        tasks_remove(tasks, own);
        parted->state = TASK_RUNNING;
        parted->copy = true;
        tasks->copies++;
    }
}

void __real_prepared_trim(struct prepared *prepared, uint32_t index, uint64_t bytes);
void __wrap_prepared_trim(struct prepared *prepared, uint32_t index, uint64_t bytes);

/* From the first such time on, an instance that was made keeps all the room that it was begun with. */
void __wrap_prepared_trim(struct prepared *prepared, uint32_t index, uint64_t bytes)
{
    struct instance *instance = &prepared->instances[index];
    bool wrong = inside && inside->kind == SABOTAGE_TRIM_KEEP &&
                 engine_slot_bytes(&prepared->env->config, bytes) < extent_bytes(prepared->extents, instance->block);
    if (wrong && (inside->done || sabotage_take(inside)))
        instance->bytes = bytes;
    else
        __real_prepared_trim(prepared, index, bytes);
}
