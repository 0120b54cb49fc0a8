/* status_json.c: writes a snapshot as JSON. status.h documents the keys, which stay. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "server/control/status.h"
#include "server/control/text.h"

static json_t *count(uint64_t value)
{
    return json_integer(value <= INT64_MAX ? (json_int_t)value : INT64_MAX);
}

/* known_count returns null for 0, which is not known. */
static json_t *known_count(uint64_t value)
{
    return value ? count(value) : json_null();
}

/* put adds a value, which it takes over, to an object. A NULL value (out of memory) leaves a hole that json_dumps does
 * not know of, so put notes it in *failed. */
static void put(json_t *object, const char *key, json_t *value, bool *failed)
{
    if (json_object_set_new(object, key, value) != 0)
        *failed = true;
}

/* append does the same for an array. */
static void append(json_t *rows, json_t *row, bool *failed)
{
    if (json_array_append_new(rows, row) != 0)
        *failed = true;
}

static json_t *settings_json(const struct status_settings *settings, bool *failed)
{
    json_t *row = json_object();
    put(row, "threads.workers", count(settings->workers), failed);
    put(row, "threads.loaders", count(settings->loaders), failed);
    put(row, "jobs.quota", json_real(settings->job_quota), failed);
    put(row, "storage", count(settings->classes), failed);
    return row;
}

static json_t *daemon_json(const struct daemon_status *status, bool *failed)
{
    json_t *daemon = json_object(), *threads = json_object(), *places = json_object();
    put(daemon, "version", text_json(status->version), failed);
    put(daemon, "pid", count(status->process.pid), failed);
    put(daemon, "state", text_json(status->draining ? "draining" : "running"), failed);
    put(daemon, "socket", text_json(status->socket), failed);
    put(daemon, "page", *status->page ? text_json(status->page) : json_null(), failed);
    put(daemon, "uptime_s", json_real(status->process.uptime_s), failed);
    put(daemon, "start_time_s", json_real(status->process.start_time_s), failed);
    put(daemon, "time_s", json_real(status->process.time_s), failed);
    put(daemon, "rss_bytes", count(status->process.rss_bytes), failed);
    put(daemon, "cpu_s", json_real(status->process.cpu_s), failed);
    put(daemon, "open_fds", known_count(status->process.open_fds), failed);
    put(daemon, "max_fds", known_count(status->process.max_fds), failed);
    put(daemon, "sessions", count(status->sessions), failed);
    put(daemon, "datasets", count(status->datasets), failed);
    for (uint32_t i = 0; i < status->process.n_roles; i++)
        put(threads, status->process.roles[i].name, count(status->process.roles[i].count), failed);
    put(daemon, "threads", threads, failed);
    put(daemon, "settings", settings_json(&status->settings, failed), failed);
    for (uint32_t i = 0; i < status->n_places; i++)
        put(places, status->places[i].setting, text_json(status->places[i].place), failed);
    put(daemon, "places", places, failed);
    return daemon;
}

static json_t *samples_json(const struct daemon_status *status, bool *failed)
{
    const struct engine_counts *counts = &status->totals.counts;
    json_t *samples = json_object(), *bad = json_object(), *redirected = json_object(), *from = json_object();
    uint64_t delivered = counts->samples_delivered;
    put(samples, "loaded", count(counts->samples_loaded), failed);
    put(samples, "loaded_bytes", count(counts->loaded_bytes), failed);
    put(samples, "reads", count(counts->reads), failed);
    put(samples, "decoded", count(counts->samples_decoded), failed);
    put(samples, "from_decoded", count(counts->samples_from_forms), failed);
    put(samples, "prepared", count(counts->instances_prepared), failed);
    put(samples, "delivered", count(delivered), failed);
    put(samples, "prepared_per_delivered",
        delivered ? json_real((double)counts->instances_prepared / (double)delivered) : json_null(), failed);
    put(redirected, "prepared", count(counts->redirected_prepared), failed);
    put(redirected, "encoded", count(counts->redirected_encoded), failed);
    put(samples, "redirected", redirected, failed);
    for (int level = 0; level < ENGINE_LEVELS; level++)
        put(from, status_levels[level], count(counts->delivered_from[level]), failed);
    put(samples, "delivered_from", from, failed);
    for (size_t i = 0; i < BAD_REASONS; i++) {
        if (status->bad_reasons[i])
            put(bad, status->bad_reasons[i], count(counts->bad_samples[i]), failed);
    }
    put(samples, "bad", bad, failed);
    put(samples, "prepare_s", json_real(status->preparations.sum_s), failed);
    return samples;
}

