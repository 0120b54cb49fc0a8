/* test_catalog_open.c: proves that callers of one source share one build, that a tree that turned bad opens again when
 * it is repaired, and that large trees open quickly. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "tests/unit/cache/catalog/catalog_fixture.h"

/* A tree that turns bad is refused while old references live on, and opens again once it is repaired. */
static void test_turns_bad(void **state)
{
    (void)state;
    char path[PATH_BYTES], bytes[1];
    struct error err;
    struct catalog *catalog = catalog_start();
    struct dataset *dataset = open_in(catalog, "t"), *none = NULL;
    tree_folder("%s/t/void", root);
    path_below(path, "t");
    assert_int_equal(catalog_open(catalog, path, &none, &err), LARDER_EINVAL);
    assert_non_null(strstr(err.text, "void"));
    assert_null(none);
    assert_int_equal(dataset_read(dataset, 3, bytes, NULL), 0);
    path_below(path, "t/void");
    assert_int_equal(rmdir(path), 0);
    struct dataset *repaired = open_in(catalog, "t");
    for (uint32_t i = 0; i < 30; i++)
        assert_int_equal(dataset_id(dataset, i), dataset_id(repaired, i));
    dataset_unref(&dataset);
    dataset_unref(&repaired);
    catalog_destroy(catalog);
}

struct opener {
    pthread_t thread;
    struct catalog *catalog;
    struct dataset *dataset;
};

static void *open_in_thread(void *argument)
{
    struct opener *opener = argument;
    char path[PATH_BYTES];
    path_below(path, "t");
    if (catalog_open(opener->catalog, path, &opener->dataset, NULL))
        opener->dataset = NULL;
    return NULL;
}

/* Sixteen callers at once get one object from one walk. */
static void test_concurrent_open(void **state)
{
    (void)state;
    struct opener openers[16];
    struct catalog *catalog = catalog_start();
    for (int i = 0; i < 16; i++) {
        openers[i] = (struct opener){.catalog = catalog};
        assert_int_equal(pthread_create(&openers[i].thread, NULL, open_in_thread, &openers[i]), 0);
    }
    for (int i = 0; i < 16; i++)
        pthread_join(openers[i].thread, NULL);
    assert_stats(catalog, 0, 1);
    for (int i = 0; i < 16; i++) {
        assert_non_null(openers[i].dataset);
        assert_ptr_equal(openers[i].dataset, openers[0].dataset);
    }
    for (int i = 15; i >= 0; i--)
        dataset_unref(&openers[i].dataset);
    catalog_destroy(catalog);
}

static double timed_open(const char *path, const char *what, uint32_t *count)
{
    char checkpoints[PATH_BYTES];
    struct catalog *catalog;
    struct dataset *dataset;
    struct error err;
    path_below(checkpoints, "state/big");
    assert_int_equal(catalog_create(checkpoints, &catalog, NULL), 0);
    uint64_t start_ns = clock_now_ns();
    if (catalog_open(catalog, path, &dataset, &err))
        fail_msg("%s", err.text);
    double seconds = (double)(clock_now_ns() - start_ns) / CLOCK_NS_PER_S;
    *count = dataset_count(dataset);
    print_message("%u files in 100 classes: %s in %.3f s\n", *count, what, seconds);
    dataset_unref(&dataset);
    catalog_destroy(catalog);
    return seconds;
}

/* 60,000 files are all indexed, and at the next start again; on a quiet machine in a few seconds, and in far less. */
static void test_sixty_thousand(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    uint32_t count;
    for (int i = 0; i < 60000; i++)
        tree_file("", "%s/big/class%02d/image%05d.jpg", root, i % 100, i);
    path_below(path, "big");
    tree_age(path);
    double walk_s = timed_open(path, "walked", &count);
    assert_int_equal(count, 60000);
    double load_s = timed_open(path, "from the checkpoint", &count);
    assert_int_equal(count, 60000);
    if (getenv("LARDER_TEST_QUIET")) /* elsewhere the others' load would be measured */
        assert_true(walk_s < 10 && load_s < 5);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, tree_set_up, catalog_tear_down)

int main(void)
{
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        TEST(test_turns_bad),
        TEST(test_concurrent_open),
        TEST(test_sixty_thousand),
    };
    return cmocka_run_group_tests_name("catalog_open", tests, NULL, NULL);
}
