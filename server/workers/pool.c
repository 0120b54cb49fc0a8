/* pool.c: the pool has one mutex, a condition for each thread, and a ring of tasks.
 *
 * A thread is busy, idle (it waits on its condition), or called (it has just been started, or was idle and was
 * signalled, and has not got the mutex yet). An invariant holds whenever the mutex is free: if more tasks wait than
 * threads are called, and more may run, no thread is idle. A called thread may find that a thread which just became
 * free has taken its task; then it becomes idle again. */
#include "server/workers/pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/log.h"
#include "common/thread.h"

#define POOL_MAGIC 0x504f4f4cu /* "POOL" */

enum worker_phase { WORKER_CALLED, WORKER_BUSY, WORKER_IDLE };

struct worker {
    struct pool *pool;
    pthread_t thread;
    pthread_cond_t called;
    enum worker_phase phase;  /* guarded by pool->lock */
    struct worker *idle_next; /* the one that became idle before it; guarded by pool->lock */
};

struct pool {
    uint32_t magic;
    struct pool_config config; /* immutable */
    struct worker *workers;    /* config.threads of them */

    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t started;
    char *tasks; /* a ring */
    uint32_t head, length;
    uint32_t n_threads, n_called, busy, most;
    struct worker *idle; /* the one that became idle last */
    uint64_t done;
    uint32_t n_ready; /* threads whose local_create has returned, with or without success */
    struct error start_error;
    bool stopping;
};

/* ── the ring ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void put_locked(struct pool *pool, const void *task)
{
    uint32_t capacity = pool->config.capacity, size = pool->config.task_bytes;
    CHECK(pool->length < capacity);
    memcpy(pool->tasks + (size_t)((pool->head + (uint64_t)pool->length) % capacity) * size, task, size);
    pool->length++;
}

static void take_locked(struct pool *pool, void *task)
{
    CHECK(pool->length > 0);
    memcpy(task, pool->tasks + (size_t)pool->head * pool->config.task_bytes, pool->config.task_bytes);
    pool->head = (pool->head + 1) % pool->config.capacity;
    pool->length--;
}

/* ── threads ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* wanted_locked tells whether one thread more could run a task that waits. */
static bool wanted_locked(const struct pool *pool)
{
    return pool->length > pool->n_called && pool->busy + pool->n_called < pool->most;
}

/* restore_locked makes the invariant hold again after tasks came, or more may run. */
static void restore_locked(struct pool *pool)
{
    while (wanted_locked(pool) && pool->idle) {
        struct worker *worker = pool->idle;
        pool->idle = worker->idle_next;
        worker->phase = WORKER_CALLED;
        pool->n_called++;
        pthread_cond_signal(&worker->called);
    }
}

static void wait_locked(struct pool *pool, struct worker *worker)
{
    worker->phase = WORKER_IDLE;
    worker->idle_next = pool->idle;
    pool->idle = worker;
    while (worker->phase == WORKER_IDLE && !pool->stopping)
        pthread_cond_wait(&worker->called, &pool->lock);
    pool->n_called -= worker->phase == WORKER_CALLED;
    worker->phase = WORKER_BUSY;
}

/* tell_idle_locked tells the owner, without the lock, that the thread has run tasks and finds none. */
static void tell_idle_locked(struct pool *pool, void *local)
{
    pthread_mutex_unlock(&pool->lock);
    if (pool->config.idle)
        pool->config.idle(pool->config.ctx, local);
    pthread_mutex_lock(&pool->lock);
}

static void work(struct pool *pool, struct worker *worker, void *local, void *task)
{
    bool told = true;
    pthread_mutex_lock(&pool->lock);
    worker->phase = WORKER_BUSY;
    pool->n_called--;
    while (!pool->stopping) {
        if (pool->length == 0 || pool->busy >= pool->most) {
            if (told)
                wait_locked(pool, worker);
            else
                tell_idle_locked(pool, local); /* a task may come meanwhile */
            told = true;
            continue;
        }
        told = false;
        take_locked(pool, task);
        pool->busy++;
        pthread_mutex_unlock(&pool->lock);
        pool->config.run(pool->config.ctx, local, task);
        pthread_mutex_lock(&pool->lock);
        pool->busy--;
        pool->done++;
    }
    if (!told)
        tell_idle_locked(pool, local);
    pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    struct pool *pool = worker->pool;
    const struct pool_config *config = &pool->config;
    void *local = NULL;
    struct error err = {0};
    int rc = config->local_create ? config->local_create(config->ctx, &local, &err) : 0;
    pthread_mutex_lock(&pool->lock);
    CHECK(rc == 0 || pool->n_ready < config->begin);
    if (rc && !pool->start_error.code)
        pool->start_error = err;
    if (rc && !pool->start_error.code)
        error_set(&pool->start_error, rc, "a worker thread could not make its state");
    pool->n_ready++;
    pthread_cond_signal(&pool->started);
    pthread_mutex_unlock(&pool->lock);
    if (rc)
        return NULL;

    void *task = xmalloc(config->task_bytes);
    work(pool, worker, local, task);
    free(task);
    if (config->local_destroy)
        config->local_destroy(config->ctx, local);
    return NULL;
}

