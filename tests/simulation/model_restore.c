/* model_restore.c: jobs that go on in an epoch that ranks had in part before the job was made; the daemon that gave it
 * to them is gone. Such a job waits until each rank has told what it had. Then the rest of the epoch is dealt. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "tests/simulation/model_priv.h"
#include "tests/simulation/solo.h"

/* ── who may come ── */

static bool is_same(const struct told *told, const struct engine_resume *resume)
{
    return told->epoch == resume->epoch && told->batches == resume->base_batches + resume->batches &&
           told->delivered == resume->delivered && told->through == resume->through;
}

/* Ranks have one base where they are in one epoch. Those that come back may be in the one before. */
static bool fits(const struct restore_book *restore, const struct client_plan *plan, const struct engine_resume *resume)
{
    if (resume->epoch == restore->epoch &&
        (resume->key != restore->key || resume->base_batches != restore->base_batches))
        return false;
    for (uint32_t i = 0; i < plan->world_size; i++) {
        const struct told *told = &restore->ranks[i];
        if (told->given && i == plan->rank && !is_same(told, resume))
            return false;
        if (told->given && told->epoch != resume->epoch && !(told->presented && resume->presented))
            return false;
        for (uint32_t k = 0; told->epoch == resume->epoch && i != plan->rank && k < told->n_turns; k++) {
            if (resume->turns && idset_contains(resume->turns, told->turns[k]))
                return false;
        }
    }
    return true;
}

/* Has the rank had what the job has given it? */
static bool is_where_it_was(const struct job_book *job, const struct rank_book *rank,
                            const struct engine_resume *resume)
{
    if (!job->started || resume->epoch > job->epoch)
        return resume->base_batches + resume->batches == 0 && resume->delivered == 0 &&
               (!job->started || rank->through);
    if (resume->epoch < job->epoch)
        return rank->kept == 0 && !rank->through;
    return resume->delivered == rank->kept &&
           (rank->through || resume->base_batches + resume->batches == rank->batches);
}

int model_restore_refusal(const struct job_book *job, const struct client_plan *plan,
                          const struct engine_resume *resume)
{
    if (job->restore)
        return resume && fits(job->restore, plan, resume) ? 0 : LARDER_EINVAL;
    if (resume && !resume->presented)
        return LARDER_EBUSY;
    return resume && !is_where_it_was(job, &job->ranks[plan->rank], resume) ? LARDER_EGONE : 0;
}

const struct engine_resume *model_restore_brought(struct model *model, const struct client_plan *plan,
                                                  const struct engine_resume *resume)
{
    const struct job_book *job = model_named(model, plan->name);
    bool first = !resume && job && job->restore && job->restore->no_base;
    for (uint32_t i = 0; first && i < job->plan->world_size; i++)
        first = !job->restore->ranks[i].given || job->restore->ranks[i].presented;
    if (!first)
        return resume;
    model->nothing = (struct engine_resume){.key = job->restore->key, .presented = true};
    return &model->nothing;
}

/* ── what they tell ── */

static void keep_set(struct restore_book *restore, const struct job_book *job, const struct engine_resume *resume)
{
    restore->n = 0;
    for (uint32_t i = 0; i < job->plan->n_view; i++) {
        sample_id id = job->plan->view[i];
        restore->over[id] = resume->base && idset_contains(resume->base, id);
        restore->n += !restore->over[id];
    }
}

/* Each sequence is what the one before leaves. */
static void keep_order(struct model *model, struct restore_book *restore, const struct job_book *job,
                       const struct engine_resume *resume)
{
    const struct client_plan *plan = job->plan;
    free(restore->rest);
    if (plan->shuffle == SHUFFLE_STRICT)
        restore->rest = solo_order(model->scenario, plan, resume->epoch);
    else
        restore->rest = memcpy(xcalloc(plan->n_view, sizeof *plan->order), plan->order,
                               plan->n_view * sizeof *plan->order);
    restore->n = plan->n_view;
    for (uint32_t k = 0; k < resume->n_segments; k++) {
        const struct engine_segment *segment = &resume->segments[k];
        uint32_t left = 0;
        for (uint32_t i = 0; i < restore->n; i++) {
            sample_id id = restore->rest[i];
            if (i / segment->world_size < segment->through[i % segment->world_size])
                restore->over[id] = 1;
            else
                restore->rest[left++] = id;
        }
        restore->n = left;
    }
}

