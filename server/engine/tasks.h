/* tasks.h: loads and preparations: which jobs they belong to, which is next, and when they go out.
 *
 * Invariant: a task has one output or more, all of one sample, and each output names the task. A task that is TO_LOAD
 * or TO_PREPARE is in the list of one job, which waits for one of its outputs. One that is LOADING is on its encoded's
 * list. One that is RUNNING or EXPECTED is in no list. A task pins its encoded from LOADING on. At most
 * inflight_prepares tasks, or prepares_max, are out as PREPARE, besides copies.
 * Owner: the tasks_*.c own tasks, the jobs' turns, `listed` and pace_ns of ranks, `pending` of samples and chunks, and
 * encoded.tasks. */
#ifndef LARDER_SERVER_ENGINE_TASKS_H
#define LARDER_SERVER_ENGINE_TASKS_H

#include "server/engine/encoded.h"
#include "server/engine/queue.h"

enum task_state { TASK_FREE, TASK_TO_LOAD, TASK_LOADING, TASK_TO_PREPARE, TASK_RUNNING, TASK_EXPECTED };

/* One PREPARE, with the LOAD before it. */
struct task {
    enum task_state state;
    uint32_t job; /* The job whose list it is in: the one of the highest tasks_rate of those that wait for it. */
    /* The rank of that job that waited for it when it went into the list. */
    uint32_t rank;
    /* its neighbours in the job's or the load's list; in an unused place, `next` is the next unused place */
    struct link in_list;
    sample_id id;
    /* The encoded that it waits for or reads, and pins; ENGINE_NONE while it is TO_LOAD. */
    uint32_t encoded;
    /* tries: how many of its loads failed because of the source, while loads of other samples came. tried: the value of
     * sources.rounds at the last such failure. */
    uint32_t tries, tried;
    bool needs_encoded; /* some output cannot be made of a decoded form */
    bool granted;       /* It is out, and may make a decoded form. */
    bool copy;          /* It runs as a copy: see engine_config.copy_bytes. */
    uint64_t cost_ns;   /* the expected cost of a running task that is no copy */
    uint32_t n_outputs;
    /* The instances that it makes, n_outputs of them. Each names this task. */
    uint32_t outputs[ENGINE_OUTPUTS_MAX];
};

/* tasks_is_listed tells whether the task waits in a list of its job. */
static inline bool tasks_is_listed(const struct task *task)
{
    return task->state == TASK_TO_LOAD || task->state == TASK_TO_PREPARE;
}

/* tasks_is_out tells whether the task is out, as PREPARE or as EXPECT: nothing takes it back. */
static inline bool tasks_is_out(const struct task *task)
{
    return task->state == TASK_RUNNING || task->state == TASK_EXPECTED;
}

/* tasks_kind returns the kind of work that a listed task waits for. */
static inline enum task_kind tasks_kind(const struct task *task)
{
    return task->state == TASK_TO_LOAD ? TASK_LOADS : TASK_PREPARES;
}

/* An entry whose sample failed. It has no instance any more, and waits to be judged by its job's policy. */
struct result {
    uint32_t entry;
    int reason;   /* enum bad_reason */
    bool changed; /* The sample's file is not the one that was indexed. */
};

/* All tasks, and the virtual time of each kind of work. Owners: the tasks_*.c. */
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
    struct slab slab; /* the numbered places of tasks */
    uint32_t running; /* tasks that are out as PREPARE and are no copies; running_ns: their expected cost */
    uint64_t running_ns;
    uint32_t copies; /* tasks that are out as copies, and the bytes that they write */
    uint64_t copies_bytes;
    bool busy;            /* As many preparations are out as may be, and more wait. */
    bool ahead_left;      /* Groups are worth a try that reading ahead had no time for in this step. */
    uint32_t copies_from; /* the job whose copies go out first */
    struct jobset held;   /* jobs whose sources may have no more in flight, in this dispatch */
    /* By kind: the virtual time of the work that went out last. When an empty list gets work, its own virtual time is
     * brought within its slack of this one. */
    double turn[TASK_KINDS];
    /* Mean seconds that a worker took for one output, over all jobs; 0 when none was measured. */
    double cost_s;
    struct result *results; /* n_results of this event, or of the last dispatch */
    size_t n_results, results_cap;
};

