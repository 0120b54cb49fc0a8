#include "server/edges.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "preprocess/prepare.h"
#include "preprocess/version.h"
#include "server/control/control.h"
#include "server/control/http.h"
#include "server/control/live.h"
#include "server/control/status_cache.h"
#include "server/storage/origins.h"

/* A page asks once a second, and Prometheus less often. A hundred a second took about a twentieth of a processor, with
 * those who ask. */
#define HTTP_ANSWERS_PER_S 25
#define HTTP_ANSWERS_AT_ONCE 50

#define TREE_NS (5 * CLOCK_NS_PER_S) /* how long the tree is shown: making it copies all remaining sets */

struct edges {
    struct edges_config of;
    pthread_mutex_t lock; /* guards the next two, which come and go while the session runs */
    struct control *control;
    struct http *http;
    atomic_bool http_up;             /* set with http_port, which comes first */
    atomic_uint_least16_t http_port; /* 0: it is on a unix socket */
    pthread_mutex_t tree_lock;       /* guards the next two, also while the tree is made: who comes then gets it too */
    struct status_tree tree;         /* that was asked for last */
    uint64_t tree_ns;                /* when; 0: never */
    struct status_cache http_status; /* only HTTP's thread uses it, from its start to its end */
    struct status_place places[STATUS_PLACES_MAX];
};

/* The settings that `larder explain` and `larder doctor` ask to change. */
static const char *const advised[STATUS_PLACES_MAX] = {"memory.samples", "memory.arena",    "memory.encoded",
                                                       "memory.scratch", "threads.workers", "threads.loaders",
                                                       "jobs.quota"};

/* ── what the daemon tells, in the control's and HTTP's threads ── */

static void snapshot_class(const struct origins_class_status *from, struct status_class *to)
{
    const struct tier_stats *tier = &from->tier;
    *to = (struct status_class){.path = from->path,
                                .state = tier_state_name(tier->state),
                                .size_bytes = tier->size_bytes,
                                .used_bytes = tier->used_bytes,
                                .samples = tier->samples,
                                .planes = tier->planes,
                                .planes_left = from->planes ? tier->unmoved : 0,
                                .in_planes = from->planes,
                                .segments = tier->segments,
                                .read = {from->read_samples, from->read_bytes},
                                .written = {tier->written_samples, tier->written_bytes},
                                .waiting_bytes = from->waiting_bytes,
                                .skipped = from->skipped,
                                .corrupt = tier->corrupt,
                                .given_up = tier->given_up,
                                .left_alone = from->left_alone,
                                .bytes_per_s = from->bytes_per_s};
}

/* Without storage classes all comes from sources. */
static void snapshot_storage(const struct edges *edges, struct daemon_status *status)
{
    struct status_storage *storage = &status->storage;
    struct origins_status origins;
    storage->source = (struct status_read){status->totals.counts.samples_loaded, status->totals.counts.loaded_bytes};
    if (!edges->of.origins)
        return;
    origins_status(edges->of.origins, &origins);
    storage->source = (struct status_read){origins.source_samples, origins.source_bytes};
    storage->states = tier_state_names();
    storage->n_classes = origins.n_classes;
    for (uint32_t i = 0; i < origins.n_classes; i++)
        snapshot_class(&origins.classes[i], &storage->classes[i]);
}

/* page_of writes where the page is: a URL, or the path of a unix socket. Empty: nowhere. */
static void page_of(struct edges *edges, char *out, size_t size)
{
    const struct config *config = edges->of.config;
    const char *address = config->metrics_address;
    bool v6 = strchr(address, ':') != NULL;
    if (!atomic_load(&edges->http_up))
        *out = '\0';
    else if (*config->metrics_socket)
        snprintf(out, size, "%s", config->metrics_socket);
    else
        snprintf(out, size, "http://%s%s%s:%u/", v6 ? "[" : "", address, v6 ? "]" : "",
                 (unsigned)atomic_load(&edges->http_port));
}

