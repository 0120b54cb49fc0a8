#include "server/daemon.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "cache/memory/arena.h"
#include "cache/catalog/catalog.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/random.h"
#include "preprocess/prepare.h"
#include "preprocess/version.h"
#include "server/control/control.h"
#include "server/driver/driver.h"
#include "server/control/http.h"
#include "server/leaving.h"
#include "server/driver/registrar.h"
#include "server/session/session.h"
#include "server/control/status.h"
#include "server/control/status_cache.h"
#include "server/workers/worker.h"

/* Tasks out at once: each thread's own, and one more each, so that none waits for the engine. A load task is a chunk. */
enum { TASKS_PER_THREAD = 2, CHUNK_SAMPLES = 64 };
#define AHEAD_WINDOW_NS (UINT64_C(30) * CLOCK_NS_PER_S)
#define LEAVING_TIMEOUT_NS (UINT64_C(60) * CLOCK_NS_PER_S)
#define ROOM_TIMEOUT_NS (UINT64_C(60) * CLOCK_NS_PER_S)

enum { CONNECTIONS_PER_JOB = 8 }; /* ranks on the mean: connections are few bytes each */

struct daemon {
    const struct config *config;
    struct session *session;
    struct arena *arena;
    struct catalog *catalog;
    struct queue *inbox;
    struct driver *driver;
    struct scratch_budget *scratch;
    struct workers *workers;
    struct registrar *registrar;
    struct control *control; /* edges_lock, and so is http: sessions run while they come and go */
    pthread_mutex_t edges_lock;
    struct http *http;
    struct status_cache http_status; /* HTTP's thread's, from its start to its end */
    int drained_fd;
    double start_time_s;
    uint64_t start_ns;
    _Atomic uint64_t last_client_ns; /* when a client was last seen; sessions' thread and main */
};

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    uint32_t index;
    return dataset_index(dataset, id, &index) ? dataset_size(dataset, index) : ENGINE_NOT_THERE;
}

/* ── what sessions bring, in their thread ── */

static void post(struct daemon *daemon, const struct inbox_message *message)
{
    CHECK(queue_push(daemon->inbox, message) == 0); /* the inbox outlives the sessions */
}

static char *copy_text(struct wire_text text)
{
    char *copy = xmalloc((size_t)text.len_bytes + 1);
    memcpy(copy, text.data, text.len_bytes);
    copy[text.len_bytes] = '\0';
    return copy;
}

static void on_register(void *ctx, uint64_t client, uint32_t seq, const struct session_peer *peer, const struct wire_register *wire)
{
    struct daemon *daemon = ctx;
    struct registration *reg = xcalloc(1, sizeof *reg);
    *reg = (struct registration){.client = client,
                                 .seq = seq,
                                 .pid = (uint32_t)peer->pid,
                                 .client_name = xstrdup(peer->client),
                                 .name = copy_text(wire->name),
                                 .source = copy_text(wire->dataset),
                                 .pipeline_json = copy_text(wire->pipeline),
                                 .subset_json = copy_text(wire->subset),
                                 .batch_size = wire->batch_size,
                                 .prefetch = wire->prefetch,
                                 .epochs = wire->epochs,
                                 .rank = wire->rank,
                                 .world_size = wire->world_size,
                                 .flags = wire->flags,
                                 .shuffle = (enum shuffle_mode)wire->shuffle,
                                 .bad_policy = (enum bad_policy)wire->bad_policy,
                                 .seed = wire->seed,
                                 .weight = wire->weight};
    post(daemon, &(struct inbox_message){.type = INBOX_COMING, .client = client});
    if (registrar_submit(daemon->registrar, reg)) {
        reg->code = error_set(&reg->err, LARDER_ELIMIT, "too many jobs are being registered at this moment: try again");
        post(daemon, &(struct inbox_message){.type = INBOX_REGISTERED, .registration = reg});
    }
}

static void on_classes(void *ctx, uint64_t client, uint32_t seq, uint32_t first)
{
    post(ctx, &(struct inbox_message){.type = INBOX_CLASSES, .classes = {client, seq, first}});
}

static void on_next(void *ctx, uint64_t client, uint32_t epoch, uint32_t credits)
{
    post(ctx, &(struct inbox_message){.type = INBOX_NEXT, .next = {client, epoch, credits}});
}

static void on_release(void *ctx, uint64_t client, uint64_t batch)
{
    post(ctx, &(struct inbox_message){.type = INBOX_RELEASE, .release = {client, batch}});
}

static void on_gone(void *ctx, uint64_t client)
{
    struct daemon *daemon = ctx;
    atomic_store(&daemon->last_client_ns, clock_now_ns());
    post(daemon, &(struct inbox_message){.type = INBOX_GONE, .client = client}); /* first: then nobody is told of a refusal */
    registrar_abandon(daemon->registrar, client);
}

