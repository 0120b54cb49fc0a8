/* test_catalog_interrupt.c: proves that indexing ends when nobody wants it any more, and only then: whoever still waits
 * for a source gets its dataset, from one walk. A gate in place of fstatat (--wrap) holds the walk where the test wants
 * it, and counts the files that are looked at. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/catalog/catalog.h"
#include "common/log.h"
#include "tests/unit/cache/catalog/tree_maker.h"

enum { FILES = 50, CALLERS = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool gate_open;
static unsigned looked_at; /* files */

int __real_fstatat(int fd, const char *path, struct stat *st, int flags);
int __wrap_fstatat(int fd, const char *path, struct stat *st, int flags);
int __wrap_fstatat(int fd, const char *path, struct stat *st, int flags)
{
    pthread_mutex_lock(&lock);
    looked_at++;
    pthread_cond_broadcast(&changed);
    while (!gate_open)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return __real_fstatat(fd, path, st, flags);
}

static void set_gate(bool open)
{
    pthread_mutex_lock(&lock);
    gate_open = open;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* The walk stands at the gate, at its `count`th file. */
static void wait_at_gate(unsigned count)
{
    pthread_mutex_lock(&lock);
    while (looked_at < count)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

struct caller {
    pthread_t thread;
    struct interrupt interrupt;
    int code;
    struct dataset *dataset;
};

static char root[TREE_NAME_MAX], path[TREE_NAME_MAX + 8];
static struct catalog *catalog;
static struct caller callers[CALLERS];

static int set_up(void **state)
{
    (void)state;
    tree_new(root);
    for (int i = 0; i < FILES; i++)
        tree_file("x", "%s/t/c/%02d.jpg", root, i);
    snprintf(path, sizeof path, "%s/t", root);
    memset(callers, 0, sizeof callers);
    looked_at = 0;
    gate_open = false;
    return catalog_create(NULL, &catalog, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    catalog_destroy(catalog);
    tree_remove(root);
    return 0;
}

static void *run(void *arg)
{
    struct caller *caller = arg;
    struct catalog_wish wish = {.path = path, .interrupt = &caller->interrupt};
    caller->code = catalog_open_for(catalog, &wish, &caller->dataset, NULL);
    return NULL;
}

static void call(struct caller *caller)
{
    assert_int_equal(pthread_create(&caller->thread, NULL, run, caller), 0);
}

static void interrupt(struct caller *caller)
{
    interrupt_set(&caller->interrupt);
    catalog_interrupted(catalog);
}

static void assert_ended(struct caller *caller)
{
    pthread_join(caller->thread, NULL);
    assert_int_equal(caller->code, LARDER_EGONE);
}

static void assert_got(struct caller *caller)
{
    pthread_join(caller->thread, NULL);
    assert_int_equal(caller->code, 0);
    assert_int_equal(dataset_count(caller->dataset), FILES);
    dataset_unref(&caller->dataset);
}

static uint64_t walks(void)
{
    struct catalog_stats stats;
    catalog_stats(catalog, &stats);
    return stats.trees_walked;
}

/* A walk whose one caller is interrupted looks at no further file; the source is opened again as if
 * nothing had been. */
static void test_the_walk_ends(void **state)
{
    (void)state;
    call(&callers[0]);
    wait_at_gate(1);
    interrupt(&callers[0]);
    set_gate(true);
    assert_ended(&callers[0]);
    assert_int_equal(looked_at, 1);
    assert_int_equal(walks(), 0);
    call(&callers[1]);
    assert_got(&callers[1]);
    call(&callers[0]); /* its interrupt is still set */
    assert_ended(&callers[0]);
    assert_int_equal(walks(), 1);
}

/* Classes are read at the same time, and all who read them end. */
static void test_all_threads_end(void **state)
{
    (void)state;
    for (int i = 0; i < FILES; i++)
        tree_file("x", "%s/t/d/%02d.jpg", root, i);
    call(&callers[0]);
    wait_at_gate(2);
    interrupt(&callers[0]);
    set_gate(true);
    assert_ended(&callers[0]);
    assert_int_equal(looked_at, 2);
    assert_int_equal(walks(), 0);
}

/* Who waits for somebody else's walk is free at once when interrupted, while the walk stands still;
 * the walk goes on. */
static void test_who_waits_is_free(void **state)
{
    (void)state;
    call(&callers[0]);
    wait_at_gate(1);
    call(&callers[1]);
    interrupt(&callers[1]);
    assert_ended(&callers[1]);
    set_gate(true);
    assert_got(&callers[0]);
    assert_int_equal(walks(), 1);
    assert_int_equal(looked_at, FILES);
}

/* The walk goes on for a second caller when the first, whose thread walks, is interrupted: one walk for both. Whether
 * the second has come before the interruption, or comes when the walk is ending, it gets its dataset. */
static void test_the_second_gets_it(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        memset(callers, 0, sizeof callers);
        set_gate(false);
        looked_at = 0;
        tree_file("x", "%s/t/c/new%02d.jpg", root, round); /* so that it is walked */
        call(&callers[0]);
        wait_at_gate(1);
        call(&callers[1]);
        if (round % 2)
            usleep(1000); /* either order is right */
        interrupt(&callers[0]);
        set_gate(true);
        pthread_join(callers[1].thread, NULL);
        pthread_join(callers[0].thread, NULL);
        assert_int_equal(callers[1].code, 0);
        assert_int_equal(dataset_count(callers[1].dataset), FILES + round + 1);
        assert_true(callers[0].code == 0 || callers[0].code == LARDER_EGONE);
        dataset_unref(&callers[0].dataset);
        dataset_unref(&callers[1].dataset);
    }
}

/* One flag above all of them ends them all. */
static void test_one_above_ends_all(void **state)
{
    (void)state;
    struct interrupt all = {0};
    for (int i = 0; i < CALLERS; i++) {
        callers[i].interrupt.above = &all;
        call(&callers[i]);
    }
    wait_at_gate(1);
    interrupt_set(&all);
    catalog_interrupted(catalog);
    set_gate(true);
    for (int i = 0; i < CALLERS; i++)
        assert_ended(&callers[i]);
    assert_int_equal(looked_at, 1);
}

/* An interruption while a source that is in memory is looked at again leaves it there: it is not indexed anew. */
static void test_what_is_there_stays(void **state)
{
    (void)state;
    tree_age(path);
    set_gate(true);
    call(&callers[0]);
    assert_got(&callers[0]);
    set_gate(false);
    looked_at = 0;
    call(&callers[1]);
    wait_at_gate(1); /* at a folder */
    interrupt(&callers[1]);
    set_gate(true);
    assert_ended(&callers[1]);
    assert_int_equal(looked_at, 1);
    call(&callers[2]);
    assert_got(&callers[2]);
    assert_int_equal(walks(), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_the_walk_ends),      TEST(test_who_waits_is_free),   TEST(test_the_second_gets_it),
        TEST(test_one_above_ends_all), TEST(test_what_is_there_stays), TEST(test_all_threads_end),
    };
    log_set_level(LOG_WARN);
    return cmocka_run_group_tests_name("catalog_interrupt", tests, NULL, NULL);
}
