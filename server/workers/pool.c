/* pool.c: the pool has one mutex, a condition for each thread, and a ring of tasks for each kind.
 *
 * A thread is busy, idle (it waits on its condition), or called (it was idle, was signalled for a task of one kind, and
 * has not got the mutex yet). An invariant holds whenever the mutex is free: if more tasks of a kind wait than threads
 * are called for it, no thread that may do that kind is idle. A called thread may find that a thread which just became
 * free has taken its task; then it becomes idle again. */
#include "server/workers/pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/thread.h"

#define POOL_MAGIC 0x504f4f4cu /* "POOL" */

enum worker_phase { WORKER_STARTING, WORKER_BUSY, WORKER_IDLE, WORKER_CALLED, WORKER_ENDED };

struct worker {
    struct pool *pool;
    pthread_t thread;
    pthread_cond_t called;
    uint32_t index;
    enum worker_phase phase;   /* guarded by pool->lock */
    enum pool_kind called_for; /* guarded by pool->lock */
};

struct ring {
    char *tasks;
    uint32_t head, length;
};

struct pool {
    uint32_t magic;
    struct pool_config config; /* immutable */
    uint32_t n_threads;        /* immutable; workers come first, extra loaders after them */
    struct worker *workers;
    uint32_t n_joinable; /* only the owner uses it: threads that were started and not joined */

    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t started;
    struct ring ring[POOL_KINDS];
    uint32_t n_called[POOL_KINDS];
    uint32_t busy[POOL_KINDS];
    uint64_t done[POOL_KINDS];
    uint32_t loaders, preparers_most;
    uint32_t n_ready; /* threads whose local_create has returned, with or without success */
    struct error start_error;
    bool stopping;
};

/* ── rings ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void ring_put_locked(struct pool *pool, enum pool_kind kind, const void *task)
{
    struct ring *ring = &pool->ring[kind];
    uint32_t capacity = pool->config.kind[kind].capacity, size = pool->config.kind[kind].task_bytes;
    CHECK(ring->length < capacity);
    memcpy(ring->tasks + (size_t)((ring->head + (uint64_t)ring->length) % capacity) * size, task, size);
    ring->length++;
}

static void ring_take_locked(struct pool *pool, enum pool_kind kind, void *task)
{
    struct ring *ring = &pool->ring[kind];
    CHECK(ring->length > 0);
    memcpy(task, ring->tasks + (size_t)ring->head * pool->config.kind[kind].task_bytes,
           pool->config.kind[kind].task_bytes);
    ring->head = (ring->head + 1) % pool->config.kind[kind].capacity;
    ring->length--;
}

/* ── who does what ───────────────────────────────────────────────────────────────────────────────────────────────── */

/* rank says how well a worker suits a kind. 0: best. -1: not at all. */
static int rank_locked(const struct pool *pool, const struct worker *worker, enum pool_kind kind)
{
    if (worker->index >= pool->config.workers)
        return kind == POOL_LOAD ? 0 : -1;
    if (kind == POOL_PREPARE && pool->busy[POOL_PREPARE] >= pool->preparers_most)
        return -1;
    bool loads_first = worker->index < pool->loaders;
    return loads_first == (kind == POOL_LOAD) ? 1 : 2;
}

/* call_locked calls the idle thread that suits the kind best. False: there is none. */
static bool call_locked(struct pool *pool, enum pool_kind kind)
{
    struct worker *best = NULL;
    int best_rank = 3;
    for (uint32_t i = 0; i < pool->n_threads && best_rank > 0; i++) {
        struct worker *worker = &pool->workers[i];
        int rank = worker->phase == WORKER_IDLE ? rank_locked(pool, worker, kind) : -1;
        if (rank >= 0 && rank < best_rank) {
            best = worker;
            best_rank = rank;
        }
    }
    if (!best)
        return false;
    best->phase = WORKER_CALLED;
    best->called_for = kind;
    pool->n_called[kind]++;
    pthread_cond_signal(&best->called);
    return true;
}

/* restore_locked makes the invariant hold again after tasks came. A thread that was called for one kind may also have
 * taken a task of the other, and left its own to nobody. */
