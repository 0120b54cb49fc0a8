/* plan.c: picks are dealt to the ranks' queues, and entries get instances. */
#include "server/engine/plan.h"

#include <string.h>

#include "common/check.h"
#include "server/engine/encoded.h"
#include "server/engine/prepared.h"
#include "server/engine/queue.h"
#include "server/engine/quota.h"
#include "server/engine/residents.h"
#include "server/engine/tasks.h"

/* Why an entry has its sample: it was drawn now, as are repeats, or it came from the reserve. */
enum source { DRAWN, RESERVED };

/* The most samples drawn in one step. If queues are empty, because jobs come or an epoch begins, drawing all at once
 * would take too long for those that wait for the step's end. */
enum { DEALT_AT_ONCE = 32 };

/* begin_sure begins an instance for a sure entry. If there is no room, loose entries make way: first those that are
 * ready, then those whose task does not run. For a sized one they do so only if that makes room: else they would take
 * their instances again, and give them up again for nothing. */
static uint32_t begin_sure(struct plan *plan, uint32_t job, sample_id id, bool expected)
{
    static const enum entry_state states[] = {ENTRY_READY, ENTRY_WAITING};
    const struct job_terms *terms = &job_at(plan->jobs, job)->terms;
    uint64_t bytes = engine_slot_bytes(&plan->env->config, job_begun_bytes(&plan->env->config, terms, id, expected));
    uint32_t instance = prepared_begin(plan->prepared, job, id, expected);
    if (instance == ENGINE_NONE && terms->sized && !prepared_room_comes(plan->prepared, bytes) &&
        !plan_loosening_helps(plan, bytes))
        return ENGINE_NONE;
    for (size_t i = 0; i < sizeof states / sizeof states[0] && instance == ENGINE_NONE; i++) {
        if (prepared_room_comes(plan->prepared, bytes))
            break;
        plan_loosen(plan, states[i]);
        instance = prepared_begin(plan->prepared, job, id, expected);
    }
    return instance;
}

/* level_of tells where the sample is for which an instance is begun. */
static enum engine_level level_of(const struct encoded_store *store, sample_id id)
{
    return encoded_is_ready(store, id) ? ENGINE_FROM_ENCODED : ENGINE_FROM_READ;
}

/* place gives the entry an instance. It returns false when a new one is needed and there is no room for it now. */
static bool place(struct plan *plan, uint32_t index, bool sure)
{
    uint32_t job_index = plan->queues->entries[index].job;
    sample_id id = plan->queues->entries[index].id;
    bool expected = plan->queues->entries[index].elsewhere;
    uint32_t instance = expected ? ENGINE_NONE : prepared_find(plan->prepared, job_index, id);
    bool fresh = instance == ENGINE_NONE;
    if (fresh) {
        instance = sure ? begin_sure(plan, job_index, id, expected)
                        : prepared_begin(plan->prepared, job_index, id, expected);
        if (instance == ENGINE_NONE)
            return false;
    }
    queue_placed(plan->queues, index, instance);
    plan->queues->entries[index].level = fresh && !expected ? level_of(plan->encoded, id) : ENGINE_FROM_PREPARED;
    prepared_mark_had(plan->prepared, job_index, instance);
    prepared_pin(plan->prepared, instance);
    if (plan->prepared->instances[instance].state == INSTANCE_READY) {
        tasks_entry_ready(plan->tasks, index);
        return true;
    }
    queue_waiter_add(plan->queues, index);
    if (expected)
        tasks_expect(plan->tasks, job_index, instance);
    else if (fresh)
        tasks_begin(plan->tasks, job_index, instance);
    else
        tasks_waiter_joined(plan->tasks, plan->prepared->instances[instance].task, job_index);
    return true;
}

void plan_place(struct plan *plan, const struct job *job, struct job_queue *queue)
{
    if (queue->line.unplaced == 0 || queue->line.no_room_since == plan->prepared->room_changes)
        return;
    uint64_t sure = queue_sure_slots(job, queue), at = 0;
    for (uint32_t index = queue->line.entries.head, next; queue->line.unplaced > 0 && index != ENGINE_NONE;
         index = next, at++) {
        /* an entry that is placed and ready may change places with another rank's */
        next = plan->queues->entries[index].in_line.next;
        if (plan->queues->entries[index].state != ENTRY_UNPLACED)
            continue;
        if (!place(plan, index, at < sure)) {
            queue->line.no_room_since = plan->prepared->room_changes;
            return;
        }
    }
}

