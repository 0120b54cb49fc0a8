/* jobs_epochs.c: epochs begin and end, and batches are released. engine.h says what ranks owe each other. */
#include <stdlib.h>

#include "common/check.h"
#include "server/engine/encoded.h"
#include "server/engine/engine_priv.h"
#include "server/engine/jobs.h"
#include "server/engine/outbox.h"
#include "server/engine/plan.h"
#include "server/engine/queue.h"
#include "server/engine/residents.h"
#include "server/engine/resume.h"

/* ── epochs ── */

void jobs_rank_through(struct plan *plan, struct job *job, struct job_queue *queue)
{
    uint64_t reserved = queue_reserve_count(&queue->reserve);
    if (!queue->epoch.done)
        queue->epoch.left_from = queue_through(plan->queues, job, queue);
    queue->epoch.planned -= queue->line.queued;
    job->progress.abandoned += queue->line.queued + reserved;
    queue->reserve.at = queue->reserve.end = 0;
    plan_drop_entries(plan, queue);
    queue->epoch.done = true;
    queue->epoch.credits = 0;
}

/* epoch_end ends the epoch. Samples may remain of it, because ranks left it, or because they are less than a batch
 * under drop_last. They are wanted no more. */
static void epoch_end(struct engine *engine, uint32_t no, enum job_state next)
{
    struct job *job = job_at(&engine->jobs, no);
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++)
        jobs_rank_through(&engine->plan, job, &job->queues[rank]);
    job->state = next;
    residents_turned(&engine->residents, no);
    residents_drop_remaining(&engine->residents, no);
}

/* variant_of_epoch returns the number that stands for a variant in one epoch. It is never 0, and differs from epoch to
 * epoch. */
static uint64_t variant_of_epoch(uint64_t variant, uint32_t epoch)
{
    struct rng rng;
    random_seed_keys(&rng, variant, epoch, 0, 0);
    return random_u64(&rng) | 1;
}

/* begin_share takes out of the epoch what it deals to ranks at other nodes. The base that it is begun from stays in,
 * and comes out when the epoch is restored. */
static int begin_share(struct engine *engine, struct job *job, uint32_t epoch)
{
    const struct engine_part *part = &job->terms.part;
    if (part->world_size == 0 || job->terms.shuffle != SHUFFLE_DEPENDENT)
        return 0; /* a fixed order has no other samples than those of its ranks */
    idset_destroy(job->progress.away);
    job->progress.away = NULL;
    struct idset *share = NULL;
    const struct idset *base = job->resume && job->resume->epoch == epoch ? job->resume->base : NULL;
    int code = part->share(part->deal, epoch, base, &share);
    if (!code && base)
        idset_add_all(share, base);
    if (!code)
        code = idset_difference(job->terms.view, share, &job->progress.away);
    idset_destroy(share);
    return code ? code : sampler_take_all(engine->env.sampler, job->no, job->progress.away);
}

/* support_of makes the set of the samples of which some draw is counted. */
static int support_of(const struct job *job, const uint32_t *counts, struct idset **out)
{
    uint32_t n;
    const sample_id *ids = multiset_ids(job->terms.multiset, &n);
    idset_destroy(*out);
    *out = NULL;
    int code = idset_create(out);
    for (uint32_t i = 0; !code && i < n; i++)
        if (counts[i])
            idset_add(*out, ids[i]);
    return code;
}

/* begin_draws has those draws of the epoch's multiset drawn that the ranks here get. If they get none, because there
 * are more ranks than draws, any sample of the epoch will do to fill up their shares. */
static int begin_draws(struct engine *engine, struct job *job, uint32_t epoch, uint32_t *counts, bool *moved)
{
    const struct engine_part *part = &job->terms.part;
    int code = multiset_epoch(job->terms.multiset, epoch, counts);
    if (!code && job->shape.epoch_samples == 0)
        code = support_of(job, counts, &job->progress.support);
    if (!code && part->world_size)
        code = part->draws(part->deal, epoch, counts);
    if (!code && job->shape.epoch_samples)
        code = support_of(job, counts, &job->progress.support);
    if (!code)
        code = sampler_start_multiset(engine->env.sampler, job->no, counts, 0);
    return code ? code : plan_elsewhere_begin(&engine->plan, job, counts, moved);
}

/* begin_multiset and begin_set begin an epoch of a job whose epochs are multisets, or are not. *moved tells whether
 * the samples drawn here differ from before. */