static void keep_base(struct model *model, struct restore_book *restore, const struct job_book *job,
                      const struct engine_resume *resume)
{
    restore->epoch = resume->epoch;
    restore->base_batches = resume->base_batches;
    restore->key = resume->key;
    restore->no_base = resume->epoch == 0 && resume->base_batches == 0 && resume->n_segments == 0 &&
                       (!resume->base || idset_count(resume->base) == 0);
    memset(restore->over, 0, model->scenario->n_samples);
    if (job->plan->shuffle == SHUFFLE_DEPENDENT)
        keep_set(restore, job, resume);
    else
        keep_order(model, restore, job, resume);
}

void model_restore_note(struct model *model, struct job_book *job, uint32_t rank, const struct engine_resume *resume)
{
    struct restore_book *restore = job->restore;
    bool first = restore == NULL;
    if (first) {
        job->restore = restore = xcalloc(1, sizeof *restore);
        restore->ranks = xcalloc(job->plan->world_size, sizeof *restore->ranks);
        restore->over = xcalloc(model->scenario->n_samples + (size_t)1, 1);
    }
    if (first || resume->epoch > restore->epoch)
        keep_base(model, restore, job, resume);
    struct told *told = &restore->ranks[rank];
    free(told->turns);
    *told = (struct told){.given = true,
                          .presented = resume->presented,
                          .epoch = resume->epoch,
                          .batches = resume->base_batches + resume->batches,
                          .delivered = resume->delivered,
                          .through = resume->through,
                          .n_turns = resume->turns ? (uint32_t)idset_count(resume->turns) : 0};
    told->turns = xcalloc(told->n_turns + (size_t)1, sizeof *told->turns);
    if (told->n_turns)
        idset_to_array(resume->turns, told->turns);
}

void model_restore_free(struct job_book *job)
{
    for (uint32_t i = 0; job->restore && i < job->plan->world_size; i++)
        free(job->restore->ranks[i].turns);
    if (job->restore) {
        free(job->restore->ranks);
        free(job->restore->over);
        free(job->restore->rest);
    }
    free(job->restore);
    job->restore = NULL;
}

/* ── the epoch begins ── */

bool model_restore_ready(struct job_book *job)
{
    for (uint32_t i = 0; i < job->plan->world_size; i++) {
        if (!job->ranks[i].there)
            return false;
    }
    for (uint32_t i = 0; i < job->plan->world_size; i++) {
        struct rank_book *rank = &job->ranks[i];
        if (!rank->asked || rank->epoch >= job->restore->epoch)
            continue;
        rank->asked = false;
        rank->empty_last = true;
        rank->last_empty = rank->epoch;
    }
    return true;
}

static uint32_t batches_of(const struct client_plan *plan, uint64_t samples)
{
    return (uint32_t)((samples + plan->batch_size - 1) / plan->batch_size);
}

/* The batches that a rank has by the end: an empty one if nothing is left. */
static uint32_t last_batch(const struct client_plan *plan, const struct told *told, uint64_t share)
{
    uint32_t left = share > told->delivered ? batches_of(plan, share - told->delivered) : 0;
    return told->batches + (left ? left : 1);
}

/* In a fixed order `through` says what is over. */
static uint64_t gone_of(const struct client_plan *plan, const struct told *told)
{
    return plan->shuffle == SHUFFLE_DEPENDENT ? told->n_turns : told->through;
}

/* More than was delivered is over: the others were bad. */
static uint64_t lost_of(const struct client_plan *plan, const struct told *told)
{
    uint64_t gone = gone_of(plan, told);
    return gone > told->delivered ? gone - told->delivered : 0;
}

static void take_turns(struct model *model, struct job_book *job, uint32_t number, const struct told *told)
{
    uint32_t n_own = 0;
    for (uint32_t i = 0; i < told->n_turns; i++)
        job->book.turns[told->turns[i]]++;
    for (uint64_t at = number; job->book.order && at < job->book.n && n_own < told->through;
         at += job->plan->world_size, n_own++)
        job->book.turns[job->book.order[at]]++;
    if (job->book.order && n_own < told->through)
        model_break(model, RULE_STATE, "rank %u has had %llu numbers of a part of %u", number,
                    (unsigned long long)told->through, n_own);
}

