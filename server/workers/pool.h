/* pool.h: threads that do tasks of one kind, oldest first.
 *
 * Some threads are there from the start. Further ones start when a task waits and no thread is free, up to the most
 * that there may be, and stay. A submitted task wakes or starts at most one thread.
 *
 * Tasks are copied in and out. Any thread may call all functions, also from a callback, but for create, stop and
 * destroy: these belong to one owner outside the pool. */
#ifndef LARDER_SERVER_WORKERS_POOL_H
#define LARDER_SERVER_WORKERS_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define POOL_THREADS_MAX 4096

struct pool;

struct pool_config {
    const char *name;    /* name of the threads, followed by a number; a literal */
    uint32_t threads;    /* the most threads, ≥ 1 */
    uint32_t begin;      /* threads started at once, 1 … threads */
    uint32_t capacity;   /* tasks that may wait, ≥ 1: the submitter's own limit on tasks in flight */
    uint32_t task_bytes; /* > 0 */

    void *ctx; /* passed to every callback */
    /* local_create makes a thread's own state, in that thread; if it fails, pool_create fails with its error. For
     * threads that start later it must not fail. Both functions may be NULL: then threads have no state. */
    int (*local_create)(void *ctx, void **local, struct error *err);
    void (*local_destroy)(void *ctx, void *local);
    /* run does one task; `task` is the thread's own copy. No lock is held. */
    void (*run)(void *ctx, void *local, void *task);
    /* idle is called in a thread that has run tasks and finds none: before it waits, and before it ends. No lock is
     * held. It may be NULL. */
    void (*idle)(void *ctx, void *local);
    /* discard takes back a task that pool_stop found waiting. pool_stop calls it after all threads have ended. */
    void (*discard)(void *ctx, void *task);
};

/* pool_create starts the first threads and waits until each has its state. LARDER_EINVAL, LARDER_ENOMEM, LARDER_ELIMIT
 * (no more threads), or the error of local_create; after a failure nothing is left running. The caller destroys the
 * pool. */
int pool_create(const struct pool_config *config, struct pool **out, struct error *err);

/* pool_submit copies `count` tasks, which lie behind each other, and never blocks. It is a bug of the submitter (CHECK)
 * to let more tasks wait than the capacity. When the system has no further thread, the tasks wait for those that there
 * are, and the log says so. LARDER_EGONE: pool_stop has begun, and the tasks stay the caller's. */
int pool_submit(struct pool *pool, const void *tasks, uint32_t count);

/* pool_set_most lets at most `most` tasks (≥ 1) run at once. Initially it is the most threads. */
void pool_set_most(struct pool *pool, uint32_t most);

/* pool_stop lets running tasks end, gives waiting tasks to discard, and joins the threads. A second call does nothing.
 */
void pool_stop(struct pool *pool);
void pool_destroy(struct pool *pool); /* accepts NULL; stops first */

struct pool_counts {
    uint32_t threads, idle, busy;
    uint32_t waiting; /* tasks that wait */
    uint64_t done;    /* tasks run since the start */
};
void pool_counts(struct pool *pool, struct pool_counts *out);

#endif
