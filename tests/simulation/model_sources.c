/* model_sources.c: sources that do not answer for a while. No sample is bad over that: each is tried again, one at a
 * time and after a pause, until the source answers or its jobs have waited long enough to be told so. A sample that
 * alone is not answered, again and again, is bad. What a dataset says of a sample is so for its own jobs. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "tests/simulation/model_priv.h"

#define PAUSE_LEAST_NS (50 * CLOCK_NS_PER_MS)
#define TRIES_LEAST 3

void model_sources_create(struct model *model)
{
    const struct scenario *sc = model->scenario;
    model->loads = xcalloc(sc->n_samples, sizeof *model->loads);
    model->sources = xcalloc(sc->n_datasets, sizeof *model->sources);
    for (uint32_t i = 0; i < sc->n_datasets; i++) {
        struct source_book *source = &model->sources[i];
        source->bad_step = xcalloc(sc->n_samples, sizeof *source->bad_step);
        source->changed_step = xcalloc(sc->n_samples, sizeof *source->changed_step);
    }
    model->tries = xcalloc(sc->n_samples, sizeof *model->tries);
    model->tries_from = xcalloc(sc->n_samples, sizeof *model->tries_from);
}

void model_sources_destroy(struct model *model)
{
    for (uint32_t i = 0; i < model->scenario->n_datasets; i++) {
        free(model->sources[i].bad_step);
        free(model->sources[i].changed_step);
    }
    free(model->tries);
    free(model->tries_from);
    free(model->sources);
    free(model->loads);
}

/* What failed in an epoch is known for as long as the epoch is: whoever goes on in it may miss it. */
void model_sources_crash(struct model *model)
{
    for (uint32_t i = 0; i < model->scenario->n_datasets; i++) {
        struct source_book *source = &model->sources[i];
        source->rounds = source->unanswered = source->asked = 0;
        source->life++;
    }
    memset(model->loads, 0, model->scenario->n_samples * sizeof *model->loads);
    memset(model->tries, 0, model->scenario->n_samples * sizeof *model->tries);
}

static bool has_jobs(const struct model *model, uint32_t dataset)
{
    for (uint32_t place = 0, left = model->n_jobs; left > 0; place++) {
        if (model->jobs[place] && model->jobs[place]->plan->dataset == dataset)
            return true;
        left -= model->jobs[place] != NULL;
    }
    return false;
}

void model_source_left(struct model *model, uint32_t dataset)
{
    struct source_book *source = &model->sources[dataset];
    if (has_jobs(model, dataset))
        return;
    source->unanswered = source->asked = 0;
    source->life++;
}

void model_source_load(struct model *model, uint32_t dataset, sample_id id)
{
    struct source_book *source = &model->sources[dataset];
    bool away = source->unanswered > 0;
    model->loads[id] = (struct load_book){
        .dataset = dataset, .round = source->rounds, .asked = away ? source->life + 1 : 0};
    if (away && source->asked++ > 0)
        model_break(model, RULE_TASK, "LOAD of sample %u while another finds out whether dataset %u answers again", id,
                    dataset);
    if (away && model->now_ns < source->failed_ns + PAUSE_LEAST_NS)
        model_break(model, RULE_TASK, "LOAD of sample %u from dataset %u, which has just not answered", id, dataset);
}

/* Loads that were under way when it began tell nothing new. */
static void not_answered(struct model *model, struct source_book *source, const struct load_book *load)
{
    if (!has_jobs(model, load->dataset))
        return;
    source->rounds++;
    if (source->unanswered == 0)
        source->since_ns = source->failed_ns = model->now_ns;
    if (load->asked == source->life + 1) /* it was asked by those who wait now, not by others before them */
        source->failed_ns = model->now_ns;
    source->unanswered++;
}

void model_source_loaded(struct model *model, const struct engine_event *event)
{
    sample_id id = event->loaded.id;
    const struct load_book *load = &model->loads[id];
    struct source_book *source = &model->sources[load->dataset];
    source->asked -= load->asked == source->life + 1;
    model->answers += event->loaded.encoded || event->loaded.fate != ENGINE_FATE_SOURCE;
    if (!event->loaded.encoded && event->loaded.fate == ENGINE_FATE_SOURCE) {
        if (model->tries[id]++ == 0)
            model->tries_from[id] = model->answers;
        not_answered(model, source, load);
        return;
    }
    if (event->loaded.encoded)
        model->tries[id] = 0;
    else if (event->loaded.fate == ENGINE_FATE_CHANGED)
        source->changed_step[id] = model->step;
    else
        source->bad_step[id] = model->step;
    if (load->round != source->rounds || !has_jobs(model, load->dataset))
        return;
    source->unanswered = 0;
}

void model_on_source(struct model *model, const struct engine_action *action)
{
    sample_id id = action->source.id;
    uint32_t dataset = (uint32_t)((const struct scenario_dataset *)action->source.dataset - model->scenario->datasets);
    if (dataset >= model->scenario->n_datasets || model->scenario->datasets[dataset].users == 0) {
        model_break(model, RULE_JOB, "news of a source that no job uses");
        return;
    }
    struct source_book *source = &model->sources[dataset];
    if (action->source.news != ENGINE_SOURCE_GAVE_UP)
        return;
    if (id >= model->scenario->n_samples || model->tries[id] < TRIES_LEAST ||
        model->answers < model->tries_from[id] + TRIES_LEAST - 1) {
        model_break(model, RULE_BAD, "sample %u is given up, which its source alone did not answer", id);
        return;
    }
    model->tries[id] = 0;
    source->unanswered -= source->unanswered > 0;
    source->bad_step[id] = model->step;
}

static void check_wait(struct model *model, const struct job_book *job, uint32_t place)
{
    const struct source_book *source = &model->sources[job->plan->dataset];
    if (source->unanswered == 0 || model->now_ns - source->since_ns < model->scenario->config.source_wait_ns)
        model_break(model, RULE_BAD, "job %u failed over its source, which %s", place,
                    source->unanswered ? "may yet answer" : "answers");
}

bool model_source_error(struct model *model, const struct job_book *job, const struct engine_action *action)
{
    const struct error *error = &action->error.error;
    sample_id id = action->error.id;
    if (error->code == LARDER_EIO) {
        check_wait(model, job, action->job);
        return true;
    }
    if (error->code != LARDER_ECHANGED)
        return false;
    if (id >= model->scenario->n_samples || !job->in_view[id] || !model->sources[job->plan->dataset].changed_step[id])
        model_break(model, RULE_BAD, "job %u failed over sample %u, which has not changed for it", action->job, id);
    return true;
}

bool model_is_retry(const struct model *model, sample_id id)
{
    return model->tries[id] > 0;
}

bool model_source_answers(const struct model *model, const void *dataset)
{
    return model->sources[(const struct scenario_dataset *)dataset - model->scenario->datasets].unanswered == 0;
}

uint64_t model_bad_max(const struct model *model, const struct client_plan *plan)
{
    const struct engine_config *config = &model->scenario->config;
    uint32_t samples = plan->n_view < plan->n_draws ? plan->n_view : plan->n_draws;
    uint64_t share = (uint64_t)(config->bad_share * samples);
    uint64_t max = share > config->bad_count ? share : config->bad_count, most = samples / ENGINE_BAD_PART;
    return !config->bad_limited ? UINT64_MAX : max < most ? max : most;
}