static void on_lost(void *ctx)
{
    struct daemon *daemon = ctx;
    pthread_mutex_lock(&daemon->edges_lock); /* all that a successor needs: it may have the same settings */
    control_leave(daemon->control);
    http_stop(daemon->http);
    daemon->http = NULL;
    pthread_mutex_unlock(&daemon->edges_lock);
    driver_drain(daemon->driver); /* the engine answers without waiting for sessions */
}

/* ── what it tells about itself, in the control's and HTTP's threads ── */

static void snapshot(void *ctx, struct daemon_status *status)
{
    struct daemon *daemon = ctx;
    struct session_counts sessions;
    struct pool_counts pool;
    struct catalog_stats catalog;
    memset(status, 0, sizeof *status);
    driver_status(daemon->driver, status);
    session_counts(daemon->session, &sessions);
    workers_counts(daemon->workers, &pool);
    catalog_stats(daemon->catalog, &catalog);
    status->version = LARDER_VERSION;
    status->libvips = prepare_library_version();
    status->socket = daemon->config->socket_path;
    status->start_time_s = daemon->start_time_s;
    status->uptime_s = (double)(clock_now_ns() - daemon->start_ns) / 1e9;
    status->roles[0] = (struct status_role){"load", pool.busy[POOL_LOAD]};
    status->roles[1] = (struct status_role){"prepare", pool.busy[POOL_PREPARE]};
    status->roles[2] = (struct status_role){"idle", pool.idle};
    status->n_roles = 3;
    status->sessions = sessions.connections;
    status->datasets = catalog.datasets;
    status->arena_budget_bytes = arena_bytes(daemon->arena);
    status->encoded_budget_bytes = daemon->config->encoded_bytes;
    scratch_budget_stats(daemon->scratch, &status->scratch);
    for (int reason = BAD_NONE + 1; reason < BAD_REASONS && reason < STATUS_REASONS_MAX; reason++)
        status->bad_reasons[reason] = bad_reason_name((enum bad_reason)reason);
    status_read_process(status);
}

static char *status_json(void *ctx)
{
    struct daemon_status status;
    snapshot(ctx, &status);
    char *text = status_to_json(&status);
    status_clear(&status);
    return text;
}

static char *http_status_json(void *ctx)
{
    struct daemon *daemon = ctx;
    return status_cache_json(&daemon->http_status, clock_now_ns());
}

static char *http_metrics_text(void *ctx, size_t *len_bytes)
{
    struct daemon *daemon = ctx;
    return status_cache_metrics(&daemon->http_status, clock_now_ns(), len_bytes);
}

static int cancel(void *ctx, const char *job, struct error *err)
{
    struct daemon *daemon = ctx;
    return driver_cancel(daemon->driver, job, err);
}

static int set_weight(void *ctx, const char *job, double weight, struct error *err)
{
    struct daemon *daemon = ctx;
    return driver_set_weight(daemon->driver, job, weight, err);
}

static int drain(void *ctx, struct error *err)
{
    struct daemon *daemon = ctx;
    (void)err;
    driver_drain(daemon->driver);
    return 0;
}

static void drained(void *ctx)
{
    struct daemon *daemon = ctx;
    CHECK(eventfd_write(daemon->drained_fd, 1) == 0);
}

static bool ready(void *ctx)
{
    (void)ctx; /* the endpoint is up only while sessions are */
    return true;
}

/* ── life ── */

