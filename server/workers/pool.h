/* pool.h: the worker threads: a fixed number, two kinds of tasks, and who does which kind first.
 *
 * Two bounded FIFOs, one a kind. A worker takes the oldest task of its first kind, or of the other when there is none,
 * so that no worker idles while there is work, up to the number that may prepare at once. Extra loaders, which only
 * wait for storage, take load tasks and nothing else: they do not count against the cores. A submitted task wakes at
 * most one thread.
 *
 * Tasks are copied in and out. All functions may be called from any thread, callbacks included, apart from create,
 * stop and destroy, which belong to one owner outside the pool. */
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
    uint32_t loaders;       /* of these, how many take load tasks first to begin with, ≤ workers */
    uint32_t extra_loaders; /* further threads, for load tasks alone */
    struct {
        uint32_t capacity;   /* tasks that may wait, ≥ 1: the submitter's own in-flight limit */
        uint32_t task_bytes; /* > 0 */
    } kind[POOL_KINDS];

    void *ctx; /* goes to every callback */
    /* local_create makes a thread's own state, in that thread; on failure pool_create fails with its error. Both may be
     * NULL: no state. */
    int (*local_create)(void *ctx, void **local, struct error *err);
    void (*local_destroy)(void *ctx, void *local);
    /* run does one task; `task` is the thread's own copy. No lock is held. */
    void (*run)(void *ctx, void *local, enum pool_kind kind, void *task);
    /* discard takes back a task that pool_stop found waiting; called in pool_stop, after all threads have ended. */
    void (*discard)(void *ctx, enum pool_kind kind, void *task);
};

/* pool_create starts the threads and waits until each has its state. LARDER_EINVAL, LARDER_ENOMEM, LARDER_ELIMIT (no
 * more threads), or what local_create gave; nothing is left running then. */
int pool_create(const struct pool_config *config, struct pool **out, struct error *err);

/* pool_submit never blocks. More tasks than the capacity waiting is a bug of the submitter (CHECK). After pool_stop has
 * begun: LARDER_EGONE, and the task stays the caller's. */
int pool_submit(struct pool *pool, enum pool_kind kind, const void *task);

/* pool_set_split: so many of the workers (at most all) take load tasks first from their next task on, and at most so
 * many (≥ 1; to begin with all) run prepare tasks at once. */
void pool_set_split(struct pool *pool, uint32_t loaders, uint32_t preparers_most);

/* pool_stop lets running tasks end, gives waiting ones to discard, and joins. Calling it again does nothing. */
void pool_stop(struct pool *pool);
void pool_destroy(struct pool *pool); /* accepts NULL; stops first */

struct pool_counts {
    uint32_t threads, idle;
    uint32_t busy[POOL_KINDS];
    uint32_t waiting[POOL_KINDS]; /* tasks */
    uint32_t loaders;             /* workers that take load tasks first, extra loaders not among them */
    uint64_t done[POOL_KINDS];    /* tasks run since the start */
};
void pool_counts(struct pool *pool, struct pool_counts *out);

#endif
