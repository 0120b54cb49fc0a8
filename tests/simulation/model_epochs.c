/* model_epochs.c: what a job asks for, gets and gives back. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "tests/simulation/model_priv.h"
#include "tests/simulation/solo.h"

/* draw_due has the epoch's multiset drawn. */
static void draw_due(struct job_book *job)
{
    uint32_t count, *room = xcalloc(job->plan->n_view + (size_t)1, sizeof *room);
    if (job->plan->multiset) {
        const sample_id *ids = multiset_ids(job->plan->multiset, &count);
        CHECK(multiset_epoch(job->plan->multiset, job->epoch, room) == 0);
        for (uint32_t i = 0; i < count; i++)
            job->book.due_of[ids[i]] = room[i];
    }
    free(room);
}

uint32_t model_due(const struct job_book *job, sample_id id)
{
    return job->plan->multiset ? job->book.due_of[id] : 1;
}

uint32_t model_lacks(const struct job_book *job, sample_id id)
{
    uint32_t had = job->book.restored ? job->book.turns[id] : job->book.times[id], due = model_due(job, id);
    return had < due ? due - had : 0;
}

void model_begin_book(struct model *model, struct job_book *job, uint64_t begun_step)
{
    struct epoch_book *book = &job->book;
    if (job->turned_step <= model->settled_step)
        job->begun_before = book->begun_step;
    job->turned_step = model->step;
    memset(book->times, 0, model->scenario->n_samples * sizeof *book->times);
    memset(book->turns, 0, model->scenario->n_samples);
    *book = (struct epoch_book){.begun_step = begun_step,
                                .n = job->plan->n_draws,
                                .n_batches = job->n_batches ? job->n_batches : 1,
                                .times = book->times,
                                .turns = book->turns,
                                .due_of = book->due_of};
    draw_due(job);
    free(job->strict_order);
    free(job->rest);
    job->strict_order = job->rest = NULL;
    if (job->plan->shuffle == SHUFFLE_NONE)
        book->order = job->plan->order;
    else if (job->plan->shuffle == SHUFFLE_STRICT)
        book->order = job->strict_order = solo_order(model->scenario, job->plan, job->epoch);
}

static void begin_epoch(struct model *model, struct job_book *job, uint32_t epoch)
{
    if (job->started && !job->book.last)
        job->abandoned++;
    uint64_t begun_step = job->book.begun_step;
    if (job->started && !job->book.last)
        begun_step = model->step;
    job->started = true;
    job->epoch = epoch;
    job->credits = 0;
    model_begin_book(model, job, begun_step);
    if (job->restore)
        model_restore_begin(model, job, epoch);
}

void model_on_next(struct model *model, const struct engine_event *event)
{
    struct job_book *job = model->jobs[event->next.job];
    uint32_t epoch = event->next.epoch;
    if (job->cancelled) /* its error may yet come, in this step */
        return;
    job->asked_ns = job->asked ? job->asked_ns : model->now_ns;
    job->asked = true;
    if (job->ranks) {
        model_ranks_next(model, job, event);
        return;
    }
    if (job->failed)
        return;
    if (job->plan->epochs && epoch >= job->plan->epochs) {
        job->beyond_end++;
        return;
    }
    if (!job->started || epoch > job->epoch)
        begin_epoch(model, job, epoch);
    if (epoch == job->epoch && !job->book.last)
        job->credits += event->next.credits;
}

void model_on_release(struct model *model, const struct engine_event *event)
{
    struct job_book *job = model->jobs[event->release.job];
    if (job->ranks) {
        model_ranks_release(model, job, event);
        return;
    }
    for (uint32_t i = 0; i < job->n_held; i++) {
        if (job->held[i].batch == event->release.batch) {
            model_let_go(model, job->held, &job->n_held, &job->held_bytes, i);
            return;
        }
    }
    model->unknown_releases++;
}

/* ── delivery ── */

