/* engine_status.c: what the engine tells about itself: totals, jobs, queues. */
#include <string.h>

#include "common/check.h"
#include "server/engine/engine_priv.h"
#include "server/engine/prepared.h"
#include "server/engine/queue.h"
#include "server/engine/quota.h"
#include "server/engine/sources.h"

void engine_totals(const struct engine *engine, struct engine_totals *out)
{
    CHECK_MAGIC(engine, ENGINE_MAGIC);
    uint64_t zoned_free_bytes = prepared_zones_free_bytes(&engine->prepared);
    *out = (struct engine_totals){.counts = engine->env.counts,
                                  .arena = {.used_bytes = prepared_used_bytes(&engine->prepared) - zoned_free_bytes,
                                            .reserved_bytes = prepared_there_bytes(&engine->prepared),
                                            .pinned_bytes = engine->prepared.pinned_bytes,
                                            .quota_bytes = engine->quota.promised_bytes},
                                  .encoded = {.used_bytes = engine->encoded.used_bytes,
                                              .budget_bytes = encoded_budget(&engine->encoded),
                                              .form_bytes = engine->encoded.forms.bytes,
                                              .forms = engine->encoded.forms.count,
                                              .ahead_bytes = quota_ahead_encoded_bytes(&engine->quota)},
                                  .loads_inflight = engine->encoded.loading,
                                  .prepares_inflight = engine->tasks.running + engine->tasks.copies};
    for (uint32_t no = 0; no < engine->jobs.end; no++) {
        out->jobs += job_at(&engine->jobs, no)->state != JOB_FREE;
        out->source_waits += engine->sources.n_away > 0 && sources_waits(&engine->sources, no);
    }
}

uint64_t engine_lacks(const struct engine *engine, uint32_t no)
{
    CHECK_MAGIC(engine, ENGINE_MAGIC);
    const struct job *job = job_at(&engine->jobs, no);
    uint64_t lacks = 0;
    bool stands = false;
    for (uint32_t rank = 0; job->state == JOB_RUNNING && rank < job->terms.world_size; rank++) {
        const struct job_queue *queue = &job->queues[rank];
        stands = stands || queue->tallies.stall.now;
        lacks += queue->line.queued - queue->line.ready;
    }
    return stands ? lacks : 0;
}

/* oldest_lease_s returns how long the client has held the oldest of its batches. */
static double oldest_lease_s(const struct job_queue *queue, uint64_t now_ns)
{
    uint64_t since_ns = now_ns;
    for (uint32_t i = 0; i < queue->n_leases; i++)
        since_ns = queue->leases[i].since_ns < since_ns ? queue->leases[i].since_ns : since_ns;
    return (double)(now_ns - since_ns) / 1e9;
}

/* fill_stall fills in how long the rank's client stood still; a stall that goes on counts up to now_ns. */
static void fill_stall(const struct rank_stall *stall, uint64_t now_ns, double *out)
{
    for (size_t cause = 0; cause < ENGINE_STALLS; cause++)
        out[cause] = (double)stall->ns[cause] / 1e9;
    if (stall->now)
        out[stall->cause] += (double)(now_ns - stall->counted_ns) / 1e9;
}

/* fill_queue fills in the status of one rank's queue; an open wait counts up to now_ns. */
static void fill_queue(const struct queues *queues, const struct job *job, uint32_t rank, uint64_t now_ns,
                       struct engine_queue_status *out)
{
    const struct job_queue *queue = &job->queues[rank];
    *out = (struct engine_queue_status){.rank = rank,
                                        .attached = queue->client.presence == RANK_THERE,
                                        .done = queue->epoch.done,
                                        .client = queue->client.id,
                                        .delivery = {.samples = queue->tallies.samples_delivered,
                                                     .batches = queue->tallies.batches_delivered,
                                                     .epoch_samples = queue->epoch.delivered,
                                                     .held_slots = queue->held_slots,
                                                     .ready_batches = queue_ready_batches(queues, job, queue),
                                                     .leased_batches = queue->n_leases,
                                                     .credits = queue->epoch.credits,
                                                     .wait_s = (double)queue_waited_ns(queue, now_ns) / 1e9,
                                                     .lease_s = oldest_lease_s(queue, now_ns)}};
    fill_stall(&queue->tallies.stall, now_ns, out->delivery.stall_s);
}

/* add_delivery adds the figures of one queue to those of its job. */
static void add_delivery(struct engine_delivery *sum, const struct engine_delivery *queue)
{
    sum->samples += queue->samples;
    sum->batches += queue->batches;
    sum->epoch_samples += queue->epoch_samples;
    sum->held_slots += queue->held_slots;
    sum->ready_batches += queue->ready_batches;
    sum->leased_batches += queue->leased_batches;
    sum->credits += queue->credits;
    sum->wait_s += queue->wait_s;
    for (size_t cause = 0; cause < ENGINE_STALLS; cause++)
        sum->stall_s[cause] += queue->stall_s[cause];
    sum->lease_s = queue->lease_s > sum->lease_s ? queue->lease_s : sum->lease_s;
}