/* is_short tells whether more may be planned for the queue, once all its entries are placed. */
static bool is_short(const struct plan *plan, const struct job *job, const struct job_queue *queue)
{
    return (job->zoned || job->terms.sized) && queue->client.presence == RANK_THERE &&
           queue->held_slots < quota_depth_slots(job, queue->rank) && queue_has_more_to_plan(plan->queues, job, queue);
}

/* has_room tells whether more may be planned for the queue now. */
static bool has_room(const struct plan *plan, const struct job *job, const struct job_queue *queue)
{
    return queue->line.unplaced == 0 && is_short(plan, job, queue);
}

/* If the part's share is empty, because the job has more ranks than samples, any sample of the view will do, or of the
 * multiset. */
sample_id plan_any_sample(struct plan *plan, const struct job *job)
{
    const struct idset *away = job->shape.epoch_samples ? job->progress.away : NULL;
    const struct idset *from = job->progress.support ? job->progress.support : job->terms.view;
    sample_id id;
    do
        CHECK(idset_select(from, random_below(&plan->env->rng, idset_count(from)), &id));
    while (away && idset_contains(away, id));
    return id;
}

/* choose_repeat returns a sample to fill up a rank's share: any sample of the epoch. A fixed order repeats as
 * DistributedSampler does: the first samples of the epoch are dealt again, round-robin. Further repeats, needed because
 * samples were bad, follow by ascending id. */
static sample_id choose_repeat(struct plan *plan, const struct job *job, const struct job_queue *queue)
{
    sample_id id;
    const struct engine_part *part = &job->terms.part;
    uint64_t rank = part->first + queue->rank, world = job_all_ranks(job);
    uint64_t samples = part->world_size ? job->progress.draws : job->progress.samples;
    uint64_t position = (rank + world - samples % world) % world % samples;
    if (job->terms.shuffle == SHUFFLE_DEPENDENT)
        return plan_any_sample(plan, job);
    if (queue->epoch.repeats == 0)
        return part->world_size ? sampler_first(plan->env->sampler, job->no, position) : job->progress.first[position];
    position = (position + queue->epoch.repeats) % job->shape.view_samples;
    CHECK(idset_select(job->terms.view, position, &id));
    return id;
}

/* ── rounds ── */

void plan_step(struct plan *plan)
{
    plan->dealt = 0;
}

/* plan_entry adds an entry for the sample to the queue, and places it if there is room. */
static void plan_entry(struct plan *plan, uint32_t job_index, struct job_queue *queue, struct allotted sample,
                       enum source source)
{
    struct job *job = job_at(plan->jobs, job_index);
    uint32_t index = entry_new(plan->queues);
    plan->queues->entries[index] = (struct entry){.state = ENTRY_WAITING,
                                                  .job = job_index,
                                                  .rank = queue->rank,
                                                  .instance = ENGINE_NONE,
                                                  .id = sample.id,
                                                  .turn = sample.turn,
                                                  .number = sample.number,
                                                  .elsewhere = sample.elsewhere,
                                                  .place_in_line = queue->line.numbered,
                                                  .due_in_line = (int64_t)queue->line.numbered,
                                                  .planned_ns = plan->env->now_ns,
                                                  .reserved = source == RESERVED};
    queue->line.numbered++;
    queue_append(plan->queues, index);
    queue->epoch.planned++;
    /* a sized entry is loose behind one without an instance (plan_give_back.c) */
    bool sure = queue->line.queued <= queue_sure_slots(job, queue) && !(job->terms.sized && queue->line.unplaced > 0);
    if (!place(plan, index, sure))
        queue_unplaced(plan->queues, index);
}