static bool check_batch(struct model *model, const struct job_book *job, const struct engine_action *action)
{
    const struct client_plan *plan = job->plan;
    uint32_t count = action->deliver.count;
    uint64_t *seen = table_at(&model->batches, (uint64_t)job->serial << 40 | action->deliver.batch);
    if ((*seen)++)
        model_break(model, RULE_BATCH, "job %u gets batch %llu twice", action->job,
                    (unsigned long long)action->deliver.batch);
    if (action->deliver.epoch != job->epoch || job->credits == 0 || job->book.last)
        model_break(model, RULE_CREDIT, "job %u gets a batch of epoch %u; it is in epoch %u%s with %llu credits",
                    action->job, action->deliver.epoch, job->epoch, job->book.last ? ", which is over," : "",
                    (unsigned long long)job->credits);
    if (job->n_held >= job->held_max)
        model_break(model, RULE_HELD, "job %u gets a batch while it holds %u of at most %u", action->job, job->n_held,
                    job->held_max);
    if (action->deliver.index != job->book.batches)
        model_break(model, RULE_BATCH, "job %u gets batch %u of epoch %u, due is %u", action->job,
                    action->deliver.index, job->epoch, job->book.batches);
    if (job->book.batches >= job->book.n_batches)
        model_break(model, RULE_BATCH, "job %u gets more than the %u batches of an epoch", action->job,
                    job->book.n_batches);
    bool short_allowed = action->deliver.last && (!plan->drop_last || count == 0);
    if (count > plan->batch_size || (count < plan->batch_size && !short_allowed))
        model_break(model, RULE_BATCH, "job %u gets %u samples in a batch%s of %u", action->job, count,
                    action->deliver.last ? ", the last," : "", plan->batch_size);
    return model->broken == RULE_NONE;
}

/* Moves through the order that is due to `id`; what is passed over must be bad. */
static void check_order(struct model *model, struct job_book *job, uint32_t place, sample_id id)
{
    struct epoch_book *book = &job->book;
    if (book->order == NULL)
        return;
    while (book->due < book->n && book->order[book->due] != id) {
        if (!model_excused(model, job, book->order[book->due]) || job->plan->bad_policy == BAD_ERROR) {
            model_break(model, RULE_ORDER, "job %u gets sample %u of epoch %u, due is %u", place, id, job->epoch,
                        book->order[book->due]);
            return;
        }
        if (job->plan->bad_policy == BAD_REPLACE)
            break; /* this is its substitute */
        book->due++;
    }
    book->due++;
}

static void check_sample(struct model *model, struct job_book *job, uint32_t place, sample_id id)
{
    if (id >= model->scenario->n_samples || !job->in_view[id]) {
        model_break(model, RULE_EXACTLY_ONCE, "job %u gets sample %u, which is not in its view", place, id);
        return;
    }
    check_order(model, job, place, id);
    job->book.delivered++;
    if (job->book.times[id]++ < model_due(job, id)) {
        job->book.distinct++;
        return;
    }
    if (job->book.restored) /* its turns tell */
        return;
    uint32_t again = job->book.delivered - job->book.distinct;
    /* a substitute takes the place of one that failed */
    if (again > (job->plan->bad_policy == BAD_REPLACE ? model_count_excused(model, job) : 0))
        model_break(model, RULE_EXACTLY_ONCE, "job %u gets sample %u again in epoch %u", place, id, job->epoch);
}

static struct made *check_entry(struct model *model, struct job_book *job, uint32_t place,
                                const struct engine_entry *entry)
{
    struct made *made = model_made_at(model, entry->offset, entry->bytes);
    if (made == NULL || made->state != MADE_DONE || made->id != entry->id || made->pipeline != job->plan->pipeline) {
        model_break(model, RULE_BYTES, "job %u gets sample %u from %llu+%llu, where there is %s", place, entry->id,
                    (unsigned long long)entry->offset, (unsigned long long)entry->bytes,
                    made == NULL               ? "nothing"
                    : made->state != MADE_DONE ? "one being prepared"
                    : made->id != entry->id    ? "another sample"
                                               : "what another pipeline made");
        return NULL;
    }
    model_check_had(model, job, place, made);
    model_check_variant(model, job, place, made);
    check_sample(model, job, place, entry->id);
    if (model->broken == RULE_NONE)
        model_take_turn(model, job, place, entry);
    return made;
}

