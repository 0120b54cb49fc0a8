/* plan_restore.c: an epoch goes on where the job's ranks were in it before the job was made. */
#include <stdlib.h>

#include "server/engine/plan.h"
#include "server/engine/queue.h"
#include "server/engine/resume.h"

/* has_part tells whether the rank received something of the epoch besides the base. */
static bool has_part(const struct resume *resume, uint32_t rank)
{
    return resume->ranks[rank].told && resume->ranks[rank].epoch == resume->epoch;
}

/* restore_rank moves a rank's queue on past what the rank received. `gone` samples have left R_j for it. `delivered` is
 * higher if some were repeats, and lower if some were bad. */
static void restore_rank(struct job *job, struct job_queue *queue, uint64_t gone)
{
    const struct resume_rank *told = &job->resume->ranks[queue->rank];
    struct rank_epoch *epoch = &queue->epoch;
    epoch->batch_index = epoch->first_batch = told->batches;
    epoch->planned = epoch->delivered = told->delivered;
    epoch->through = told->through;
    epoch->repeats = told->delivered > gone ? told->delivered - gone : 0;
    epoch->lost = told->delivered < gone ? gone - told->delivered : 0;
    job->progress.odd = told->delivered % job->terms.batch_size; /* the same for all: they had batches in step */
    job->progress.repeats += epoch->repeats;
    job->progress.lost += epoch->lost;
    job->progress.lost_before += epoch->lost;
}

/* restore_sets takes out of R_j what was had. */
static int restore_sets(struct plan *plan, struct job *job)
{
    const struct resume *resume = job->resume;
    int code = resume->base ? plan_take_had(plan, job, resume->base) : 0;
    for (uint32_t rank = 0; rank < resume->world_size && !code; rank++) {
        const struct idset *turns = has_part(resume, rank) ? resume->ranks[rank].turns : NULL;
        code = turns ? plan_take_had(plan, job, turns) : 0;
        if (has_part(resume, rank))
            restore_rank(job, &job->queues[rank], turns ? idset_count(turns) : 0);
    }
    return code;
}

/* restore_next goes past the next sample of the order. */
static void restore_next(struct job *job, struct resume_walk *walk, sample_id id)
{
    bool had;
    uint64_t position = resume_walk_next(walk, &had);
    if (position == RESUME_TAKEN)
        return;
    job->progress.drawn++;
    if (job->progress.first && position < job->terms.world_size)
        job->progress.first[position] = id;
    if (!had)
        plan_allot(job, position, id);
}

/* restore_order walks the order up to the last sample that was received, and deals those that nobody received. */
static void restore_order(struct plan *plan, struct job *job)
{
    const struct resume *resume = job->resume;
    uint32_t *through = xcalloc(resume->world_size, sizeof *through);
    struct engine_segment segments[ENGINE_SEGMENTS_MAX + 1];
    struct resume_walk walk;
    for (uint32_t rank = 0; rank < resume->world_size; rank++) {
        through[rank] = has_part(resume, rank) ? resume->ranks[rank].through : 0;
        if (has_part(resume, rank))
            restore_rank(job, &job->queues[rank], through[rank]);
    }
    for (uint32_t i = 0; i < resume->n_segments; i++)
        segments[i] = resume->segments[i];
    segments[resume->n_segments] = (struct engine_segment){resume->world_size, through};
    resume_walk_begin(&walk, segments, resume->n_segments + 1);
    for (uint64_t n; (n = resume_walk_ahead(&walk)) > 0;) {
        sample_id ids[SAMPLER_SOME];
        n = n < SAMPLER_SOME ? n : SAMPLER_SOME;
        sampler_draw_some(plan->env->sampler, job->no, ids, n);
        for (uint64_t i = 0; i < n; i++)
            restore_next(job, &walk, ids[i]);
    }
    free(through);
}

int plan_restore(struct plan *plan, struct job *job)
{
    const struct resume *resume = job->resume;
    job->progress.samples = resume->samples; /* a part has no base, and its share */
    job->progress.base_batches = resume->base_batches;
    job->progress.base_key = resume->key;
    if (job->terms.shuffle == SHUFFLE_DEPENDENT)
        return restore_sets(plan, job);
    restore_order(plan, job);
    return 0;
}
