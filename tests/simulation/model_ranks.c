/* model_ranks.c: the books of jobs with several ranks: who is there, which epoch they are in, who is told what.
 *
 * What engine.h promises them: an epoch is over when every rank has had its share, or has left it; then the union of
 * what they got is the view, but for samples that failed and what a rank left behind. Who waits for a rank that is
 * away is told its number, not before the time is up; a job without ranks waits as long, and only where it has a
 * reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "tests/simulation/model_priv.h"
#include "tests/simulation/solo.h"

static uint32_t share_of(const struct client_plan *plan, uint32_t samples)
{
    uint32_t share = (samples + (plan->drop_last ? 0 : plan->world_size - 1)) / plan->world_size;
    return plan->drop_last ? share / plan->batch_size * plan->batch_size : share;
}

/* Whole batches count from where the ranks went on. */
uint32_t model_ranks_share(const struct job_book *job)
{
    uint32_t odd = job->book.odd * job->plan->world_size;
    return job->book.n < odd ? share_of(job->plan, job->book.n)
                             : job->book.odd + share_of(job->plan, job->book.n - odd);
}

uint32_t model_ranks_batches(const struct client_plan *plan)
{
    return (share_of(plan, plan->n_draws) + plan->batch_size - 1) / plan->batch_size;
}

/* ── coming and going ── */

void model_ranks_book(struct model *model, struct job_book *job)
{
    job->ranks = xcalloc(job->plan->world_size, sizeof *job->ranks);
    for (uint32_t i = 0; i < job->plan->world_size; i++) {
        job->ranks[i].back = xcalloc((size_t)job->plan->n_draws + job->plan->world_size, sizeof(sample_id));
        job->ranks[i].times = xcalloc(model->scenario->n_samples, 1);
        job->ranks[i].away_since_ns = model->now_ns;
    }
}

void model_ranks_attach(struct model *model, struct job_book *job, const struct engine_action *action)
{
    struct rank_book *rank = &job->ranks[action->rank];
    uint32_t place = action->job;
    if (action->job_added.held_max != job->held_max || action->job_added.quota_bytes != job->quota_bytes)
        model_break(model, RULE_HELD, "rank %u of job %u may hold %u batches, the job's ranks may hold %u",
                    action->rank, place, action->job_added.held_max, job->held_max);
    const struct engine_resume *resume = model->adding_resume;
    rank->returned = job->started && rank->through;
    uint32_t epoch = job->started ? job->epoch + rank->returned : 0, batch = rank->through ? 0 : rank->batches;
    if (resume) {
        epoch = resume->epoch;
        batch = resume->base_batches + resume->batches;
    }
    if (action->job_added.epoch != epoch || action->job_added.batch != batch)
        model_break(model, RULE_JOB, "rank %u of job %u is told to go on at batch %u of epoch %u, it is at %u of %u",
                    action->rank, place, action->job_added.batch, action->job_added.epoch, batch, epoch);
    job->gone = false;
    rank->there = rank->came = true;
    rank->client = action->client;
    if (resume && (job->restore || !action->job_added.attached))
        model_restore_note(model, job, action->rank, resume);
    else if (resume)
        rank->behind = job->started && resume->epoch < job->epoch;
    if (job->restore)
        model_ranks_through(model, job, place);
}

void model_ranks_free(struct job_book *job)
{
    for (uint32_t i = 0; job->ranks && i < job->plan->world_size; i++) {
        struct rank_book *rank = &job->ranks[i];
        while (rank->n_held)
            free(rank->held[--rank->n_held].made);
        free(rank->held);
        free(rank->back);
        free(rank->times);
    }
    free(job->ranks);
}

void model_ranks_gone(struct model *model, struct job_book *job, uint32_t number)
{
    struct rank_book *rank = &job->ranks[number];
    if (!rank->there) {
        job->dismissed = job->gone;
        return;
    }
    bool runs = job->started && !job->over && !job->failed;
    model_ranks_put_back(model, job, rank, runs && rank->epoch == job->epoch);
    rank->there = rank->asked = rank->returned = rank->empty_last = false;
    rank->nonsense = 0;
    rank->had_last = false;
    rank->credits = 0;
    rank->gone_step = model->step;
    rank->away_since_ns = job->empty_since_ns = model->now_ns;
    job->gone = true;
    for (uint32_t i = 0; i < job->plan->world_size; i++)
        job->gone = job->gone && !job->ranks[i].there;
}

bool model_ranks_linger(const struct job_book *job)
{
    bool to_come = false, through = false, open = false;
    for (uint32_t i = 0; i < job->plan->world_size; i++) {
        to_come = to_come || !job->ranks[i].came;
        through = through || job->ranks[i].through;
        open = open || !job->ranks[i].through;
    }
    return !job->failed && !job->dismissed && (to_come || (job->started && !job->over && through && open));
}

/* ── epochs ── */

static bool waits(const struct job_book *job, const struct rank_book *rank)
{
    return rank->asked && (!job->started || rank->epoch > job->epoch);
}

