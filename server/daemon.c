#include "server/daemon.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "cache/catalog/catalog.h"
#include "cache/memory/arena.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/last_word.h"
#include "common/log.h"
#include "common/random.h"
#include "common/socket_path.h"
#include "server/driver/arrivals.h"
#include "server/driver/driver.h"
#include "server/driver/inbox.h"
#include "server/edges.h"
#include "server/leaving.h"
#include "server/node.h"
#include "server/registration/classes.h"
#include "server/registration/registrar.h"
#include "server/registration/registration.h"
#include "server/session/session.h"
#include "server/storage/origins.h"
#include "server/workers/worker.h"

/* The number of tasks in flight: two for each thread, so that no thread waits for the engine, and more of those that
 * are quickly done. A load task is a chunk. One source may have half of what may be in flight (encoded_bars.c). */
enum { TASKS_PER_THREAD = 2, TASKS_PER_THREAD_MAX = 64, CHUNK_SAMPLES = 64, READS_SHARES = 2 };
#define WORK_PER_THREAD_NS (CLOCK_NS_PER_MS / 2)
#define COPY_BYTES 262144 /* up to this, copying takes less CPU time than a worker and its hand-over */
#define AHEAD_WINDOW_NS (UINT64_C(30) * CLOCK_NS_PER_S)
#define LEAVING_TIMEOUT_NS (UINT64_C(60) * CLOCK_NS_PER_S)
#define ROOM_TIMEOUT_NS (UINT64_C(60) * CLOCK_NS_PER_S)

#define RESERVE_BYTES_MIN (UINT64_C(64) << 10)
#define RESERVE_BYTES_MAX (UINT64_C(16) << 20)
enum { RESERVE_PARTS = 8 };

_Static_assert(CONFIG_STORAGE_CLASSES_MAX == ORIGIN_CLASSES_MAX, "all classes of a configuration can be opened");

enum { CONNECTIONS_PER_JOB = 8 }; /* ranks of a job, on average; a connection takes few bytes */

struct daemon {
    const struct config *config;
    struct session *session;
    struct arena *arena;
    struct catalog *catalog;
    struct origins *origins; /* NULL: there are no storage classes */
    struct mailbox *inbox;
    struct driver *driver;
    struct scratch_budget *scratch;
    struct watch *watch; /* NULL: nothing is watched */
    struct workers *workers;
    struct registrar *registrar;
    struct peering *peering; /* NULL: this daemon is in no cluster */
    struct arrivals arrivals;
    struct recorder *recorder;
    struct edges *edges;
    int end_fd;
};

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    uint32_t index;
    return dataset_index(dataset, id, &index) ? dataset_size(dataset, index) : ENGINE_NOT_THERE;
}

static uint64_t planes_bytes(void *origins, const void *dataset, sample_id id)
{
    uint32_t index;
    CHECK(dataset_index(dataset, id, &index));
    return origins_planes(origins, dataset, index);
}

static uint64_t made_bytes(const void *dataset, const void *program, sample_id id)
{
    uint32_t index;
    CHECK(dataset_index(dataset, id, &index));
    return registration_made_bytes(dataset, program, index);
}

static void on_lost(void *ctx)
{
    struct daemon *daemon = ctx;
    edges_leave(daemon->edges);
    driver_drain(daemon->driver); /* cannot deadlock: the engine's thread answers without waiting for the session */
}

static void drained(void *ctx)
{
    struct daemon *daemon = ctx;
    log_info("msg=\"drained, stopping\"");
    CHECK(eventfd_write(daemon->end_fd, 1) == 0);
}

static void left(void *ctx)
{
    struct daemon *daemon = ctx;
    CHECK(eventfd_write(daemon->end_fd, 1) == 0);
}

static void told(void *ctx, const struct driver_told *told)
{
    struct daemon *daemon = ctx;
    recorder_told(daemon->recorder, told);
}

