/* engine_plan.c: picks become entries of queues, and entries get instances.
 *
 * A queue is a list of entries in planned order. A batch is nothing but its first batch_size entries once they are ready,
 * so that a bad sample leaves no hole: the list closes up. `ready_prefix` counts the ready entries at the head. */
#include "server/engine_priv.h"

/* ── the queue ── */

static void prefix_advance(struct engine *engine, struct job *job)
{
    while (job->first_waiting != ENGINE_NONE && engine->entries[job->first_waiting].state == ENTRY_READY) {
        job->ready_prefix++;
        job->first_waiting = engine->entries[job->first_waiting].next;
    }
}

static void queue_append(struct engine *engine, uint32_t index)
{
    struct entry *entry = &engine->entries[index];
    struct job *job = &engine->jobs[entry->job];
    entry->prev = job->tail;
    entry->next = ENGINE_NONE;
    if (job->tail != ENGINE_NONE)
        engine->entries[job->tail].next = index;
    else
        job->head = index;
    job->tail = index;
    if (job->first_waiting == ENGINE_NONE)
        job->first_waiting = index;
    job->queued++;
    job->held_slots++;
}

static void unplaced_append(struct engine *engine, struct job *job, uint32_t index)
{
    engine->entries[index].state = ENTRY_UNPLACED;
    engine->entries[index].link = ENGINE_NONE;
    if (job->unplaced_tail != ENGINE_NONE)
        engine->entries[job->unplaced_tail].link = index;
    else
        job->unplaced_head = index;
    job->unplaced_tail = index;
}

static void unplaced_remove(struct engine *engine, struct job *job, uint32_t index)
{
    uint32_t prev = ENGINE_NONE, at = job->unplaced_head;
    while (at != index) {
        CHECK(at != ENGINE_NONE);
        prev = at;
        at = engine->entries[at].link;
    }
    uint32_t next = engine->entries[index].link;
    if (prev != ENGINE_NONE)
        engine->entries[prev].link = next;
    else
        job->unplaced_head = next;
    if (next == ENGINE_NONE)
        job->unplaced_tail = prev;
}

static void waiter_remove(struct engine *engine, uint32_t index)
{
    uint32_t *link = &engine->instances[engine->entries[index].instance].waiters;
    while (*link != index) {
        CHECK(*link != ENGINE_NONE);
        link = &engine->entries[*link].link;
    }
    *link = engine->entries[index].link;
}

/* Takes the entry out of its queue; what it holds of an instance stays with the caller. */
void engine_queue_remove(struct engine *engine, uint32_t index)
{
    struct entry *entry = &engine->entries[index];
    struct job *job = &engine->jobs[entry->job];
    if (job->first_waiting == index)
        job->first_waiting = entry->next;
    else if (entry->state == ENTRY_READY && job->ready_prefix > 0) /* ready entries leave from the head only */
        job->ready_prefix--;
    if (entry->prev != ENGINE_NONE)
        engine->entries[entry->prev].next = entry->next;
    else
        job->head = entry->next;
    if (entry->next != ENGINE_NONE)
        engine->entries[entry->next].prev = entry->prev;
    else
        job->tail = entry->prev;
    job->queued--;
    job->held_slots--;
    engine_entry_drop(engine, index);
    prefix_advance(engine, job);
}

/* Gives back what an undelivered entry holds: its job has not had the instance after all. */
static void entry_abandon(struct engine *engine, uint32_t index)
{
    struct entry *entry = &engine->entries[index];
    uint32_t instance = entry->instance;
    if (entry->state == ENTRY_UNPLACED) {
        unplaced_remove(engine, &engine->jobs[entry->job], index);
        return;
    }
    engine_clear_had(engine, entry->job, instance);
    bool orphan = false;
    if (entry->state == ENTRY_WAITING) {
        waiter_remove(engine, index);
        orphan = engine->instances[instance].waiters == ENGINE_NONE;
    }
    engine_unpin_instance(engine, instance);
    if (orphan)
        engine_task_cancel_output(engine, instance);
}

