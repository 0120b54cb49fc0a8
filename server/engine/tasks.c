/* tasks.c: what loaders and preparers are asked to do.
 *
 * A task makes up to ENGINE_OUTPUTS_MAX instances of one sample: fetch once, decode once. It waits in the list of a job
 * that waits for it (to load, then to prepare). Few are out at a time; the next is always taken from the job whose turn it
 * is (tasks_turns.c), so that a job with a long list delays another by at most what is out. */
#include "preprocess/prepare.h"
#include "server/engine/engine_priv.h"

_Static_assert(BAD_REASONS <= ENGINE_REASONS, "totals have a place for every reason");

void engine_task_to_load(struct engine *engine, uint32_t index, bool first)
{
    struct task *task = &engine->tasks[index];
    task->state = TASK_TO_LOAD;
    if (first)
        engine_list_prepend(engine, TASK_LOADS, index);
    else
        engine_list_append(engine, TASK_LOADS, index);
    engine->samples[task->id].pending++;
    if (engine->samples[task->id].chunk != ENGINE_NONE)
        engine->chunks[engine->samples[task->id].chunk].pending++;
}

static void remove_to_load(struct engine *engine, uint32_t index)
{
    struct task *task = &engine->tasks[index];
    engine_list_remove(engine, TASK_LOADS, index);
    engine->samples[task->id].pending--;
    if (engine->samples[task->id].chunk != ENGINE_NONE)
        engine->chunks[engine->samples[task->id].chunk].pending--;
}

void engine_task_to_prepare(struct engine *engine, uint32_t index)
{
    engine->tasks[index].state = TASK_TO_PREPARE;
    engine_list_append(engine, TASK_PREPARES, index);
}

/* Puts a task where the sample's bytes let it go: they are there, they are on their way, or they must be asked for. */
static void route(struct engine *engine, uint32_t index)
{
    struct task *task = &engine->tasks[index];
    uint32_t encoded = engine->samples[task->id].encoded;
    if (encoded == ENGINE_NONE) {
        engine_task_to_load(engine, index, false);
        return;
    }
    engine_pin_encoded(engine, encoded);
    task->encoded = encoded;
    if (engine->encoded[encoded].state == ENCODED_READY) {
        engine_task_to_prepare(engine, index);
    } else {
        task->state = TASK_LOADING;
        task->next = engine->encoded[encoded].tasks;
        engine->encoded[encoded].tasks = index;
    }
}

void engine_task_begin(struct engine *engine, uint32_t job, uint32_t instance)
{
    struct instance *made = &engine->instances[instance];
    for (uint32_t other = engine->samples[made->id].instances; other != ENGINE_NONE; other = engine->instances[other].next) {
        if (other == instance || engine->instances[other].state != INSTANCE_MAKING)
            continue;
        struct task *task = &engine->tasks[engine->instances[other].task];
        if (task->state != TASK_RUNNING && task->n_outputs < ENGINE_OUTPUTS_MAX) {
            made->task = engine->instances[other].task;
            task->outputs[task->n_outputs++] = instance;
            engine_task_joined(engine, made->task, job);
            return;
        }
    }
    uint32_t index = engine_task_new(engine);
    struct task *task = &engine->tasks[index];
    *task = (struct task){.job = job, .id = made->id, .encoded = ENGINE_NONE, .n_outputs = 1, .outputs = {instance}};
    made->task = index;
    route(engine, index);
}

/* Takes a task that is not running out of the list it waits in. */
static void unlist(struct engine *engine, uint32_t index)
{
    struct task *task = &engine->tasks[index];
    if (task->state == TASK_TO_LOAD) {
        remove_to_load(engine, index);
    } else if (task->state == TASK_TO_PREPARE) {
        engine_list_remove(engine, TASK_PREPARES, index);
    } else {
        CHECK(task->state == TASK_LOADING);
        uint32_t *link = &engine->encoded[task->encoded].tasks;
        while (*link != index) {
            CHECK(*link != ENGINE_NONE);
            link = &engine->tasks[*link].next;
        }
        *link = task->next;
    }
}

void engine_task_end(struct engine *engine, uint32_t index)
{
    uint32_t encoded = engine->tasks[index].encoded;
    engine_task_drop(engine, index);
    if (encoded != ENGINE_NONE)
        engine_unpin_encoded(engine, encoded);
}

