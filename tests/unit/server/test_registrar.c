/* test_registrar.c: proves that a job on a dataset that was opened before does not wait behind others' indexing. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/registrar.h"
#include "tests/unit/cache/tree_maker.h"

enum { SLOW = 12 };

/* Stands in for catalog_open: folders whose names end in "slow" take until the gate opens. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool open_gate;
static unsigned inside;

int __real_catalog_open(struct catalog *catalog, const char *path, struct dataset **out, struct error *err);
int __wrap_catalog_open(struct catalog *catalog, const char *path, struct dataset **out, struct error *err);
int __wrap_catalog_open(struct catalog *catalog, const char *path, struct dataset **out, struct error *err)
{
    size_t len = strlen(path);
    if (len > 4 && strcmp(path + len - 4, "slow") == 0) {
        pthread_mutex_lock(&lock);
        inside++;
        pthread_cond_broadcast(&changed);
        while (!open_gate)
            pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
    }
    return __real_catalog_open(catalog, path, out, err);
}

static void submit(struct registrar *registrar, uint64_t client, const char *root, const char *name)
{
    struct registration *reg = calloc(1, sizeof *reg);
    char *source = calloc(1, strlen(root) + strlen(name) + 2);
    sprintf(source, "%s/%s", root, name);
    *reg = (struct registration){.client = client,
                                 .name = strdup("a job"),
                                 .source = source,
                                 .pipeline_json = strdup("[]"),
                                 .batch_size = 1,
                                 .world_size = 1};
    assert_int_equal(registrar_submit(registrar, reg), 0);
}

/* Takes the next result, which is well; gives whose it is. */
static uint64_t next(struct queue *inbox)
{
    struct inbox_message message;
    assert_int_equal(queue_pop(inbox, &message, 300000), 0); /* milliseconds: else it waits for ever */
    if (message.registration->code)
        fail_msg("%s", message.registration->err.text);
    uint64_t client = message.registration->client;
    registration_destroy(message.registration);
    return client;
}

/* With more slow folders being indexed than there are threads, a job on a folder that was opened before is registered
 * at once, many times over; the slow ones are all registered in the end, and when they come again they are known too.
 * */
static void test_a_known_dataset_does_not_wait(void **state)
{
    (void)state;
    char root[TREE_NAME_MAX];
    static struct config config; /* of no datasets */
    struct catalog *catalog;
    struct queue *inbox;
    struct registrar *registrar;
    tree_new(root);
    tree_file("x", "%s/known/class/a.jpg", root);
    for (int i = 0; i < SLOW; i++)
        tree_file("x", "%s/%d-slow/class/a.jpg", root, i);
    assert_int_equal(catalog_create(NULL, &catalog, NULL), 0);
    assert_int_equal(queue_create(64, sizeof(struct inbox_message), &inbox), 0);
    assert_int_equal(registrar_create(catalog, &config, inbox, &registrar, NULL), 0);
    submit(registrar, 100, root, "known");
    assert_int_equal(next(inbox), 100);
    for (uint64_t i = 0; i < SLOW; i++) {
        char name[16];
        sprintf(name, "%u-slow", (unsigned)i);
        submit(registrar, i, root, name);
    }
    pthread_mutex_lock(&lock);
    while (inside < 4)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    for (uint64_t client = 101; client < 110; client++) {
        submit(registrar, client, root, "known");
        assert_int_equal(next(inbox), client);
    }
    pthread_mutex_lock(&lock);
    assert_int_equal(inside, 4);
    open_gate = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < SLOW; i++)
        assert_true(next(inbox) < SLOW);
    submit(registrar, 200, root, "3-slow");
    assert_int_equal(next(inbox), 200);
    registrar_destroy(registrar);
    queue_destroy(inbox);
    catalog_destroy(catalog);
    tree_remove(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_known_dataset_does_not_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
