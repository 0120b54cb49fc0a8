/* job.c: what is asked of one job and of the table of jobs: terms, names, places. Changes nothing. */
#include <string.h>

#include "preprocess/prepare.h"
#include "server/engine/job.h"

uint32_t job_free_place(const struct engine *engine)
{
    uint32_t place = 0;
    while (place < JOBS_MAX && engine->jobs.all[place].state != JOB_FREE)
        place++;
    return place;
}

struct job *job_find_name(const struct engine *engine, const char *name)
{
    for (uint32_t i = 0; i < engine->jobs.end; i++) {
        if (engine->jobs.all[i].state != JOB_FREE && strcmp(engine->jobs.all[i].terms.name, name) == 0)
            return &engine->jobs.all[i];
    }
    return NULL;
}

uint32_t job_world_size(const struct engine_job_desc *desc)
{
    return desc->world_size ? desc->world_size : 1;
}

double job_asked_weight(const struct engine_job_desc *desc)
{
    return desc->weight == 0 ? 1 : desc->weight;
}

bool job_well_formed(const struct engine_job_desc *desc)
{
    return desc->name && desc->name[0] && strlen(desc->name) < ENGINE_NAME_MAX && desc->pipeline < ENGINE_PIPELINES_MAX &&
           desc->slot_bytes > 0 && desc->batch_size >= 1 && desc->batch_size <= ENGINE_BATCH_MAX && desc->prefetch >= 1 &&
           desc->prefetch <= ENGINE_PREFETCH_MAX && desc->hold <= ENGINE_HOLD_MAX && desc->shuffle <= SHUFFLE_NONE &&
           desc->bad_policy <= BAD_ERROR && desc->world_size <= ENGINE_RANKS_MAX && desc->rank < job_world_size(desc) &&
           job_asked_weight(desc) >= JOB_WEIGHT_MIN && job_asked_weight(desc) <= JOB_WEIGHT_MAX;
}

/* The samples of a batch: no rank has more than its share. */
uint64_t job_batch_slots(const struct engine_job_desc *desc)
{
    uint64_t share = (idset_count(desc->view) + job_world_size(desc) - 1) / job_world_size(desc);
    return desc->batch_size < share ? desc->batch_size : share;
}

/* What of the description is another than the job's; NULL: nothing. */
const char *job_terms_differ(const struct job *job, const struct engine_job_desc *desc)
{
    return job->terms.world_size != job_world_size(desc)                                       ? "world_size"
           : job->terms.pipeline != desc->pipeline || job->terms.slot_bytes != desc->slot_bytes  ? "pipeline"
           : job->terms.batch_size != desc->batch_size                                     ? "batch_size"
           : job->terms.prefetch != desc->prefetch                                   ? "prefetch"
           : job->terms.hold != desc->hold                                           ? "zero_copy (C: hold)"
           : job->terms.epochs != desc->epochs                                             ? "epochs"
           : job->terms.drop_last != desc->drop_last                                       ? "drop_last"
           : job->terms.shuffle != desc->shuffle                                           ? "shuffle"
           : job->terms.seed != desc->seed                                                 ? "seed"
           : job->terms.bad_policy != desc->bad_policy                                     ? "bad_samples (C: bad)"
           : job->terms.weight != job_asked_weight(desc)                                 ? "weight"
           : job->terms.ordered != (desc->ordered || desc->shuffle != SHUFFLE_DEPENDENT)   ? "ordered"
           : job->terms.world_size > 1 && !idset_equal(job->terms.view, desc->view)              ? "dataset or subset"
                                                                                     : NULL;
}

/* No rank is there. Does the job wait for some all the same? See engine.h. */
bool job_lingers(const struct engine *engine, const struct job *job)
{
    bool to_come = false, done = false, open = false;
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        to_come = to_come || job->queues[rank].client.presence == RANK_TO_COME;
        done = done || job->queues[rank].epoch.done;
        open = open || !job->queues[rank].epoch.done;
    }
    return engine->config.rank_timeout_ns && job->terms.world_size > 1 && job->state != JOB_FAILED &&
           (to_come || (job->state == JOB_RUNNING && done && open));
}
