/* model_ranks.c: the books of jobs with several ranks: what engine.h promises them.
 *
 * The union of what the ranks keep in an epoch is the view once, and repeats only where a share could not be filled up
 * otherwise; every rank keeps its share, in batches of the same number; what one held when it went comes again. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "tests/simulation/model_priv.h"
#include "tests/simulation/solo.h"

static uint32_t share_of(const struct client_plan *plan)
{
    uint32_t share = (plan->n_view + (plan->drop_last ? 0 : plan->world_size - 1)) / plan->world_size;
    return plan->drop_last ? share / plan->batch_size * plan->batch_size : share;
}

uint32_t model_ranks_batches(const struct client_plan *plan)
{
    return (share_of(plan) + plan->batch_size - 1) / plan->batch_size;
}

void model_ranks_book(struct model *model, struct job_book *job)
{
    job->ranks = calloc(job->plan->world_size, sizeof *job->ranks);
    job->over_step = model->step;
    for (uint32_t rank = 0; rank < job->plan->world_size; rank++)
        job->ranks[rank].back = calloc(job->plan->n_view + job->plan->world_size, sizeof(sample_id));
}

void model_ranks_attach(struct model *model, struct job_book *job, const struct engine_action *action)
{
    if (action->job_added.held_max != job->held_max)
        model_break(model, RULE_HELD, "rank %u of job %u may hold %u batches, the job's ranks may hold %u", action->rank,
                    action->job, action->job_added.held_max, job->held_max);
    struct rank_book *rank = &job->ranks[action->rank];
    job->gone = false;
    rank->there = true;
    rank->client = action->client;
}

static void free_held(struct rank_book *rank)
{
    while (rank->n_held)
        free(rank->held[--rank->n_held].made);
    rank->held_bytes = 0;
}

void model_ranks_free(struct job_book *job)
{
    for (uint32_t i = 0; job->ranks && i < job->plan->world_size; i++) {
        free_held(&job->ranks[i]);
        free(job->ranks[i].held);
        free(job->ranks[i].back);
    }
    free(job->ranks);
}

static uint32_t count_excused(const struct model *model, const struct job_book *job)
{
    uint32_t excused = 0;
    for (uint32_t i = 0; i < job->plan->n_view; i++)
        excused += model_excused(model, job, job->plan->view[i]);
    return excused;
}

/* ── epochs ── */

static void begin_epoch(struct model *model, struct job_book *job, uint32_t epoch)
{
    job->started = true;
    job->over = false;
    job->epoch = epoch;
    memset(job->book.times, 0, model->scenario->n_samples * sizeof *job->book.times);
    job->book = (struct epoch_book){.begun_step = job->over_step, .times = job->book.times};
    free(job->strict_order);
    job->strict_order = NULL;
    if (job->plan->shuffle == SHUFFLE_NONE)
        job->book.order = job->plan->order;
    else if (job->plan->shuffle == SHUFFLE_STRICT)
        job->book.order = job->strict_order = solo_order(model->scenario, job->plan, epoch);
    for (uint32_t i = 0; i < job->plan->world_size; i++) {
        struct rank_book *rank = &job->ranks[i];
        rank->kept = rank->batches = rank->n_back = rank->back_at = 0;
        rank->due = i;
        rank->order_over = false;
        rank->left = rank->through = rank->asked && rank->epoch > epoch; /* it left this one out */
    }
}

/* The lowest epoch that a rank waits for begins when the one before is over. */
static void begin_if_due(struct model *model, struct job_book *job)
{
    const struct rank_book *first = NULL;
    for (uint32_t i = 0; i < job->plan->world_size; i++) {
        const struct rank_book *rank = &job->ranks[i];
        if (rank->asked && (!job->started || rank->epoch > job->epoch) && (!first || rank->epoch < first->epoch))
            first = rank;
    }
    if (first && (!job->started || job->over))
        begin_epoch(model, job, first->epoch);
}

/* The epoch is over when every rank is through with it; then all of the view has come, unless some rank left early. */
static void check_over(struct model *model, struct job_book *job, uint32_t place)
{
    const struct client_plan *plan = job->plan;
    bool left = false;
    for (uint32_t i = 0; i < plan->world_size; i++) {
        if (!job->ranks[i].through)
            return;
        left = left || job->ranks[i].left;
    }
    if (job->over)
        return;
    job->over = true;
    job->over_step = model->step;
    uint32_t missing = 0, excused = 0;
    for (uint32_t i = 0; i < plan->n_view; i++) {
        missing += job->book.times[plan->view[i]] == 0;
        excused += job->book.times[plan->view[i]] == 0 && model_excused(model, job, plan->view[i]);
    }
    if (!plan->drop_last && !left && missing > excused)
        model_break(model, RULE_EXACTLY_ONCE, "job %u ended epoch %u without %u samples of its %u, %u of them bad", place,
                    job->epoch, missing, plan->n_view, excused);
    if (!plan->drop_last && !left && missing && plan->bad_policy == BAD_ERROR)
        model_break(model, RULE_BAD, "job %u ended epoch %u without %u samples, which its policy forbids", place, job->epoch,
                    missing);
}