static json_t *memory_json(const struct daemon_status *status, bool *failed)
{
    const struct engine_totals *totals = &status->totals;
    json_t *memory = json_object(), *arena = json_object(), *encoded = json_object(), *evicted = json_object(),
           *scratch = json_object(), *samples = json_object();
    put(samples, "budget_bytes", count(status->samples_budget_bytes), failed);
    put(samples, "moves", json_boolean(status->room_moves), failed);
    put(arena, "budget_bytes", count(status->arena_budget_bytes), failed);
    put(arena, "reserved_bytes", count(totals->arena.reserved_bytes), failed);
    put(arena, "used_bytes", count(totals->arena.used_bytes), failed);
    put(arena, "pinned_bytes", count(totals->arena.pinned_bytes), failed);
    put(arena, "quota_bytes", count(totals->arena.quota_bytes), failed);
    put(encoded, "budget_bytes", count(totals->encoded.budget_bytes), failed);
    put(encoded, "used_bytes", count(totals->encoded.used_bytes), failed);
    put(encoded, "decoded_bytes", count(totals->encoded.form_bytes), failed);
    put(encoded, "decoded_samples", count(totals->encoded.forms), failed);
    put(encoded, "look_ahead_bytes", count(totals->encoded.ahead_bytes), failed);
    put(scratch, "budget_bytes", count(status->scratch.budget_bytes), failed);
    put(scratch, "used_bytes", count(status->scratch.used_bytes), failed);
    put(scratch, "waiting", count(status->scratch.waiting), failed);
    put(scratch, "waits", count(status->scratch.waits), failed);
    put(evicted, "prepared", count(totals->counts.evicted_prepared), failed);
    put(evicted, "encoded", count(totals->counts.evicted_encoded), failed);
    put(memory, "samples", samples, failed);
    put(memory, "arena", arena, failed);
    put(memory, "encoded", encoded, failed);
    put(memory, "scratch", scratch, failed);
    put(memory, "evicted", evicted, failed);
    put(memory, "history", json_pack("{s:I}", "budget_bytes", (json_int_t)status->history_bytes), failed);
    put(memory, "catalogs",
        json_pack("{s:I,s:I,s:I,s:I}", "budget_bytes", (json_int_t)status->catalogs.budget_bytes, "samples_bytes",
                  (json_int_t)status->catalogs.samples_bytes, "paths_bytes", (json_int_t)status->catalogs.paths_bytes,
                  "identities_bytes", (json_int_t)status->catalogs.identities_bytes),
        failed);
    put(memory, "columns", json_pack("{s:I}", "used_bytes", (json_int_t)status->columns_bytes), failed);
    return memory;
}

static json_t *read_json(const struct status_read *read, bool *failed)
{
    json_t *row = json_object();
    put(row, "samples", count(read->samples), failed);
    put(row, "bytes", count(read->bytes), failed);
    return row;
}

static json_t *storage_json(const struct status_storage *storage, bool *failed)
{
    json_t *root = json_object(), *classes = json_array();
    put(root, "source", read_json(&storage->source, failed), failed);
    for (uint32_t i = 0; i < storage->n_classes; i++) {
        const struct status_class *from = &storage->classes[i];
        json_t *row = json_object();
        put(row, "path", text_json(from->path), failed);
        put(row, "state", text_json(from->state), failed);
        put(row, "form", text_json(from->in_planes ? "planes" : "as_read"), failed);
        put(row, "size_bytes", count(from->size_bytes), failed);
        put(row, "used_bytes", count(from->used_bytes), failed);
        put(row, "samples", count(from->samples), failed);
        put(row, "planes", count(from->planes), failed);
        put(row, "planes_left", count(from->planes_left), failed);
        put(row, "segments", count(from->segments), failed);
        put(row, "read", read_json(&from->read, failed), failed);
        put(row, "written", read_json(&from->written, failed), failed);
        put(row, "waiting_bytes", count(from->waiting_bytes), failed);
        put(row, "skipped", count(from->skipped), failed);
        put(row, "corrupt", count(from->corrupt), failed);
        put(row, "given_up", count(from->given_up), failed);
        put(row, "left_alone", json_boolean(from->left_alone), failed);
        put(row, "mb_per_s", from->bytes_per_s > 0 ? json_real(from->bytes_per_s / 1e6) : json_null(), failed);
        append(classes, row, failed);
    }
    put(root, "classes", classes, failed);
    return root;
}