static int start_engine(struct daemon *daemon, struct error *err)
{
    const struct config *config = daemon->config;
    uint32_t workers = (uint32_t)config->workers, loaders = (uint32_t)config->loaders;
    struct driver_config driver = {
        .engine = {.seed = random_mix64(clock_now_ns()),
                   .arena_bytes = arena_bytes(daemon->arena),
                   .rank_timeout_ns = config->rank_timeout_s * CLOCK_NS_PER_S,
                   .source_wait_ns = config->source_wait_s * CLOCK_NS_PER_S,
                   .bad_limited = true,
                   .bad_count = config->bad_max.count,
                   .bad_share = config->bad_max.share,
                   .room_timeout_ns = ROOM_TIMEOUT_NS,
                   .job_quota_bytes = (uint64_t)((double)arena_bytes(daemon->arena) * config->job_quota_share),
                   .encoded_bytes = config->encoded_bytes,
                   .instance_bytes = ENGINE_INSTANCE_BYTES,
                   .slot_least = engine_slot_least(config->arena_bytes, config->encoded_bytes, ENGINE_INSTANCE_BYTES),
                   .ahead_window_ns = AHEAD_WINDOW_NS,
                   .inflight_loads = (workers + loaders) * TASKS_PER_THREAD * CHUNK_SAMPLES,
                   .redirect_width = config->redirect_width == CONFIG_WIDTH_HALF ? ENGINE_REDIRECT_HALF : (uint32_t)config->redirect_width,
                   .inflight_prepares = workers * TASKS_PER_THREAD,
                   .sample_bytes = sample_bytes},
        .jobs_max = (uint32_t)config->jobs_max,
        .workers = workers,
        .loaders = loaders,
        .inbox = daemon->inbox,
        .catalog = daemon->catalog,
        .drained = drained,
        .ctx = daemon};
    int code = driver_create(&driver, &daemon->driver, err);
    if (code)
        return code;
    code = scratch_budget_create(config->scratch_bytes, workers, &daemon->scratch);
    if (code)
        return error_set(err, code, "no memory for the workers");
    struct worker_config worker = {.workers = workers,
                                   .loaders = loaders,
                                   .inflight_loads = driver.engine.inflight_loads,
                                   .inflight_prepares = driver.engine.inflight_prepares,
                                   .limits = {.pixels_max = config->pixels_max, .scans_max = (uint32_t)config->scans_max,
                                              .budget = daemon->scratch},
                                   .arena = daemon->arena,
                                   .inbox = daemon->inbox,
                                   .load_delay_ms = (uint32_t)config->load_delay_ms};
    code = workers_create(&worker, &daemon->workers, err);
    if (!code)
        code = registrar_create(daemon->catalog, config, daemon->inbox, &daemon->registrar, err);
    if (!code)
        code = driver_start(daemon->driver, daemon->session, daemon->workers, err);
    return code;
}

/* An endpoint on the default port that another daemon has already is no reason not to start; one that was asked for is. */
static int start_http(struct daemon *daemon, struct error *err)
{
    const struct config *config = daemon->config;
    bool on_socket = *config->metrics_socket;
    if (!config->metrics_enabled || (!on_socket && config->metrics_port == 0))
        return 0;
    daemon->http_status = (struct status_cache){.read = snapshot, .ctx = daemon};
    struct http_handlers handlers = {
        .metrics_text = http_metrics_text, .status_json = http_status_json, .ready = ready, .ctx = daemon};
    if (on_socket)
        return http_start_unix(config->metrics_socket, &handlers, &daemon->http, err);
    int code = http_start(config->metrics_address, (uint16_t)config->metrics_port, &handlers, &daemon->http, err);
    if (code == LARDER_EBUSY && config->source[SETTING_metrics_port] == CONFIG_FROM_DEFAULT) {
        log_warn("msg=\"no metrics endpoint: set metrics.port\" err=\"%s\"", err->text);
        return 0;
    }
    return code;
}

static int start_edges(struct daemon *daemon, struct error *err)
{
    const struct config *config = daemon->config;
    struct session_config session = {.connections_max = (uint32_t)config->jobs_max * CONNECTIONS_PER_JOB + 16,
                                     .arena_fd = arena_fd(daemon->arena),
                                     .arena_bytes = arena_bytes(daemon->arena),
                                     .handlers = {.ctx = daemon,
                                                  .on_register = on_register,
                                                  .on_classes = on_classes,
                                                  .on_next = on_next,
                                                  .on_release = on_release,
                                                  .on_gone = on_gone,
                                                  .on_lost = on_lost}};
    int code = session_start(daemon->session, &session, err);
    pthread_mutex_lock(&daemon->edges_lock);
    if (!code && config->control_enabled) {
        char path[CONFIG_SOCKET_PATH_MAX + sizeof ".control"];
        snprintf(path, sizeof path, "%s.control", config->socket_path);
        struct control_handlers handlers = {.status_json = status_json, .cancel = cancel, .set_weight = set_weight,
                                            .drain = drain, .ctx = daemon};
        code = control_start(path, &handlers, &daemon->control, err);
    }
    if (!code)
        code = start_http(daemon, err);
    pthread_mutex_unlock(&daemon->edges_lock);
    return code;
}

/* Listening decides who is the daemon. One that leaves has closed its socket and keeps its lock until its memory is free. */
static int listen_at(const char *path, const struct daemon_progress *progress, struct session **out, struct error *err)
{
    uint64_t deadline_ns = clock_now_ns() + LEAVING_TIMEOUT_NS;
    bool said = false;
    for (;;) {
        int code = session_listen(path, out, err);
        if (code != LARDER_EBUSY || clock_now_ns() > deadline_ns || !leaving_wait(path))
            return code;
        if (!said)
            log_info("msg=\"waiting for a daemon that leaves\" socket=\"%s\"", path);
        said = true;
        if (!progress->go_on(progress->ctx))
            return error_set(err, LARDER_EGONE, "stopped while waiting for a daemon that leaves");
    }
}