void edges_snapshot(void *ctx, struct daemon_status *status)
{
    struct edges *edges = ctx;
    struct session_counts sessions;
    struct workers_counts workers;
    struct catalog_stats catalog;
    memset(status, 0, sizeof *status);
    driver_status(edges->of.driver, status);
    session_counts(edges->of.session, &sessions);
    workers_counts(edges->of.workers, &workers);
    catalog_stats(edges->of.catalog, &catalog);
    status->version = LARDER_VERSION;
    status->decoders = prepare_decoders();
    status->socket = edges->of.config->socket_path;
    status->settings = (struct status_settings){.workers = (uint32_t)edges->of.config->workers,
                                                .loaders = (uint32_t)edges->of.config->loaders,
                                                .job_quota = edges->of.config->job_quota_share,
                                                .classes = (uint32_t)edges->of.config->n_storage};
    status->places = edges->places;
    status->n_places = STATUS_PLACES_MAX;
    page_of(edges, status->page, sizeof status->page);
    status->process.start_time_s = edges->of.start_time_s;
    status->process.uptime_s = (double)(clock_now_ns() - edges->of.start_ns) / 1e9;
    status->process.roles[0] = (struct status_role){"load", workers.read.busy};
    status->process.roles[1] = (struct status_role){"prepare", workers.prepare.busy};
    status->process.roles[2] = (struct status_role){"idle", workers.read.idle + workers.prepare.idle};
    status->process.n_roles = 3;
    status->sessions = sessions.connections;
    status->datasets = catalog.datasets;
    status->arena_budget_bytes = edges->of.arena_bytes;
    status->samples_budget_bytes = edges->of.arena_bytes + config_sure_bytes(edges->of.config);
    status->room_moves = config_lent_bytes(edges->of.config) > 0;
    status->columns_bytes = dataset_columns_bytes();
    status->catalogs.budget_bytes = edges->of.config->catalogs_bytes;
    status->catalogs.samples_bytes = catalog.samples_bytes;
    status->catalogs.paths_bytes = catalog.paths_bytes;
    status->catalogs.identities_bytes = catalog.identities_bytes;
    status->history_bytes += recorder_bytes(edges->of.recorder);
    recorder_number(edges->of.recorder, status);
    snapshot_storage(edges, status);
    scratch_budget_stats(edges->of.scratch, &status->scratch);
    for (int reason = BAD_NONE + 1; reason < BAD_REASONS; reason++)
        status->bad_reasons[reason] = bad_reason_name((enum bad_reason)reason);
    status_read_process(&status->process);
    status_read_clients(status);
}

static char *status_json(void *ctx)
{
    struct daemon_status status;
    edges_snapshot(ctx, &status);
    char *text = status_to_json(&status);
    status_clear(&status);
    return text;
}

static char *earlier_json(void *ctx)
{
    struct edges *edges = ctx;
    return recorder_earlier(edges->of.recorder);
}

static char *tree_json(void *ctx)
{
    struct edges *edges = ctx;
    pthread_mutex_lock(&edges->tree_lock);
    uint64_t now_ns = clock_now_ns();
    if (!edges->tree_ns || now_ns - edges->tree_ns >= TREE_NS) {
        driver_tree(edges->of.driver, &edges->tree);
        edges->tree_ns = now_ns;
    }
    char *text = status_tree_to_json(&edges->tree);
    pthread_mutex_unlock(&edges->tree_lock);
    return text;
}

static char *history_json(void *ctx, const char *job, uint32_t span_s)
{
    struct edges *edges = ctx;
    return recorder_json(edges->of.recorder, job, span_s);
}

static char *http_status_json(void *ctx)
{
    struct edges *edges = ctx;
    return status_cache_json(&edges->http_status, clock_now_ns());
}

static char *http_live_json(void *ctx)
{
    return live_json(http_status_json(ctx), tree_json(ctx));
}

static char *http_metrics_text(void *ctx, size_t *len_bytes)
{
    struct edges *edges = ctx;
    return status_cache_metrics(&edges->http_status, clock_now_ns(), len_bytes);
}

static int cancel(void *ctx, const char *job, struct error *err)
{
    struct edges *edges = ctx;
    return driver_cancel(edges->of.driver, job, err);
}

static int set_weight(void *ctx, const char *job, double weight, struct error *err)
{
    struct edges *edges = ctx;
    return driver_set_weight(edges->of.driver, job, weight, err);
}

static int drain(void *ctx, struct error *err)
{
    struct edges *edges = ctx;
    (void)err;
    driver_drain(edges->of.driver);
    return 0;
}

static int cluster_leave(void *ctx, struct error *err)
{
    struct edges *edges = ctx;
    return driver_leave(edges->of.driver, err);
}

static int hand_over(void *ctx, struct error *err)
{
    struct edges *edges = ctx;
    (void)err;
    edges->of.hand_over(edges->of.ctx);
    return 0;
}

static int list_poison(void *ctx, struct poison_notes *out, struct error *err)
{
    const struct edges *edges = ctx;
    return watch_list(edges->of.watch, out, err);
}

static int clear_poison(void *ctx, const char *sample, struct error *err)
{
    struct edges *edges = ctx;
    return watch_clear(edges->of.watch, sample, err);
}

static bool ready(void *ctx)
{
    const struct edges *edges = ctx; /* the endpoint is up only while the session and the driver are */
    return driver_takes_jobs(edges->of.driver);
}

/* ── life ── */

struct edges *edges_create(const struct edges_config *config)
{
    struct edges *edges = xcalloc(1, sizeof *edges);
    edges->of = *config;
    for (size_t i = 0; i < STATUS_PLACES_MAX; i++) {
        edges->places[i].setting = advised[i];
        config_place(config->config, advised[i], edges->places[i].place, STATUS_PLACE_BYTES);
    }
    pthread_mutex_init(&edges->lock, NULL);
    pthread_mutex_init(&edges->tree_lock, NULL);
    return edges;
}