void model_ranks_next(struct model *model, struct job_book *job, const struct engine_event *event)
{
    struct rank_book *rank = &job->ranks[event->rank];
    uint32_t epoch = event->next.epoch;
    if (job->failed || !rank->there)
        return;
    if (job->plan->epochs && epoch >= job->plan->epochs) {
        rank->beyond_end++;
        return;
    }
    rank->lagged = rank->lagged || epoch < job->max_asked;
    if (epoch > job->max_asked)
        job->max_asked = epoch;
    if (!rank->asked || epoch > rank->epoch) {
        rank->asked = true;
        rank->epoch = epoch;
        rank->credits = 0;
        if (job->started && epoch > job->epoch && !rank->through) {
            rank->through = rank->left = true;
            check_over(model, job, event->next.job);
        }
        begin_if_due(model, job);
    }
    if (epoch == rank->epoch && !(job->started && epoch == job->epoch && rank->through))
        rank->credits += event->next.credits;
}

/* ── batches ── */

static void let_go(struct model *model, struct rank_book *rank, struct held_batch *held)
{
    for (uint32_t i = 0; i < held->count; i++) {
        struct made *made = held->made[i];
        if (made->state != MADE_DONE || model_made_at(model, made->offset, made->bytes) != made)
            model_break(model, RULE_BYTES, "at its RELEASE the slot of sample %u holds something else", made->id);
        made->held--;
        rank->held_bytes -= made->bytes;
    }
    free(held->made);
    *held = rank->held[--rank->n_held];
}

void model_ranks_release(struct model *model, struct job_book *job, const struct engine_event *event)
{
    struct rank_book *rank = &job->ranks[event->rank];
    for (uint32_t i = 0; i < rank->n_held; i++) {
        if (rank->held[i].batch == event->release.batch) {
            let_go(model, rank, &rank->held[i]);
            return;
        }
    }
    model->unknown_releases++;
}

static int compare_held(const void *a, const void *b)
{
    uint64_t x = ((const struct held_batch *)a)->batch, y = ((const struct held_batch *)b)->batch;
    return (x > y) - (x < y);
}

/* What it held of the running epoch was not had, and comes again first, unless it went on to a later epoch itself. */
void model_ranks_gone(struct model *model, struct job_book *job, uint32_t number)
{
    struct rank_book *rank = &job->ranks[number];
    uint32_t back = 0;
    sample_id *ids = calloc((size_t)job->plan->n_view + job->plan->world_size, sizeof *ids);
    if (rank->n_held)
        qsort(rank->held, rank->n_held, sizeof *rank->held, compare_held);
    for (uint32_t i = 0; i < rank->n_held; i++) {
        struct held_batch *held = &rank->held[i];
        bool put_back = job->started && !job->over && !job->failed && held->epoch == job->epoch && rank->epoch == job->epoch;
        for (uint32_t k = 0; k < held->count; k++) {
            struct made *made = held->made[k];
            made->held--;
            if (!put_back)
                continue;
            ids[back++] = made->id;
            --*table_at(&model->had, (uint64_t)job->serial << 32 | made->serial);
            job->book.distinct -= --job->book.times[made->id] == 0;
            job->book.delivered--;
            rank->kept--;
        }
        rank->batches -= put_back;
        if (put_back && held->count)
            rank->through = false;
    }
    for (uint32_t at = rank->back_at; at < rank->n_back; at++)
        ids[back++] = rank->back[at];
    free(rank->back);
    rank->back = ids;
    rank->back_at = 0;
    rank->n_back = back;
    free_held(rank);
    rank->there = rank->asked = false;
    rank->credits = 0;
    job->gone = true;
    for (uint32_t i = 0; i < job->plan->world_size; i++)
        job->gone = job->gone && !job->ranks[i].there;
}

