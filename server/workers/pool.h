/* pool.h: a fixed number of worker threads, which do two kinds of tasks.
 *
 * Each kind has a bounded FIFO. A worker takes the oldest task of its first kind, or of the other kind if there is
 * none. So no worker idles while there is work, except that only so many may prepare at once. Extra loaders take only
 * load tasks: they mostly wait for storage and do not count against the cores. A submitted task wakes at most one
 * thread.
 *
 * Tasks are copied in and out. Any thread may call all functions, also from a callback, but for create, stop and
 * destroy: these belong to one owner outside the pool. */
#ifndef LARDER_SERVER_WORKERS_POOL_H
#define LARDER_SERVER_WORKERS_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define POOL_THREADS_MAX 2048

enum pool_kind { POOL_LOAD, POOL_PREPARE };
#define POOL_KINDS 2

struct pool;

struct pool_config {
    uint32_t workers;       /* threads that do both kinds, ≥ 1 */
    uint32_t loaders;       /* how many of the workers take load tasks first to begin with, ≤ workers */
    uint32_t extra_loaders; /* further threads, which only do load tasks */
    struct {
        uint32_t capacity;   /* tasks that may wait, ≥ 1: the submitter's own limit on tasks in flight */
        uint32_t task_bytes; /* > 0 */
    } kind[POOL_KINDS];

    void *ctx; /* passed to every callback */
    /* local_create makes a thread's own state, in that thread; if it fails, pool_create fails with its error. Both
     * functions may be NULL: then threads have no state. */
    int (*local_create)(void *ctx, void **local, struct error *err);
    void (*local_destroy)(void *ctx, void *local);
    /* run does one task; `task` is the thread's own copy. No lock is held. */
    void (*run)(void *ctx, void *local, enum pool_kind kind, void *task);
    /* idle is called in a thread that has run tasks and finds none: before it waits, and before it ends. No lock is
     * held. It may be NULL. */
    void (*idle)(void *ctx, void *local);
    /* discard takes back a task that pool_stop found waiting. pool_stop calls it after all threads have ended. */
    void (*discard)(void *ctx, enum pool_kind kind, void *task);
};

/* pool_create starts the threads and waits until each has its state. LARDER_EINVAL, LARDER_ENOMEM, LARDER_ELIMIT (no
 * more threads), or what local_create gave; after a failure nothing is left running. The caller destroys the pool. */
int pool_create(const struct pool_config *config, struct pool **out, struct error *err);

/* pool_submit copies `count` tasks, which lie behind each other, and never blocks. It is a bug of the submitter (CHECK)
 * to let more tasks wait than the capacity. LARDER_EGONE: pool_stop has begun, and the tasks stay the caller's. */
int pool_submit(struct pool *pool, enum pool_kind kind, const void *tasks, uint32_t count);

/* pool_set_split makes `loaders` of the workers (at most all) take load tasks first, from their next task on. At most
 * preparers_most threads (≥ 1; to begin with all workers) run prepare tasks at once. */
void pool_set_split(struct pool *pool, uint32_t loaders, uint32_t preparers_most);

/* pool_stop lets running tasks end, gives waiting tasks to discard, and joins the threads. A second call does nothing.
 */
void pool_stop(struct pool *pool);
void pool_destroy(struct pool *pool); /* accepts NULL; stops first */

struct pool_counts {
    uint32_t threads, idle;
    uint32_t busy[POOL_KINDS];
    uint32_t waiting[POOL_KINDS]; /* tasks that wait */
    uint32_t loaders;             /* workers that take load tasks first, without the extra loaders */
    uint64_t done[POOL_KINDS];    /* tasks run since the start */
};
void pool_counts(struct pool *pool, struct pool_counts *out);

#endif