static int begin_multiset(struct engine *engine, struct job *job, uint32_t epoch, bool *moved)
{
    uint32_t n;
    multiset_ids(job->terms.multiset, &n);
    uint32_t *counts = malloc(n * sizeof *counts);
    int code = counts ? begin_draws(engine, job, epoch, counts, moved) : LARDER_ENOMEM;
    free(counts);
    return code;
}

static int begin_set(struct engine *engine, struct job *job, uint32_t epoch, bool *moved)
{
    int code = begin_share(engine, job, epoch);
    return code ? code : plan_elsewhere_begin(&engine->plan, job, NULL, moved);
}

/* tell_no_start fails the job whose epoch cannot begin. */
static void tell_no_start(struct engine *engine, uint32_t no, int code, bool elsewhere)
{
    const char *text = "no memory to take out of the epoch what its ranks have had, or what other nodes get: free "
                       "memory, or lower the "
                       "budgets";
    if (elsewhere || (code == LARDER_EINVAL && job_at(&engine->jobs, no)->terms.part.world_size))
        text =
            "its ranks have had samples that this epoch deals to other nodes: start all ranks of the job again, from "
            "a checkpoint made between two epochs";
    else if (code == LARDER_EINVAL)
        text = "its ranks have had a sample more often than this epoch has it: start all ranks of the job again, from "
               "the same checkpoint";
    jobs_fail(engine, no, FAILURE_OTHER, elsewhere ? LARDER_EINVAL : code, text);
}

/* is_gone goes past the next sample of an order, and tells whether the base that the epoch is begun from has it. */
static bool is_gone(void *context)
{
    bool had;
    return resume_walk_next(context, &had) == RESUME_TAKEN || had;
}

/* start_drawing puts back what is drawn in an epoch: the view, or the part here of a fixed order, without its base. */
static void start_drawing(struct engine *engine, const struct job *job, uint32_t epoch)
{
    const struct resume *resume = job->resume;
    struct resume_walk walk;
    struct sampler_rest rest = {is_gone, &walk};
    if (job->terms.part.world_size && resume && resume->epoch == epoch && resume->n_segments) {
        resume_walk_begin(&walk, resume->segments, resume->n_segments);
        sampler_start_rest(engine->env.sampler, job->no, epoch, &rest);
    } else {
        sampler_start_epoch(engine->env.sampler, job->no, epoch);
    }
}

/* epoch_start begins the epoch for all ranks, except those that wait for a later one. */
static void epoch_start(struct engine *engine, uint32_t no, uint32_t epoch)
{
    struct job *job = job_at(&engine->jobs, no);
    start_drawing(engine, job, epoch);
    if (job->terms.shuffle == SHUFFLE_STRICT && job->terms.variant)
        job->progress.variant = variant_of_epoch(job->terms.variant, epoch);
    job->state = JOB_RUNNING;
    job->progress.began = true;
    job->progress.epoch = epoch;
    job->progress.samples = job->shape.epoch_samples;
    job->progress.part_samples = job->shape.part_samples;
    job->progress.draws = job->shape.view_samples;
    job->progress.base_batches = 0;
    job->progress.odd = 0;
    job->progress.drawn = job->progress.lost = job->progress.abandoned = job->progress.repeats = 0;
    job->progress.lost_before = 0;
    idset_remove_all(job->progress.bad, job->terms.view);
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        struct job_queue *queue = &job->queues[rank];
        queue->epoch.done = queue->next.asked && queue->next.epoch > epoch; /* the rank leaves this epoch out */
        queue->epoch.returned = queue->epoch.behind = false;
        queue->epoch.batch_index = queue->epoch.first_batch = queue->epoch.through = 0;
        queue->epoch.left_from = UINT32_MAX;
        queue->epoch.credits = queue->epoch.repeats_lost = 0;
        queue->epoch.planned = queue->epoch.delivered = queue->epoch.lost = queue->epoch.repeats = 0;
        if (queue->next.asked && !queue->epoch.done) {
            queue->next.asked = false;
            queue->epoch.credits = queue->next.credits;
        }
    }
    bool moved = false;
    int code = job->terms.multiset ? begin_multiset(engine, job, epoch, &moved) : begin_set(engine, job, epoch, &moved);
    if (moved) /* other chunks are worth keeping */
        split_keep(&engine->split);
    split_epoch(&engine->split, job);
    bool elsewhere = !code && job->resume && jobs_resume_elsewhere(job);
    int resumed = job->resume ? jobs_resume_begin(&engine->plan, job, !code && !elsewhere) : 0;
    code = code ? code : resumed;
    if (encoded_next_epoch(&engine->encoded, job)) /* before wants are counted, which notes next uses */
        residents_uses_changed(&engine->residents);
    residents_turned(&engine->residents, no);
    residents_renew(&engine->residents, job);
    encoded_shed(&engine->encoded);
    encoded_read_ahead_again(&engine->encoded);
    engine->plan.again = true;
    if (code || elsewhere)
        tell_no_start(engine, no, code, elsewhere);
}