/* An instance that nobody waits for any more is not made, unless that is under way: then it becomes cache. */
void engine_task_cancel_output(struct engine *engine, uint32_t instance)
{
    uint32_t index = engine->instances[instance].task;
    struct task *task = &engine->tasks[index];
    if (task->state == TASK_RUNNING)
        return;
    uint32_t at = 0;
    while (task->outputs[at] != instance)
        CHECK(++at < task->n_outputs);
    task->outputs[at] = task->outputs[--task->n_outputs];
    engine_free_instance(engine, instance);
    if (task->n_outputs == 0) {
        unlist(engine, index);
        engine_task_end(engine, index);
    } else {
        engine_task_left(engine, index, task->job);
    }
}

/* ── whose line ── */

/* Never for a task that is under way. It goes behind what its new job waits for already. */
void engine_task_move(struct engine *engine, uint32_t index, uint32_t job)
{
    struct task *task = &engine->tasks[index];
    if (task->state == TASK_TO_LOAD)
        engine_list_remove(engine, TASK_LOADS, index);
    else if (task->state == TASK_TO_PREPARE)
        engine_list_remove(engine, TASK_PREPARES, index);
    task->job = job;
    if (task->state == TASK_TO_LOAD)
        engine_list_append(engine, TASK_LOADS, index);
    else if (task->state == TASK_TO_PREPARE)
        engine_list_append(engine, TASK_PREPARES, index);
}

/* Is the task better off in a's line than in b's? One that is to be loaded waits for no source that does not answer
 * while another has the sample too. */
static bool better_off(const struct engine *engine, const struct task *task, uint32_t a, uint32_t b)
{
    bool a_away = engine_source_away(engine, a), b_away = engine_source_away(engine, b);
    if (task->encoded == ENGINE_NONE && a_away != b_away)
        return b_away;
    return engine->jobs[a].weight > engine->jobs[b].weight;
}

void engine_task_joined(struct engine *engine, uint32_t index, uint32_t job)
{
    const struct task *task = &engine->tasks[index];
    if (task->state != TASK_RUNNING && better_off(engine, task, job, task->job))
        engine_task_move(engine, index, job);
}

/* The job keeps it as long as it waits for another output, unless its source keeps it from being loaded. */
uint32_t engine_task_heir(const struct engine *engine, const struct task *task, uint32_t job)
{
    uint32_t best = ENGINE_NONE;
    bool stays = !(task->encoded == ENGINE_NONE && engine_source_away(engine, job));
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        for (uint32_t at = engine->instances[task->outputs[i]].waiters; at != ENGINE_NONE; at = engine->entries[at].link) {
            uint32_t waiting = engine->entries[at].job;
            if (waiting == job && stays)
                return job;
            if (best == ENGINE_NONE || better_off(engine, task, waiting, best))
                best = waiting;
        }
    }
    return best;
}

void engine_task_left(struct engine *engine, uint32_t index, uint32_t job)
{
    const struct task *task = &engine->tasks[index];
    uint32_t heir = task->state != TASK_RUNNING && task->job == job ? engine_task_heir(engine, task, job) : job;
    CHECK(heir != ENGINE_NONE);
    if (heir != job)
        engine_task_move(engine, index, heir);
}

/* ── results ── */

static void instance_failed(struct engine *engine, uint32_t index)
{
    uint32_t waiter = engine->instances[index].waiters;
    engine->instances[index].waiters = ENGINE_NONE;
    engine_free_instance(engine, index);
    while (waiter != ENGINE_NONE) {
        uint32_t next = engine->entries[waiter].link;
        engine->entries[waiter].instance = ENGINE_NONE;
        engine_entry_bad(engine, waiter);
        waiter = next;
    }
}

/* The task is in no list. RUNNING keeps a job that fails over this sample from cancelling outputs under our feet. */
static void task_failed(struct engine *engine, uint32_t index, int reason)
{
    struct task task = engine->tasks[index];
    engine->tasks[index].state = TASK_RUNNING;
    engine->failing = reason > 0 && reason < BAD_REASONS ? reason : BAD_CORRUPT;
    engine->totals.bad_samples[engine->failing]++;
    for (uint32_t i = 0; i < task.n_outputs; i++)
        instance_failed(engine, task.outputs[i]);
    engine_task_end(engine, index);
}