static bool check_batch(struct model *model, const struct job_book *job, const struct rank_book *rank,
                        const struct engine_action *action)
{
    const struct client_plan *plan = job->plan;
    uint32_t count = action->deliver.count, n_batches = job->n_batches ? job->n_batches : 1;
    uint64_t *seen = table_at(&model->batches, (uint64_t)job->serial << 40 | action->deliver.batch);
    if ((*seen)++)
        model_break(model, RULE_BATCH, "job %u gets batch %llu twice", action->job, (unsigned long long)action->deliver.batch);
    if (action->deliver.epoch != job->epoch || job->epoch != rank->epoch || rank->credits == 0 || rank->through)
        model_break(model, RULE_CREDIT, "rank %u of job %u gets a batch of epoch %u; the job is in %u, the rank in %u%s with "
                    "%llu credits", action->rank, action->job, action->deliver.epoch, job->epoch, rank->epoch,
                    rank->through ? ", which is over," : "", (unsigned long long)rank->credits);
    if (rank->n_held >= job->held_max)
        model_break(model, RULE_HELD, "rank %u of job %u gets a batch while it holds %u of at most %u", action->rank, action->job,
                    rank->n_held, job->held_max);
    if (action->deliver.index != rank->batches || rank->batches >= n_batches)
        model_break(model, RULE_BATCH, "rank %u of job %u gets batch %u of epoch %u, due is %u of %u", action->rank, action->job,
                    action->deliver.index, job->epoch, rank->batches, n_batches);
    if (count > plan->batch_size || (count < plan->batch_size && !action->deliver.last))
        model_break(model, RULE_BATCH, "rank %u of job %u gets %u samples in a batch%s of %u", action->rank, action->job, count,
                    action->deliver.last ? ", the last," : "", plan->batch_size);
    return model->broken == RULE_NONE;
}

/* Repeats fill shares up, because the view is not a multiple of them or because samples were bad. In a fixed order what a
 * bad sample leaves open is filled up even when another rank has samples to spare. */
static void check_again(struct model *model, const struct job_book *job, uint32_t place, sample_id id)
{
    const struct client_plan *plan = job->plan;
    uint64_t again = job->book.delivered - job->book.distinct;
    uint64_t shares = (uint64_t)share_of(plan) * plan->world_size, excused = count_excused(model, job);
    uint64_t allowed = shares + excused > plan->n_view ? shares + excused - plan->n_view : 0;
    if (plan->bad_policy == BAD_REPLACE || job->book.order)
        allowed = excused + (shares > plan->n_view ? shares - plan->n_view : 0);
    if (again > allowed)
        model_break(model, RULE_EXACTLY_ONCE, "job %u gets sample %u again in epoch %u", place, id, job->epoch);
}

static void check_order(struct model *model, struct job_book *job, struct rank_book *rank, uint32_t place, sample_id id)
{
    const struct client_plan *plan = job->plan;
    if (job->book.order == NULL || rank->order_over)
        return;
    while (rank->back_at < rank->n_back) {
        if (rank->back[rank->back_at++] == id)
            return;
        if (!model_excused(model, job, rank->back[rank->back_at - 1]))
            model_break(model, RULE_ORDER, "job %u gets sample %u, due again is %u", place, id, rank->back[rank->back_at - 1]);
        rank->order_over |= plan->bad_policy == BAD_REPLACE;
        if (rank->order_over)
            return;
    }
    while (rank->due < plan->n_view && job->book.order[rank->due] != id) {
        if (!model_excused(model, job, job->book.order[rank->due])) {
            model_break(model, RULE_ORDER, "a rank of %u of job %u gets sample %u of epoch %u, due is %u", plan->world_size, place, id,
                        job->epoch, job->book.order[rank->due]);
            return;
        }
        rank->order_over |= plan->bad_policy == BAD_REPLACE;
        if (rank->order_over)
            return;
        rank->due += plan->world_size;
    }
    if (rank->due >= plan->n_view && count_excused(model, job) == 0 &&
        job->book.order[(rank->due - plan->n_view) % plan->n_view] != id)
        model_break(model, RULE_ORDER, "job %u repeats sample %u in epoch %u, DistributedSampler has %u", place, id, job->epoch,
                    job->book.order[(rank->due - plan->n_view) % plan->n_view]);
    rank->due += plan->world_size;
}