void engine_queue_drop_all(struct engine *engine, uint32_t job_index)
{
    struct job *job = &engine->jobs[job_index];
    job->ready_prefix = 0;
    job->first_waiting = ENGINE_NONE;
    for (uint32_t index = job->head, next; index != ENGINE_NONE; index = next) {
        next = engine->entries[index].next;
        entry_abandon(engine, index);
        job->held_slots--;
        engine_entry_drop(engine, index);
    }
    job->head = job->tail = ENGINE_NONE;
    job->queued = 0;
    CHECK(job->unplaced_head == ENGINE_NONE && job->unplaced_tail == ENGINE_NONE);
}

void engine_entry_ready(struct engine *engine, uint32_t index)
{
    struct entry *entry = &engine->entries[index];
    entry->state = ENTRY_READY;
    if (engine->jobs[entry->job].first_waiting == index)
        prefix_advance(engine, &engine->jobs[entry->job]);
}

/* ── placing ── */

/* An instance of the sample that the job may get: one that is ready before one that is being made. */
static uint32_t find_instance(const struct engine *engine, uint32_t job, sample_id id)
{
    uint32_t making = ENGINE_NONE;
    for (uint32_t index = engine->samples[id].instances; index != ENGINE_NONE; index = engine->instances[index].next) {
        const struct instance *instance = &engine->instances[index];
        if (instance->pipeline != engine->jobs[job].pipeline || instance->doomed || jobset_has(&instance->had, job))
            continue;
        if (instance->state == INSTANCE_READY)
            return index;
        making = index;
    }
    return making;
}

/* Gives the entry an instance; false when a new one is needed and there is no room for it now. */
static bool place(struct engine *engine, uint32_t index)
{
    uint32_t job_index = engine->entries[index].job;
    sample_id id = engine->entries[index].id;
    uint32_t instance = find_instance(engine, job_index, id);
    bool fresh = instance == ENGINE_NONE;
    if (fresh) {
        instance = engine_begin_instance(engine, job_index, id);
        if (instance == ENGINE_NONE)
            return false;
    }
    struct entry *entry = &engine->entries[index];
    entry->instance = instance;
    engine_mark_had(engine, job_index, instance);
    residency_pin(engine->prepared, instance);
    if (engine->instances[instance].state == INSTANCE_READY) {
        engine_entry_ready(engine, index);
        return true;
    }
    entry->state = ENTRY_WAITING;
    entry->link = engine->instances[instance].waiters;
    engine->instances[instance].waiters = index;
    if (fresh)
        engine_task_begin(engine, job_index, instance);
    return true;
}

/* With slots of several sizes free space can be in pieces, so that a job does not get all that its quota promises. It goes
 * on with less: its first entry without a place takes that of its last one that is ready and nobody else's. */
static bool take_from_behind(struct engine *engine, struct job *job)
{
    uint32_t first = job->head, at = job->tail;
    while (engine->entries[first].state != ENTRY_UNPLACED)
        first = engine->entries[first].next;
    while (at != first && (engine->entries[at].state != ENTRY_READY || residency_pins(engine->prepared, engine->entries[at].instance) > 1))
        at = engine->entries[at].prev;
    if (at == first)
        return false;
    uint32_t instance = engine->entries[at].instance;
    engine_clear_had(engine, engine->entries[at].job, instance);
    engine_unpin_instance(engine, instance);
    engine_free_instance(engine, instance);
    engine->totals.evicted_prepared++;
    unplaced_append(engine, job, at);
    unplaced_remove(engine, job, first);
    bool placed = place(engine, first);
    if (!placed)
        unplaced_append(engine, job, first);
    return placed;
}

static void place_unplaced(struct engine *engine, struct job *job)
{
    while (job->unplaced_head != ENGINE_NONE) {
        uint32_t index = job->unplaced_head;
        uint32_t next = engine->entries[index].link;
        if (!place(engine, index)) {
            if (!take_from_behind(engine, job))
                return;
            continue;
        }
        job->unplaced_head = next;
        if (next == ENGINE_NONE)
            job->unplaced_tail = ENGINE_NONE;
    }
}

/* ── bad samples ── */