/* plan_reserved plans what needs no draw: the samples of reserves, and repeats when nothing is left to draw. */
static void plan_reserved(struct plan *plan, uint32_t job_index)
{
    struct job *job = job_at(plan->jobs, job_index);
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        struct job_queue *queue = &job->queues[rank];
        while (has_room(plan, job, queue)) {
            if (queue_reserve_count(&queue->reserve)) {
                plan_entry(plan, job_index, queue, queue->reserve.samples[queue->reserve.at++], RESERVED);
            } else if (job_left(plan->env, job) == 0 &&
                       !(queue_lost_many(queue) && queue->line.queued > queue->line.ready)) {
                struct allotted repeat = {.id = choose_repeat(plan, job, queue), .turn = SAMPLE_NONE};
                plan_entry(plan, job_index, queue, repeat, DRAWN);
                queue->epoch.repeats++;
                job->progress.repeats++;
            } else {
                break;
            }
        }
    }
}

/* neediest returns the emptiest of the queues that have room, or with `all` of those that are short; NULL when there is
 * none. It gets the next pick. */
static struct job_queue *neediest(const struct plan *plan, const struct job *job, bool all)
{
    struct job_queue *best = NULL;
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        struct job_queue *queue = &job->queues[rank];
        bool fits = all ? is_short(plan, job, queue) : has_room(plan, job, queue);
        if (fits && (!best || queue->held_slots < best->held_slots))
            best = queue;
    }
    return best;
}

void plan_allot(struct job *job, uint64_t position, sample_id id)
{
    struct job_queue *owner = &job->queues[position % job->terms.world_size];
    if (owner->epoch.done) {
        job->progress.abandoned++;
        return;
    }
    owner->epoch.left_from = UINT32_MAX; /* it goes on behind what it had left */
    queue_reserve_add(&owner->reserve,
                      (struct allotted){id, id, .number = (uint32_t)(position / job->terms.world_size)});
}

/* most_in_need returns the rank that a pick of the job is for: the emptiest that has room. */
static struct job_queue *most_in_need(const struct plan *plan, struct job *job)
{
    if (job->terms.world_size == 1)
        return &job->queues[0];
    struct job_queue *queue = neediest(plan, job, false);
    if (!queue) /* since the draw, an entry that was placed has made way for another job's */
        queue = neediest(plan, job, true);
    CHECK(queue); /* otherwise there was no draw for the job */
    return queue;
}

/* deal gives a drawn sample to a rank of the job: as an entry, or in a fixed order into its reserve. */
static void deal(struct plan *plan, uint32_t job_index, sample_id id)
{
    struct job *job = job_at(plan->jobs, job_index);
    uint64_t position = job->progress.drawn++;
    plan->dealt++;
    if (job->terms.world_size == 1 || job->terms.shuffle == SHUFFLE_DEPENDENT) {
        uint32_t number = job->terms.shuffle == SHUFFLE_DEPENDENT ? 0 : (uint32_t)position;
        plan_entry(plan, job_index, most_in_need(plan, job), (struct allotted){id, id, number, false}, DRAWN);
        return;
    }
    if (job->progress.first && position < job->terms.world_size)
        job->progress.first[position] = id;
    plan_allot(job, position, id);
}

/* deal_copies deals copies of a sample to different ranks; if none has room in its share, one to `otherwise`. A rank
 * that has no room now keeps its copy in its reserve. Each stays with its rank: exchange could bring two to one. It
 * returns for how many the shares have no room. */
static uint32_t deal_copies(struct plan *plan, struct job *job, struct allotted sample, uint32_t copies,
                            struct job_queue *otherwise)
{
    bool had[ENGINE_RANKS_MAX] = {false};
    for (struct job_queue *queue; copies > 0 && (queue = plan_next_copy(job, otherwise, had)); copies--) {
        job->progress.drawn++;
        plan->dealt++;
        if (has_room(plan, job, queue) && queue_reserve_count(&queue->reserve) == 0)
            plan_entry(plan, job->no, queue, sample, RESERVED);
        else
            queue_reserve_add(&queue->reserve, sample);
        otherwise = NULL;
    }
    return copies;
}

/* take_copies takes the sample's other draws out of what is left, if they are dealt together. It returns how many. */
static uint32_t take_copies(const struct plan *plan, struct sampler *sampler, uint32_t job, sample_id id)
{
    return job_is_together(job_at(plan->jobs, job)) ? sampler_take_draws(sampler, job, id) : 0;
}

