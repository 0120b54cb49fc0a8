/* The worker pool: every task once, in the right order of kinds, no worker idle while there is work, a clean stop. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/random.h"
#include "tests/unit/server/workers/pool_fixture.h"

struct submitter {
    struct pool *pool;
    uint32_t first;
};

static void *submit_many(void *arg)
{
    struct submitter *submitter = arg;
    for (uint32_t i = 0; i < CAPACITY; i++)
        submit(submitter->pool, i % 2 ? POOL_LOAD : POOL_PREPARE, (struct task){.number = submitter->first + i});
    return NULL;
}

/* Tasks of two submitting threads each run exactly once, each thread uses only its own state, and all state is gone
 * after the pool. */
static void test_each_task_once(void **state)
{
    (void)state;
    struct fixture *fixture = make_fixture();
    struct pool *pool = make_pool(fixture, 3, 1, 2);
    struct submitter submitters[2] = {{pool, 0}, {pool, CAPACITY}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_many, &submitters[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    wait_done(pool, 2 * CAPACITY);
    for (uint32_t i = 0; i < 2 * CAPACITY; i++)
        assert_int_equal(fixture->runs[i], 1);
    assert_int_equal(fixture->locals, 5);
    pool_destroy(pool);
    assert_int_equal(fixture->locals, 0);
    free(fixture);
}

/* A worker takes all tasks of its first kind before the other's, each kind in order, and pool_set_split changes which
 * kind that is. */
static void test_first_kind_first(void **state)
{
    (void)state;
    struct fixture *fixture = make_fixture();
    struct pool *pool = make_pool(fixture, 1, 1, 0);
    for (uint32_t round = 0; round < 2; round++) {
        pool_set_split(pool, round == 0 ? 99 : 0, 99);
        fixture->n_order = 0;
        set_gate(fixture, false);
        submit(pool, POOL_LOAD, (struct task){.number = 0, .gated = true});
        wait_gated(fixture, 1, 0);
        for (uint32_t i = 1; i <= 4; i++)
            submit(pool, i % 2 ? POOL_PREPARE : POOL_LOAD, (struct task){.number = i});
        set_gate(fixture, true);
        wait_done(pool, 5 * (round + 1));
        static const uint32_t expected[2][5] = {{0, 2, 4, 1, 3}, {0, 1, 3, 2, 4}};
        assert_memory_equal(fixture->order, expected[round], sizeof expected[round]);
    }
    pool_destroy(pool);
    free(fixture);
}

/* All workers take on either kind when that is all there is; extra loaders help with loads and never prepare. The
 * counts say what runs and what waits. */
static void test_nobody_idles(void **state)
{
    (void)state;
    struct fixture *fixture = make_fixture();
    struct pool *pool = make_pool(fixture, 2, 1, 1);
    struct pool_counts counts;
    for (uint32_t i = 0; i < 3; i++)
        submit(pool, POOL_LOAD, (struct task){.number = i, .gated = true});
    wait_gated(fixture, 3, 0);
    set_gate(fixture, true);
    wait_done(pool, 3);
    set_gate(fixture, false);
    for (uint32_t i = 0; i < 3; i++)
        submit(pool, POOL_PREPARE, (struct task){.number = i, .gated = true});
    wait_gated(fixture, 0, 2);
    pool_counts(pool, &counts);
    assert_int_equal(counts.busy[POOL_PREPARE], 2);
    assert_int_equal(counts.waiting[POOL_PREPARE], 1);
    assert_int_equal(counts.idle, 1);
    assert_int_equal(counts.threads, 3);
    set_gate(fixture, true);
    wait_done(pool, 6);
    pool_destroy(pool);
    free(fixture);
}

/* Tasks that come together are all run. A thread says that it is idle after the last of them, and before it ends. */
static void test_bundles(void **state)
{
    (void)state;
    struct fixture *fixture = make_fixture();
    struct pool *pool = make_pool(fixture, 1, 0, 0);
    struct task tasks[5] = {{.number = 0, .gated = true}};
    for (uint32_t i = 1; i < 5; i++)
        tasks[i] = (struct task){.number = i};
    assert_int_equal(pool_submit(pool, POOL_PREPARE, tasks, 5), 0);
    wait_gated(fixture, 0, 1);
    assert_int_equal(fixture->idled, 0);
    set_gate(fixture, true);
    wait_done(pool, 5);
    set_gate(fixture, false);
    assert_int_equal(pool_submit(pool, POOL_PREPARE, tasks, 1), 0);
    wait_gated(fixture, 0, 1);
    assert_int_equal(fixture->idled, 1);
    set_gate(fixture, true);
    pool_stop(pool);
    assert_int_equal(fixture->idled, 2);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(fixture->runs[i], i ? 1 : 2);
    pool_destroy(pool);
    free(fixture);
}

/* No more than pool_set_split says prepare at once, also when there is nothing else to do; the others load meanwhile,
 * and go on to prepare when more may. */
static void test_preparers_most(void **state)
{
    (void)state;
    struct fixture *fixture = make_fixture();
    struct pool *pool = make_pool(fixture, 3, 0, 0);
    struct pool_counts counts;
    pool_set_split(pool, 0, 1);
    for (uint32_t i = 0; i < 6; i++)
        submit(pool, POOL_PREPARE, (struct task){.number = i, .gated = true});
    for (uint32_t i = 0; i < 2; i++)
        submit(pool, POOL_LOAD, (struct task){.number = i, .gated = true});
    wait_gated(fixture, 2, 1);
    pool_counts(pool, &counts);
    assert_int_equal(counts.busy[POOL_PREPARE], 1);
    assert_int_equal(counts.waiting[POOL_PREPARE], 5);
    set_gate(fixture, true);
    wait_done(pool, 8);
    set_gate(fixture, false);
    for (uint32_t i = 0; i < 3; i++)
        submit(pool, POOL_PREPARE, (struct task){.number = i, .gated = true});
    wait_gated(fixture, 0, 1);
    pool_set_split(pool, 0, 3);
    wait_gated(fixture, 0, 3);
    set_gate(fixture, true);
    wait_done(pool, 11);
    pool_destroy(pool);
    free(fixture);
}

/* No wake-up is lost: a round of tasks that each wait until all of them run ends only if every thread that may help
 * comes, whatever the order of kinds and roles: three of any kind for the three workers, or four loads. A lost one
 * hangs the test. */
static void test_no_lost_wake(void **state)
{
    (void)state;
    const char *given = getenv("LARDER_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 6, tasks = 0;
    print_message("LARDER_TEST_SEED=%llu\n", (unsigned long long)seed);
    struct rng rng;
    random_seed(&rng, seed);
    struct fixture *fixture = make_fixture();
    struct pool *pool = make_pool(fixture, 3, 1, 1);
    pthread_barrier_t three, four;
    pthread_barrier_init(&three, NULL, 3);
    pthread_barrier_init(&four, NULL, 4);
    for (uint32_t round = 0; round < 4000; round++) {
        pool_set_split(pool, (uint32_t)random_below(&rng, 4), 3 + (uint32_t)random_below(&rng, 2));
        bool all_load = random_below(&rng, 4) == 0;
        for (uint32_t i = 0; i < (all_load ? 4u : 3u); i++, tasks++)
            submit(pool, all_load || random_below(&rng, 2) ? POOL_LOAD : POOL_PREPARE,
                   (struct task){.number = i, .barrier = all_load ? &four : &three});
        wait_done(pool, tasks);
        if (random_below(&rng, 8) == 0)
            usleep(100); /* let all go idle */
    }
    pool_destroy(pool);
    pthread_barrier_destroy(&three);
    pthread_barrier_destroy(&four);
    free(fixture);
}

struct opener {
    struct pool *pool;
    struct fixture *fixture;
    uint32_t accepted; /* further loads, before the pool was stopping */
};

/* open_when_stopping opens the gate once the pool refuses tasks. */
static void *open_when_stopping(void *arg)
{
    struct opener *opener = arg;
    struct task task = {.number = 6};
    while (pool_submit(opener->pool, POOL_LOAD, &task, 1) == 0) {
        opener->accepted++;
        usleep(20000);
    }
    set_gate(opener->fixture, true);
    return NULL;
}

/* Stopping lets the running task end, hands back each waiting one, and refuses new ones. */
static void test_stop_returns_waiting(void **state)
{
    (void)state;
    struct fixture *fixture = make_fixture();
    struct pool *pool = make_pool(fixture, 1, 0, 0);
    submit(pool, POOL_PREPARE, (struct task){.number = 0, .gated = true});
    wait_gated(fixture, 0, 1);
    for (uint32_t i = 1; i <= 5; i++)
        submit(pool, i <= 2 ? POOL_LOAD : POOL_PREPARE, (struct task){.number = i});
    pthread_t thread;
    struct opener opener = {.pool = pool, .fixture = fixture};
    assert_int_equal(pthread_create(&thread, NULL, open_when_stopping, &opener), 0);
    pool_stop(pool);
    pthread_join(thread, NULL);
    assert_int_equal(fixture->n_order, 1);
    assert_int_equal(fixture->discarded[POOL_LOAD], 2 + opener.accepted);
    assert_int_equal(fixture->discarded[POOL_PREPARE], 3);
    struct task late = {.number = 9};
    assert_int_equal(pool_submit(pool, POOL_LOAD, &late, 1), LARDER_EGONE);
    pool_stop(pool);
    pool_destroy(pool);
    pool_destroy(NULL);
    free(fixture);
}

/* A thread that cannot make its state fails the whole creation with its error, and leaves no thread and no state. */
static void test_local_fails(void **state)
{
    (void)state;
    struct fixture *fixture = make_fixture();
    fixture->failing = 3;
    struct pool_config config = config_of(fixture, 4, 0, 0);
    struct pool *pool = NULL;
    struct error err = {0};
    assert_int_equal(pool_create(&config, &pool, &err), LARDER_ENOMEM);
    assert_null(pool);
    assert_string_equal(err.text, "no scratch");
    assert_int_equal(fixture->locals, 0);
    config.workers = 0;
    assert_int_equal(pool_create(&config, &pool, &err), LARDER_EINVAL);
    free(fixture);
}

/* More tasks than the stated capacity is the submitter's bug and stops the process. */
static void test_overflow_is_a_bug(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        fclose(stderr);
        close(2);
        struct fixture *fixture = make_fixture();
        struct pool *pool = make_pool(fixture, 1, 0, 0);
        for (uint32_t i = 0; i < CAPACITY + 2; i++)
            submit(pool, POOL_PREPARE, (struct task){.gated = true});
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* A worker that has prepared does not take the read that an idle loader has just been called for, however long that
 * takes to come: the next preparation would wait for the storage. */
static void test_a_called_loader_gets_its_load(void **state)
{
    (void)state;
    enum { TURNS = 1000 };
    struct fixture *fixture = make_fixture();
    fixture->pool = make_pool(fixture, 1, 0, 1);
    for (uint32_t turn = 0; turn <= TURNS; turn++) {
        struct pool_counts counts;
        if (turn > 0)
            submit(fixture->pool, POOL_PREPARE, (struct task){.feeds = true});
        do { /* also before the first: a thread that still starts is nobody who can be called */
            sched_yield();
            pool_counts(fixture->pool, &counts);
        } while (counts.done[POOL_LOAD] < turn || counts.idle < 2);
    }
    pool_destroy(fixture->pool);
    assert_int_equal(fixture->runs[1], TURNS);
    assert_int_equal(fixture->taken, 0);
    free(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overflow_is_a_bug), /* first: it forks, and no thread runs yet */
        cmocka_unit_test(test_each_task_once),
        cmocka_unit_test(test_first_kind_first),
        cmocka_unit_test(test_nobody_idles),
        cmocka_unit_test(test_bundles),
        cmocka_unit_test(test_preparers_most),
        cmocka_unit_test(test_no_lost_wake),
        cmocka_unit_test(test_a_called_loader_gets_its_load),
        cmocka_unit_test(test_stop_returns_waiting),
        cmocka_unit_test(test_local_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
