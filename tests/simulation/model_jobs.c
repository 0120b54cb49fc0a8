/* model_jobs.c: jobs come and go. */
#include <stdlib.h>
#include <string.h>

#include "cache/memory/extent.h"
#include "tests/simulation/model_priv.h"

void model_job_free(struct job_book *job)
{
    for (uint32_t i = 0; i < job->n_held; i++)
        free(job->held[i].made);
    free(job->held);
    model_ranks_free(job);
    free(job->book.times);
    free(job->book.turns);
    free(job->book.due_of);
    free(job->strict_order);
    free(job->rest);
    model_restore_free(job);
    free(job->in_view);
    free(job);
}

struct job_book *model_named(const struct model *model, const char *name)
{
    for (unsigned place = 0; place < JOBS_MAX; place++)
        if (model->jobs[place] && strcmp(model->jobs[place]->plan->name, name) == 0)
            return model->jobs[place];
    return NULL;
}

bool model_has_failed(const struct model *model, sample_id id)
{
    const struct scenario *sc = model->scenario;
    bool failed = sc->samples[id].fault != FAULT_NONE || sc->samples[id].unfit;
    for (uint32_t i = 0; i < sc->n_pipelines && !failed; i++)
        failed = model->failed_step[(size_t)i * sc->n_samples + id] > 0;
    return failed;
}

bool model_is_new(const struct model *model, const char *name)
{
    return model_named(model, name) == NULL;
}

/* Plans are the ranks of one job when they were drawn together. */
static bool same_job(const struct client_plan *a, const struct client_plan *b)
{
    return a->world_size == b->world_size && a->world_size > 1 && a->seed == b->seed && a->batch_size == b->batch_size;
}

/* Why a rank may not attach to the job that has its name; 0: it may. */
static int attach_refusal(const struct job_book *job, const struct client_plan *plan,
                          const struct engine_resume *resume)
{
    if (job->plan->world_size == 1 && plan->world_size == 1)
        return LARDER_EBUSY;
    if (!same_job(job->plan, plan))
        return LARDER_EINVAL;
    int code = job->ranks[plan->rank].there ? LARDER_EBUSY : job->failed ? LARDER_EGONE : 0;
    return code ? code : model_restore_refusal(job, plan, resume);
}

/* A batch for each rank. */
static uint64_t row_bytes(const struct model *model, const struct client_plan *plan)
{
    uint64_t batch = plan->batch_size < plan->n_draws ? plan->batch_size : plan->n_draws;
    uint64_t share = (plan->n_draws + plan->world_size - 1) / plan->world_size;
    batch = batch < share ? batch : share;
    return batch * plan->world_size *
           engine_slot_bytes(&model->scenario->config, scenario_mean_slot(model->scenario, plan));
}

/* What may be promised to a job that comes now: all but what the others keep whoever comes. */
static uint64_t room_for(const struct model *model)
{
    const struct engine_config *config = &model->scenario->config;
    uint64_t room = config->arena_bytes / EXTENT_ALIGN * EXTENT_ALIGN;
    for (unsigned place = 0; place < JOBS_MAX; place++)
        room -= model->jobs[place] ? model->jobs[place]->least_bytes : 0;
    return config->job_quota_bytes && config->job_quota_bytes < room ? config->job_quota_bytes : room;
}

static void check_refusal(struct model *model, const struct client_plan *plan, const struct error *error)
{
    bool full = ENGINE_ROWS_MIN * row_bytes(model, plan) > room_for(model);
    const struct job_book *known = model_named(model, plan->name);
    bool right = model->draining || (known && error->code == attach_refusal(known, plan, model->adding_resume)) ||
                 (error->code == LARDER_EINVAL && (plan->invalid || plan->n_view == 0)) ||
                 (error->code == LARDER_EQUOTA && full) || (error->code == LARDER_ELIMIT && model->n_jobs == JOBS_MAX);
    if (!right)
        model_break(model, RULE_JOB, "job '%s' was refused without reason: %s: %s", plan->name,
                    larder_err_name(error->code), error->text);
    if (error->code == 0 || error->text[0] == '\0')
        model_break(model, RULE_JOB, "the refusal of job '%s' says nothing", plan->name);
}

