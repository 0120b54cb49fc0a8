/* jobs_epochs.c: epochs begin and end, batches are delivered and released. engine.h says what ranks owe each other. */
#include "server/engine/encoded.h"
#include "server/engine/jobs.h"
#include "server/engine/outbox.h"
#include "server/engine/plan.h"
#include "server/engine/queue.h"
#include "server/engine/residents.h"

/* ── epochs ── */

/* The rank is through with the epoch: it has had its share, or it goes on without the rest. */
void jobs_queue_done(struct engine *engine, struct job *job, struct job_queue *queue)
{
    uint64_t reserved = reserve_count(&queue->reserve);
    queue->planned -= queue->queued;
    job->left += queue->queued + reserved;
    queue->reserve.at = queue->reserve.end = 0;
    plan_drop_all(engine, queue);
    queue->done = true;
    queue->credits = 0;
}

/* What remains (ranks left it, or less than a batch under drop_last) is wanted no more. */
static void epoch_end(struct engine *engine, uint32_t place, enum job_state next)
{
    struct job *job = &engine->jobs.all[place];
    for (uint32_t rank = 0; rank < job->world_size; rank++)
        jobs_queue_done(engine, job, &job->queues[rank]);
    residents_withdraw(engine, place);
    job->state = next;
    residents_drop_left(engine, place);
}

/* Never 0, and no variant's of another epoch. */
static uint64_t variant_of_epoch(uint64_t variant, uint32_t epoch)
{
    struct rng rng;
    random_seed_keys(&rng, variant, epoch, 0, 0);
    return random_u64(&rng) | 1;
}

static void epoch_start(struct engine *engine, uint32_t place, uint32_t epoch)
{
    struct job *job = &engine->jobs.all[place];
    sampler_start_epoch(engine->sampler, place, epoch);
    if (job->shuffle == SHUFFLE_STRICT && job->variant_seed)
        job->variant = variant_of_epoch(job->variant_seed, epoch);
    job->state = JOB_RUNNING;
    job->began = true;
    job->epoch = epoch;
    job->drawn = job->lost = job->left = job->repeats = 0;
    idset_remove_all(job->bad, job->view);
    for (uint32_t rank = 0; rank < job->world_size; rank++) {
        struct job_queue *queue = &job->queues[rank];
        queue->done = queue->waits && queue->wanted_epoch > epoch; /* it left this one out */
        queue->returned = false;
        queue->batch_index = queue->credits = queue->repeats_lost = 0;
        queue->planned = queue->delivered = queue->lost = queue->repeats = 0;
        if (queue->waits && !queue->done) {
            queue->waits = false;
            queue->credits = queue->wanted_credits;
        }
    }
    residents_declare(engine, place);
    encoded_read_ahead_again(engine);
    engine->plan.again = true;
}

/* Has it been given batches of the epoch that it may yet lose? What it has not released is put back should it die; who asks
 * for a later epoch has taken all. (A job of one rank ends with its client.) */
static bool may_lose(const struct job *job, const struct job_queue *queue)
{
    for (uint32_t at = 0; job->world_size > 1 && !queue->waits && at < queue->n_leases; at++) {
        if (queue->leases[at].epoch == job->epoch && queue->leases[at].count > 0)
            return true;
    }
    return false;
}

/* Ends the epoch when every rank is through with it, and begins the lowest that a rank waits for. */
void jobs_turn_epoch(struct engine *engine, uint32_t place)
{
    struct job *job = &engine->jobs.all[place];
    struct job_queue *first = NULL;
    for (uint32_t rank = 0; rank < job->world_size; rank++) {
        struct job_queue *queue = &job->queues[rank];
        if (job->state == JOB_RUNNING && (!queue->done || may_lose(job, queue)))
            return;
        if (queue->waits && (!first || queue->wanted_epoch < first->wanted_epoch))
            first = queue;
    }
    if (job->state == JOB_RUNNING)
        epoch_end(engine, place, JOB_IDLE);
    if (first)
        epoch_start(engine, place, first->wanted_epoch);
}

struct engine_action *jobs_act_error(struct engine *engine, uint32_t place, uint32_t rank)
{
    struct engine_action *action = outbox_add_job(engine, ENGINE_JOB_ERROR, place);
    action->rank = rank;
    action->client = engine->jobs.all[place].queues[rank].client;
    action->error.id = SAMPLE_NONE;
    return action;
}

void jobs_fail(struct engine *engine, uint32_t place, sample_id id, int code, const char *text)
{
    struct job *job = &engine->jobs.all[place];
    for (uint32_t rank = 0; rank < job->world_size; rank++) {
        if (!job->queues[rank].attached)
            continue;
        struct engine_action *action = jobs_act_error(engine, place, rank);
        action->error.id = id;
        action->error.reason = id == SAMPLE_NONE ? 0 : engine->failing;
        action->error.dataset = job->dataset;
        error_set(&action->error.error, code, "job %s: %s", job->name, text);
    }
    if (job->state == JOB_RUNNING)
        epoch_end(engine, place, JOB_FAILED);
    job->state = JOB_FAILED;
    job->most = job->asked = job->least; /* what its clients may still hold */
    engine->quota.divide = true;
}

void jobs_on_release(struct engine *engine, const struct engine_event *event)
{
    const struct job *job = &engine->jobs.all[event->release.job];
    if (job->state != JOB_FREE) {
        CHECK(event->rank < job->world_size);
        struct job_queue *queue = &job->queues[event->rank];
        for (uint32_t at = 0; at < queue->n_leases; at++) {
            if (queue->leases[at].batch == event->release.batch) {
                queue_lease_end(engine, queue, at);
                if (job->state == JOB_RUNNING && queue->done)
                    jobs_turn_epoch(engine, event->release.job);
                return;
            }
        }
    }
    engine->totals.unknown_releases++;
}
