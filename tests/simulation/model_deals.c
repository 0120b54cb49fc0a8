/* model_deals.c: what each rank of a job gets: its share in batches of the same number, of a fixed order exactly its
 * part, nothing that another rank has had but for repeats that a share needs, and again what it held when it went. */
#include <stdlib.h>

#include "common/check.h"
#include "tests/simulation/model_priv.h"

#define REPEATS_TRIED_MAX 2 /* times the view: so many repeats may have failed one after the other */

void model_ranks_release(struct model *model, struct job_book *job, const struct engine_event *event)
{
    struct rank_book *rank = &job->ranks[event->rank];
    for (uint32_t i = 0; i < rank->n_held; i++) {
        if (rank->held[i].batch == event->release.batch) {
            model_let_go(model, rank->held, &rank->n_held, &rank->held_bytes, i);
            if (!job->failed)
                model_ranks_through(model, job, event->release.job);
            return;
        }
    }
    model->unknown_releases++;
}

/* ── what comes again ── */

static int compare_held(const void *a, const void *b)
{
    uint64_t x = ((const struct held_batch *)a)->batch, y = ((const struct held_batch *)b)->batch;
    return (x > y) - (x < y);
}

void model_ranks_forget_owed(struct job_book *job, struct rank_book *rank)
{
    for (uint32_t i = 0; i < rank->n_back; i++)
        job->book.distinct -= --job->book.times[rank->back[i]] < model_due(job, rank->back[i]);
    job->owed -= rank->n_back;
    rank->n_back = 0;
}

/* A batch is not had after all. Its samples stay the rank's own: `times` still counts them. */
static uint32_t owe(struct model *model, struct job_book *job, struct rank_book *rank, const struct held_batch *held,
                    sample_id *ids)
{
    for (uint32_t i = 0; i < held->count; i++) {
        ids[i] = held->made[i]->id;
        *table_at(&model->had, (uint64_t)job->serial << 32 | held->made[i]->serial) = 0;
    }
    job->book.delivered -= held->count;
    job->owed += held->count;
    job->book.put_back = true;
    rank->kept -= held->count;
    rank->batches--;
    if (held->count > 0 && rank->through) {
        rank->through = false;
        rank->order_over = job->plan->drop_last; /* what was dealt to it while it was through is nobody's */
    }
    return held->count;
}

void model_ranks_put_back(struct model *model, struct job_book *job, struct rank_book *rank, bool comes_again)
{
    uint32_t back = 0;
    sample_id *ids = xcalloc((size_t)job->plan->n_draws + job->plan->world_size, sizeof *ids);
    if (rank->n_held)
        qsort(rank->held, rank->n_held, sizeof *rank->held, compare_held);
    for (uint32_t i = 0; i < rank->n_held; i++) {
        struct held_batch *held = &rank->held[i];
        if (comes_again && held->epoch == job->epoch)
            back += owe(model, job, rank, held, ids + back);
        for (uint32_t k = 0; k < held->count; k++)
            held->made[k]->held--;
        free(held->made);
    }
    for (uint32_t i = 0; i < rank->n_back; i++)
        ids[back++] = rank->back[i];
    free(rank->back);
    rank->back = ids;
    rank->n_back = back;
    rank->n_held = 0;
    rank->held_bytes = 0;
}

static void remove_owed(struct job_book *job, struct rank_book *rank, uint32_t at)
{
    for (uint32_t i = at + 1; i < rank->n_back; i++)
        rank->back[i - 1] = rank->back[i];
    rank->n_back--;
    job->owed--;
}

/* ── order ── */

/* A rank's part of a fixed order, and then the repeats that DistributedSampler has; further ones, which bad samples
 * make necessary, follow by ascending id. */
static sample_id due_at(const struct job_book *job, uint32_t number, uint32_t due)
{
    const struct client_plan *plan = job->plan;
    uint32_t world = plan->world_size, samples = job->book.n;
    uint32_t own = samples > number ? (samples - number + world - 1) / world : 0;
    if (due < own)
        return job->book.order[number + due * world];
    uint32_t first = (number + world - samples % world) % world % samples;
    return due == own ? job->book.order[first] : plan->view[(first + due - own) % plan->n_view];
}

/* The sample is not the one that is due: has that one failed? Under `replace` this is then its substitute, and no more
 * is passed over; under `skip` the next one is due. */
static bool passes_over(struct model *model, const struct job_book *job, uint32_t place, sample_id due, sample_id id)
{
    if (model_excused(model, job, due) && job->plan->bad_policy != BAD_ERROR)
        return true;
    model_break(model, RULE_ORDER, "a rank of %u of job %u gets sample %u of epoch %u, due is %u",
                job->plan->world_size, place, id, job->epoch, due);
    return false;
}