static void hand_over(void *ctx)
{
    struct daemon *daemon = ctx;
    log_info("msg=\"making room for another daemon, stopping: jobs go on with that one\"");
    CHECK(eventfd_write(daemon->end_fd, 1) == 0);
}

/* boot_number returns a number that no other daemon has, nor this machine's next one after a crash. */
static uint64_t boot_number(void)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) == (ssize_t)sizeof number)
        return number;
    return random_mix64(clock_now_ns() ^ random_mix64((uint64_t)time(NULL)) ^ (uint64_t)getpid() << 40);
}

/* open_storage opens the storage classes. */
static int open_storage(struct daemon *daemon, struct error *err)
{
    const struct config *config = daemon->config;
    char curves[PATH_MAX] = "";
    if (config->n_storage == 0)
        return 0;
    if (*config->checkpoint_dir)
        snprintf(curves, sizeof curves, "%s/storage-curves", config->checkpoint_dir);
    struct origins_config origins = {.n_classes = config->n_storage,
                                     .behind_bytes = config_behind_bytes(config_sure_bytes(config)),
                                     .scans_max = (uint32_t)config->scans_max,
                                     .curves = *curves ? curves : NULL};
    for (uint32_t i = 0; i < config->n_storage; i++) {
        origins.classes[i].path = config->storage[i].path;
        origins.classes[i].size_bytes = config->storage[i].size_bytes;
        origins.classes[i].threads = (uint32_t)config->storage[i].threads;
        origins.classes[i].planes = config->storage[i].form == CONFIG_FORM_PLANES;
    }
    return origins_create(&origins, &daemon->origins, err);
}

/* reserve_bytes returns the steps in which the arena grows: smaller ones for a small arena. */
static uint64_t reserve_bytes(uint64_t arena)
{
    uint64_t bytes = RESERVE_BYTES_MAX;
    while (bytes > RESERVE_BYTES_MIN && bytes > arena / RESERVE_PARTS)
        bytes /= 2;
    return bytes;
}

/* source_reads returns how many reads a source may have at once. */
static uint32_t source_reads(const struct config *config)
{
    return (uint32_t)(config->workers + config->loaders);
}

static struct engine_config engine_of(const struct daemon *daemon, uint64_t boot)
{
    const struct config *config = daemon->config;
    uint32_t workers = (uint32_t)config->workers, reads = source_reads(config);
    uint64_t bytes = arena_bytes(daemon->arena);
    return (struct engine_config){.seed = random_mix64(boot),
                                  .arena_bytes = bytes,
                                  .reserve_bytes = reserve_bytes(bytes),
                                  .linger_ns = config->linger_s ? config->linger_s * CLOCK_NS_PER_S : 1,
                                  .rank_timeout_ns = config->rank_timeout_s * CLOCK_NS_PER_S,
                                  .source_wait_ns = config->source_wait_s * CLOCK_NS_PER_S,
                                  .bad_limited = true,
                                  .bad_count = config->bad_max.count,
                                  .bad_share = config->bad_max.share,
                                  .room_timeout_ns = ROOM_TIMEOUT_NS,
                                  .job_quota_bytes = (uint64_t)((double)bytes * config->job_quota_share),
                                  .encoded_bytes = config_sure_bytes(config),
                                  .lent_bytes = config_lent_bytes(config),
                                  .decoded = config->decoded == CONFIG_DECODED_AUTO,
                                  .instance_bytes = ENGINE_INSTANCE_BYTES,
                                  .slot_least = engine_slot_least(config->arena_bytes, config_sure_bytes(config)),
                                  .ahead_window_ns = AHEAD_WINDOW_NS,
                                  .inflight_loads = reads * TASKS_PER_THREAD * CHUNK_SAMPLES * READS_SHARES,
                                  .redirect_width = config->redirect_width == CONFIG_WIDTH_HALF
                                                        ? ENGINE_REDIRECT_HALF
                                                        : (uint32_t)config->redirect_width,
                                  .inflight_prepares = workers * TASKS_PER_THREAD,
                                  .prepares_max = workers * TASKS_PER_THREAD_MAX,
                                  .prepares_ns = workers * WORK_PER_THREAD_NS,
                                  .copy_bytes = COPY_BYTES,
                                  .sample_bytes = sample_bytes,
                                  .planes_bytes = daemon->origins ? planes_bytes : NULL,
                                  .planes_ctx = daemon->origins,
                                  .made_bytes = made_bytes,
                                  .class_is_left = classes_is_left};
}