static void check_addition(struct model *model, const struct client_plan *plan, const struct engine_action *action)
{
    const struct job_book *known = model_named(model, plan->name);
    if (!action->job_added.attached && model->adding_resume &&
        (action->job_added.epoch != model->adding_resume->epoch ||
         action->job_added.batch != model->adding_resume->base_batches + model->adding_resume->batches))
        model_break(model, RULE_STATE, "job '%s' is told to go on at batch %u of epoch %u, not where it said",
                    plan->name, action->job_added.batch, action->job_added.epoch);
    if (plan->invalid || (model->draining && !known) || (known && attach_refusal(known, plan, model->adding_resume)) ||
        (known != NULL) != action->job_added.attached)
        model_break(model, RULE_JOB, "job '%s' should have been refused", plan->name);
    uint32_t whole = plan->n_draws / plan->batch_size, rest = plan->n_draws % plan->batch_size;
    uint32_t n_batches = plan->world_size > 1 ? model_ranks_batches(plan) : whole + (rest && !plan->drop_last);
    if (action->job_added.n_batches != n_batches)
        model_break(model, RULE_BATCH, "job '%s' has %u batches an epoch, the engine says %u", plan->name, n_batches,
                    action->job_added.n_batches);
    if (action->job_added.held_max == 0)
        model_break(model, RULE_JOB, "job '%s' may hold no batch", plan->name);
    const struct engine_config *config = &model->scenario->config;
    uint64_t most = config->job_quota_bytes && config->job_quota_bytes < plan->quota_bytes ? config->job_quota_bytes
                                                                                           : plan->quota_bytes;
    if (action->job_added.quota_bytes > most)
        model_break(model, RULE_JOB, "job '%s' got a quota of %llu bytes, it may have %llu", plan->name,
                    (unsigned long long)action->job_added.quota_bytes, (unsigned long long)most);
}

/* What no other job may cost it: the batches that its client may hold. */
static uint64_t least_bytes(const struct model *model, const struct client_plan *plan,
                            const struct engine_action *added)
{
    uint32_t rows = added->job_added.held_max > ENGINE_ROWS_MIN ? added->job_added.held_max : ENGINE_ROWS_MIN;
    return rows * row_bytes(model, plan);
}

/* As many batches as it asked to hold, or as can be promised. */
static void check_promise(struct model *model, const struct client_plan *plan, const struct engine_action *action)
{
    uint64_t most = room_for(model) / row_bytes(model, plan), hold = scenario_hold(plan);
    hold = hold ? hold : ENGINE_ROWS_MIN;
    hold = hold < most ? hold : most;
    if (action->job_added.held_max != hold)
        model_break(model, RULE_HELD, "job '%s' may hold %u batches, %llu could be promised", plan->name,
                    action->job_added.held_max, (unsigned long long)hold);
    if (action->job_added.quota_bytes < least_bytes(model, plan, action))
        model_break(model, RULE_JOB, "job '%s' has a quota of %llu bytes, its least are %llu", plan->name,
                    (unsigned long long)action->job_added.quota_bytes,
                    (unsigned long long)least_bytes(model, plan, action));
}

void model_on_ahead(struct model *model, const struct engine_action *action)
{
    struct job_book *job = action->job < JOBS_MAX ? model->jobs[action->job] : NULL;
    if (job == NULL) {
        model_break(model, RULE_JOB, "the look-ahead of job %u changes, which does not exist", action->job);
        return;
    }
    uint64_t bytes = action->ahead.quota_bytes;
    bool less = bytes < job->quota_bytes;
    if (bytes < job->least_bytes || bytes > job->plan->quota_bytes || less != (action->ahead.to < action->ahead.from))
        model_break(model, RULE_JOB,
                    "job %u has a quota of %llu bytes after %llu, its least is %llu, it asked for %llu", action->job,
                    (unsigned long long)bytes, (unsigned long long)job->quota_bytes,
                    (unsigned long long)job->least_bytes, (unsigned long long)job->plan->quota_bytes);
    job->quota_bytes = bytes;
}