/* What a rank is owed comes first, in order; true when the sample is of that, or takes the place of one that failed. */
static bool take_owed_in_order(struct model *model, struct job_book *job, struct rank_book *rank, uint32_t place,
                               sample_id id, bool *owed)
{
    while (rank->n_back > 0) {
        sample_id due = rank->back[0];
        *owed = due == id;
        if (!*owed && !passes_over(model, job, place, due, id))
            return true;
        remove_owed(job, rank, 0);
        if (*owed)
            return true;
        job->book.distinct -= --job->book.times[due] < model_due(job, due);
        if (job->plan->bad_policy == BAD_REPLACE)
            return true;
    }
    return false;
}

static void check_due(struct model *model, const struct job_book *job, struct rank_book *rank, uint32_t place,
                      sample_id id)
{
    uint32_t number = (uint32_t)(rank - job->ranks), limit = rank->due + (REPEATS_TRIED_MAX + 1) * job->plan->n_view;
    while (rank->due < limit) {
        sample_id due = due_at(job, number, rank->due++);
        if (due == id || !passes_over(model, job, place, due, id) || job->plan->bad_policy == BAD_REPLACE)
            return;
    }
    model_break(model, RULE_ORDER, "rank %u of job %u gets sample %u of epoch %u, which never was due", number, place,
                id, job->epoch);
}

/* Does the sample come because the rank held it when it went? */
static bool is_owed(struct model *model, struct job_book *job, struct rank_book *rank, uint32_t place, sample_id id)
{
    bool owed = false;
    if (job->book.order || job->plan->ordered) {
        if (!take_owed_in_order(model, job, rank, place, id, &owed) && job->book.order && !rank->order_over)
            check_due(model, job, rank, place, id);
        return owed;
    }
    for (uint32_t i = 0; i < rank->n_back && !owed; i++) {
        owed = rank->back[i] == id;
        if (owed)
            remove_owed(job, rank, i);
    }
    return owed;
}

/* ── batches ── */

/* Repeats fill shares up, because the view is not a multiple of them or because samples were bad. In a fixed order what
 * a bad sample leaves open is filled up even when another rank has samples to spare. */
static void check_again(struct model *model, const struct job_book *job, uint32_t place, sample_id id)
{
    const struct client_plan *plan = job->plan;
    uint64_t again = job->book.delivered + job->owed - job->book.distinct;
    uint64_t shares = (uint64_t)model_ranks_share(job) * plan->world_size;
    uint64_t excused = model_count_excused(model, job);
    uint64_t allowed = shares + excused > job->book.n ? shares + excused - job->book.n : 0;
    if (plan->bad_policy == BAD_REPLACE || job->book.order)
        allowed = excused + (shares > job->book.n ? shares - job->book.n : 0);
    if (again > allowed && !job->book.restored)
        model_break(model, RULE_EXACTLY_ONCE, "job %u gets sample %u again in epoch %u", place, id, job->epoch);
}

static bool any_left(const struct job_book *job)
{
    bool left = false;
    for (uint32_t i = 0; i < job->plan->world_size; i++)
        left = left || job->ranks[i].left;
    return left;
}

/* Copies that are dealt together come to different ranks, and to none again before all have one. Those that come after
 * a rank has left the epoch need not, nor need those that come under drop_last in the place of a bad sample. */
static void check_apart(struct model *model, const struct job_book *job, struct rank_book *rank, uint32_t place,
                        sample_id id)
{
    const struct client_plan *plan = job->plan;
    if (!plan->multiset || !multiset_is_together(plan->multiset) || any_left(job) ||
        (plan->drop_last && model_count_excused(model, job) > 0))
        return;
    if (++rank->times[id] > (model_due(job, id) + plan->world_size - 1) / plan->world_size)
        model_break(model, RULE_EXACTLY_ONCE, "rank %u of job %u gets %u copies of sample %u in epoch %u, of %u",
                    (uint32_t)(rank - job->ranks), place, rank->times[id], id, job->epoch, model_due(job, id));
}

static struct made *check_entry(struct model *model, struct job_book *job, struct rank_book *rank, uint32_t place,
                                const struct engine_entry *entry)
{
    struct made *made = model_made_at(model, entry->offset, entry->bytes);
    if (made == NULL || made->state != MADE_DONE || made->id != entry->id || made->pipeline != job->plan->pipeline) {
        model_break(model, RULE_BYTES, "job %u gets sample %u from %llu+%llu, where something else is", place,
                    entry->id, (unsigned long long)entry->offset, (unsigned long long)entry->bytes);
        return NULL;
    }
    model_check_had(model, job, place, made);
    model_check_variant(model, job, place, made);
    if (entry->id >= model->scenario->n_samples || !job->in_view[entry->id]) {
        model_break(model, RULE_EXACTLY_ONCE, "job %u gets sample %u, which is not in its view", place, entry->id);
        return NULL;
    }
    bool owed = is_owed(model, job, rank, place, entry->id);
    rank->kept++;
    job->book.delivered++;
    if (owed)
        return made;
    model_take_turn(model, job, place, entry);
    if (entry->turn == entry->id)
        check_apart(model, job, rank, place, entry->id);
    if (job->book.times[entry->id]++ < model_due(job, entry->id))
        job->book.distinct++;
    else
        check_again(model, job, place, entry->id);
    return made;
}