static void begin_epoch(struct model *model, struct job_book *job, uint32_t epoch)
{
    for (uint32_t i = 0; i < job->plan->world_size; i++) {
        struct rank_book *rank = &job->ranks[i];
        model_ranks_forget_owed(job, rank);
        rank->left = rank->through = rank->asked && rank->epoch > epoch; /* it left this one out */
        rank->kept = rank->batches = rank->due = 0;
        memset(rank->times, 0, model->scenario->n_samples);
        rank->n_batches = job->n_batches ? job->n_batches : 1;
        rank->lost = 0;
        rank->order_over = rank->returned = rank->behind = false;
        if (!waits(job, rank))
            rank->credits = 0;
    }
    job->started = true;
    job->over = false;
    job->epoch = epoch;
    model_begin_book(model, job, model->step);
    for (uint32_t i = 0; i < job->plan->world_size; i++)
        job->ranks[i].share = model_ranks_share(job);
    if (job->restore)
        model_restore_begin(model, job, epoch);
}

/* All of the view has come, but for what failed, what ranks left behind, and what shares of whole batches leave. */
static void check_over(struct model *model, struct job_book *job, uint32_t place)
{
    const struct client_plan *plan = job->plan;
    uint64_t spared = 0, left = 0, shares = (uint64_t)model_ranks_share(job) * plan->world_size;
    uint32_t missing = 0, excused = 0, again = job->book.delivered - job->book.distinct;
    for (uint32_t i = 0; i < plan->world_size; i++)
        left += job->ranks[i].left ? job->ranks[i].share - job->ranks[i].kept : 0;
    for (uint32_t i = 0; i < plan->n_view; i++) {
        uint32_t lacks = model_lacks(job, plan->view[i]);
        missing += lacks;
        excused += model_excused(model, job, plan->view[i]) ? lacks : 0;
    }
    if (job->book.n > shares)
        spared = job->book.n - shares;
    spared += job->book.repeats;
    if (missing - excused > spared + left)
        model_break(model, RULE_EXACTLY_ONCE, "job %u ended epoch %u without %u samples of its %u, %u of them bad",
                    place, job->epoch, missing, plan->n_draws, excused);
    /* A rank whose sample failed gets another of the epoch, and a repeat only when there is none. */
    if (left == 0 && again && missing > excused && !job->book.order && plan->bad_policy != BAD_REPLACE &&
        !job->book.restored)
        model_break(model, RULE_EXACTLY_ONCE, "job %u repeated %u samples in epoch %u, and never gave %u others", place,
                    again, job->epoch, missing - excused);
    if (left == 0 && spared == 0 && missing && plan->bad_policy == BAD_ERROR)
        model_break(model, RULE_BAD, "job %u ended epoch %u without %u samples, which its policy forbids", place,
                    job->epoch, missing);
}

/* Would something of the epoch be put back if the rank went? Not of one that waits for a later epoch: it has taken
 * all. */
static bool may_lose(const struct job_book *job, const struct rank_book *rank)
{
    bool holds = false;
    for (uint32_t i = 0; i < rank->n_held; i++)
        holds = holds || (rank->held[i].epoch == job->epoch && rank->held[i].count > 0);
    return holds && !waits(job, rank);
}

/* One that was had in part begins first, unless all ranks ask for a later one. */
static uint32_t resumed_epoch(const struct job_book *job)
{
    uint32_t lowest = UINT32_MAX;
    for (uint32_t i = 0; i < job->plan->world_size; i++) {
        const struct rank_book *rank = &job->ranks[i];
        uint32_t epoch = rank->asked ? rank->epoch : job->restore->epoch;
        lowest = epoch < lowest ? epoch : lowest;
    }
    return lowest;
}

/* The epoch is over when every rank is through with it, and would lose nothing of it; then the lowest that a rank
 * waits for begins. */
void model_ranks_through(struct model *model, struct job_book *job, uint32_t place)
{
    const struct rank_book *first = NULL;
    if (job->restore && !model_restore_ready(job))
        return;
    for (uint32_t i = 0; i < job->plan->world_size; i++) {
        const struct rank_book *rank = &job->ranks[i];
        if (job->started && !job->over && (!rank->through || may_lose(job, rank)))
            return;
        if (waits(job, rank) && (!first || rank->epoch < first->epoch))
            first = rank;
    }
    if (job->started && !job->over)
        check_over(model, job, place);
    job->over = true;
    if (first)
        begin_epoch(model, job, job->restore ? resumed_epoch(job) : first->epoch);
}

static void ask_later(struct model *model, struct job_book *job, struct rank_book *rank,
                      const struct engine_event *event)
{
    uint32_t epoch = event->next.epoch;
    bool waited = waits(job, rank);
    if (waited && epoch < rank->epoch)
        return;
    if (job->started && !job->over && !rank->through) {
        rank->through = rank->left = true;
        model_ranks_forget_owed(job, rank);
    }
    if (!waited || epoch != rank->epoch)
        rank->credits = 0;
    rank->asked = true;
    rank->epoch = epoch;
    rank->credits += event->next.credits;
    model_ranks_through(model, job, event->next.job);
}