/* tasks_copy_bytes returns the bytes that a copy writes. */
static inline uint64_t tasks_copy_bytes(const struct tasks *tasks, const struct task *task)
{
    return encoded_handle_bytes(tasks->encoded, task->encoded) * task->n_outputs;
}

/* tasks_load_bytes returns the bytes that a load of the sample may take, whichever form it comes in. ENGINE_NOT_THERE:
 * the dataset does not have it. */
static inline uint64_t tasks_load_bytes(const struct tasks *tasks, const void *dataset, sample_id id)
{
    const struct engine_config *config = &tasks->env->config;
    uint64_t bytes = config->sample_bytes(dataset, id);
    if (!config->planes_bytes || bytes == ENGINE_NOT_THERE)
        return bytes;
    uint64_t planes = config->planes_bytes(config->planes_ctx, dataset, id);
    return planes > bytes && planes <= config->encoded_bytes ? planes : bytes;
}

/* tasks.c */
/* tasks_new returns the number of an unused place, all zeros; see slab.h. */
uint32_t tasks_new(struct tasks *tasks);
/* tasks_to_load puts a task that is in no list into its job's list of loads: at its beginning if `first`, otherwise at
 * its end. */
void tasks_to_load(struct tasks *tasks, uint32_t task, bool first);
/* tasks_remove_to_load takes a task that is TO_LOAD out of its list. */
void tasks_remove_to_load(struct tasks *tasks, uint32_t index);
/* tasks_to_prepare puts a task that is in no list at the end of its job's list of preparations. */
void tasks_to_prepare(struct tasks *tasks, uint32_t task);
/* tasks_route puts a task that is in no list where its sample's bytes let it go: TO_PREPARE, LOADING or TO_LOAD. */
void tasks_route(struct tasks *tasks, uint32_t index);
/* tasks_begin has the instance made for the job: by a task of the same sample that does not run yet, or by a new
 * one. */
void tasks_begin(struct tasks *tasks, uint32_t job, uint32_t instance);
/* tasks_part takes out of a task, which is about to run for its job, the outputs of other jobs whose turn has not come.
 * They wait in a task of their own. */
void tasks_part(struct tasks *tasks, uint32_t task);
/* tasks_end frees a task that is in no list, and unpins its encoded. */
void tasks_end(struct tasks *tasks, uint32_t task);
/* tasks_cancel_output takes the instance, for which no entry waits any more, out of its task and frees it. A task
 * without outputs ends. If the task runs, nothing happens, and the instance becomes cache. */
void tasks_cancel_output(struct tasks *tasks, uint32_t instance);
/* tasks_move moves a task that does not run to another job. */
void tasks_move(struct tasks *tasks, uint32_t task, uint32_t job);
/* tasks_waiter_joined is called when the job waits for the task too. The task may move to this job. */
void tasks_waiter_joined(struct tasks *tasks, uint32_t task, uint32_t job);
/* tasks_heir returns the job whose list a waiting task should be in, if it is in that of `job` now; ENGINE_NONE when no
 * entry waits for it. */
uint32_t tasks_heir(const struct tasks *tasks, const struct task *task, uint32_t job);
/* tasks_waiter_left is called when the job waits no more for one of the task's outputs, but some job still waits for
 * the task. The task may move to another job. */
void tasks_waiter_left(struct tasks *tasks, uint32_t task, uint32_t job);
/* tasks_is_running tells whether the instance's PREPARE or EXPECT is out. */
bool tasks_is_running(const struct tasks *tasks, const struct instance *instance);

