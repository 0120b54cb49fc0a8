/* demand.h: who wants what. */
#ifndef LARDER_SERVER_ENGINE_DEMAND_H
#define LARDER_SERVER_ENGINE_DEMAND_H

#include "server/engine/engine_priv.h"

/* May the job be given the instance, as far as pipeline, variant and what it had go? */
static inline bool demand_suits(const struct engine *engine, uint32_t job, const struct instance *instance)
{
    return instance->form.pipeline == engine->jobs.all[job].terms.pipeline && instance->form.variant == engine->jobs.all[job].progress.variant &&
           !jobset_has(&instance->form.had, job);
}

bool demand_prepare_alike(const struct engine *engine);
uint32_t demand_takers(const struct engine *engine, uint32_t *takers, uint32_t max);
double demand_apart(const struct engine *engine, const struct shortage *room, const bool *stocked);
bool demand_wants_instance(const struct engine *engine, uint32_t job, const struct instance *instance);
bool demand_wants_encoded(const struct engine *engine, uint32_t job, sample_id id);
uint32_t demand_count(const struct engine *engine, const struct instance *instance);
uint32_t demand_count_encoded(const struct engine *engine, sample_id id);
double demand_job_rate(const struct engine *engine, const struct job *job); /* samples a nanosecond that it was given since it came */

#endif