/* What the rank had in a daemon before this one counts as had. */
static void restore_rank(struct job_book *job, uint32_t number, const struct told *told)
{
    const struct client_plan *plan = job->plan;
    struct rank_book *rank = &job->ranks[number];
    rank->kept = (uint32_t)told->delivered;
    rank->batches = told->batches;
    rank->due = (uint32_t)told->through;
    rank->lost = lost_of(plan, told);
    rank->share = model_ranks_share(job);
    rank->share = rank->share > rank->kept ? rank->share : rank->kept;
    rank->n_batches = last_batch(plan, told, rank->share);
}

void model_restore_begin(struct model *model, struct job_book *job, uint32_t epoch)
{
    struct restore_book *restore = job->restore;
    const struct client_plan *plan = job->plan;
    struct epoch_book *book = &job->book;
    model->resumed++;
    book->restored = epoch == restore->epoch;
    if (book->restored) {
        book->begun_step = 1; /* what is bad may have failed before */
        book->n = restore->n;
        memcpy(book->turns, restore->over, model->scenario->n_samples);
        if (book->order)
            book->order = job->rest = restore->rest;
        restore->rest = book->order ? NULL : restore->rest;
    }
    for (uint32_t i = 0; i < plan->world_size; i++) {
        struct told *told = &restore->ranks[i];
        struct told none = {.batches = restore->base_batches};
        const struct told *had = told->epoch == epoch ? told : &none;
        if (job->ranks)
            job->ranks[i].behind = told->epoch < epoch;
        if (!book->restored)
            continue;
        take_turns(model, job, i, had);
        book->delivered += (uint32_t)had->delivered;
        book->repeats += had->delivered > gone_of(plan, had) ? had->delivered - gone_of(plan, had) : 0;
        book->odd = (uint32_t)had->delivered % plan->batch_size;
        if (job->ranks) {
            restore_rank(job, i, had);
            continue;
        }
        book->batches = had->batches;
        book->due = (uint32_t)had->through;
        book->lost = lost_of(plan, had);
        book->n_batches = last_batch(plan, had, model_ranks_share(job) - book->lost);
    }
    model_restore_free(job);
}

/* ── what never may be ── */

void model_restore_check_idle(struct model *model, uint32_t place, const char *what)
{
    const struct job_book *job = place < JOBS_MAX ? model->jobs[place] : NULL;
    if (job && job->restore)
        model_break(model, RULE_STATE, "%s for job %u, whose ranks have not all come back", what, place);
}

void model_take_turn(struct model *model, struct job_book *job, uint32_t place, const struct engine_entry *entry)
{
    const struct client_plan *plan = job->plan;
    if (entry->turn == SAMPLE_NONE && plan->world_size > 1)
        return;
    bool own = entry->turn == entry->id;
    bool stands = entry->turn < model->scenario->n_samples && job->in_view[entry->turn] &&
                  plan->bad_policy == BAD_REPLACE && model_excused(model, job, entry->turn);
    if (!own && !stands) {
        model_break(model, RULE_EXACTLY_ONCE, "job %u gets sample %u in the turn of sample %u, which is not bad", place,
                    entry->id, entry->turn);
        return;
    }
    if (job->book.turns[entry->turn]++ >= model_due(job, entry->turn) && !job->book.put_back)
        model_break(model, RULE_EXACTLY_ONCE, "job %u gets the turn of sample %u again in epoch %u", place, entry->turn,
                    job->epoch);
}

/* ── the daemon dies ── */

void model_crash(struct model *model)
{
    for (unsigned place = 0; place < JOBS_MAX; place++) {
        if (model->jobs[place])
            model_job_free(model->jobs[place]);
        model->jobs[place] = NULL;
    }
    for (uint32_t i = 0; i < model->scenario->n_datasets; i++)
        model->scenario->datasets[i].users = 0;
    model->n_jobs = 0;
    model->adding = NULL;
    model->adding_resume = NULL;
    model->draining = false;
    memset(model->number_users, 0, sizeof model->number_users);
    memset(model->number_meaning, 0, sizeof model->number_meaning);
    model->delivered = model->unknown_releases = 0;
    model_memory_crash(model);
    model_sources_crash(model);
}