/* create_driver makes the engine and what belongs to its thread. A daemon of no cluster has no node: NULL. */
static int create_driver(struct daemon *daemon, const struct sharing_node *node, uint64_t boot, struct error *err)
{
    const struct config *config = daemon->config;
    char rates[PATH_MAX];
    snprintf(rates, sizeof rates, "%s/preparing-rates", config->checkpoint_dir);
    struct driver_config driver = {.engine = engine_of(daemon, boot),
                                   .boot = boot,
                                   .jobs_max = (uint32_t)config->jobs_max,
                                   .settings = config,
                                   .workers = (uint32_t)config->workers,
                                   .reads = source_reads(config),
                                   .inbox = daemon->inbox,
                                   .catalog = daemon->catalog,
                                   .arena = daemon->arena,
                                   .memory_root = config->memory_root,
                                   .origins = daemon->origins,
                                   .rates = *config->checkpoint_dir ? rates : NULL,
                                   .node = node,
                                   .drained = drained,
                                   .left = left,
                                   .told = told,
                                   .ctx = daemon};
    driver.engine.home = node != NULL;
    return driver_create(&driver, &daemon->driver, err);
}

/* start_threads starts those that load and prepare, and those that open datasets. */
static int start_threads(struct daemon *daemon, struct error *err)
{
    const struct config *config = daemon->config;
    const struct engine_config engine = engine_of(daemon, 0);
    uint32_t workers = (uint32_t)config->workers;
    int code = scratch_budget_create(config->scratch_bytes, workers, &daemon->scratch);
    if (code)
        return error_set(err, code, "no memory for the workers");
    daemon->watch = watch_open(config->socket_path, workers + REGISTRAR_THREADS);
    struct worker_config worker = {.workers = workers,
                                   .readers = WORKER_READERS_MAX,
                                   .inflight_loads = engine.inflight_loads,
                                   .inflight_prepares = engine.prepares_max,
                                   .limits = {.pixels_max = config->pixels_max,
                                              .scans_max = (uint32_t)config->scans_max,
                                              .budget = daemon->scratch},
                                   .arena = daemon->arena,
                                   .results = arrivals_of_workers(&daemon->arrivals),
                                   .watch = daemon->watch,
                                   .origins = daemon->origins,
                                   .load_delay_ms = (uint32_t)config->load_delay_ms};
    code = workers_create(&worker, &daemon->workers, err);
    struct registrar_means registrar = {daemon->catalog, config, arrivals_registered, &daemon->arrivals, daemon->watch};
    if (!code)
        code = registrar_create(&registrar, &daemon->registrar, err);
    daemon->arrivals.registrar = daemon->registrar;
    return code;
}

static int start_engine(struct daemon *daemon, struct error *err)
{
    const struct config *config = daemon->config;
    uint64_t boot = boot_number();
    struct sharing_node node;
    if (node_is(config))
        node_describe(config, &node);
    int code = create_driver(daemon, node_is(config) ? &node : NULL, boot, err);
    if (!code)
        code = start_threads(daemon, err);
    if (!code && node_is(config))
        code = node_start(config, &node, boot, daemon->inbox, &daemon->peering, err);
    if (!code && daemon->peering)
        driver_share(daemon->driver, daemon->peering, daemon->registrar);
    if (!code)
        code = driver_start(daemon->driver, daemon->session, daemon->workers, daemon->registrar, err);
    return code;
}