static void restore_locked(struct pool *pool)
{
    for (int kind = 0; kind < POOL_KINDS; kind++) {
        while (pool->ring[kind].length > pool->n_called[kind] && call_locked(pool, (enum pool_kind)kind))
            continue;
    }
}

/* A worker takes a task of its second kind only if no thread was called for it. A called thread comes at once, and a
 * preparer would be missed while it sits in a slow read. */
static bool choose_locked(const struct pool *pool, const struct worker *worker, enum pool_kind *out)
{
    int best_rank = 3;
    for (int kind = 0; kind < POOL_KINDS; kind++) {
        int rank = pool->ring[kind].length ? rank_locked(pool, worker, (enum pool_kind)kind) : -1;
        if (rank == 2 && pool->ring[kind].length <= pool->n_called[kind])
            continue;
        if (rank >= 0 && rank < best_rank) {
            *out = (enum pool_kind)kind;
            best_rank = rank;
        }
    }
    return best_rank < 3;
}

static void wait_locked(struct pool *pool, struct worker *worker)
{
    worker->phase = WORKER_IDLE;
    while (worker->phase == WORKER_IDLE && !pool->stopping)
        pthread_cond_wait(&worker->called, &pool->lock);
    if (worker->phase == WORKER_CALLED)
        pool->n_called[worker->called_for]--;
    worker->phase = WORKER_BUSY;
}

/* ── threads ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

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
    while (!pool->stopping) {
        enum pool_kind kind;
        if (!choose_locked(pool, worker, &kind)) {
            if (told)
                wait_locked(pool, worker);
            else
                tell_idle_locked(pool, local); /* a task may come meanwhile */
            told = true;
            continue;
        }
        told = false;
        ring_take_locked(pool, kind, task);
        pool->busy[kind]++;
        restore_locked(pool);
        pthread_mutex_unlock(&pool->lock);
        pool->config.run(pool->config.ctx, local, kind, task);
        pthread_mutex_lock(&pool->lock);
        pool->busy[kind]--;
        pool->done[kind]++;
    }
    worker->phase = WORKER_ENDED;
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
    if (rc && !pool->start_error.code)
        pool->start_error = err;
    if (rc && !pool->start_error.code)
        error_set(&pool->start_error, rc, "a worker thread could not make its state");
    pool->n_ready++;
    pthread_cond_signal(&pool->started);
    pthread_mutex_unlock(&pool->lock);
    if (rc)
        return NULL;

    uint32_t load_bytes = config->kind[POOL_LOAD].task_bytes, prepare_bytes = config->kind[POOL_PREPARE].task_bytes;
    void *task = xmalloc(load_bytes > prepare_bytes ? load_bytes : prepare_bytes);
    work(pool, worker, local, task);
    free(task);
    if (config->local_destroy)
        config->local_destroy(config->ctx, local);
    return NULL;
}

static int check_config(const struct pool_config *config, struct error *err)
{
    uint64_t threads = (uint64_t)config->workers + config->extra_loaders;
    if (config->workers == 0 || threads > POOL_THREADS_MAX || config->loaders > config->workers)
        return error_set(err, LARDER_EINVAL,
                         "a pool of %u workers, %u of them loaders, and %u extra loaders: 1 to %d threads in all",
                         config->workers, config->loaders, config->extra_loaders, POOL_THREADS_MAX);
    for (int kind = 0; kind < POOL_KINDS; kind++)
        CHECK(config->kind[kind].capacity > 0 && config->kind[kind].task_bytes > 0);
    CHECK(config->run && config->discard && !config->local_create == !config->local_destroy);
    return 0;
}

