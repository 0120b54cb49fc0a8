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

/* take_draws takes draws of a multiset out of R_j. LARDER_EINVAL: R_j has not so many of a sample. */
static int take_draws(struct plan *plan, const struct job *job, const sample_id *ids, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        if (!sampler_wants(plan->env->sampler, job->no, ids[i]))
            return LARDER_EINVAL;
        sampler_take(plan->env->sampler, job->no, ids[i]);
    }
    return 0;
}

/* take_had takes what was had out of R_j: a set, which may be NULL, and of a multiset the further draws. */
static int take_had(struct plan *plan, struct job *job, const struct idset *set, const struct engine_again *again)
{
    if (!job->terms.multiset)
        return set ? sampler_take_all(plan->env->sampler, job->no, set) : 0;
    uint64_t count = set ? idset_count(set) : 0;
    sample_id *ids = count ? malloc(count * sizeof *ids) : NULL;
    if (count && !ids)
        return LARDER_ENOMEM;
    if (count)
        idset_to_array(set, ids);
    int code = take_draws(plan, job, ids, count);
    free(ids);
    return code ? code : take_draws(plan, job, again->ids, again->count);
}

/* A list of copies that ranks had. */
struct copies {
    struct engine_copy *list;
    size_t n, cap;
};

/* note_copies adds the rank's copies, if some are still to come. */
static void note_copies(const struct plan *plan, const struct job *job, struct copies *copies, const sample_id *ids,
                        uint64_t count, uint32_t rank)
{
    for (uint64_t i = 0; i < count; i++) {
        if (!sampler_wants(plan->env->sampler, job->no, ids[i]) &&
            !(job->terms.homes.elsewhere && sampler_wants(plan->env->elsewhere, job->no, ids[i])))
            continue;
        copies->list = xgrow(copies->list, sizeof *copies->list, &copies->cap, copies->n + 1);
        copies->list[copies->n++] = (struct engine_copy){ids[i], rank};
    }
}

/* restore_copies deals the copies of samples of which some were had, and not all. */
static int restore_copies(struct plan *plan, struct job *job)
{
    const struct resume *resume = job->resume;
    struct copies copies = {NULL, 0, 0};
    int code = 0;
    for (uint32_t i = 0; i < resume->n_copies; i++)
        note_copies(plan, job, &copies, &resume->copies[i].id, 1, resume->copies[i].rank);
    for (uint32_t rank = 0; rank < resume->world_size && !code; rank++) {
        const struct resume_rank *told = &resume->ranks[rank];
        uint64_t count = has_part(resume, rank) && told->turns ? idset_count(told->turns) : 0;
        sample_id *ids = malloc((count + 1) * sizeof *ids);
        code = ids ? 0 : LARDER_ENOMEM;
        if (ids && count)
            idset_to_array(told->turns, ids);
        if (ids)
            note_copies(plan, job, &copies, ids, count, rank);
        if (ids && count)
            note_copies(plan, job, &copies, told->again.ids, told->again.count, rank);
        free(ids);
    }
    if (!code)
        plan_deal_parted(plan, job, copies.list, copies.n);
    free(copies.list);
    return code;
}

/* restore_sets takes out of R_j what was had. */
static int restore_sets(struct plan *plan, struct job *job)
{
    const struct resume *resume = job->resume;
    int code = take_had(plan, job, resume->base, &resume->base_again);
    for (uint32_t rank = 0; rank < resume->world_size && !code; rank++) {
        const struct resume_rank *told = &resume->ranks[rank];
        if (!has_part(resume, rank))
            continue;
        code = take_had(plan, job, told->turns, &told->again);
        restore_rank(job, &job->queues[rank], (told->turns ? idset_count(told->turns) : 0) + told->again.count);
    }
    return code || !job_is_together(job) || job->terms.world_size == 1 ? code : restore_copies(plan, job);
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
    uint32_t n = job->terms.part.world_size ? 0 : resume->n_segments; /* a part's order is what the base leaves */
    for (uint32_t i = 0; i < n; i++)
        segments[i] = resume->segments[i];
    segments[n] = (struct engine_segment){resume->world_size, through};
    resume_walk_begin(&walk, segments, n + 1);
    for (uint64_t ahead; (ahead = resume_walk_ahead(&walk)) > 0;) {
        sample_id ids[SAMPLER_SOME];
        ahead = ahead < SAMPLER_SOME ? ahead : SAMPLER_SOME;
        sampler_draw_some(plan->env->sampler, job->no, ids, ahead);
        for (uint64_t i = 0; i < ahead; i++)
            restore_next(job, &walk, ids[i]);
    }
    free(through);
}

int plan_restore(struct plan *plan, struct job *job)
{
    const struct resume *resume = job->resume;
    job->progress.samples = resume->samples;
    job->progress.part_samples = resume->part_samples;
    job->progress.draws = resume->draws;
    job->progress.base_batches = resume->base_batches;
    job->progress.base_key = resume->key;
    if (job->terms.shuffle == SHUFFLE_DEPENDENT)
        return restore_sets(plan, job);
    restore_order(plan, job);
    return 0;
}
