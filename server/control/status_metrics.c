/* status_metrics.c: writes a snapshot as Prometheus text, by the table of all metrics (common/metrics_table.h). */
#include <stdio.h>
#include <string.h>

#include "common/metrics.h"
#include "server/control/status.h"

#define NUMBER_BYTES 24

static void put(struct metrics *metrics, enum metric_id id, double value)
{
    metrics_put(metrics, id, value, NULL);
}

static void put_labelled(struct metrics *metrics, enum metric_id id, double value, const char *label)
{
    metrics_put(metrics, id, value, &label);
}

/* put_known puts a value unless it is 0, which is not known. */
static void put_known(struct metrics *metrics, enum metric_id id, double value, const char *const *labels)
{
    if (value > 0)
        metrics_put(metrics, id, value, labels);
}

static void put_process(struct metrics *metrics, const struct daemon_status *status)
{
    const char *build[] = {status->version, status->decoders ? status->decoders : "unknown", __VERSION__};
    metrics_put(metrics, METRIC_BUILD_INFO, 1, build);
    put(metrics, METRIC_START_TIME, status->process.start_time_s);
    put(metrics, METRIC_CPU, status->process.cpu_s);
    put(metrics, METRIC_RESIDENT, (double)status->process.rss_bytes);
    put_known(metrics, METRIC_OPEN_FDS, status->process.open_fds, NULL);
    put_known(metrics, METRIC_MAX_FDS, status->process.max_fds, NULL);
    for (uint32_t i = 0; i < status->process.n_roles; i++)
        put_labelled(metrics, METRIC_THREADS, status->process.roles[i].count, status->process.roles[i].name);
    put(metrics, METRIC_SESSIONS, status->sessions);
    put(metrics, METRIC_JOBS, (double)status->n_jobs);
    put(metrics, METRIC_DATASETS, status->datasets);
}

static void put_counts(struct metrics *metrics, const struct engine_counts *counts, const char *const *bad_reasons)
{
    put(metrics, METRIC_SAMPLES_LOADED, (double)counts->samples_loaded);
    put(metrics, METRIC_READS, (double)counts->reads);
    put(metrics, METRIC_LOADED_BYTES, (double)counts->loaded_bytes);
    put(metrics, METRIC_SAMPLES_DECODED, (double)counts->samples_decoded);
    put(metrics, METRIC_FROM_DECODED, (double)counts->samples_from_forms);
    put(metrics, METRIC_SAMPLES_PREPARED, (double)counts->instances_prepared);
    put(metrics, METRIC_SAMPLES_DELIVERED, (double)counts->samples_delivered);
    for (size_t i = 0; i < BAD_REASONS; i++) {
        if (bad_reasons[i])
            put_labelled(metrics, METRIC_BAD_SAMPLES, (double)counts->bad_samples[i], bad_reasons[i]);
    }
    for (int level = 0; level < ENGINE_LEVELS; level++)
        put_labelled(metrics, METRIC_DELIVERED_FROM, (double)counts->delivered_from[level], status_levels[level]);
    put_labelled(metrics, METRIC_REDIRECTED, (double)counts->redirected_prepared, "prepared");
    put_labelled(metrics, METRIC_REDIRECTED, (double)counts->redirected_encoded, "encoded");
    put(metrics, METRIC_SOURCE_RETRIES, (double)counts->source_retries);
    put_labelled(metrics, METRIC_EVICTIONS, (double)counts->evicted_prepared, "prepared");
    put_labelled(metrics, METRIC_EVICTIONS, (double)counts->evicted_encoded, "encoded");
    put(metrics, METRIC_AHEAD_SHORTENED, (double)counts->ahead_shortened);
}

static void put_memory(struct metrics *metrics, const struct daemon_status *status)
{
    const struct engine_totals *totals = &status->totals;
    put(metrics, METRIC_ARENA_BUDGET, (double)status->arena_budget_bytes);
    put(metrics, METRIC_SAMPLES_BUDGET, (double)status->samples_budget_bytes);
    put(metrics, METRIC_ARENA_RESERVED, (double)totals->arena.reserved_bytes);
    put(metrics, METRIC_ARENA_USED, (double)totals->arena.used_bytes);
    put(metrics, METRIC_ARENA_PINNED, (double)totals->arena.pinned_bytes);
    put(metrics, METRIC_ENCODED_BUDGET, (double)totals->encoded.budget_bytes);
    put(metrics, METRIC_ENCODED_USED, (double)totals->encoded.used_bytes);
    put(metrics, METRIC_ENCODED_DECODED, (double)totals->encoded.form_bytes);
    put(metrics, METRIC_ENCODED_DECODED_SAMPLES, (double)totals->encoded.forms);
    put(metrics, METRIC_ENCODED_AHEAD, (double)totals->encoded.ahead_bytes);
    put(metrics, METRIC_SCRATCH_BUDGET, (double)status->scratch.budget_bytes);
    put(metrics, METRIC_SCRATCH_USED, (double)status->scratch.used_bytes);
    put(metrics, METRIC_SCRATCH_WAITS, (double)status->scratch.waits);
    put(metrics, METRIC_HISTORY, (double)status->history_bytes);
    put(metrics, METRIC_COLUMNS, (double)status->columns_bytes);
    put_labelled(metrics, METRIC_CATALOGS, (double)status->catalogs.samples_bytes, "samples");
    put_labelled(metrics, METRIC_CATALOGS, (double)status->catalogs.paths_bytes, "paths");
    put_labelled(metrics, METRIC_CATALOGS, (double)status->catalogs.identities_bytes, "identities");
}