static int start_threads(struct pool *pool, struct error *err)
{
    int failed = 0;
    while (pool->n_joinable < pool->n_threads && !failed) {
        struct worker *worker = &pool->workers[pool->n_joinable];
        char name[32];
        snprintf(name, sizeof name, "larder-%s%u", worker->index < pool->config.workers ? "work" : "load",
                 worker->index);
        failed = thread_start(&worker->thread, name, worker_main, worker);
        pool->n_joinable += !failed;
    }
    pthread_mutex_lock(&pool->lock);
    while (pool->n_ready < pool->n_joinable)
        pthread_cond_wait(&pool->started, &pool->lock);
    struct error start_error = pool->start_error;
    pthread_mutex_unlock(&pool->lock);
    if (failed)
        return error_set(
            err, LARDER_ELIMIT,
            "only %u of %u worker threads could be started (%s): lower threads.workers, or raise ulimit -u",
            pool->n_joinable, pool->n_threads, strerror(failed));
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
    pool->loaders = config->loaders;
    pool->preparers_most = config->workers;
    pool->n_threads = config->workers + config->extra_loaders;
    pool->workers = xcalloc(pool->n_threads, sizeof *pool->workers);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->started, NULL);
    for (int kind = 0; kind < POOL_KINDS; kind++)
        pool->ring[kind].tasks = xcalloc(config->kind[kind].capacity, config->kind[kind].task_bytes);
    for (uint32_t i = 0; i < pool->n_threads; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].index = i;
        pthread_cond_init(&pool->workers[i].called, NULL);
    }
    rc = start_threads(pool, err);
    if (rc) {
        pool_destroy(pool);
        return rc;
    }
    *out = pool;
    return 0;
}

int pool_submit(struct pool *pool, enum pool_kind kind, const void *tasks, uint32_t count)
{
    CHECK_MAGIC(pool, POOL_MAGIC);
    pthread_mutex_lock(&pool->lock);
    int rc = pool->stopping ? LARDER_EGONE : 0;
    for (uint32_t i = 0; !rc && i < count; i++)
        ring_put_locked(pool, kind, (const char *)tasks + (size_t)i * pool->config.kind[kind].task_bytes);
    if (!rc)
        restore_locked(pool);
    pthread_mutex_unlock(&pool->lock);
    return rc;
}

void pool_set_split(struct pool *pool, uint32_t loaders, uint32_t preparers_most)
{
    CHECK_MAGIC(pool, POOL_MAGIC);
    CHECK(preparers_most > 0);
    pthread_mutex_lock(&pool->lock);
    pool->loaders = loaders < pool->config.workers ? loaders : pool->config.workers;
    pool->preparers_most = preparers_most;
    restore_locked(pool); /* if more threads may prepare than before, idle ones are called */
    pthread_mutex_unlock(&pool->lock);
}

void pool_stop(struct pool *pool)
{
    CHECK_MAGIC(pool, POOL_MAGIC);
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    for (uint32_t i = 0; i < pool->n_threads; i++)
        pthread_cond_signal(&pool->workers[i].called);
    pthread_mutex_unlock(&pool->lock);
    while (pool->n_joinable > 0)
        pthread_join(pool->workers[--pool->n_joinable].thread, NULL);

    for (int kind = 0; kind < POOL_KINDS; kind++) {
        void *task = xmalloc(pool->config.kind[kind].task_bytes);
        pthread_mutex_lock(&pool->lock);
        while (pool->ring[kind].length > 0) {
            ring_take_locked(pool, (enum pool_kind)kind, task);
            pthread_mutex_unlock(&pool->lock);
            pool->config.discard(pool->config.ctx, (enum pool_kind)kind, task);
            pthread_mutex_lock(&pool->lock);
        }
        pthread_mutex_unlock(&pool->lock);
        free(task);
    }
}

void pool_destroy(struct pool *pool)
{
    if (!pool)
        return;
    pool_stop(pool);
    for (uint32_t i = 0; i < pool->n_threads; i++)
        pthread_cond_destroy(&pool->workers[i].called);
    for (int kind = 0; kind < POOL_KINDS; kind++)
        free(pool->ring[kind].tasks);
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
    *out = (struct pool_counts){.threads = pool->n_threads, .loaders = pool->loaders};
    for (int kind = 0; kind < POOL_KINDS; kind++) {
        out->busy[kind] = pool->busy[kind];
        out->waiting[kind] = pool->ring[kind].length;
        out->done[kind] = pool->done[kind];
    }
    for (uint32_t i = 0; i < pool->n_threads; i++)
        out->idle += pool->workers[i].phase == WORKER_IDLE;
    pthread_mutex_unlock(&pool->lock);
}
