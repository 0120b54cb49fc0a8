#include "tests/unit/server/workers/pool_fixture.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

struct local {
    pthread_t thread;
    bool ran;
};

static int make_local(void *ctx, void **out, struct error *err)
{
    struct fixture *fixture = ctx;
    if (atomic_fetch_add(&fixture->locals, 1) + 1 == atomic_load(&fixture->failing)) {
        atomic_fetch_sub(&fixture->locals, 1);
        return error_set(err, LARDER_ENOMEM, "no scratch");
    }
    struct local *local = calloc(1, sizeof *local);
    local->thread = pthread_self();
    *out = local;
    return 0;
}

static void drop_local(void *ctx, void *state)
{
    struct fixture *fixture = ctx;
    struct local *local = state;
    assert_true(pthread_equal(local->thread, pthread_self()));
    free(local);
    atomic_fetch_sub(&fixture->locals, 1);
}

static void run_task(void *ctx, void *state, void *data)
{
    struct fixture *fixture = ctx;
    struct task *task = data;
    struct local *local = state;
    assert_true(pthread_equal(local->thread, pthread_self()));
    local->ran = true;
    atomic_fetch_add(&fixture->runs[task->number], 1);
    if (task->barrier)
        pthread_barrier_wait(task->barrier);
    pthread_mutex_lock(&fixture->lock);
    if (fixture->n_order < 64)
        fixture->order[fixture->n_order++] = task->number;
    fixture->gated_now += task->gated;
    pthread_cond_broadcast(&fixture->changed);
    while (task->gated && !fixture->open)
        pthread_cond_wait(&fixture->changed, &fixture->lock);
    fixture->gated_now -= task->gated;
    pthread_mutex_unlock(&fixture->lock);
}

/* A thread says that it is idle once after it has run tasks, however often it finds none. */
static void note_idle(void *ctx, void *state)
{
    struct fixture *fixture = ctx;
    struct local *local = state;
    assert_true(pthread_equal(local->thread, pthread_self()));
    assert_true(local->ran);
    local->ran = false;
    atomic_fetch_add(&fixture->idled, 1);
}

static void discard_task(void *ctx, void *task)
{
    struct fixture *fixture = ctx;
    (void)task;
    fixture->discarded++;
}

struct fixture *make_fixture(void)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    pthread_mutex_init(&fixture->lock, NULL);
    pthread_cond_init(&fixture->changed, NULL);
    return fixture;
}

struct pool_config config_of(struct fixture *fixture, uint32_t threads, uint32_t begin)
{
    return (struct pool_config){
        .name = "test",
        .threads = threads,
        .begin = begin,
        .capacity = CAPACITY,
        .task_bytes = sizeof(struct task),
        .ctx = fixture,
        .local_create = make_local,
        .local_destroy = drop_local,
        .run = run_task,
        .idle = note_idle,
        .discard = discard_task,
    };
}

struct pool *make_pool(struct fixture *fixture, uint32_t threads, uint32_t begin)
{
    struct pool_config config = config_of(fixture, threads, begin);
    struct pool *pool = NULL;
    assert_int_equal(pool_create(&config, &pool, NULL), 0);
    return pool;
}

void submit(struct pool *pool, struct task task)
{
    assert_int_equal(pool_submit(pool, &task, 1), 0);
}

void wait_gated(struct fixture *fixture, uint32_t tasks)
{
    pthread_mutex_lock(&fixture->lock);
    while (fixture->gated_now != tasks)
        pthread_cond_wait(&fixture->changed, &fixture->lock);
    pthread_mutex_unlock(&fixture->lock);
}

void set_gate(struct fixture *fixture, bool open)
{
    pthread_mutex_lock(&fixture->lock);
    fixture->open = open;
    pthread_cond_broadcast(&fixture->changed);
    pthread_mutex_unlock(&fixture->lock);
}

void wait_done(struct pool *pool, uint64_t tasks)
{
    struct pool_counts counts;
    do {
        sched_yield();
        pool_counts(pool, &counts);
    } while (counts.done < tasks);
}
