/* tasks.h: loads and preparations: whose they are, whose turn it is, and what goes out.
 *
 * Invariant: a task has one output or more, all of one sample, and each output names the task. One that is TO_LOAD or
 * TO_PREPARE is in the list of one job, which waits for one of its outputs; one that is LOADING is on its encoded's
 * list; one that is RUNNING is in no list. It pins its encoded from LOADING on. At most inflight_prepares tasks are out
 * as PREPARE.
 * Owner: the tasks_*.c own tasks, the jobs' turns, `listed` and pace_ns of ranks, `pending` of samples and chunks, and
 * encoded.tasks. */
#ifndef LARDER_SERVER_ENGINE_TASKS_H
#define LARDER_SERVER_ENGINE_TASKS_H

#include "server/engine/encoded.h"
#include "server/engine/queue.h"

enum task_state { TASK_FREE, TASK_TO_LOAD, TASK_LOADING, TASK_TO_PREPARE, TASK_RUNNING };

struct task {
    enum task_state state;
    uint32_t job; /* the heaviest of those that wait for it: whose list it is in, and whose turn it takes */
    /* The rank of that job that waits for it, as it was when the task went into the list. */
    uint32_t rank;
    struct link in_list; /* the job's list, or the load's, or the unused places (next only) */
    sample_id id;
    /* The bytes that it waits for or reads, pinned by it; ENGINE_NONE while it is TO_LOAD. */
    uint32_t encoded;
    uint32_t tries, tried; /* loads that failed for its source, while others came; the sources' round at the last */
    uint32_t n_outputs;
    /* The instances that it makes, n_outputs of them; each names this task. */
    uint32_t outputs[ENGINE_OUTPUTS_MAX];
};

/* It waits for its turn, in a list of its job. */
static inline bool tasks_is_listed(const struct task *task)
{
    return task->state == TASK_TO_LOAD || task->state == TASK_TO_PREPARE;
}

/* The kind of work that a listed task waits for. */
static inline enum task_kind tasks_kind(const struct task *task)
{
    return task->state == TASK_TO_LOAD ? TASK_LOADS : TASK_PREPARES;
}

/* An entry whose sample failed. It has no instance any more, and waits to be judged by its job's policy. */
struct result {
    uint32_t entry;
    int reason;   /* enum bad_reason */
    bool changed; /* Its file is not the one that was indexed. */
};

/* All tasks. Owners: the tasks_*.c. */
struct tasks {
    struct engine_env *env;
    struct outbox *outbox;
    struct jobs *jobs;
    struct chunks *chunks;
    struct prepared *prepared;
    struct sources *sources;
    struct encoded_store *encoded;
    struct queues *queues;
    struct task *tasks;
    struct slab slab; /* of these */
    uint32_t running; /* Tasks that are out as PREPARE. */
    /* The virtual time of the last turn that began, by kind. A list that gets work is at most its slack before or
     * behind it. */
    double turn[TASK_KINDS];
    /* Mean seconds that a worker took for one output, of all jobs; 0: none was measured. */
    double cost_s;
    struct result *results; /* of this event, or of what was dispatched last */
    size_t n_results, results_cap;
};

/* tasks.c */
void tasks_to_load(struct tasks *tasks, uint32_t task, bool first); /* it is in no list; first: before all others */
void tasks_remove_to_load(struct tasks *tasks, uint32_t index);
void tasks_to_prepare(struct tasks *tasks, uint32_t task);
void tasks_route(struct tasks *tasks, uint32_t index);
void tasks_begin(struct tasks *tasks, uint32_t job, uint32_t instance);
void tasks_end(struct tasks *tasks, uint32_t task);
void tasks_cancel_output(struct tasks *tasks, uint32_t instance);
void tasks_move(struct tasks *tasks, uint32_t task, uint32_t job);
void tasks_waiter_joined(struct tasks *tasks, uint32_t task, uint32_t job); /* the job waits for it too */
/* Who shall have a task in his line that is not under way, when the job has it now; ENGINE_NONE:
 * nobody waits for it. */