static void book_job(struct model *model, const struct client_plan *plan, const struct engine_action *action)
{
    const struct scenario *sc = model->scenario;
    struct job_book *job = calloc(1, sizeof *job);
    *job = (struct job_book){
        .serial = model->job_serials++,
        .plan = plan,
        .client = action->client,
        .n_batches = action->job_added.n_batches,
        .held_max = action->job_added.held_max,
        .quota_bytes = action->job_added.quota_bytes,
        .weight = plan->weight == 0 ? 1 : plan->weight,
        .least_bytes = least_bytes(model, plan, action),
        .book = {.begun_step = model->step,
                 .n = plan->n_draws,
                 .times = calloc(sc->n_samples, sizeof *job->book.times),
                 .turns = calloc(sc->n_samples, 1),
                 .due_of = calloc(sc->n_samples, sizeof *job->book.due_of)},
        .in_view = calloc(sc->n_samples, sizeof *job->in_view),
    };
    for (uint32_t i = 0; i < plan->n_view; i++)
        job->in_view[plan->view[i]] = true;
    if (plan->world_size > 1)
        model_ranks_book(model, job);
    else if (model->adding_resume)
        model_restore_note(model, job, 0, model->adding_resume);
    model->jobs[action->job] = job;
    model->n_jobs++;
    uint32_t number = model->adding_number;
    model->number_users[number]++;
    if (model->number_meaning[number] == 0) {
        model->number_pipeline[number] = plan->pipeline;
        model->number_meaning[number] = ++model->meanings;
    }
}

void model_on_answer(struct model *model, const struct engine_action *action)
{
    const struct client_plan *plan = model->adding;
    model->adding = NULL; /* its resume stays for the checks */
    if (plan == NULL || action->client != model->adding_client) {
        model_break(model, RULE_JOB, "a registration of client %llu is answered that was not asked for",
                    (unsigned long long)action->client);
        return;
    }
    if (action->type == ENGINE_JOB_REFUSED) {
        check_refusal(model, plan, &action->error.error);
        model->scenario->datasets[plan->dataset].users--;
        return;
    }
    if (action->job < JOBS_MAX && model->jobs[action->job] && action->job_added.attached) {
        check_addition(model, plan, action);
        if (model->broken == RULE_NONE)
            model_ranks_attach(model, model->jobs[action->job], action);
        model->scenario->datasets[plan->dataset].users--;
        return;
    }
    if (action->job >= JOBS_MAX || model->jobs[action->job]) {
        model_break(model, RULE_JOB, "job '%s' is put into place %u, which is not free", plan->name, action->job);
        return;
    }
    check_addition(model, plan, action);
    check_promise(model, plan, action);
    book_job(model, plan, action);
    if (plan->world_size > 1)
        model_ranks_attach(model, model->jobs[action->job], action);
}

void model_on_gone(struct model *model, uint32_t place, uint32_t rank)
{
    struct job_book *job = model->jobs[place];
    if (job == NULL)
        return;
    if (job->ranks) {
        model_ranks_gone(model, job, rank);
        return;
    }
    job->gone = true;
    for (uint32_t i = 0; i < job->n_held; i++) {
        for (uint32_t k = 0; k < job->held[i].count; k++)
            job->held[i].made[k]->held--;
        free(job->held[i].made);
    }
    job->n_held = 0;
}

void model_on_ended(struct model *model, const struct engine_action *action)
{
    struct job_book *job = action->job < JOBS_MAX ? model->jobs[action->job] : NULL;
    if (job == NULL || !job->gone || (action->client != job->client && !job->ranks)) {
        model_break(model, RULE_JOB, "job %u ends %s", action->job,
                    job ? "while its client is there" : "that does not exist");
        return;
    }
    bool replaced = model->adding && model->adding_resume && strcmp(model->adding->name, job->plan->name) == 0;
    if (job->ranks && !replaced && model_ranks_linger(job) &&
        model->now_ns - job->empty_since_ns < model->scenario->config.rank_timeout_ns) {
        model_break(model, RULE_JOB, "job %u ends while it should wait for its ranks", action->job);
        return;
    }
    uint32_t number = action->job_ended.pipeline;
    if (number >= ENGINE_PIPELINES_MAX || model->number_users[number] == 0 ||
        model->number_pipeline[number] != job->plan->pipeline ||
        action->job_ended.dataset != &model->scenario->datasets[job->plan->dataset]) {
        model_break(model, RULE_JOB, "job %u ends with another job's dataset or pipeline", action->job);
        return;
    }
    model->number_users[number]--;
    model->scenario->datasets[job->plan->dataset].users--;
    uint32_t dataset = job->plan->dataset;
    model->jobs[action->job] = NULL;
    model->n_jobs--;
    model_job_free(job);
    model_source_left(model, dataset);
}