static json_t *known_ms(double seconds)
{
    return seconds > 0 ? json_real(seconds * 1e3) : json_null();
}

static json_t *governed_json(const struct status_queue *from, bool *failed)
{
    json_t *row = json_object();
    put(row, "line", count(from->line), failed);
    put(row, "loaders", count(from->loaders), failed);
    put(row, "reading", count(from->reading), failed);
    put(row, "pending_reads", count(from->pending_reads), failed);
    put(row, "pending_samples", count(from->pending_samples), failed);
    put(row, "load_ms", known_ms(from->load_s), failed);
    put(row, "prepare_ms", known_ms(from->prepare_s), failed);
    put(row, "train_ms", known_ms(from->train_s), failed);
    put(row, "late_ms", from->train_s > 0 ? json_real(from->late_s * 1e3) : json_null(), failed);
    return row;
}

static json_t *stall_json(const struct engine_delivery *delivery, bool *failed)
{
    json_t *row = json_object();
    for (size_t cause = 0; cause < ENGINE_STALLS; cause++)
        put(row, status_stalls[cause], json_real(delivery->stall_s[cause]), failed);
    return row;
}

static json_t *queues_json(const struct status_job *job, bool *failed)
{
    json_t *queues = json_array();
    for (size_t i = 0; i < job->n_queues; i++) {
        const struct engine_queue_status *from = &job->queues[i];
        const struct engine_delivery *delivery = &from->delivery;
        json_t *queue = json_object();
        put(queue, "rank", count((uint64_t)job->first_rank + from->rank), failed);
        put(queue, "ready_batches", count(delivery->ready_batches), failed);
        put(queue, "leased_batches", count(delivery->leased_batches), failed);
        put(queue, "oldest_lease_s", delivery->leased_batches ? json_real(delivery->lease_s) : json_null(), failed);
        put(queue, "credits", count(delivery->credits), failed);
        put(queue, "stall_s", stall_json(delivery, failed), failed);
        put(queue, "attached", json_boolean(from->attached), failed);
        put(queue, "done", json_boolean(from->done), failed);
        put(queue, "epoch_delivered", count(delivery->epoch_samples), failed);
        put(queue, "batches", count(delivery->batches), failed);
        put(queue, "pid", known_count(job->clients ? job->clients[i].pid : 0), failed);
        put(queue, "process", text_json(job->clients ? job->clients[i].state : NULL), failed);
        put(queue, "governor", job->governed ? governed_json(&job->governed[i], failed) : json_null(), failed);
        append(queues, queue, failed);
    }
    return queues;
}

static json_t *store_json(const struct status_store *store, bool *failed)
{
    if (!store->packed)
        return json_null();
    json_t *row = json_object();
    put(row, "max_side", known_count(store->max_side), failed);
    put(row, "quality", store->max_side ? count(store->quality) : json_null(), failed);
    put(row, "shrunk", count(store->samples_shrunk), failed);
    put(row, "undecoded", count(store->samples_undecoded), failed);
    put(row, "restart_rows", store->restart_rows ? count(store->samples_restart_rows) : json_null(), failed);
    put(row, "planes", store->planes ? count(store->samples_planes) : json_null(), failed);
    return row;
}