/* start_locked starts one thread more, as called. It returns 0 or an errno. */
static int start_locked(struct pool *pool)
{
    struct worker *worker = &pool->workers[pool->n_threads];
    char name[32];
    snprintf(name, sizeof name, "%s%u", pool->config.name, pool->n_threads);
    worker->pool = pool;
    worker->phase = WORKER_CALLED;
    int failed = thread_start(&worker->thread, name, worker_main, worker);
    pool->n_threads += !failed;
    pool->n_called += !failed;
    return failed;
}

static int check_config(const struct pool_config *config, struct error *err)
{
    if (config->begin == 0 || config->threads > POOL_THREADS_MAX || config->begin > config->threads)
        return error_set(err, LARDER_EINVAL, "a pool of %u threads, %u of them from the start: 1 to %d threads in all",
                         config->threads, config->begin, POOL_THREADS_MAX);
    CHECK(config->capacity > 0 && config->task_bytes > 0);
    CHECK(config->run && config->discard && !config->local_create == !config->local_destroy);
    return 0;
}

static int start_threads(struct pool *pool, struct error *err)
{
    int failed = 0;
    pthread_mutex_lock(&pool->lock);
    while (pool->n_threads < pool->config.begin && !failed)
        failed = start_locked(pool);
    while (pool->n_ready < pool->n_threads)
        pthread_cond_wait(&pool->started, &pool->lock);
    struct error start_error = pool->start_error;
    uint32_t n_threads = pool->n_threads;
    pthread_mutex_unlock(&pool->lock);
    if (failed)
        return error_set(
            err, LARDER_ELIMIT,
            "only %u of %u worker threads could be started (%s): lower threads.workers, or raise ulimit -u", n_threads,
            pool->config.begin, strerror(failed));
    if (start_error.code && err)
        *err = start_error;
    return start_error.code;
}

int pool_create(const struct pool_config *config, struct pool **out, struct error *err)
{
    int rc = check_config(config, err);
    if (rc)
        return rc;
    struct pool *pool = xcalloc(1, sizeof *pool);
    pool->magic = POOL_MAGIC;
    pool->config = *config;
    pool->most = config->threads;
    pool->workers = xcalloc(config->threads, sizeof *pool->workers);
    pool->tasks = xcalloc(config->capacity, config->task_bytes);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->started, NULL);
    for (uint32_t i = 0; i < config->threads; i++)
        pthread_cond_init(&pool->workers[i].called, NULL);
    rc = start_threads(pool, err);
    if (rc) {
        pool_destroy(pool);
        return rc;
    }
    *out = pool;
    return 0;
}

int pool_submit(struct pool *pool, const void *tasks, uint32_t count)
{
    CHECK_MAGIC(pool, POOL_MAGIC);
    pthread_mutex_lock(&pool->lock);
    int rc = pool->stopping ? LARDER_EGONE : 0, failed = 0;
    for (uint32_t i = 0; !rc && i < count; i++)
        put_locked(pool, (const char *)tasks + (size_t)i * pool->config.task_bytes);
    if (!rc)
        restore_locked(pool);
    while (!rc && !failed && wanted_locked(pool) && pool->n_threads < pool->config.threads)
        failed = start_locked(pool);
    uint32_t n_threads = pool->n_threads;
    pthread_mutex_unlock(&pool->lock);
    if (failed)
        log_warn_limited("msg=\"no further thread could be started: what waits for one has to wait for the others; "
                         "raise ulimit -u\" threads=%u err=\"%s\"",
                         n_threads, strerror(failed));
    return rc;
}

void pool_set_most(struct pool *pool, uint32_t most)
{
    CHECK_MAGIC(pool, POOL_MAGIC);
    CHECK(most > 0);
    pthread_mutex_lock(&pool->lock);
    pool->most = most;
    restore_locked(pool); /* if more may run than before, idle threads are called */
    pthread_mutex_unlock(&pool->lock);
}

void pool_stop(struct pool *pool)
{
    CHECK_MAGIC(pool, POOL_MAGIC);
    pthread_mutex_lock(&pool->lock);
    bool again = pool->stopping;
    pool->stopping = true;
    for (uint32_t i = 0; i < pool->n_threads; i++)
        pthread_cond_signal(&pool->workers[i].called);
    pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < pool->n_threads && !again; i++) /* no thread starts any more */
        pthread_join(pool->workers[i].thread, NULL);

    void *task = xmalloc(pool->config.task_bytes);
    pthread_mutex_lock(&pool->lock);
    while (pool->length > 0) {
        take_locked(pool, task);
        pthread_mutex_unlock(&pool->lock);
        pool->config.discard(pool->config.ctx, task);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    free(task);
}

void pool_destroy(struct pool *pool)
{
    if (!pool)
        return;
    pool_stop(pool);
    for (uint32_t i = 0; i < pool->config.threads; i++)
        pthread_cond_destroy(&pool->workers[i].called);
    free(pool->tasks);
    pthread_cond_destroy(&pool->started);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    pool->magic = 0;
    free(pool);
}

void pool_counts(struct pool *pool, struct pool_counts *out)
{
    CHECK_MAGIC(pool, POOL_MAGIC);
    pthread_mutex_lock(&pool->lock);
    *out = (struct pool_counts){
        .threads = pool->n_threads, .busy = pool->busy, .waiting = pool->length, .done = pool->done};
    for (const struct worker *worker = pool->idle; worker; worker = worker->idle_next)
        out->idle++;
    pthread_mutex_unlock(&pool->lock);
}