void model_sample_failed(struct model *model, uint32_t pipeline, sample_id id)
{
    model->failed_step[(size_t)pipeline * model->scenario->n_samples + id] = model->step;
}

bool model_failed_since(const struct model *model, const struct client_plan *plan, sample_id id, uint64_t step)
{
    const struct scenario *sc = model->scenario;
    uint64_t failed_step = model->failed_step[(size_t)plan->pipeline * sc->n_samples + id];
    uint64_t unread_step = model->sources[plan->dataset].bad_step[id];
    failed_step = unread_step > failed_step ? unread_step : failed_step;
    return failed_step >= step || sc->samples[id].bytes > sc->config.encoded_bytes;
}

bool model_excused(const struct model *model, const struct job_book *job, sample_id id)
{
    return model_failed_since(model, job->plan, id, job->book.begun_step);
}

uint32_t model_count_excused(const struct model *model, const struct job_book *job)
{
    uint32_t excused = 0;
    for (uint32_t i = 0; i < job->plan->n_view; i++)
        excused += model_excused(model, job, job->plan->view[i]) ? model_due(job, job->plan->view[i]) : 0;
    return excused;
}

/* Under `strict` a variant stands for a job's variant and an epoch, one for one. */
static bool stands_for(struct model *model, uint64_t variant, uint64_t what)
{
    uint64_t key = random_mix64(what) | UINT64_C(1) << 63; /* the two ways in one table */
    uint64_t *known = table_at(&model->variants, variant), first = *known ? *known : what;
    *known = first;
    uint64_t *back = table_at(&model->variants, key), only = *back ? *back : variant;
    *back = only;
    return first == what && only == variant;
}

void model_check_had(struct model *model, const struct job_book *job, uint32_t place, const struct made *made)
{
    uint64_t *had = table_at(&model->had, (uint64_t)job->serial << 32 | made->serial), now = (uint64_t)job->epoch + 1;
    bool again = model->scenario->repeatable >> job->plan->pipeline & 1;
    if (again ? *had == now : *had != 0)
        model_break(model, RULE_INSTANCE, "job %u gets instance %llu of sample %u twice", place,
                    (unsigned long long)made->instance, made->id);
    *had = now;
}

void model_check_variant(struct model *model, const struct job_book *job, uint32_t place, const struct made *made)
{
    const struct client_plan *plan = job->plan;
    bool right = made->variant == plan->variant;
    if (plan->variant && plan->shuffle == SHUFFLE_STRICT)
        right = made->variant && stands_for(model, made->variant, random_mix64(plan->variant) + job->epoch);
    if (!right)
        model_break(model, RULE_INSTANCE, "job %u gets an instance of sample %u of another variant in epoch %u", place,
                    made->id, job->epoch);
}

const struct client_plan *model_steady_plan(const struct model *model, uint32_t place)
{
    const struct job_book *job = place < JOBS_MAX ? model->jobs[place] : NULL;
    bool steady = job && !job->ranks && !job->gone && !job->failed && job->plan->vanish_ns == SCENARIO_NEVER &&
                  job->plan->cancel_ns == SCENARIO_NEVER && job->plan->break_percent == 0 &&
                  job->plan->mischief_percent == 0;
    return steady ? job->plan : NULL;
}

bool model_could_miss(const struct model *model, uint32_t place, sample_id id)
{
    const struct job_book *job = model->jobs[place];
    return job == NULL || model_excused(model, job, id);
}

bool model_other_held(const struct model *model, uint32_t place, uint64_t batch, uint64_t *other)
{
    const struct job_book *job = model->jobs[place];
    for (uint32_t i = 0; job && i < job->n_held; i++) {
        if (job->held[i].batch != batch && job->held[i].count) {
            *other = job->held[i].batch;
            return true;
        }
    }
    return false;
}