static void put_stall(struct metrics *metrics, const struct engine_delivery *delivery, const char *const *queue)
{
    for (size_t cause = 0; cause < ENGINE_STALLS; cause++) {
        const char *labels[] = {queue[0], queue[1], status_stalls[cause]};
        metrics_put(metrics, METRIC_JOB_STALL, delivery->stall_s[cause], labels);
    }
}

static void put_class(struct metrics *metrics, const struct status_storage *storage, uint32_t number)
{
    const struct status_class *class = &storage->classes[number];
    char name[NUMBER_BYTES];
    snprintf(name, sizeof name, "%u", number + 1);
    put_labelled(metrics, METRIC_ORIGIN_SAMPLES, (double)class->read.samples, name);
    put_labelled(metrics, METRIC_ORIGIN_BYTES, (double)class->read.bytes, name);
    put_labelled(metrics, METRIC_STORAGE_SIZE, (double)class->size_bytes, name);
    put_labelled(metrics, METRIC_STORAGE_USED, (double)class->used_bytes, name);
    put_labelled(metrics, METRIC_STORAGE_SAMPLES, (double)class->samples, name);
    put_labelled(metrics, METRIC_STORAGE_PLANES, (double)class->planes, name);
    put_labelled(metrics, METRIC_STORAGE_WRITTEN, (double)class->written.bytes, name);
    put_labelled(metrics, METRIC_STORAGE_SKIPPED, (double)class->skipped, name);
    put_labelled(metrics, METRIC_STORAGE_CORRUPT, (double)class->corrupt, name);
    put_labelled(metrics, METRIC_STORAGE_LEFT_ALONE, class->left_alone, name);
    for (uint32_t i = 0; storage->states[i]; i++) {
        const char *labels[] = {name, storage->states[i]};
        metrics_put(metrics, METRIC_STORAGE_STATE, strcmp(storage->states[i], class->state) == 0, labels);
    }
}

static void put_storage(struct metrics *metrics, const struct status_storage *storage)
{
    put_labelled(metrics, METRIC_ORIGIN_SAMPLES, (double)storage->source.samples, "source");
    put_labelled(metrics, METRIC_ORIGIN_BYTES, (double)storage->source.bytes, "source");
    for (uint32_t i = 0; i < storage->n_classes; i++)
        put_class(metrics, storage, i);
}

static void put_queue(struct metrics *metrics, const struct status_job *job, const struct engine_queue_status *queue)
{
    char rank[NUMBER_BYTES];
    snprintf(rank, sizeof rank, "%u", job->first_rank + queue->rank);
    const char *labels[] = {job->engine.name, rank};
    metrics_put(metrics, METRIC_JOB_BATCHES, (double)queue->delivery.batches, labels);
    put_stall(metrics, &queue->delivery, labels);
    metrics_put(metrics, METRIC_JOB_LEASES, queue->delivery.leased_batches, labels);
    if (queue->delivery.leased_batches)
        metrics_put(metrics, METRIC_JOB_LEASE_AGE, queue->delivery.lease_s, labels);
    metrics_put(metrics, METRIC_JOB_DEPTH, queue->delivery.ready_batches, labels);
    metrics_put(metrics, METRIC_JOB_HELD, (double)queue->delivery.held_slots, labels);
    if (!job->governed)
        return;
    const struct status_queue *governed = &job->governed[queue->rank];
    metrics_put(metrics, METRIC_QUEUE_LOADERS, governed->loaders, labels);
    metrics_put(metrics, METRIC_QUEUE_PENDING, governed->pending_samples, labels);
    put_known(metrics, METRIC_QUEUE_LOAD, governed->load_s, labels);
    put_known(metrics, METRIC_QUEUE_PREPARE, governed->prepare_s, labels);
    put_known(metrics, METRIC_QUEUE_TRAIN, governed->train_s, labels);
    if (governed->train_s > 0) /* the predictions depend on it */
        metrics_put(metrics, METRIC_QUEUE_LATE, governed->late_s, labels);
}