static void instance_made(struct engine *engine, uint32_t index)
{
    struct instance *instance = &engine->instances[index];
    instance->state = INSTANCE_READY;
    instance->task = ENGINE_NONE;
    engine->totals.instances_prepared++;
    uint32_t waiter = instance->waiters;
    instance->waiters = ENGINE_NONE;
    while (waiter != ENGINE_NONE) {
        uint32_t next = engine->entries[waiter].link;
        engine_entry_ready(engine, waiter);
        waiter = next;
    }
    engine_unpin_instance(engine, index);
}

/* Each way in which outputs that somebody waits for have failed counts once. */
static void count_bad(struct engine *engine, const struct task *task, const uint8_t *reasons)
{
    bool counted[BAD_REASONS] = {false};
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        CHECK(reasons[i] < BAD_REASONS);
        if (!reasons[i] || counted[reasons[i]] || engine->instances[task->outputs[i]].waiters == ENGINE_NONE)
            continue;
        counted[reasons[i]] = true;
        engine->totals.bad_samples[reasons[i]]++;
    }
}

/* The task with only those of its outputs that were made. */
static struct task made_part(const struct task *task, const uint8_t *reasons)
{
    struct task made = *task;
    made.n_outputs = 0;
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        if (!reasons[i])
            made.outputs[made.n_outputs++] = task->outputs[i];
    }
    return made;
}

/* The task stays RUNNING to the end: a job that fails over one output does not cancel others under our feet. */
void engine_on_prepared(struct engine *engine, const struct engine_event *event)
{
    uint32_t index = event->prepared.task;
    const uint8_t *reasons = event->prepared.reasons;
    CHECK(index < engine->task_pool.size && engine->tasks[index].state == TASK_RUNNING && engine->prepares_inflight > 0);
    engine->prepares_inflight--;
    struct task task = engine->tasks[index], made = made_part(&task, reasons);
    count_bad(engine, &task, reasons);
    if (made.n_outputs) {
        engine_measure_prepare(engine, &made, event->prepared.core_ns);
        engine->totals.samples_decoded += engine_makes_pixels(engine, &made);
    }
    for (uint32_t i = 0; i < task.n_outputs; i++) {
        if (!reasons[i]) {
            instance_made(engine, task.outputs[i]);
            continue;
        }
        engine->failing = reasons[i];
        instance_failed(engine, task.outputs[i]);
    }
    engine_task_end(engine, index);
}

/* ── dispatch ── */

static void act_prepare(struct engine *engine, uint32_t index)
{
    struct task *task = &engine->tasks[index];
    if (engine->n_outputs + task->n_outputs > engine->outputs_cap) {
        engine->outputs_cap = engine->outputs_cap * 2 + ENGINE_OUTPUTS_MAX;
        engine->outputs = xrealloc(engine->outputs, engine->outputs_cap, sizeof *engine->outputs);
    }
    struct engine_action *action = engine_act_job(engine, ENGINE_PREPARE, task->job);
    action->rank = task->rank;
    action->prepare.task = index;
    action->prepare.id = task->id;
    action->prepare.encoded = engine->encoded[task->encoded].handle;
    action->prepare.encoded_bytes = engine->encoded[task->encoded].bytes;
    action->prepare.dataset = engine->jobs[task->job].dataset;
    action->prepare.n_outputs = task->n_outputs;
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        const struct instance *instance = &engine->instances[task->outputs[i]];
        engine->outputs[engine->n_outputs++] = (struct engine_output){.pipeline = instance->pipeline,
                                                                      .offset = extent_offset(engine->extents, instance->block),
                                                                      .bytes = instance->bytes,
                                                                      .variant = instance->variant,
                                                                      .instance = instance->ordinal,
                                                                      .dataset = engine_output_dataset(engine, instance)};
    }
}

static void dispatch_prepares(struct engine *engine)
{
    while (engine->prepares_inflight < engine->config.inflight_prepares) {
        uint32_t job = engine_next_turn(engine, TASK_PREPARES);
        if (job == ENGINE_NONE)
            return;
        uint32_t index = engine_next_task(engine, job, TASK_PREPARES);
        engine_list_remove(engine, TASK_PREPARES, index);
        engine_turn_begin(engine, TASK_PREPARES, job);
        engine->tasks[index].state = TASK_RUNNING;
        engine->prepares_inflight++;
        engine_add_companions(engine, index);
        engine_charge_prepare(engine, index);
        engine_rank_begun(engine, &engine->tasks[index]);
        act_prepare(engine, index);
    }
}

