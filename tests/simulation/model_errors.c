/* model_errors.c: jobs that fail, and whether they may. */
#include <string.h>

#include "tests/simulation/model_priv.h"

#define SHARE_HOPELESS 0.35 /* of bad samples: from there on sixteen substitutes in a row may be bad as well */

/* The share of an epoch's samples that fail, passing faults included. */
static double bad_share(const struct model *model, const struct job_book *job)
{
    const struct scenario *sc = model->scenario;
    const struct client_plan *plan = job->plan;
    uint32_t bad = 0, all = 0;
    for (uint32_t i = 0; i < plan->n_view; i++) {
        const struct scenario_sample *sample = &sc->samples[plan->view[i]];
        if (plan->multiset && job->book.due_of && model_due(job, plan->view[i]) == 0)
            continue;
        all++;
        bad += sample->fault != FAULT_NONE || (sample->unfit >> plan->pipeline & 1) ||
               sample->bytes > sc->config.encoded_bytes;
    }
    return (double)bad / (all ? all : 1) + (double)(sc->load_faults + sc->prepare_faults + sc->output_faults) / 1000;
}

bool model_is_hopeless(const struct model *model, const struct job_book *job)
{
    return bad_share(model, job) >= SHARE_HOPELESS;
}

bool model_may_lack_room(const struct model *model, uint32_t place)
{
    const struct job_book *job = place < JOBS_MAX ? model->jobs[place] : NULL;
    return job && !job->failed &&
           (job->delivered == 0 || job->plan->pipeline == model->scenario->raw_pipeline ||
            model->scenario->sized >> job->plan->pipeline & 1);
}

void model_on_no_room(struct model *model, const struct job_book *job, uint32_t place, const struct error *error)
{
    uint64_t waited_ns = job->asked ? model->now_ns - job->asked_ns : 0, held;
    model->no_rooms++;
    if (model->refused && waited_ns >= model->scenario->config.room_timeout_ns)
        return;
    if (!model_may_lack_room(model, place) || !model_held_slot(model, &held) || !strstr(error->text, " holds ") ||
        waited_ns < model->scenario->config.room_timeout_ns)
        model_break(model, RULE_BAD, "job %u failed for room after %llu ns: %s", place, (unsigned long long)waited_ns,
                    error->text);
}

uint32_t model_no_rooms(const struct model *model)
{
    return model->no_rooms;
}

/* Under `skip`: are so many bad that the epoch has not one batch? */
static bool nothing_left(const struct model *model, const struct job_book *job)
{
    const struct client_plan *plan = job->plan;
    uint32_t least = plan->drop_last ? plan->batch_size : 1;
    return plan->bad_policy == BAD_SKIP && plan->n_draws - model_count_excused(model, job) < least;
}

void model_job_failed(struct model *model, struct job_book *job)
{
    job->failed_step = job->failed ? job->failed_step : model->step;
    job->failed = true;
    if (job->turned_step > model->settled_step)
        job->book.begun_step = job->begun_before;
}

/* Policy `error` fails with the first bad sample; `replace` only when so many are bad that no substitute is found,
 * `skip` when nothing is left; any when there is no room for the job. */
void model_on_error(struct model *model, const struct engine_action *action)
{
    struct job_book *job = action->job < JOBS_MAX ? model->jobs[action->job] : NULL;
    if (job && job->ranks) {
        model_ranks_error(model, job, action);
        return;
    }
    /* One that goes in this very step may have failed before, in the same step. */
    if (job == NULL || job->failed || action->client != job->client) {
        model_break(model, RULE_JOB, "JOB_ERROR for job %u, which %s", action->job,
                    job && job->failed ? "has failed" : "is not running");
        return;
    }
    const struct error *error = &action->error.error;
    if (error->code == 0 || error->text[0] == '\0')
        model_break(model, RULE_BAD, "the error of job %u says nothing", action->job);
    if (job->beyond_end && error->code == LARDER_EINVAL) {
        job->beyond_end--;
        return;
    }
    bool no_room = error->code == LARDER_EQUOTA;
    if (no_room)
        model_on_no_room(model, job, action->job, error);
    model_job_failed(model, job);
    if (no_room || (job->cancelled && error->code == LARDER_EGONE) || model_source_error(model, job, action))
        return;
    bool hopeless = job->plan->bad_policy == BAD_REPLACE && model_is_hopeless(model, job);
    bool limited = model_count_excused(model, job) > model_bad_max(model, job->plan);
    if (job->plan->bad_policy != BAD_ERROR && !hopeless && !nothing_left(model, job) && !limited)
        model_break(model, RULE_BAD, "job %u failed, which its policy forbids: %s", action->job, error->text);
    if (action->error.id >= model->scenario->n_samples || !model_excused(model, job, action->error.id))
        model_break(model, RULE_BAD, "job %u failed over sample %u, which is not bad", action->job, action->error.id);
}