static struct made *check_entry(struct model *model, struct job_book *job, struct rank_book *rank, uint32_t place,
                                const struct engine_entry *entry)
{
    struct made *made = model_made_at(model, entry->offset, entry->bytes);
    if (made == NULL || made->state != MADE_DONE || made->id != entry->id || made->pipeline != job->plan->pipeline) {
        model_break(model, RULE_BYTES, "job %u gets sample %u from %llu+%llu, where something else is", place, entry->id,
                    (unsigned long long)entry->offset, (unsigned long long)entry->bytes);
        return NULL;
    }
    uint64_t *had = table_at(&model->had, (uint64_t)job->serial << 32 | made->serial);
    if ((*had)++)
        model_break(model, RULE_INSTANCE, "job %u gets instance %llu of sample %u twice", place,
                    (unsigned long long)made->instance, made->id);
    if (entry->id >= model->scenario->n_samples || !job->in_view[entry->id]) {
        model_break(model, RULE_EXACTLY_ONCE, "job %u gets sample %u, which is not in its view", place, entry->id);
        return NULL;
    }
    check_order(model, job, rank, place, entry->id);
    rank->kept++;
    job->book.delivered++;
    if (job->book.times[entry->id]++ == 0)
        job->book.distinct++;
    else
        check_again(model, job, place, entry->id);
    return made;
}

void model_ranks_deliver(struct model *model, struct job_book *job, const struct engine_action *action)
{
    struct rank_book *rank = action->rank < job->plan->world_size ? &job->ranks[action->rank] : NULL;
    if (rank == NULL || !rank->there || action->client != rank->client) {
        model_break(model, RULE_JOB, "a batch for rank %u of job %u, which is not there", action->rank, action->job);
        return;
    }
    if (!check_batch(model, job, rank, action))
        return;
    struct held_batch held = {.batch = action->deliver.batch,
                              .epoch = job->epoch,
                              .made = calloc(action->deliver.count + 1, sizeof *held.made)};
    for (uint32_t i = 0; i < action->deliver.count; i++) {
        struct made *made = check_entry(model, job, rank, action->job, &action->deliver.entries[i]);
        if (made == NULL)
            break;
        made->held++;
        rank->held_bytes += made->bytes;
        held.made[held.count++] = made;
    }
    if (rank->held_bytes > job->quota_bytes / job->plan->world_size)
        model_break(model, RULE_HELD, "rank %u of job %u holds %llu bytes, its part of the quota is %llu", action->rank, action->job,
                    (unsigned long long)rank->held_bytes, (unsigned long long)job->quota_bytes / job->plan->world_size);
    rank->held = xrealloc(rank->held, rank->n_held + 1, sizeof *rank->held);
    rank->held[rank->n_held++] = held;
    job->delivered += action->deliver.count;
    job->batches++;
    model->delivered += action->deliver.count;
    rank->batches++;
    rank->credits--;
    if (!action->deliver.last)
        return;
    rank->through = true;
    rank->credits = 0;
    if (rank->kept != share_of(job->plan) || (job->n_batches && rank->batches != job->n_batches))
        model_break(model, RULE_EXACTLY_ONCE, "rank %u of job %u ended epoch %u with %u samples in %u batches, its share is %u in %u",
                    action->rank, action->job, job->epoch, rank->kept, rank->batches, share_of(job->plan), job->n_batches);
    check_over(model, job, action->job);
    begin_if_due(model, job);
}

/* ── errors ── */

static bool rank_is_away(const struct job_book *job)
{
    for (uint32_t i = 0; i < job->plan->world_size; i++)
        if (!job->ranks[i].there)
            return true;
    return false;
}

/* Each rank that is there hears of a failure; one alone of its own nonsense. */
void model_ranks_error(struct model *model, struct job_book *job, const struct engine_action *action)
{
    struct rank_book *rank = action->rank < job->plan->world_size ? &job->ranks[action->rank] : NULL;
    const struct error *error = &action->error.error;
    if (rank == NULL || action->client != rank->client || rank->told || error->code == 0 || error->text[0] == '\0') {
        model_break(model, RULE_JOB, "JOB_ERROR for rank %u of job %u, which is not there, or says nothing", action->rank,
                    action->job);
        return;
    }
    if (error->code == LARDER_EINVAL && rank->beyond_end) {
        rank->beyond_end--;
        return;
    }
    if (error->code == LARDER_EINVAL && rank->lagged)
        return;
    rank->told = rank->there;
    job->failed = true;
    if (error->code == LARDER_ETIMEOUT) {
        if (!rank_is_away(job))
            model_break(model, RULE_JOB, "job %u waited for a rank, and all are there: %s", action->job, error->text);
        return;
    }
    bool hopeless = job->plan->bad_policy != BAD_ERROR && model_is_hopeless(model, job->plan);
    if (job->plan->bad_policy != BAD_ERROR && !hopeless)
        model_break(model, RULE_BAD, "job %u failed, which its policy forbids: %s", action->job, error->text);
    if (action->error.id >= model->scenario->n_samples || !model_excused(model, job, action->error.id))
        model_break(model, RULE_BAD, "job %u failed over sample %u, which is not bad", action->job, action->error.id);
}