/* The load of a sample has begun: its tasks wait for that, not for a load of their own. */
static void route_pending(struct engine *engine, sample_id id)
{
    for (uint32_t index = engine->samples[id].instances; index != ENGINE_NONE; index = engine->instances[index].next) {
        if (engine->instances[index].state != INSTANCE_MAKING)
            continue;
        uint32_t task = engine->instances[index].task;
        if (engine->tasks[task].state == TASK_TO_LOAD) {
            remove_to_load(engine, task);
            route(engine, task);
        }
    }
}

static void act_load(struct engine *engine, uint32_t job, sample_id id, uint64_t bytes)
{
    engine->loads_inflight++;
    struct engine_action *action = engine_act_job(engine, ENGINE_LOAD, job);
    action->rank = engine_load_rank(engine, job, id);
    action->load.dataset = engine->jobs[job].dataset;
    action->load.id = id;
    action->load.bytes = bytes;
    action->load.read = engine->totals.reads;
}

bool engine_load(struct engine *engine, uint32_t job, sample_id id, uint64_t bytes)
{
    uint32_t encoded = engine_begin_load(engine, id, bytes);
    if (encoded == ENGINE_NONE)
        return false;
    engine_source_load(engine, job, encoded);
    act_load(engine, job, id, bytes);
    engine_charge_load(engine, id);
    route_pending(engine, id);
    return true;
}

/* May all that the sample's chunk can bring be out as well? A read that is cut short leaves its chunk to be read again,
 * and what is free after small reads makes for small reads. */
static bool room_for_read(const struct engine *engine, sample_id id)
{
    uint32_t chunk = engine->samples[id].chunk;
    uint32_t samples = chunk == ENGINE_NONE ? 1 : engine->groups[engine->chunks[chunk].group].chunk_samples;
    return engine->loads_inflight == 0 || engine->loads_inflight + samples <= engine->config.inflight_loads;
}

/* The same for memory: for what the chunk can bring, or half of it all, bytes that nobody is at work with. Else each sample
 * that is through would make room for a read of one sample, as soon as the look-ahead needs more than there is. */
static bool memory_for_read(const struct engine *engine, uint32_t job, sample_id id, uint64_t bytes)
{
    uint32_t chunk = engine->jobs[job].redirected ? engine->samples[id].chunk : ENGINE_NONE;
    uint64_t limit = engine_encoded_most(engine), pinned = engine->encoded_pinned, most = limit / 2;
    uint64_t taken = engine->encoded_pool.taken, mean = taken ? engine->encoded_used / taken : bytes, all = bytes;
    if (chunk != ENGINE_NONE)
        all = mean * engine->groups[engine->chunks[chunk].group].chunk_samples;
    all = all > most ? most : all;
    return pinned == 0 || pinned + (all > bytes ? all : bytes) <= limit;
}

/* Begins the load that a job's first task needs; false when there is no room for it now. */
static bool dispatch_load(struct engine *engine, uint32_t job)
{
    uint32_t index = engine_next_task(engine, job, TASK_LOADS);
    sample_id id = engine->tasks[index].id;
    CHECK(engine->samples[id].encoded == ENGINE_NONE); /* else the task would not wait here */
    uint64_t bytes = engine->config.sample_bytes(engine->jobs[job].dataset, id);
    CHECK(bytes != ENGINE_NOT_THERE);
    if (bytes > engine->config.encoded_bytes) {
        remove_to_load(engine, index);
        task_failed(engine, index, BAD_TOO_LARGE);
        return true;
    }
    if (!room_for_read(engine, id) || !memory_for_read(engine, job, id, bytes))
        return false;
    engine_turn_begin(engine, TASK_LOADS, job);
    if (!engine_load(engine, job, id, bytes))
        return false;
    engine->encoded[engine->samples[id].encoded].in_order = engine->jobs[job].shuffle == SHUFFLE_NONE;
    engine_load_mates(engine, job, id);
    engine->totals.reads++;
    return true;
}

void engine_dispatch(struct engine *engine)
{
    uint32_t job = ENGINE_NONE;
    engine_weigh(engine);
    engine_shed_encoded(engine);
    engine_ask_sources(engine);
    while (engine->loads_inflight < engine->config.inflight_loads) {
        job = engine_next_turn(engine, TASK_LOADS);
        if (job == ENGINE_NONE || !dispatch_load(engine, job))
            break;
    }
    if (job == ENGINE_NONE)
        engine_read_ahead(engine);
    dispatch_prepares(engine);
}