static int start_control(struct edges *edges, struct error *err)
{
    char path[CONFIG_SOCKET_PATH_MAX + sizeof ".control"];
    struct control_handlers handlers = {.status_json = status_json,
                                        .earlier_json = earlier_json,
                                        .tree_json = tree_json,
                                        .history_json = history_json,
                                        .cancel = cancel,
                                        .set_weight = set_weight,
                                        .drain = drain,
                                        .hand_over = hand_over,
                                        .cluster_leave = cluster_leave,
                                        .list_poison = list_poison,
                                        .clear_poison = clear_poison,
                                        .ctx = edges};
    if (!edges->of.config->control_enabled)
        return 0;
    snprintf(path, sizeof path, "%s.control", edges->of.config->socket_path);
    return control_start(path, &handlers, &edges->control, err);
}

/* start_tcp listens at the port. If that fails and the configuration asked for the place, it is an error. The default
 * port gives way to any free one, and where there is no network, training goes on without. */
static int start_tcp(struct edges *edges, const struct http_handlers *handlers, struct error *err)
{
    const struct config *config = edges->of.config;
    int code = http_start(config->metrics_address, (uint16_t)config->metrics_port, handlers, &edges->http, err);
    if (!code || config->source[SETTING_metrics_port] != CONFIG_FROM_DEFAULT ||
        config->source[SETTING_metrics_address] != CONFIG_FROM_DEFAULT)
        return code;
    if (code == LARDER_EBUSY)
        code = http_start(config->metrics_address, 0, handlers, &edges->http, err);
    if (code)
        log_warn("msg=\"neither page nor metrics\" err=\"%s\"", err->text);
    else
        log_warn("msg=\"another process has the port of the page and the metrics, which are at a free one: set "
                 "metrics.port for one that stays\" taken=%llu port=%u",
                 (unsigned long long)config->metrics_port, http_port(edges->http));
    return 0;
}

/* start_http starts the HTTP endpoint, if there is to be one. */
static int start_http(struct edges *edges, struct error *err)
{
    const struct config *config = edges->of.config;
    bool on_socket = *config->metrics_socket;
    if (!config->metrics_enabled || (!on_socket && config->metrics_port == 0))
        return 0;
    edges->http_status = (struct status_cache){.read = edges_snapshot, .ctx = edges};
    struct http_handlers handlers = {.metrics_text = http_metrics_text,
                                     .status_json = http_status_json,
                                     .live_json = http_live_json,
                                     .history_json = history_json,
                                     .ready = ready,
                                     .ctx = edges,
                                     .answers_per_s = HTTP_ANSWERS_PER_S,
                                     .answers_at_once = HTTP_ANSWERS_AT_ONCE};
    int code = on_socket ? http_start_unix(config->metrics_socket, &handlers, &edges->http, err)
                         : start_tcp(edges, &handlers, err);
    if (code || !edges->http)
        return code;
    atomic_store(&edges->http_port, http_port(edges->http));
    atomic_store(&edges->http_up, true);
    return 0;
}

int edges_start(struct edges *edges, struct error *err)
{
    pthread_mutex_lock(&edges->lock);
    int code = start_control(edges, err);
    if (!code)
        code = start_http(edges, err);
    pthread_mutex_unlock(&edges->lock);
    return code;
}

void edges_log(struct edges *edges)
{
    const struct config *config = edges->of.config;
    pthread_mutex_lock(&edges->lock);
    if (edges->http && *config->metrics_socket)
        log_info("msg=\"serving metrics\" socket=\"%s\"", config->metrics_socket);
    else if (edges->http)
        log_info("msg=\"serving metrics\" address=%s port=%u", config->metrics_address, http_port(edges->http));
    pthread_mutex_unlock(&edges->lock);
}

void edges_leave(struct edges *edges)
{
    pthread_mutex_lock(&edges->lock);
    control_leave(edges->control);
    atomic_store(&edges->http_up, false);
    http_stop(edges->http);
    edges->http = NULL;
    pthread_mutex_unlock(&edges->lock);
}

void edges_stop(struct edges *edges)
{
    if (!edges)
        return;
    pthread_mutex_lock(&edges->lock);
    http_stop(edges->http);
    status_cache_clear(&edges->http_status);
    control_stop(edges->control);
    edges->http = NULL;
    edges->control = NULL;
    pthread_mutex_unlock(&edges->lock);
}

void edges_destroy(struct edges *edges)
{
    if (!edges)
        return;
    edges_stop(edges);
    pthread_mutex_destroy(&edges->lock);
    pthread_mutex_destroy(&edges->tree_lock);
    free(edges);
}