void model_ranks_next(struct model *model, struct job_book *job, const struct engine_event *event)
{
    struct rank_book *rank = &job->ranks[event->rank];
    uint32_t epoch = event->next.epoch;
    if (job->failed || !rank->there)
        return;
    if (job->started && epoch < job->epoch && rank->had_last && epoch <= rank->last_epoch)
        return;
    bool earlier = job->started && epoch < job->epoch;
    if (earlier && rank->behind) {
        rank->empty_last = rank->n_held < job->held_max;
        rank->last_empty = epoch;
    } else if ((job->plan->epochs && epoch >= job->plan->epochs) || earlier) {
        rank->nonsense++;
    } else if (!job->started || epoch > job->epoch) {
        ask_later(model, job, rank, event);
    } else if (!rank->through) {
        rank->asked = true;
        rank->epoch = epoch;
        rank->credits += event->next.credits;
    } else if (rank->returned && !waits(job, rank)) {
        rank->returned = false;
        rank->empty_last = true;
        rank->last_empty = epoch;
    }
}

bool model_rank_waits(const struct model *model, uint32_t place, uint32_t number)
{
    const struct job_book *job = place < JOBS_MAX ? model->jobs[place] : NULL;
    return job && job->ranks && waits(job, &job->ranks[number]);
}

/* ── errors ── */

static bool needed(const struct job_book *job, const struct rank_book *rank)
{
    bool somebody_waits = false;
    for (uint32_t i = 0; i < job->plan->world_size; i++)
        somebody_waits = somebody_waits || waits(job, &job->ranks[i]);
    return somebody_waits || (job->started && !job->over && !rank->through);
}

/* The text names a rank that is needed, and has been away for the time that the others wait. */
static void check_timeout(struct model *model, const struct job_book *job, uint32_t place, const char *text)
{
    char name[40];
    for (uint32_t i = 0; i < job->plan->world_size; i++) {
        const struct rank_book *rank = &job->ranks[i];
        snprintf(name, sizeof name, "rank %u of %u ", i, job->plan->world_size);
        if (!strstr(text, name))
            continue;
        if (rank->there || !needed(job, rank))
            model_break(model, RULE_JOB, "job %u waited for rank %u, which is %s", place, i,
                        rank->there ? "there" : "not needed");
        else if (model->now_ns - rank->away_since_ns < model->scenario->config.rank_timeout_ns)
            model_break(model, RULE_JOB, "job %u did not wait for rank %u as long as it should", place, i);
        return;
    }
    model_break(model, RULE_JOB, "job %u fails for a rank that it does not name: %s", place, text);
}

/* Each rank that is there hears of a failure; one alone of its own nonsense. */
void model_ranks_error(struct model *model, struct job_book *job, const struct engine_action *action)
{
    struct rank_book *rank = action->rank < job->plan->world_size ? &job->ranks[action->rank] : NULL;
    const struct error *error = &action->error.error;
    /* One that goes in this very step may have been told before, in the same step. */
    bool there = rank && (rank->there || rank->gone_step > model->settled_step);
    if (!there || action->client != rank->client || rank->told || error->code == 0 || error->text[0] == '\0') {
        model_break(model, RULE_JOB, "JOB_ERROR for rank %u of job %u, which is not there, or says nothing",
                    action->rank, action->job);
        return;
    }
    if (error->code == LARDER_EINVAL && (rank->nonsense > 0 || !rank->there)) {
        rank->nonsense -= rank->nonsense > 0;
        return;
    }
    rank->told = rank->there;
    bool no_room = error->code == LARDER_EQUOTA;
    if (no_room && !job->failed)
        model_on_no_room(model, job, action->job, error);
    model_job_failed(model, job);
    if (no_room || (job->cancelled && error->code == LARDER_EGONE))
        return;
    if (error->code == LARDER_ETIMEOUT) {
        check_timeout(model, job, action->job, error->text);
        return;
    }
    if (model_source_error(model, job, action))
        return;
    bool limited = model_count_excused(model, job) > model_bad_max(model, job->plan);
    bool hopeless = job->plan->bad_policy != BAD_ERROR && model_is_hopeless(model, job);
    if (job->plan->bad_policy != BAD_ERROR && !hopeless && !limited)
        model_break(model, RULE_BAD, "job %u failed, which its policy forbids: %s", action->job, error->text);
    if (action->error.id >= model->scenario->n_samples || !model_excused(model, job, action->error.id))
        model_break(model, RULE_BAD, "job %u failed over sample %u, which is not bad", action->job, action->error.id);
}

void model_ranks_settle(struct model *model, const struct job_book *job, uint32_t place)
{
    for (uint32_t i = 0; i < job->plan->world_size; i++) {
        const struct rank_book *rank = &job->ranks[i];
        if (job->failed && rank->there && !rank->told)
            model_break(model, RULE_JOB, "job %u has failed, and rank %u was not told", place, i);
        if (!job->failed && (rank->nonsense || rank->empty_last))
            model_break(model, RULE_JOB, "rank %u of job %u got no answer to a NEXT %s", i, place,
                        rank->empty_last ? "of the epoch it is through with" : "of an epoch that is over or not there");
    }
}