/* tasks_companions.c */
/* tasks_makes_pixels tells whether the task makes any instance of pixels, and not only copies of the encoded bytes. */
bool tasks_makes_pixels(const struct tasks *tasks, const struct task *task);
/* tasks_add_companions adds outputs for other jobs that want the sample. It is called just before the task runs. */
void tasks_add_companions(struct tasks *tasks, uint32_t task);
/* tasks_output_dataset returns the dataset of a job for which the instance is made. */
const void *tasks_output_dataset(const struct tasks *tasks, const struct instance *instance);

/* tasks_dispatch.c */
/* tasks_dispatch sends out all loads, reads ahead and preparations that can go. It returns false when a sample is
 * larger than all of encoded memory. Then its entries are among the results, and the caller calls it again when they
 * are judged. */
bool tasks_dispatch(struct tasks *tasks);

/* tasks_loaded.c */
/* tasks_on_loaded takes the event LOADED. */
void tasks_on_loaded(struct tasks *tasks, const struct engine_event *event);

/* tasks_prepared.c */
/* tasks_add_result adds a result. Its entry, which the caller has taken off its instance, becomes UNPLACED. */
void tasks_add_result(struct tasks *tasks, struct result result);
/* tasks_fail ends a task that is in no list. All of its outputs fail with the reason. */
void tasks_fail(struct tasks *tasks, uint32_t task, int reason);
/* tasks_on_prepared takes the event PREPARED. */
void tasks_on_prepared(struct tasks *tasks, const struct engine_event *event);

/* tasks_expected.c */
/* tasks_expect has another node make the instance, for which an entry of the job waits. */
void tasks_expect(struct tasks *tasks, uint32_t job, uint32_t instance);
/* tasks_rename makes the sample that a task expects another one. */
void tasks_rename(struct tasks *tasks, uint32_t task, sample_id id);
/* tasks_arrived ends a task whose instance has arrived: the entry that waits for it is READY. tasks_arrived_not ends
 * one for which nothing came: the entry, if there is one, is UNPLACED. tasks_arrived_early ends one whose instance came
 * for another entry, which has no place: the instance is kept, and the entry that waits for it is UNPLACED. tasks_fail
 * ends one whose sample is bad. `bytes` is how long an instance is, if it is sized. */
void tasks_arrived(struct tasks *tasks, uint32_t task, uint32_t bytes);
void tasks_arrived_early(struct tasks *tasks, uint32_t task, uint32_t bytes);
void tasks_arrived_not(struct tasks *tasks, uint32_t task);

/* tasks_load.c */
/* tasks_load_mates loads what comes in one read with the sample, whose load has begun. */
void tasks_load_mates(struct tasks *tasks, uint32_t job, sample_id id);
/* tasks_read_ahead reads chunks that no entry waits for, as far as there is room. */
void tasks_read_ahead(struct tasks *tasks);
/* tasks_load begins a load of the sample from the job's dataset. False: there is no room for it now. */
bool tasks_load(struct tasks *tasks, uint32_t job, sample_id id, uint64_t bytes);

/* tasks_probe.c */
/* tasks_probe looks whether sources that are away answer again. It begins one load from each of them for which a job
 * waits and whose next try is due. */
void tasks_probe(struct tasks *tasks);

/* tasks_ranks.c */
/* tasks_rank_listed counts a task that went into its job's list for the rank that waits for it; tasks_rank_unlisted
 * counts it out again. */
void tasks_rank_listed(struct tasks *tasks, struct task *task);
void tasks_rank_unlisted(struct tasks *tasks, const struct task *task);
/* tasks_entry_ready makes the entry READY, because its instance is. If another entry changes places with it, that one's
 * task counts for its new rank. */