/* deal_all deals a sample that is drawn here, and its copies. */
static void deal_all(struct plan *plan, uint32_t job_index, sample_id id, uint32_t copies)
{
    struct job *job = job_at(plan->jobs, job_index);
    if (!job_is_together(job)) {
        deal(plan, job_index, id);
        return;
    }
    uint32_t left = deal_copies(plan, job, (struct allotted){id, id, 0, false}, copies + 1, most_in_need(plan, job));
    if (left == 0)
        return;
    sampler_put_back(plan->env->sampler, job_index, id, left);
    residents_back(plan->residents, job_index, id);
}

/* take_pick redirects the pick and deals its samples to the jobs. */
static void take_pick(struct plan *plan, const struct pick *pick)
{
    sample_id target[JOBS_MAX];
    uint32_t copies[JOBS_MAX];
    plan_redirect(plan, pick, target);
    JOBSET_EACH(job, &pick->jobs) {
        copies[job] = take_copies(plan, plan->env->sampler, job, target[job]);
        if (!sampler_wants(plan->env->sampler, job, target[job]))
            residents_left(plan->residents, job, target[job]);
    }
    JOBSET_EACH(job, &pick->jobs)
        deal_all(plan, job, target[job], copies[job]);
    encoded_drop_if_idle(plan->encoded, pick->id);
    JOBSET_EACH(job, &pick->jobs)
        encoded_drop_if_idle(plan->encoded, target[job]);
}

/* plan_elsewhere plans samples that are elsewhere, until the job's next sample is one of here. */
static void plan_elsewhere(struct plan *plan, struct job *job)
{
    struct job_queue *queue;
    while (job_left_elsewhere(plan->env, job) && (queue = neediest(plan, job, false)) &&
           plan_goes_elsewhere(plan, job)) {
        sample_id id = plan_draw_elsewhere(plan, job->no);
        struct allotted sample = {id, id, 0, true};
        if (!job_is_together(job)) {
            job->progress.drawn++;
            plan_entry(plan, job->no, queue, sample, DRAWN);
            continue;
        }
        uint32_t copies = 1 + take_copies(plan, plan->env->elsewhere, job->no, id);
        uint32_t left = deal_copies(plan, job, sample, copies, queue);
        sampler_put_back(plan->env->elsewhere, job->no, id, left);
        plan_set_whole(job, id, left ? 0 : copies);
    }
}

/* find_need plans what needs no draw of a round, and leaves those of the jobs in the set that need one. A job that
 * needed none before a round needs none after it: rounds only fill queues. */
static void find_need(struct plan *plan, struct jobset *need)
{
    JOBSET_EACH(job, need) {
        plan_reserved(plan, job);
        plan_elsewhere(plan, job_at(plan->jobs, job));
        if (sampler_remaining(plan->env->sampler, job) == 0 || !neediest(plan, job_at(plan->jobs, job), false))
            jobset_remove(need, job);
    }
}

static struct jobset running(const struct jobs *jobs)
{
    struct jobset set = {{0}};
    for (uint32_t job = 0; job < jobs->end; job++) {
        if (job_at(jobs, job)->state == JOB_RUNNING)
            jobset_add(&set, job);
    }
    return set;
}

/* place_all places the UNPLACED entries of all running jobs, as far as there is room. */
static void place_all(struct plan *plan)
{
    for (uint32_t job = 0; job < plan->jobs->end; job++) {
        for (uint32_t rank = 0;
             job_at(plan->jobs, job)->state == JOB_RUNNING && rank < job_at(plan->jobs, job)->terms.world_size; rank++)
            plan_place(plan, job_at(plan->jobs, job), &job_at(plan->jobs, job)->queues[rank]);
    }
}

/* Entries are placed before the first round and after the last one. */
void plan_round(struct plan *plan)
{
    place_all(plan);
    for (struct jobset need = running(plan->jobs);;) {
        find_need(plan, &need);
        plan->goes_on = !jobset_empty(&need) && plan->dealt >= DEALT_AT_ONCE;
        if (jobset_empty(&need) || plan->goes_on)
            break;
        size_t count = sampler_round(plan->env->sampler, &need, plan->picks);
        CHECK(count > 0);
        for (size_t i = 0; i < count; i++)
            take_pick(plan, &plan->picks[i]);
    }
    place_all(plan); /* An entry that a round found no room for may find some here; no event need follow. */
}