static json_t *job_json(const struct status_job *job, bool *failed)
{
    const struct engine_job_status *engine = &job->engine;
    json_t *row = json_object();
    put(row, "name", text_json(engine->name), failed);
    put(row, "job", count(engine->job), failed);
    put(row, "id", known_count(job->id), failed);
    put(row, "pid", known_count(job->pid), failed);
    put(row, "client", text_json(job->client), failed);
    put(row, "dataset", text_json(job->dataset), failed);
    put(row, "dataset_samples", known_count(job->dataset_samples), failed);
    put(row, "store", store_json(&job->store, failed), failed);
    put(row, "pipeline", text_json(job->pipeline), failed);
    put(row, "weight", json_real(engine->weight), failed);
    put(row, "batch_size", count(engine->batch_size), failed);
    put(row, "prefetch", count(engine->ahead.allowed), failed);
    put(row, "prefetch_asked", count(engine->ahead.asked), failed);
    put(row, "look_ahead", count(engine->ahead.needed), failed);
    put(row, "epoch", count(engine->progress.epoch), failed);
    put(row, "epochs", count(engine->epochs), failed);
    put(row, "started", json_boolean(engine->progress.started), failed);
    put(row, "view_samples", count(engine->view_samples), failed);
    put(row, "epoch_samples", count(engine->epoch_samples), failed);
    put(row, "remaining", count(engine->progress.remaining), failed);
    put(row, "epoch_delivered", count(engine->delivery.epoch_samples), failed);
    put(row, "delivered", count(engine->delivery.samples), failed);
    put(row, "batches", count(engine->delivery.batches), failed);
    put(row, "shared", count(engine->samples_shared), failed);
    put(row, "bad_samples", count(engine->bad_samples), failed);
    put(row, "epoch_lost", count(engine->progress.lost), failed);
    put(row, "waits_for_source", json_boolean(engine->source.waits), failed);
    put(row, "source_wait_s", json_real(engine->source.wait_s), failed);
    put(row, "held_slots", count(engine->delivery.held_slots), failed);
    put(row, "held_max", known_count(engine->held_max), failed);
    put(row, "quota_bytes", count(engine->quota_bytes), failed);
    put(row, "prepared", count(engine->instances_prepared), failed);
    put(row, "sharing_factor",
        engine->instances_prepared ? json_real((double)engine->delivery.samples / (double)engine->instances_prepared)
                                   : json_null(),
        failed);
    put(row, "stall_s", stall_json(&engine->delivery, failed), failed);
    put(row, "loaders", count(job->loaders), failed);
    put(row, "ahead_batches", known_count(job->ahead), failed);
    put(row, "mix", job->mix >= 0 ? json_real(job->mix) : json_null(), failed);
    put(row, "queues", queues_json(job, failed), failed);
    return row;
}

static json_t *step_json(const struct histogram *steps, bool *failed)
{
    json_t *row = json_object();
    uint64_t n = histogram_count(steps);
    put(row, "longest", json_real(steps->longest_s * 1e3), failed);
    put(row, "mean", n ? json_real(steps->sum_s * 1e3 / (double)n) : json_null(), failed);
    return row;
}

static json_t *governor_json(const struct daemon_status *status, bool *failed)
{
    const struct status_governor *governor = &status->governor;
    json_t *row = json_object();
    put(row, "preparers", count(governor->preparers), failed);
    put(row, "loaders", count(governor->loaders), failed);
    put(row, "prepare_rate", governor->prepare_rate > 0 ? json_real(governor->prepare_rate) : json_null(), failed);
    put(row, "load_rate", governor->load_rate > 0 ? json_real(governor->load_rate) : json_null(), failed);
    put(row, "moves", count(governor->moves), failed);
    return row;
}

/* ── the cluster ── */