static int start_sessions(struct daemon *daemon, struct error *err)
{
    struct session_config session = {.connections_max = (uint32_t)daemon->config->jobs_max * CONNECTIONS_PER_JOB + 16,
                                     .arena_fd = arena_fd(daemon->arena),
                                     .arena_bytes = arena_bytes(daemon->arena),
                                     .handlers = arrivals_of_sessions(&daemon->arrivals)};
    return session_start(daemon->session, &session, err);
}

/* Whoever listens is the daemon. A daemon that leaves has closed its socket, and keeps its lock until its memory is
 * free. */
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

/* succeed becomes the daemon of the socket. What the last one said of its end is not this one's. */
static int succeed(struct daemon *daemon, int listen_fd, const struct daemon_progress *progress, struct error *err)
{
    const char *path = daemon->config->socket_path;
    struct error stays;
    int code = listen_fd >= 0 ? session_adopt(path, listen_fd, &daemon->session, err)
                              : listen_at(path, progress, &daemon->session, err);
    if (!code && last_word_clear(path, &stays))
        log_warn("msg=\"what the last daemon left stays\" err=\"%s\"", stays.text);
    return code;
}

static int open_catalog(struct daemon *daemon, struct error *err)
{
    const struct config *config = daemon->config;
    int code = catalog_create(*config->checkpoint_dir ? config->checkpoint_dir : NULL, &daemon->catalog, err);
    if (code)
        return code;
    catalog_set_limit(daemon->catalog, config->catalogs_bytes);
    catalog_set_rows_max(daemon->catalog, config->columns_bytes);
    if (node_is(config))
        catalog_keep_apart(daemon->catalog);
    return 0;
}

int daemon_start(const struct config *config, int listen_fd, const struct daemon_progress *progress,
                 struct daemon **out, struct error *err)
{
    struct daemon *daemon = xcalloc(1, sizeof *daemon);
    uint64_t start_ns = clock_now_ns();
    double start_time_s = (double)time(NULL);
    daemon->config = config;
    daemon->arrivals = (struct arrivals){.on_lost = on_lost, .ctx = daemon, .last_client_ns = start_ns};
    daemon->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int code = 0;
    if (daemon->end_fd < 0)
        code = error_set(err, LARDER_ELIMIT, "eventfd: %s; raise the limit on open files (ulimit -n)", strerror(errno));
    if (code && listen_fd >= 0)
        close(listen_fd);
    else if (!code)
        code = succeed(daemon, listen_fd, progress, err);
    if (!code)
        code = arena_create(config->arena_bytes, config->memory_root, &daemon->arena, err);
    if (!code)
        code = open_catalog(daemon, err);
    if (!code)
        code = open_storage(daemon, err);
    if (!code && mailbox_create(INBOX_MESSAGES, sizeof(struct inbox_message), &daemon->inbox))
        code = error_set(err, LARDER_ENOMEM, "no memory for the engine's inbox");
    daemon->arrivals.inbox = daemon->inbox;
    if (!code)
        code = recorder_create(*config->checkpoint_dir ? config->checkpoint_dir : NULL, config->socket_path,
                               &daemon->recorder, err);
    if (!code)
        code = start_engine(daemon, err);
    if (!code) {
        daemon->edges = edges_create(&(struct edges_config){.config = config,
                                                            .driver = daemon->driver,
                                                            .session = daemon->session,
                                                            .workers = daemon->workers,
                                                            .catalog = daemon->catalog,
                                                            .scratch = daemon->scratch,
                                                            .origins = daemon->origins,
                                                            .watch = daemon->watch,
                                                            .recorder = daemon->recorder,
                                                            .arena_bytes = arena_bytes(daemon->arena),
                                                            .start_ns = start_ns,
                                                            .start_time_s = start_time_s,
                                                            .hand_over = hand_over,
                                                            .ctx = daemon});
        code = recorder_start(daemon->recorder, edges_snapshot, daemon->edges, err);
    }
    if (!code)
        code = start_sessions(daemon, err);
    if (!code)
        code = edges_start(daemon->edges, err);
    if (code) {
        daemon_stop(daemon);
        daemon_destroy(daemon);
        return code;
    }
    atomic_store(&daemon->arrivals.last_client_ns, clock_now_ns()); /* nobody could come before */
    log_info("msg=\"listening\" version=" LARDER_VERSION
             " socket=\"%s\" arena_mib=%llu encoded_mib=%llu scratch_mib=%llu workers=%llu loaders=%llu",
             config->socket_path, (unsigned long long)(arena_bytes(daemon->arena) >> 20),
             (unsigned long long)(config->encoded_bytes >> 20), (unsigned long long)(config->scratch_bytes >> 20),
             (unsigned long long)config->workers, (unsigned long long)config->loaders);
    if (socket_path_is_shared(config->socket_path))
        log_info("msg=\"the socket lies in a folder of this user's that every process finds, because neither "
                 "XDG_RUNTIME_DIR nor /run has one that can be used\" socket=\"%s\"",
                 config->socket_path);
    edges_log(daemon->edges);
    *out = daemon;
    return 0;
}