static void check_batch(struct model *model, const struct job_book *job, const struct rank_book *rank,
                        const struct engine_action *action)
{
    const struct client_plan *plan = job->plan;
    uint32_t count = action->deliver.count, n_batches = rank->n_batches, place = action->job;
    uint64_t *seen = table_at(&model->batches, (uint64_t)job->serial << 40 | action->deliver.batch);
    if ((*seen)++)
        model_break(model, RULE_BATCH, "job %u gets batch %llu twice", place,
                    (unsigned long long)action->deliver.batch);
    if (rank->n_held >= job->held_max)
        model_break(model, RULE_HELD, "rank %u of job %u gets a batch while it holds %u of at most %u", action->rank,
                    place, rank->n_held, job->held_max);
    if (rank->empty_last && action->deliver.epoch == rank->last_empty && count == 0 && action->deliver.last)
        return;
    if (action->deliver.epoch != job->epoch || job->epoch != rank->epoch || rank->credits == 0 || rank->through)
        model_break(model, RULE_CREDIT,
                    "rank %u of job %u gets a batch of epoch %u; the job is in %u, the rank in %u%s with %llu credits",
                    action->rank, place, action->deliver.epoch, job->epoch, rank->epoch,
                    rank->through ? ", which is over," : "", (unsigned long long)rank->credits);
    if (action->deliver.index != rank->batches || rank->batches >= n_batches)
        model_break(model, RULE_BATCH, "rank %u of job %u gets batch %u of epoch %u, due is %u of %u", action->rank,
                    place, action->deliver.index, job->epoch, rank->batches, n_batches);
    if (count > plan->batch_size || (count < plan->batch_size && !action->deliver.last))
        model_break(model, RULE_BATCH, "rank %u of job %u gets %u samples in a batch%s of %u", action->rank, place,
                    count, action->deliver.last ? ", the last," : "", plan->batch_size);
}

/* The rank has had its share. What it was owed and did not get has failed. */
static void had_share(struct model *model, struct job_book *job, struct rank_book *rank, uint32_t place)
{
    uint32_t number = (uint32_t)(rank - job->ranks), share = rank->share;
    for (uint32_t i = 0; i < rank->n_back; i++)
        if (!model_excused(model, job, rank->back[i]))
            model_break(model, RULE_EXACTLY_ONCE, "rank %u of job %u never got sample %u of epoch %u back", number,
                        place, rank->back[i], job->epoch);
    model_ranks_forget_owed(job, rank);
    rank->through = true;
    rank->credits = 0;
    if (rank->kept != share || rank->batches != rank->n_batches)
        model_break(model, RULE_EXACTLY_ONCE,
                    "rank %u of job %u ended epoch %u with %u samples in %u batches, its share is %u in %u", number,
                    place, job->epoch, rank->kept, rank->batches, share, rank->n_batches);
    model_ranks_through(model, job, place);
}

/* A rank holds no more than its part of the job's quota. Ranks of a sized job share it, as the largest samples may all
 * be one rank's. */
static void check_held_bytes(struct model *model, const struct engine_action *action, const struct job_book *job,
                             const struct rank_book *rank)
{
    bool shared = model->scenario->sized >> job->plan->pipeline & 1;
    uint64_t part = job->quota_bytes / (shared ? 1 : job->plan->world_size), held = rank->held_bytes;
    for (uint32_t i = 0; shared && i < job->plan->world_size; i++)
        held += &job->ranks[i] == rank ? 0 : job->ranks[i].held_bytes;
    if (held > part)
        model_break(model, RULE_HELD, "rank %u of job %u: %llu bytes are held, %llu of the quota may be", action->rank,
                    action->job, (unsigned long long)held, (unsigned long long)part);
}

static void take_batch(struct model *model, struct job_book *job, struct rank_book *rank,
                       const struct engine_action *action)
{
    struct held_batch held = {.batch = action->deliver.batch,
                              .epoch = action->deliver.epoch,
                              .made = xcalloc(action->deliver.count + 1, sizeof *held.made)};
    for (uint32_t i = 0; i < action->deliver.count; i++) {
        struct made *made = check_entry(model, job, rank, action->job, &action->deliver.entries[i]);
        if (made == NULL)
            break;
        made->held++;
        rank->held_bytes += made->bytes;
        held.made[held.count++] = made;
    }
    check_held_bytes(model, action, job, rank);
    rank->held = xrealloc(rank->held, rank->n_held + 1, sizeof *rank->held);
    rank->held[rank->n_held++] = held;
}