static json_t *id_json(const uint8_t id[STATUS_NODE_ID_BYTES])
{
    char hex[2 * STATUS_NODE_ID_BYTES + 1];
    for (size_t i = 0; i < STATUS_NODE_ID_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", id[i]);
    return text_json(hex);
}

static void put_shared(json_t *row, const struct status_shared *samples, bool *failed)
{
    put(row, "received", count(samples->received), failed);
    put(row, "refused", count(samples->refused), failed);
    put(row, "moved", count(samples->moved), failed);
    put(row, "back", count(samples->back), failed);
}

static json_t *node_json(const struct status_node *node, bool *failed)
{
    json_t *row = json_object();
    put(row, "id", id_json(node->id), failed);
    put(row, "name", text_json(node->name), failed);
    put(row, "url", text_json(node->url), failed);
    put(row, "state", text_json(node->state), failed);
    put(row, "self", json_boolean(node->self), failed);
    put(row, "asked", json_boolean(node->asked), failed);
    return row;
}

static json_t *share_json(const struct status_share *share, bool *failed)
{
    json_t *row = json_object(), *parts = json_array();
    put(row, "name", text_json(share->name), failed);
    put_shared(row, &share->samples, failed);
    put(row, "homes", json_boolean(share->homes), failed);
    put(row, "trainings", count(share->trainings), failed);
    put(row, "spread", share->spread ? text_json(share->spread) : json_null(), failed);
    for (size_t i = 0; i < share->n_parts; i++) {
        const struct status_part *from = &share->parts[i];
        json_t *part = json_object();
        put(part, "node", id_json(from->node), failed);
        put(part, "left", count(from->left), failed);
        put(part, "asked", count(from->asked), failed);
        put(part, "waiting", count(from->waiting), failed);
        put(part, "open", json_boolean(from->open), failed);
        append(parts, part, failed);
    }
    put(row, "parts", parts, failed);
    return row;
}

static json_t *cluster_json(const struct status_cluster *cluster, bool *failed)
{
    json_t *row = json_object(), *nodes = json_array(), *jobs = json_array();
    put(row, "name", text_json(cluster->name), failed);
    for (size_t i = 0; i < cluster->n_nodes; i++) {
        const struct status_node *node = &cluster->nodes[i];
        if (node->self) {
            put(row, "node", text_json(node->name), failed);
            put(row, "id", id_json(node->id), failed);
        }
        append(nodes, node_json(node, failed), failed);
    }
    put(row, "nodes", nodes, failed);
    put(row, "guests", count(cluster->guests), failed);
    put(row, "requests", count(cluster->requests), failed);
    put(row, "probes", count(cluster->probes), failed);
    put(row, "given", count(cluster->given), failed);
    put_shared(row, &cluster->samples, failed);
    for (size_t i = 0; i < cluster->n_jobs; i++)
        append(jobs, share_json(&cluster->jobs[i], failed), failed);
    put(row, "jobs", jobs, failed);
    return row;
}

char *status_to_json(const struct daemon_status *status)
{
    bool failed = false;
    json_t *root = json_object(), *engine = json_object(), *jobs = json_array();
    put(root, "v", count(1), &failed);
    put(root, "daemon", daemon_json(status, &failed), &failed);
    put(root, "samples", samples_json(status, &failed), &failed);
    put(root, "memory", memory_json(status, &failed), &failed);
    put(root, "storage", storage_json(&status->storage, &failed), &failed);
    put(engine, "loads_inflight", count(status->totals.loads_inflight), &failed);
    put(engine, "prepares_inflight", count(status->totals.prepares_inflight), &failed);
    put(engine, "source_retries", count(status->totals.counts.source_retries), &failed);
    put(engine, "source_waits", count(status->totals.source_waits), &failed);
    put(engine, "unknown_releases", count(status->totals.counts.unknown_releases), &failed);
    put(engine, "steps", count(histogram_count(&status->steps)), &failed);
    put(engine, "step_ms", step_json(&status->steps, &failed), &failed);
    put(root, "engine", engine, &failed);
    put(root, "governor", governor_json(status, &failed), &failed);
    for (size_t i = 0; i < status->n_jobs; i++)
        append(jobs, job_json(&status->jobs[i], &failed), &failed);
    put(root, "jobs", jobs, &failed);
    if (status->cluster)
        put(root, "cluster", cluster_json(status->cluster, &failed), &failed);
    char *json = failed ? NULL : json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(root);
    return json;
}

char *status_tree_to_json(const struct status_tree *tree)
{
    bool failed = false;
    json_t *rows = json_array();
    for (size_t i = 0; i < tree->count; i++) {
        const struct status_vertex *vertex = &tree->jobs[i];
        json_t *row = json_object();
        put(row, "job", text_json(vertex->name), &failed);
        put(row, "left", count(vertex->left), &failed);
        put(row, "shared", count(vertex->shared), &failed);
        put(row, "own", count(vertex->own), &failed);
        append(rows, row, &failed);
    }
    char *json = failed ? NULL : json_dumps(rows, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(rows);
    return json;
}