static void put_governor(struct metrics *metrics, const struct status_governor *governor)
{
    put(metrics, METRIC_GOVERNOR_PREPARERS, governor->preparers);
    put(metrics, METRIC_GOVERNOR_LOADERS, governor->loaders);
    put_known(metrics, METRIC_GOVERNOR_PREPARE_RATE, governor->prepare_rate, NULL);
    put_known(metrics, METRIC_GOVERNOR_LOAD_RATE, governor->load_rate, NULL);
    put(metrics, METRIC_GOVERNOR_MOVES, (double)governor->moves);
}

static void put_job(struct metrics *metrics, const struct status_job *job)
{
    const struct engine_job_status *engine = &job->engine;
    const char *labels[] = {engine->name};
    metrics_put(metrics, METRIC_JOB_WEIGHT, engine->weight, labels);
    metrics_put(metrics, METRIC_JOB_DELIVERED, (double)engine->delivery.samples, labels);
    metrics_put(metrics, METRIC_JOB_AHEAD, engine->ahead.needed, labels);
    metrics_put(metrics, METRIC_JOB_SHARED, (double)engine->samples_shared, labels);
    metrics_put(metrics, METRIC_JOB_PREPARED, (double)engine->instances_prepared, labels);
    if (engine->instances_prepared)
        metrics_put(metrics, METRIC_JOB_SHARING, (double)engine->delivery.samples / (double)engine->instances_prepared,
                    labels);
    metrics_put_histogram(metrics, METRIC_JOB_WAIT_SECONDS, &job->waits, labels);
    metrics_put_histogram(metrics, METRIC_JOB_BATCH_SECONDS, &job->intervals, labels);
    metrics_put(metrics, METRIC_JOB_EPOCH, engine->progress.epoch, labels);
    metrics_put(metrics, METRIC_JOB_REMAINING, (double)engine->progress.remaining, labels);
    metrics_put(metrics, METRIC_JOB_BAD, (double)engine->bad_samples, labels);
    for (size_t i = 0; i < job->n_queues; i++)
        put_queue(metrics, job, &job->queues[i]);
    metrics_put(metrics, METRIC_GOVERNOR_JOB_LOADERS, job->loaders, labels);
    put_known(metrics, METRIC_GOVERNOR_JOB_AHEAD, job->ahead, labels);
}

static void put_cluster(struct metrics *metrics, const struct status_cluster *cluster)
{
    for (size_t state = 0; state < STATUS_NODE_STATES; state++) {
        size_t count = 0;
        for (size_t i = 0; i < cluster->n_nodes; i++)
            count += strcmp(cluster->nodes[i].state, status_node_states[state]) == 0;
        put_labelled(metrics, METRIC_CLUSTER_NODES, (double)count, status_node_states[state]);
    }
    put(metrics, METRIC_CLUSTER_GUESTS, cluster->guests);
    put(metrics, METRIC_CLUSTER_RECEIVED, (double)cluster->samples.received);
    put(metrics, METRIC_CLUSTER_GIVEN, (double)cluster->given);
    put(metrics, METRIC_CLUSTER_MOVED, (double)cluster->samples.moved);
    put(metrics, METRIC_CLUSTER_REFUSED, (double)cluster->samples.refused);
    put(metrics, METRIC_CLUSTER_REQUESTS, (double)cluster->requests);
    put(metrics, METRIC_CLUSTER_PROBES, (double)cluster->probes);
}

char *status_to_metrics(const struct daemon_status *status, size_t *len_bytes)
{
    struct metrics *metrics = NULL;
    if (metrics_create(&metrics) != 0)
        return NULL;
    put_process(metrics, status);
    put_counts(metrics, &status->totals.counts, status->bad_reasons);
    put(metrics, METRIC_SOURCE_WAITS, (double)status->totals.source_waits);
    metrics_put_histogram(metrics, METRIC_LOAD_SECONDS, &status->loads, NULL);
    metrics_put_histogram(metrics, METRIC_PREPARE_SECONDS, &status->preparations, NULL);
    metrics_put_histogram(metrics, METRIC_ENGINE_STEP_SECONDS, &status->steps, NULL);
    put(metrics, METRIC_ENGINE_STEP_LONGEST, status->steps.longest_s);
    put_memory(metrics, status);
    put_storage(metrics, &status->storage);
    put_governor(metrics, &status->governor);
    for (size_t i = 0; i < status->n_jobs; i++)
        put_job(metrics, &status->jobs[i]);
    if (status->cluster)
        put_cluster(metrics, status->cluster);
    char *text = metrics_render(metrics, len_bytes);
    metrics_destroy(metrics);
    return text;
}
