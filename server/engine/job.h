/* job.h: what is asked of a job. */
#ifndef LARDER_SERVER_ENGINE_JOB_H
#define LARDER_SERVER_ENGINE_JOB_H

#include "server/engine/engine_priv.h"

uint32_t job_free_place(const struct engine *engine);
struct job *job_find_name(const struct engine *engine, const char *name);
uint32_t job_world_size(const struct engine_job_desc *desc);
double job_asked_weight(const struct engine_job_desc *desc);
bool job_well_formed(const struct engine_job_desc *desc);
uint64_t job_batch_slots(const struct engine_job_desc *desc);
const char *job_terms_differ(const struct job *job, const struct engine_job_desc *desc);
bool job_lingers(const struct engine *engine, const struct job *job);

#endif