/* may_lose tells whether the rank holds samples of the epoch that it may yet lose. If it dies, unreleased samples are
 * put back, unless it has asked for a later epoch: then it has taken everything. A job of one rank ends with its
 * client, so such a rank loses nothing. */
static bool may_lose(const struct job *job, const struct job_queue *queue)
{
    for (uint32_t at = 0; job->terms.world_size > 1 && !queue->next.asked && at < queue->n_leases; at++) {
        if (queue->leases[at].epoch == job->progress.epoch && queue->leases[at].count > 0)
            return true;
    }
    return false;
}

void jobs_turn_epoch(struct engine *engine, uint32_t no)
{
    struct job *job = job_at(&engine->jobs, no);
    struct job_queue *first = NULL;
    if (job->resume && !jobs_resume_ready(engine, job))
        return;
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        struct job_queue *queue = &job->queues[rank];
        if (job->state == JOB_RUNNING && (!queue->epoch.done || may_lose(job, queue)))
            return;
        if (queue->next.asked && (!first || queue->next.epoch < first->next.epoch))
            first = queue;
    }
    if (job->state == JOB_RUNNING)
        epoch_end(engine, no, JOB_IDLE);
    if (first)
        epoch_start(engine, no, job->resume ? jobs_resume_epoch(job) : first->next.epoch);
}

struct engine_action *jobs_act_error(struct outbox *outbox, const struct job *job, uint32_t rank)
{
    struct engine_action *action = job_act(outbox, ENGINE_JOB_ERROR, job);
    action->rank = rank;
    action->client = job->queues[rank].client.id;
    action->error.id = SAMPLE_NONE;
    return action;
}

/* name_others names the first bad samples of the epoch besides the one that the error is about. */
static void name_others(const struct job *job, struct engine_action *action)
{
    uint64_t count = idset_count(job->progress.bad);
    for (uint64_t i = 0; i < count && i < ENGINE_BAD_NAMED && action->error.n_others < ENGINE_BAD_NAMED - 1; i++) {
        if (job->progress.first_bad[i].id != action->error.id)
            action->error.others[action->error.n_others++] = job->progress.first_bad[i];
    }
}

void jobs_fail(struct engine *engine, uint32_t no, const struct failure *failure, int code, const char *text)
{
    struct job *job = job_at(&engine->jobs, no);
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        if (job->queues[rank].client.presence != RANK_THERE)
            continue;
        struct engine_action *action = jobs_act_error(&engine->outbox, job, rank);
        action->error.id = failure->id;
        action->error.reason = failure->reason;
        action->error.of_source = failure->of_source;
        action->error.dataset = job->terms.dataset;
        action->error.of_all_bad = failure->of_all_bad;
        if (failure->of_all_bad)
            name_others(job, action);
        error_set(&action->error.error, code, "job %s: %s", job->terms.name, text);
    }
    if (job->state == JOB_RUNNING)
        epoch_end(engine, no, JOB_FAILED);
    job->state = JOB_FAILED;
    residents_job_failed(&engine->residents, job);
    quota_keep_least(&engine->quota, job);
}

void jobs_on_release(struct engine *engine, const struct engine_event *event)
{
    const struct job *job = job_at(&engine->jobs, event->release.job);
    if (job->state != JOB_FREE) {
        CHECK(event->rank < job->terms.world_size);
        struct job_queue *queue = &job->queues[event->rank];
        for (uint32_t at = 0; at < queue->n_leases; at++) {
            if (queue->leases[at].batch == event->release.batch) {
                queue_lease_end(&engine->queues, queue, at);
                if (job->state == JOB_RUNNING && queue->epoch.done)
                    jobs_turn_epoch(engine, event->release.job);
                return;
            }
        }
    }
    engine->env.counts.unknown_releases++;
}