/* Policy `error`, or no substitute found. The entry goes into the unplaced list so that dropping the queue finds it whole. */
static void fail_job(struct engine *engine, uint32_t index, const char *text)
{
    struct entry *entry = &engine->entries[index];
    unplaced_append(engine, &engine->jobs[entry->job], index);
    engine_job_fail(engine, entry->job, entry->id, LARDER_ESAMPLE, text);
}

static void substitute(struct engine *engine, uint32_t index)
{
    struct entry *entry = &engine->entries[index];
    struct job *job = &engine->jobs[entry->job];
    if (entry->substitutes++ == ENGINE_SUBSTITUTES_MAX) {
        fail_job(engine, index, "this sample and every substitute drawn for it are bad: check the dataset");
        return;
    }
    CHECK(idset_select(job->view, random_below(&engine->rng, job->view_samples), &entry->id));
    unplaced_append(engine, job, index); /* placed by the planning that follows */
}

static void skip(struct engine *engine, uint32_t index)
{
    struct job *job = &engine->jobs[engine->entries[index].job];
    job->planned--;
    job->lost++;
    engine_queue_remove(engine, index);
}

/* The entry waited for an instance, which is gone already. */
void engine_entry_bad(struct engine *engine, uint32_t index)
{
    struct job *job = &engine->jobs[engine->entries[index].job];
    job->bad_samples++;
    engine->replan = true;
    if (job->bad_policy == BAD_SKIP)
        skip(engine, index);
    else if (job->bad_policy == BAD_REPLACE)
        substitute(engine, index);
    else
        fail_job(engine, index, "bad sample, and the job's policy is `error`");
}

/* ── rounds ── */

/* Picks the epoch can have in all: whole batches only under drop_last, less what bad samples cost. */
static uint64_t epoch_picks(const struct job *job)
{
    uint64_t picks = job->view_samples - job->lost;
    return job->drop_last ? picks / job->batch_size * job->batch_size : picks;
}

bool engine_plan_left(const struct engine *engine, const struct job *job)
{
    return sampler_remaining(engine->sampler, (unsigned)(job - engine->jobs)) > 0 && job->planned < epoch_picks(job);
}

static bool needs_pick(const struct engine *engine, const struct job *job)
{
    return job->state == JOB_RUNNING && job->held_slots < job->quota_slots && job->unplaced_head == ENGINE_NONE &&
           engine_plan_left(engine, job);
}

static void add_pick(struct engine *engine, uint32_t job_index, sample_id id)
{
    struct job *job = &engine->jobs[job_index];
    uint32_t index = engine_entry_new(engine);
    engine->entries[index] = (struct entry){.state = ENTRY_WAITING, .job = job_index, .instance = ENGINE_NONE, .id = id};
    queue_append(engine, index);
    job->planned++;
    if (!place(engine, index))
        unplaced_append(engine, job, index);
}

static void take_pick(struct engine *engine, const struct pick *pick)
{
    sample_id target[JOBS_MAX];
    engine_redirect(engine, pick, target);
    JOBSET_EACH(job, &pick->jobs)
        add_pick(engine, job, target[job]);
    engine_settle_sample(engine, pick->id);
    JOBSET_EACH(job, &pick->jobs)
        engine_settle_sample(engine, target[job]);
}

/* Rounds go on until no queue has room, or nothing is left to pick. */
void engine_plan(struct engine *engine)
{
    for (uint32_t job = 0; job < engine->jobs_end; job++) {
        if (engine->jobs[job].state == JOB_RUNNING) /* the lists of a free place mean nothing */
            place_unplaced(engine, &engine->jobs[job]);
    }
    for (;;) {
        struct jobset need = {{0}};
        for (uint32_t job = 0; job < engine->jobs_end; job++) {
            if (needs_pick(engine, &engine->jobs[job]))
                jobset_add(&need, job);
        }
        if (jobset_empty(&need))
            return;
        size_t count = sampler_round(engine->sampler, &need, engine->picks);
        CHECK(count > 0);
        for (size_t i = 0; i < count; i++) { /* all have left already: what is begun for one counts no want of the others */
            JOBSET_EACH(job, &engine->picks[i].jobs)
                engine_sample_left(engine, job, engine->picks[i].id);
        }
        for (size_t i = 0; i < count; i++)
            take_pick(engine, &engine->picks[i]);
    }
}