void tasks_entry_ready(struct tasks *tasks, uint32_t entry);
/* tasks_next returns the task of the job's list that is next; the list must have one. */
uint32_t tasks_next(const struct tasks *tasks, uint32_t job, enum task_kind kind);
/* tasks_load_rank returns the job's rank that waits for a load of the sample; ENGINE_RANK_NONE when none does. */
uint32_t tasks_load_rank(const struct tasks *tasks, uint32_t job, sample_id id);
/* tasks_on_pace takes the event PACE. */
void tasks_on_pace(struct tasks *tasks, const struct engine_event *event);

/* tasks_sources.c */
/* tasks_source_answered notes that the source of this load has answered. If the load began after the source's last
 * failure, the source is away no more. */
void tasks_source_answered(struct tasks *tasks, const struct encoded *encoded);
/* tasks_source_beyond says that encoded memory has no room for this sample of the dataset, and never will. */
void tasks_source_beyond(struct tasks *tasks, const void *dataset, sample_id id);
/* tasks_source_failed notes that a load failed because of its source. The tasks from `first` on waited for the load. It
 * returns false when the sample is given up as bad. */
bool tasks_source_failed(struct tasks *tasks, const struct encoded *encoded, uint32_t first, int reason);

/* tasks_turns.c */
/* tasks_append puts a listed task at the end of its job's list; tasks_prepend puts it at the beginning; tasks_remove
 * takes it out. */
void tasks_append(struct tasks *tasks, uint32_t task);
void tasks_prepend(struct tasks *tasks, uint32_t task);
void tasks_remove(struct tasks *tasks, uint32_t task);
/* tasks_weigh works out what each running job's weight counts as. It is called when jobs or weights may have
 * changed. */
void tasks_weigh(struct tasks *tasks);
/* tasks_next_turn returns the job with the lowest virtual time among those with work of this kind; ENGINE_NONE when
 * there is none. */
uint32_t tasks_next_turn(const struct tasks *tasks, enum task_kind kind);
/* tasks_cost_ns returns what one output for the job takes, as far as is known. */
uint64_t tasks_cost_ns(const struct tasks *tasks, uint32_t job);
/* tasks_rate returns how fast the job's list moves beside others: its weight by what one output or load costs it. */
double tasks_rate(const struct tasks *tasks, uint32_t job, enum task_kind kind);
/* tasks_turn_hold has other jobs load while the job's source may have no more in flight. The job saves up no more than
 * its slack meanwhile. */
void tasks_turn_hold(struct tasks *tasks, uint32_t job);
/* tasks_turn_begin moves the virtual time of this kind of work on to that of the job. */
void tasks_turn_begin(struct tasks *tasks, enum task_kind kind, uint32_t job);
/* tasks_turn_limit returns the virtual time of the next preparation for a client that is short of samples, once one
 * output of the job, whose turn it is, has been made; INFINITY when none is short. tasks_turn_came tells whether a
 * job's turn has come by then. */
double tasks_turn_limit(const struct tasks *tasks, uint32_t job);
bool tasks_turn_came(const struct tasks *tasks, uint32_t job, double limit);
/* tasks_charge_prepare charges the jobs that a PREPARE is for, and returns what it is expected to take, in nanoseconds.
 * tasks_charge_load charges those that a LOAD is for. */
uint64_t tasks_charge_prepare(struct tasks *tasks, uint32_t task);
void tasks_charge_load(struct tasks *tasks, sample_id id);
/* tasks_measure_prepare adds what the outputs of the task took, which the event PREPARED tells, to the mean costs. It
 * is called while the instances still have their waiters. */
void tasks_measure_prepare(struct tasks *tasks, const struct task *task, const struct engine_event *event);

/* tasks_check.c */
/* tasks_count_users counts for each encoded the tasks that pin it. The caller frees the array. */
uint32_t *tasks_count_users(const struct tasks *tasks);
/* tasks_check CHECKs the invariants of tasks and of the sources that they wait for. */
void tasks_check(const struct tasks *tasks);

#endif
