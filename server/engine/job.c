/* job.c: answers questions about one job and about the table of jobs: terms, names, numbers. Nothing here changes
 * state. */
#include <string.h>

#include "common/check.h"
#include "server/engine/job.h"

enum { MEAN_OF = 256 /* samples whose sizes give the mean of all */ };

uint32_t job_free_place(const struct jobs *jobs)
{
    struct jobset taken = {{0}};
    uint32_t no = 0;
    for (const struct job *job = jobs_first(jobs); job; job = jobs_after(jobs, job)) {
        jobset_add(&taken, job->no);
        jobset_add(&taken, job->kin.had);
    }
    while (no < JOBS_MAX && jobset_has(&taken, no))
        no++;
    return no;
}

struct job *job_find_name(const struct jobs *jobs, const char *name)
{
    for (uint32_t i = 0; i < jobs->end; i++) {
        if (job_at(jobs, i)->state != JOB_FREE && strcmp(job_at(jobs, i)->terms.name, name) == 0)
            return job_at(jobs, i);
    }
    return NULL;
}

struct job *job_find_serial(const struct jobs *jobs, uint32_t serial)
{
    for (uint32_t i = 0; i < jobs->end; i++) {
        if (job_at(jobs, i)->state != JOB_FREE && job_at(jobs, i)->terms.serial == serial)
            return job_at(jobs, i);
    }
    return NULL;
}

double job_asked_weight(const struct engine_job_desc *desc)
{
    return desc->weight == 0 ? 1 : desc->weight;
}

bool job_well_formed(const struct engine_job_desc *desc)
{
    return desc->name && desc->name[0] && strlen(desc->name) < ENGINE_NAME_MAX &&
           desc->pipeline < ENGINE_PIPELINES_MAX && desc->slot_bytes > 0 && desc->batch_size >= 1 &&
           desc->batch_size <= ENGINE_BATCH_MAX && desc->prefetch >= 1 && desc->prefetch <= ENGINE_PREFETCH_MAX &&
           desc->hold <= ENGINE_HOLD_MAX && desc->sampled.shuffle <= SHUFFLE_NONE && desc->bad_policy <= BAD_ERROR &&
           desc->world_size <= ENGINE_RANKS_MAX && desc->rank < part_ranks(desc) && part_well_formed(desc) &&
           (desc->inherits != ENGINE_INHERITS_JOB || desc->predecessor < JOBS_MAX) &&
           (!desc->sampled.multiset || desc->sampled.shuffle == SHUFFLE_DEPENDENT) &&
           (!desc->homes.elsewhere || (desc->sampled.shuffle == SHUFFLE_DEPENDENT && !desc->raw)) &&
           job_asked_weight(desc) >= JOB_WEIGHT_MIN && job_asked_weight(desc) <= JOB_WEIGHT_MAX;
}

/* A batch holds no more samples than a rank's share. */
uint64_t job_batch_slots(const struct engine_job_desc *desc)
{
    uint64_t share = part_rank_samples(desc);
    return desc->batch_size < share ? desc->batch_size : share;
}

uint64_t job_mean_slot(const struct engine_config *config, const struct engine_job_desc *desc)
{
    bool mean = desc->sized && desc->mean_slot_bytes && !desc->homes.elsewhere;
    return engine_slot_bytes(config, mean ? desc->mean_slot_bytes : desc->slot_bytes);
}

uint64_t job_mean_bytes(const struct jobs *jobs, const struct engine_job_desc *desc)
{
    uint64_t count = idset_count(desc->sampled.view), step = count / MEAN_OF + 1, sum = 0, n = 0;
    for (uint64_t rank = 0; rank < count; rank += step, n++) {
        sample_id id = 0;
        CHECK(idset_select(desc->sampled.view, rank, &id));
        sum += jobs->env->config.sample_bytes(desc->dataset, id);
    }
    return (sum + n - 1) / n + !sum;
}

uint64_t job_begun_bytes(const struct engine_config *config, const struct job_terms *terms, sample_id id, bool expected)
{
    if (terms->raw)
        return config->sample_bytes(terms->dataset, id);
    if (!terms->sized || !config->made_bytes || expected)
        return terms->slot_bytes;
    uint64_t bytes = config->made_bytes(terms->dataset, terms->program, id);
    CHECK(bytes > 0 && bytes <= terms->slot_bytes);
    return bytes;
}

static bool multisets_differ(const struct multiset *a, const struct multiset *b)
{
    return !a || !b ? a != b : multiset_digest(a) != multiset_digest(b);
}

const char *job_terms_differ(const struct job *job, const struct engine_job_desc *desc)
{
    return job->terms.world_size != part_ranks(desc)                                            ? "world_size"
           : job->terms.part.world_size != desc->part.world_size                                ? "world_size"
           : job->terms.part.first != desc->part.first                                          ? "local_world_size"
           : job->terms.pipeline != desc->pipeline || job->terms.slot_bytes != desc->slot_bytes ? "pipeline"
           : job->terms.batch_size != desc->batch_size                                          ? "batch_size"
           : job->terms.prefetch != desc->prefetch                                              ? "prefetch"
           : job->terms.hold != desc->hold                                                      ? "zero_copy (C: hold)"
           : job->terms.epochs != desc->epochs                                                  ? "epochs"
           : job->terms.drop_last != desc->drop_last                                            ? "drop_last"
           : job->terms.shuffle != desc->sampled.shuffle                                        ? "shuffle"
           : job->terms.seed != desc->sampled.seed                                              ? "seed"
           : job->terms.part.rule != desc->part.rule                                            ? "deal or mix"
           : multisets_differ(job->terms.multiset, desc->sampled.multiset) ? "repeat or sampler (Weights, Balanced)"
           : job->terms.bad_policy != desc->bad_policy                     ? "bad_samples (C: bad)"
           : job->terms.weight != job_asked_weight(desc)                   ? "weight"
           : job->terms.ordered != (desc->ordered || desc->sampled.shuffle != SHUFFLE_DEPENDENT) ? "ordered"
           : job->terms.world_size > 1 && !idset_equal(job->terms.view, desc->sampled.view)      ? "dataset or subset"
                                                                                                 : NULL;
}

struct engine_action *job_act(struct outbox *outbox, enum engine_action_type type, const struct job *job)
{
    struct engine_action *action = outbox_add(outbox, type);
    action->job = job->no;
    action->client = job->terms.client;
    return action;
}