static void log_http(struct daemon *daemon)
{
    const struct config *config = daemon->config;
    pthread_mutex_lock(&daemon->edges_lock);
    if (daemon->http && *config->metrics_socket)
        log_info("msg=\"serving metrics\" socket=\"%s\"", config->metrics_socket);
    else if (daemon->http)
        log_info("msg=\"serving metrics\" address=%s port=%u", config->metrics_address, http_port(daemon->http));
    pthread_mutex_unlock(&daemon->edges_lock);
}

int daemon_start(const struct config *config, const struct daemon_progress *progress, struct daemon **out, struct error *err)
{
    struct daemon *daemon = xcalloc(1, sizeof *daemon);
    pthread_mutex_init(&daemon->edges_lock, NULL);
    daemon->config = config;
    daemon->start_ns = clock_now_ns();
    daemon->start_time_s = (double)time(NULL);
    atomic_init(&daemon->last_client_ns, daemon->start_ns);
    daemon->drained_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int code = listen_at(config->socket_path, progress, &daemon->session, err);
    if (!code && daemon->drained_fd < 0)
        code = error_set(err, LARDER_ELIMIT, "eventfd: %s", strerror(errno));
    if (!code)
        code = arena_create(config->arena_bytes, progress->go_on, progress->ctx, &daemon->arena, err);
    if (!code)
        code = catalog_create(*config->checkpoint_dir ? config->checkpoint_dir : NULL, &daemon->catalog, err);
    if (!code && queue_create(INBOX_MESSAGES, sizeof(struct inbox_message), &daemon->inbox))
        code = error_set(err, LARDER_ENOMEM, "no memory for the engine's inbox");
    if (!code)
        code = start_engine(daemon, err);
    if (!code)
        code = start_edges(daemon, err);
    if (code) {
        daemon_stop(daemon);
        return code;
    }
    atomic_store(&daemon->last_client_ns, clock_now_ns()); /* nobody could come while the arena was reserved */
    log_info("msg=\"listening\" version=" LARDER_VERSION " socket=\"%s\" arena_mib=%llu encoded_mib=%llu scratch_mib=%llu workers=%llu loaders=%llu",
             config->socket_path, (unsigned long long)(arena_bytes(daemon->arena) >> 20),
             (unsigned long long)(config->encoded_bytes >> 20), (unsigned long long)(config->scratch_bytes >> 20),
             (unsigned long long)config->workers, (unsigned long long)config->loaders);
    log_http(daemon);
    *out = daemon;
    return 0;
}

int daemon_drained_fd(const struct daemon *daemon)
{
    return daemon->drained_fd;
}

double daemon_idle_s(struct daemon *daemon)
{
    struct session_counts counts;
    session_counts(daemon->session, &counts);
    uint64_t now = clock_now_ns();
    if (counts.connections > 0)
        atomic_store(&daemon->last_client_ns, now);
    uint64_t last = atomic_load(&daemon->last_client_ns);
    return now > last ? (double)(now - last) / 1e9 : 0;
}

/* Whoever asks stops first, then whoever is asked: with all clients gone and all tasks reported, the engine holds nothing. */
void daemon_stop(struct daemon *daemon)
{
    if (!daemon)
        return;
    pthread_mutex_lock(&daemon->edges_lock);
    http_stop(daemon->http);
    status_cache_clear(&daemon->http_status);
    control_stop(daemon->control);
    daemon->http = NULL;
    daemon->control = NULL;
    pthread_mutex_unlock(&daemon->edges_lock);
    if (daemon->driver)
        driver_halt(daemon->driver); /* nothing is written any more to where clients still look, while they are told */
    if (daemon->session)
        session_stop(daemon->session);
    if (daemon->registrar)
        registrar_stop(daemon->registrar);
    if (daemon->driver)
        driver_settle(daemon->driver); /* no job is left, so that tasks the workers refuse from now on are nobody's */
    if (daemon->workers)
        workers_stop(daemon->workers);
    if (daemon->driver)
        driver_stop(daemon->driver);
    registrar_destroy(daemon->registrar);
    workers_destroy(daemon->workers);
    scratch_budget_destroy(daemon->scratch);
    driver_destroy(daemon->driver);
    queue_destroy(daemon->inbox);
    catalog_destroy(daemon->catalog);
    arena_destroy(daemon->arena); /* before the lock is given up: the next daemon needs the memory */
    session_destroy(daemon->session);
    if (daemon->drained_fd >= 0)
        close(daemon->drained_fd);
    pthread_mutex_destroy(&daemon->edges_lock);
    free(daemon);
}