void model_ranks_deliver(struct model *model, struct job_book *job, const struct engine_action *action)
{
    struct rank_book *rank = action->rank < job->plan->world_size ? &job->ranks[action->rank] : NULL;
    if (rank == NULL || !rank->there || action->client != rank->client) {
        model_break(model, RULE_JOB, "a batch for rank %u of job %u, which is not there", action->rank, action->job);
        return;
    }
    check_batch(model, job, rank, action);
    if (model->broken != RULE_NONE)
        return;
    take_batch(model, job, rank, action);
    job->delivered += action->deliver.count;
    job->batches++;
    model->delivered += action->deliver.count;
    rank->batches += action->deliver.epoch == job->epoch; /* an empty LAST can be of the one before */
    if (action->deliver.last) {
        rank->had_last = true;
        rank->last_epoch = action->deliver.epoch;
    }
    if (rank->empty_last) {
        rank->empty_last = false;
        return;
    }
    rank->credits--;
    if (action->deliver.last && action->deliver.lost > rank->lost + model_count_excused(model, job))
        model_break(model, RULE_BAD, "rank %u of job %u is told that %llu samples of epoch %u are lost", action->rank,
                    action->job, (unsigned long long)action->deliver.lost, job->epoch);
    if (action->deliver.last)
        had_share(model, job, rank, action->job);
}

/* ── what sabotage looks for ── */

static const struct job_book *ranks_of(const struct model *model, uint32_t place)
{
    const struct job_book *job = place < JOBS_MAX ? model->jobs[place] : NULL;
    return job && job->ranks && job->started && !job->over && !job->failed ? job : NULL;
}

bool model_has_ranks(const struct model *model, uint32_t place)
{
    return place < JOBS_MAX && model->jobs[place] && model->jobs[place]->ranks;
}

const struct client_plan *model_clean_ranks(const struct model *model, uint32_t place)
{
    const struct job_book *job = ranks_of(model, place);
    for (uint32_t i = 0; job && i < model->scenario->n_clients; i++) {
        const struct client_plan *plan = &model->scenario->clients[i];
        bool steady = plan->vanish_ns == SCENARIO_NEVER && plan->break_percent == 0 && plan->mischief_percent == 0;
        if (plan->world_size > 1 && plan->seed == job->plan->seed && !steady)
            return NULL;
    }
    return job && model_count_excused(model, job) == 0 ? job->plan : NULL;
}

static bool may_have(const struct job_book *job, const struct rank_book *rank, uint32_t batches)
{
    return rank->there && !rank->through && rank->epoch == job->epoch && rank->credits >= batches &&
           rank->n_held + batches <= job->held_max;
}

bool model_other_rank(const struct model *model, uint32_t place, uint32_t number, struct model_rank *other)
{
    const struct job_book *job = ranks_of(model, place);
    for (uint32_t i = 0; job && i < job->plan->world_size; i++) {
        const struct rank_book *rank = &job->ranks[i];
        if (i == number || !may_have(job, rank, 1))
            continue;
        *other = (struct model_rank){
            .rank = i, .index = rank->batches, .client = rank->client, .last = rank->batches + 1 >= rank->n_batches};
        return true;
    }
    return false;
}

bool model_may_have_more(const struct model *model, uint32_t place, uint32_t rank)
{
    const struct job_book *job = ranks_of(model, place);
    return job && may_have(job, &job->ranks[rank], 2);
}

bool model_others_sample(const struct model *model, uint32_t place, struct engine_entry *entry)
{
    const struct job_book *job = ranks_of(model, place);
    for (size_t i = 0; job && i < model->n_arena; i++) {
        const struct made *made = model->arena[i];
        uint64_t key = (uint64_t)job->serial << 32 | made->serial;
        if (made->state != MADE_DONE || made->pipeline != job->plan->pipeline || made->variant != job->plan->variant ||
            job->book.times[made->id] == 0 || *table_at((struct table *)&model->had, key))
            continue;
        *entry = (struct engine_entry){.offset = made->offset, .bytes = made->bytes, .id = made->id};
        return true;
    }
    return false;
}

bool model_is_owed(const struct model *model, uint32_t place, uint32_t number)
{
    const struct job_book *job = ranks_of(model, place);
    const struct rank_book *rank = job && number < job->plan->world_size ? &job->ranks[number] : NULL;
    const struct client_plan *plan = rank ? &model->scenario->clients[rank->client] : NULL;
    return rank && rank->n_back > 0 && plan->break_percent == 0 && plan->mischief_percent == 0;
}