/* What must have come when LAST has come. */
static void check_epoch(struct model *model, struct job_book *job, uint32_t place, uint64_t lost)
{
    const struct client_plan *plan = job->plan;
    const struct epoch_book *book = &job->book;
    uint32_t missing = 0, excused = 0;
    for (uint32_t i = 0; i < plan->n_view; i++) {
        uint32_t lacks = model_lacks(job, plan->view[i]);
        missing += lacks;
        excused += model_excused(model, job, plan->view[i]) ? lacks : 0;
    }
    uint32_t due = book->n - (uint32_t)book->lost;
    if (plan->bad_policy == BAD_SKIP)
        due -= excused;
    if (plan->drop_last) /* bad ones among those that were dropped may never have been tried */
        due -= (due - book->odd) % plan->batch_size;
    bool enough = plan->drop_last && plan->bad_policy == BAD_SKIP
                      ? (book->delivered - book->odd) % plan->batch_size == 0 && book->delivered >= due &&
                            book->delivered <= book->n
                      : book->delivered == due;
    if (!enough)
        model_break(model, RULE_EXACTLY_ONCE, "job %u got %u samples in epoch %u, %u of %u are missing, %u of them bad",
                    place, book->delivered, job->epoch, missing, plan->n_draws, excused);
    lost -= lost < book->lost ? lost : book->lost;
    if (plan->bad_policy == BAD_SKIP && !plan->drop_last && lost != missing)
        model_break(model, RULE_BAD, "job %u is told that %llu samples of epoch %u are lost, %u are", place,
                    (unsigned long long)lost, job->epoch, missing);
    if (lost > model_bad_max(model, plan) && !plan->multiset) /* of one bad sample several draws are lost */
        model_break(model, RULE_BAD, "job %u went on with %llu bad samples in epoch %u", place,
                    (unsigned long long)lost, job->epoch);
    if (plan->bad_policy == BAD_ERROR && missing && !plan->drop_last)
        model_break(model, RULE_BAD, "job %u ended epoch %u without %u samples, which its policy forbids", place,
                    job->epoch, missing);
    if (missing == 0 && book->batches != book->n_batches && job->n_batches)
        model_break(model, RULE_BATCH, "job %u got %u batches in epoch %u, not %u", place, book->batches, job->epoch,
                    book->n_batches);
    if (book->delivered == 0 && job->n_batches && !book->restored)
        model_break(model, RULE_BAD, "job %u ended epoch %u without one sample, and was not told", place, job->epoch);
    if (!plan->drop_last)
        job->missing += missing;
}

void model_on_deliver(struct model *model, const struct engine_action *action)
{
    struct job_book *job = action->job < JOBS_MAX ? model->jobs[action->job] : NULL;
    bool told = job && job->ranks && action->rank < job->plan->world_size && job->ranks[action->rank].empty_last;
    if (!told || action->deliver.count > 0)
        model_restore_check_idle(model, action->job, "a batch");
    if (job && job->ranks && !job->failed) {
        model_ranks_deliver(model, job, action);
        return;
    }
    if (job == NULL || job->gone || job->failed || !job->started || action->client != job->client) {
        model_break(model, RULE_JOB, "a batch for job %u, which is not running", action->job);
        return;
    }
    if (!check_batch(model, job, action))
        return;
    struct held_batch held = {.batch = action->deliver.batch,
                              .made = calloc(action->deliver.count + 1, sizeof *held.made)};
    for (uint32_t i = 0; i < action->deliver.count; i++) {
        struct made *made = check_entry(model, job, action->job, &action->deliver.entries[i]);
        if (made == NULL)
            break;
        made->held++;
        job->held_bytes += made->bytes;
        held.made[held.count++] = made;
    }
    if (job->held_bytes > job->quota_bytes)
        model_break(model, RULE_HELD, "job %u holds %llu bytes, its quota is %llu", action->job,
                    (unsigned long long)job->held_bytes, (unsigned long long)job->quota_bytes);
    job->held = xrealloc(job->held, job->n_held + 1, sizeof *job->held);
    job->held[job->n_held++] = held;
    job->delivered += action->deliver.count;
    job->batches++;
    model->delivered += action->deliver.count;
    job->book.batches++;
    job->credits--;
    if (!action->deliver.last)
        return;
    job->book.last = true;
    job->credits = 0;
    check_epoch(model, job, action->job, action->deliver.lost);
    job->book.begun_step = model->step;
}

bool model_is_full(const struct model *model, uint32_t place)
{
    const struct job_book *job = place < JOBS_MAX ? model->jobs[place] : NULL;
    return job && !job->ranks && job->n_held + 1 == job->held_max && job->credits > 1 &&
           job->book.batches + 1 < job->book.n_batches;
}
