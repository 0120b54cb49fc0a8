/* The worker pool: every task once, no thread idle while there is work, a clean stop. */
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
    for (uint32_t i = 0; i < CAPACITY / 2; i++)
        submit(submitter->pool, (struct task){.number = submitter->first + i});
    return NULL;
}

/* Tasks of two submitting threads each run exactly once, each thread uses only its own state, and all state is gone
 * after the pool. */
static void test_each_task_once(void **state)
{
    (void)state;
    struct fixture *fixture = make_fixture();
    struct pool *pool = make_pool(fixture, 5, 3);
    struct submitter submitters[2] = {{pool, 0}, {pool, CAPACITY / 2}};
    pthread_t threads[2];
    assert_int_equal(fixture->locals, 3);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_many, &submitters[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    wait_done(pool, CAPACITY);
    for (uint32_t i = 0; i < CAPACITY; i++)
        assert_int_equal(fixture->runs[i], 1);
    assert_in_range(fixture->locals, 3, 5);
    pool_destroy(pool);
    assert_int_equal(fixture->locals, 0);
    free(fixture);
}

/* One thread runs tasks in the order in which they came. */
static void test_in_order(void **state)
{
    (void)state;
    struct fixture *fixture = make_fixture();
    struct pool *pool = make_pool(fixture, 1, 1);
    submit(pool, (struct task){.number = 0, .gated = true});
    wait_gated(fixture, 1);
    for (uint32_t i = 1; i <= 4; i++)
        submit(pool, (struct task){.number = i});
    set_gate(fixture, true);
    wait_done(pool, 5);
    static const uint32_t expected[5] = {0, 1, 2, 3, 4};
    assert_memory_equal(fixture->order, expected, sizeof expected);
    pool_destroy(pool);
    free(fixture);
}

/* A thread more comes whenever a task waits and none is free, and never more than there may be; afterwards they are
 * used again. The counts say what runs and what waits. */
static void test_grows(void **state)
{
    (void)state;
    struct fixture *fixture = make_fixture();
    struct pool *pool = make_pool(fixture, 4, 1);
    struct pool_counts counts;
    for (uint32_t round = 0; round < 3; round++) {
        set_gate(fixture, false);
        for (uint32_t i = 0; i < 6; i++) {
            submit(pool, (struct task){.number = i, .gated = true});
            wait_gated(fixture, i < 4 ? i + 1 : 4);
            pool_counts(pool, &counts);
            assert_int_equal(counts.busy, i < 4 ? i + 1 : 4);
            assert_int_equal(counts.waiting, i < 4 ? 0 : i - 3);
            assert_int_equal(counts.threads, round || i > 3 ? 4 : i + 1);
        }
        set_gate(fixture, true);
        wait_done(pool, 6 * (round + 1));
        do
            pool_counts(pool, &counts);
        while (counts.idle < 4);
    }
    assert_int_equal(fixture->locals, 4);
    pool_destroy(pool);
    free(fixture);
}

/* Tasks that come together are all run. A thread says that it is idle after the last of them, and before it ends. */
static void test_bundles(void **state)
{
    (void)state;
    struct fixture *fixture = make_fixture();
    struct pool *pool = make_pool(fixture, 1, 1);
    struct task tasks[5] = {{.number = 0, .gated = true}};
    for (uint32_t i = 1; i < 5; i++)
        tasks[i] = (struct task){.number = i};
    assert_int_equal(pool_submit(pool, tasks, 5), 0);
    wait_gated(fixture, 1);
    assert_int_equal(fixture->idled, 0);
    set_gate(fixture, true);
    wait_done(pool, 5);
    set_gate(fixture, false);
    assert_int_equal(pool_submit(pool, tasks, 1), 0);
    wait_gated(fixture, 1);
    assert_int_equal(fixture->idled, 1);
    set_gate(fixture, true);
    pool_stop(pool);
    assert_int_equal(fixture->idled, 2);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(fixture->runs[i], i ? 1 : 2);
    pool_destroy(pool);
    free(fixture);
}

/* No more than pool_set_most says run at once, and the others come when more may. */
static void test_most(void **state)
{
    (void)state;
    struct fixture *fixture = make_fixture();
    struct pool *pool = make_pool(fixture, 3, 3);
    struct pool_counts counts;
    pool_set_most(pool, 1);
    for (uint32_t i = 0; i < 6; i++)
        submit(pool, (struct task){.number = i, .gated = true});
    wait_gated(fixture, 1);
    pool_counts(pool, &counts);
    assert_int_equal(counts.busy, 1);
    assert_int_equal(counts.waiting, 5);
    pool_set_most(pool, 3);
    wait_gated(fixture, 3);
    set_gate(fixture, true);
    wait_done(pool, 6);
    pool_destroy(pool);
    free(fixture);
}

/* No wake-up is lost: a round of tasks that each wait until all of them run ends only if every thread comes, whatever
 * the order and however many may run. A lost one hangs the test. */
static void test_no_lost_wake(void **state)
{
    (void)state;
    const char *given = getenv("LARDER_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 6, tasks = 0;
    print_message("LARDER_TEST_SEED=%llu\n", (unsigned long long)seed);
    struct rng rng;
    random_seed(&rng, seed);
    struct fixture *fixture = make_fixture();
    struct pool *pool = make_pool(fixture, 4, 2);
    pthread_barrier_t barriers[5];
    for (unsigned i = 1; i <= 4; i++)
        pthread_barrier_init(&barriers[i], NULL, i);
    for (uint32_t round = 0; round < 4000; round++) {
        uint32_t count = 1 + (uint32_t)random_below(&rng, 4);
        pool_set_most(pool, random_below(&rng, 2) ? count : 4);
        for (uint32_t i = 0; i < count; i++, tasks++)
            submit(pool, (struct task){.number = i, .barrier = &barriers[count]});
        wait_done(pool, tasks);
        if (random_below(&rng, 8) == 0)
            usleep(100); /* let all go idle */
    }
    pool_destroy(pool);
    for (unsigned i = 1; i <= 4; i++)
        pthread_barrier_destroy(&barriers[i]);
    free(fixture);
}

struct opener {
    struct pool *pool;
    struct fixture *fixture;
    uint32_t accepted; /* further tasks, before the pool was stopping */
};

/* open_when_stopping opens the gate once the pool refuses tasks. */
static void *open_when_stopping(void *arg)
{
    struct opener *opener = arg;
    struct task task = {.number = 6};
    while (pool_submit(opener->pool, &task, 1) == 0) {
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
    struct pool *pool = make_pool(fixture, 1, 1);
    submit(pool, (struct task){.number = 0, .gated = true});
    wait_gated(fixture, 1);
    for (uint32_t i = 1; i <= 5; i++)
        submit(pool, (struct task){.number = i});
    pthread_t thread;
    struct opener opener = {.pool = pool, .fixture = fixture};
    assert_int_equal(pthread_create(&thread, NULL, open_when_stopping, &opener), 0);
    pool_stop(pool);
    pthread_join(thread, NULL);
    assert_int_equal(fixture->n_order, 1);
    assert_int_equal(fixture->discarded, 5 + opener.accepted);
    struct task late = {.number = 9};
    assert_int_equal(pool_submit(pool, &late, 1), LARDER_EGONE);
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
    struct pool_config config = config_of(fixture, 4, 4);
    struct pool *pool = NULL;
    struct error err = {0};
    assert_int_equal(pool_create(&config, &pool, &err), LARDER_ENOMEM);
    assert_null(pool);
    assert_string_equal(err.text, "no scratch");
    assert_int_equal(fixture->locals, 0);
    config.begin = 0;
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
        struct pool *pool = make_pool(fixture, 1, 1);
        for (uint32_t i = 0; i < CAPACITY + 2; i++)
            submit(pool, (struct task){.gated = true});
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overflow_is_a_bug), /* first: it forks, and no thread runs yet */
        cmocka_unit_test(test_each_task_once),
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_grows),
        cmocka_unit_test(test_bundles),
        cmocka_unit_test(test_most),
        cmocka_unit_test(test_no_lost_wake),
        cmocka_unit_test(test_stop_returns_waiting),
        cmocka_unit_test(test_local_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