void daemon_check(struct daemon *daemon)
{
    driver_settle(daemon->driver);
}

int daemon_end_fd(const struct daemon *daemon)
{
    return daemon->end_fd;
}

void daemon_leave(struct daemon *daemon)
{
    driver_leave_then(daemon->driver);
}

double daemon_idle_s(struct daemon *daemon)
{
    struct session_counts counts;
    session_counts(daemon->session, &counts);
    uint64_t now = clock_now_ns();
    if (counts.connections > 0)
        atomic_store(&daemon->arrivals.last_client_ns, now);
    uint64_t last = atomic_load(&daemon->arrivals.last_client_ns);
    return now > last ? (double)(now - last) / 1e9 : 0;
}

/* The parts that ask stop before the parts that are asked. When all clients are gone and all tasks are reported, the
 * engine holds nothing. */
void daemon_stop(struct daemon *daemon)
{
    if (!daemon)
        return;
    edges_stop(daemon->edges);
    recorder_stop(daemon->recorder); /* jobs that end from here on do so because the daemon does */
    if (daemon->driver)
        driver_alone(daemon->driver);
    if (daemon->peering)
        peering_stop(daemon->peering);
    if (daemon->driver)
        driver_halt(daemon->driver); /* the arena stays as it is while clients are told, for they still look at it */
    if (daemon->session)
        session_stop(daemon->session);
    if (daemon->registrar)
        registrar_stop(daemon->registrar);
    if (daemon->driver)
        driver_settle(daemon->driver); /* no job is left, so nobody waits for tasks that the workers then refuse */
    if (daemon->workers)
        workers_stop(daemon->workers);
    if (daemon->driver)
        driver_stop(daemon->driver);
    registrar_destroy(daemon->registrar);
    workers_destroy(daemon->workers);
    scratch_budget_destroy(daemon->scratch);
    driver_destroy(daemon->driver);
    peering_destroy(daemon->peering);
    mailbox_destroy(daemon->inbox);
    origins_destroy(daemon->origins); /* before session_destroy, too: the next daemon needs the folders */
    catalog_destroy(daemon->catalog);
}

void daemon_forsake(struct daemon *daemon)
{
    watch_forsake(daemon->watch);
    if (daemon->arena)
        arena_forsake(daemon->arena);
}

void daemon_destroy(struct daemon *daemon)
{
    if (!daemon)
        return;
    watch_close(daemon->watch);
    arena_destroy(daemon->arena); /* before session_destroy gives the lock up: the next daemon needs the memory */
    session_destroy(daemon->session);
    if (daemon->end_fd >= 0)
        close(daemon->end_fd);
    edges_destroy(daemon->edges);
    recorder_destroy(daemon->recorder);
    free(daemon);
}