/* fill_status fills in the status of one job, with the sums over its ranks. */
static void fill_status(const struct engine *engine, uint32_t no, uint64_t now_ns, struct engine_job_status *out)
{
    const struct job *job = job_at(&engine->jobs, no);
    *out = (struct engine_job_status){.job = no,
                                      .world_size = job->terms.world_size,
                                      .attached = job->attached,
                                      .client = job->terms.client,
                                      .pipeline = job->terms.pipeline,
                                      .batch_size = job->terms.batch_size,
                                      .epochs = job->terms.epochs,
                                      .held_max = job->terms.hold ? job->quota.held_max : 0,
                                      .weight = job->turns.weight,
                                      .view_samples = job->shape.view_samples,
                                      .epoch_samples = job->shape.epoch_samples,
                                      .quota_bytes = job->quota.bytes,
                                      .progress = {.started = job->progress.began,
                                                   .done = true,
                                                   .epoch = job->progress.epoch,
                                                   .remaining = job_left(&engine->env, job)},
                                      .ahead = {.asked = job->terms.prefetch,
                                                .allowed = job->quota.ahead_now - ENGINE_ROWS_MIN,
                                                .needed = quota_rows_needed(job) - ENGINE_ROWS_MIN},
                                      .samples_shared = job->tallies.samples_shared,
                                      .bad_samples = job->tallies.bad_samples,
                                      .instances_prepared = job->tallies.instances_prepared,
                                      .source.waits = sources_waits(&engine->sources, no)};
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        struct engine_queue_status queue;
        fill_queue(&engine->queues, job, rank, now_ns, &queue);
        add_delivery(&out->delivery, &queue.delivery);
        out->progress.done = out->progress.done && queue.done;
        out->progress.remaining += queue_reserve_count(&job->queues[rank].reserve);
        out->progress.lost += job->queues[rank].epoch.lost;
    }
    if (job->source.waits && out->source.waits)
        out->source.wait_s = (double)(now_ns - job->source.waits_since_ns) / 1e9;
    memcpy(out->name, job->terms.name, sizeof out->name);
}

size_t engine_queue_statuses(const struct engine *engine, uint32_t no, uint64_t now_ns, struct engine_queue_status *out,
                             size_t max)
{
    CHECK_MAGIC(engine, ENGINE_MAGIC);
    const struct job *job = job_at(&engine->jobs, no);
    CHECK(job->state != JOB_FREE);
    for (uint32_t rank = 0; rank < job->terms.world_size && rank < max; rank++)
        fill_queue(&engine->queues, job, rank, now_ns, &out[rank]);
    return job->terms.world_size;
}

size_t engine_job_statuses(const struct engine *engine, uint64_t now_ns, struct engine_job_status *out, size_t max)
{
    CHECK_MAGIC(engine, ENGINE_MAGIC);
    size_t count = 0;
    for (uint32_t no = 0; no < engine->jobs.end; no++) {
        if (job_at(&engine->jobs, no)->state == JOB_FREE)
            continue;
        if (count < max)
            fill_status(engine, no, now_ns, &out[count]);
        count++;
    }
    return count;
}

double engine_prepare_s(const struct engine *engine, uint32_t no)
{
    CHECK_MAGIC(engine, ENGINE_MAGIC);
    return job_at(&engine->jobs, no)->turns.cost_s;
}

int engine_copy_left(const struct engine *engine, uint32_t no, char name[ENGINE_NAME_MAX], struct sampler_left *out)
{
    CHECK_MAGIC(engine, ENGINE_MAGIC);
    if (no >= engine->jobs.end || job_at(&engine->jobs, no)->state == JOB_FREE ||
        !job_at(&engine->jobs, no)->progress.began)
        return LARDER_ENOENT;
    memcpy(name, job_at(&engine->jobs, no)->terms.name, ENGINE_NAME_MAX);
    return sampler_copy_left(engine->env.sampler, no, out);
}

uint64_t engine_needed(const struct engine *engine, sample_id id)
{
    CHECK_MAGIC(engine, ENGINE_MAGIC);
    const struct queues *queues = &engine->queues;
    uint64_t needed = UINT64_MAX;
    INSTANCES_OF(&engine->prepared, id, instance) {
        if (engine->prepared.instances[instance].state != INSTANCE_MAKING)
            continue;
        WAITERS_OF(queues, instance, index) {
            const struct entry *entry = &queues->entries[index];
            const struct line *line = &queue_of(queues, entry)->line.entries;
            uint64_t before = entry->place_in_line - queues->entries[line->head].place_in_line;
            needed = before < needed ? before : needed;
        }
    }
    return needed;
}