uint32_t tasks_heir(const struct tasks *tasks, const struct task *task, uint32_t job);
void tasks_waiter_left(struct tasks *tasks, uint32_t task, uint32_t job); /* the job does so no more, others do */
bool tasks_is_running(const struct tasks *tasks, const struct instance *instance);

/* tasks_companions.c */
bool tasks_makes_pixels(const struct tasks *tasks, const struct task *task); /* not only copies of the encoded bytes */
void tasks_add_companions(struct tasks *tasks, uint32_t task);               /* just before it runs */
const void *tasks_output_dataset(const struct tasks *tasks, const struct instance *instance);

/* tasks_dispatch.c */
/* False: a sample is larger than all of encoded memory, and its entries are among the results: call it again once they
 * are judged. True: all that can go out is out. */
bool tasks_dispatch(struct tasks *tasks);

/* tasks_loaded.c */
void tasks_on_loaded(struct tasks *tasks, const struct engine_event *event);

/* tasks_prepared.c */
void tasks_add_result(struct tasks *tasks, struct result result); /* the entry, a waiter no more, is unplaced */
void tasks_fail(struct tasks *tasks, uint32_t task, int reason);  /* It is in no list. All of its outputs fail. */
void tasks_on_prepared(struct tasks *tasks, const struct engine_event *event);

/* tasks_load.c */
void tasks_load_mates(struct tasks *tasks, uint32_t job, sample_id id); /* what comes with it in one read */
void tasks_read_ahead(struct tasks *tasks);
bool tasks_load(struct tasks *tasks, uint32_t job, sample_id id, uint64_t bytes); /* false: no room for it now */

/* tasks_probe.c */
void tasks_probe(struct tasks *tasks); /* whether those that were away answer again */

/* tasks_ranks.c */
void tasks_rank_listed(struct tasks *tasks, struct task *task); /* it is in its job's list */
void tasks_rank_unlisted(struct tasks *tasks, const struct task *task);
void tasks_entry_ready(struct tasks *tasks, uint32_t entry); /* its instance is; another's task may change ranks */
uint32_t tasks_next(const struct tasks *tasks, uint32_t job, enum task_kind kind); /* of a list that has some */
uint32_t tasks_load_rank(const struct tasks *tasks, uint32_t job, sample_id id);   /* ENGINE_RANK_NONE: none waits */
void tasks_on_pace(struct tasks *tasks, const struct engine_event *event);

/* tasks_sources.c */
void tasks_source_answered(struct tasks *tasks, const struct encoded *encoded);
/* A load failed for it, that the tasks from `first` on waited for. False: the sample is given up, it is bad. */
bool tasks_source_failed(struct tasks *tasks, const struct encoded *encoded, uint32_t first, int reason);

/* tasks_turns.c */
void tasks_append(struct tasks *tasks, uint32_t task); /* to its job's list */
void tasks_prepend(struct tasks *tasks, uint32_t task);
void tasks_remove(struct tasks *tasks, uint32_t task);
void tasks_weigh(struct tasks *tasks); /* jobs or weights may have changed */
/* a job with work; ENGINE_NONE: none has any */
uint32_t tasks_next_turn(const struct tasks *tasks, enum task_kind kind);
void tasks_turn_begin(struct tasks *tasks, enum task_kind kind, uint32_t job);
void tasks_charge_prepare(struct tasks *tasks, uint32_t task);
void tasks_charge_load(struct tasks *tasks, sample_id id);
void tasks_measure_prepare(struct tasks *tasks, const struct task *task, uint64_t core_ns);

/* tasks_check.c */
uint32_t *tasks_count_users(const struct tasks *tasks); /* see encoded_check; the caller frees */
void tasks_check(const struct tasks *tasks);

#endif
