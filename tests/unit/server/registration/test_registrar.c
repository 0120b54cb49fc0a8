/* test_registrar.c: proves that a job on a dataset that was opened before does not wait behind others' indexing, and
 * that nothing waits behind what nobody wants any more. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mailbox.h"
#include "server/registration/registrar.h"
#include "tests/unit/cache/catalog/tree_maker.h"

enum { SLOW = 12 };

/* Stands in for catalog_open_for: folders whose names end in "slow" take until the gate opens or they are interrupted,
 * those that end in "deaf" until the gate opens. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool open_gate;
static unsigned inside;

int __real_catalog_open_for(struct catalog *catalog, const struct catalog_wish *wish, struct dataset **out,
                            struct error *err);
int __wrap_catalog_open_for(struct catalog *catalog, const struct catalog_wish *wish, struct dataset **out,
                            struct error *err);
int __wrap_catalog_open_for(struct catalog *catalog, const struct catalog_wish *wish, struct dataset **out,
                            struct error *err)
{
    const char *end = strrchr(wish->path, '-');
    bool deaf = end && strcmp(end, "-deaf") == 0;
    if (deaf || (end && strcmp(end, "-slow") == 0)) {
        pthread_mutex_lock(&lock);
        inside++;
        pthread_cond_broadcast(&changed);
        while (!open_gate && (deaf || !interrupt_is_set(wish->interrupt))) {
            pthread_mutex_unlock(&lock);
            usleep(1000);
            pthread_mutex_lock(&lock);
        }
        pthread_mutex_unlock(&lock);
    }
    return __real_catalog_open_for(catalog, wish, out, err);
}

/* Takes what comes from the registrar, as registrar_means.done. */
static void push(void *inbox, struct registration *registration)
{
    assert_int_equal(mailbox_push(inbox, &registration), 0);
}

static void submit(struct registrar *registrar, uint64_t client, const char *root, const char *name)
{
    struct registration *reg = calloc(1, sizeof *reg);
    char *source = calloc(1, strlen(root) + strlen(name) + 2);
    sprintf(source, "%s/%s", root, name);
    *reg = (struct registration){
        .client = client,
        .name = strdup("a job"),
        .asked = {.source = source, .pipeline_json = strdup("[]"), .batch_size = 1, .world_size = 1, .file_fd = -1}};
    assert_int_equal(registrar_submit(registrar, reg), 0);
}

/* Takes the next result, which is well; gives whose it is. */
static uint64_t next(struct mailbox *inbox)
{
    struct registration *came;
    assert_int_equal(mailbox_pop(inbox, &came, 300000), 0); /* milliseconds: else it waits for ever */
    if (came->code)
        fail_msg("%s", came->err.text);
    uint64_t client = came->client;
    registration_destroy(came);
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
    struct mailbox *inbox;
    struct registrar *registrar;
    tree_new(root);
    tree_file("x", "%s/known/class/a.jpg", root);
    for (int i = 0; i < SLOW; i++)
        tree_file("x", "%s/%d-slow/class/a.jpg", root, i);
    assert_int_equal(catalog_create(NULL, &catalog, NULL), 0);
    assert_int_equal(mailbox_create(64, sizeof(struct registration *), &inbox), 0);
    assert_int_equal(registrar_create(&(struct registrar_means){catalog, &config, push, inbox, NULL}, &registrar, NULL),
                     0);
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
    mailbox_destroy(inbox);
    catalog_destroy(catalog);
    tree_remove(root);
}

/* ── what nobody waits for ── */

static char root[TREE_NAME_MAX];
static struct catalog *catalog;
static struct mailbox *inbox;
static struct registrar *registrar;

static int start(void **state)
{
    static struct config config;
    (void)state;
    open_gate = false;
    inside = 0;
    tree_new(root);
    for (int i = 0; i < SLOW; i++)
        tree_file("x", "%s/%d-slow/class/a.jpg", root, i);
    tree_file("x", "%s/quick/class/a.jpg", root);
    for (int i = 0; i < 4; i++)
        tree_file("x", "%s/%d-deaf/class/a.jpg", root, i);
    return catalog_create(NULL, &catalog, NULL) || mailbox_create(64, sizeof(struct registration *), &inbox) ||
           registrar_create(&(struct registrar_means){catalog, &config, push, inbox, NULL}, &registrar, NULL);
}

static int stop(void **state)
{
    (void)state;
    registrar_destroy(registrar);
    mailbox_destroy(inbox);
    catalog_destroy(catalog);
    tree_remove(root);
    return 0;
}

static void submit_many(const char *kind, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        char name[16];
        sprintf(name, "%u-%s", (unsigned)i, kind);
        submit(registrar, i, root, name);
    }
}

static void wait_inside(unsigned count)
{
    pthread_mutex_lock(&lock);
    while (inside < count)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

/* Takes `count` results that were refused because they ended early; a bit for each client they are of. */
static unsigned ended(unsigned count)
{
    unsigned clients = 0;
    struct registration *came;
    while (count--) {
        assert_int_equal(mailbox_pop(inbox, &came, 300000), 0);
        assert_int_equal(came->code, LARDER_EGONE);
        clients |= 1u << came->client;
        registration_destroy(came);
    }
    return clients;
}

/* All threads are at registrations that take for ever, and others wait: when their clients go all of them end, and the
 * one that waited behind them has its turn. */
static void test_abandoned_ones_make_room(void **state)
{
    (void)state;
    submit_many("slow", SLOW);
    wait_inside(4);
    submit(registrar, 100, root, "quick");
    for (uint64_t client = 0; client < SLOW; client++)
        registrar_abandon(registrar, client);
    registrar_abandon(registrar, 77); /* has none */
    unsigned clients = 0;
    for (int i = 0; i <= SLOW; i++) {
        struct registration *came;
        assert_int_equal(mailbox_pop(inbox, &came, 300000), 0);
        struct registration *reg = came;
        assert_int_equal(reg->code, reg->client == 100 ? 0 : LARDER_EGONE);
        clients |= reg->client == 100 ? 1u << 31 : 1u << reg->client;
        registration_destroy(reg);
    }
    assert_int_equal(clients, (1u << SLOW) - 1 + (1u << 31));
}

/* What waits ends at once, even while no thread comes back. */
static void test_waiting_ones_end_at_once(void **state)
{
    (void)state;
    submit_many("deaf", 4);
    wait_inside(4);
    for (uint64_t client = 10; client < 20; client++)
        submit(registrar, client, root, "quick");
    for (uint64_t client = 10; client < 20; client++)
        registrar_abandon(registrar, client);
    assert_int_equal(ended(10), ((1u << 10) - 1) << 10);
    pthread_mutex_lock(&lock);
    open_gate = true;
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 4; i++)
        assert_true(next(inbox) < 4);
}

/* registrar_stop ends what is under way and what waits. */
static void test_stop_ends_all(void **state)
{
    (void)state;
    submit_many("slow", SLOW);
    wait_inside(4);
    registrar_stop(registrar);
    assert_int_equal(ended(SLOW), (1u << SLOW) - 1);
    assert_int_equal(inside, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_known_dataset_does_not_wait),
        cmocka_unit_test_setup_teardown(test_abandoned_ones_make_room, start, stop),
        cmocka_unit_test_setup_teardown(test_waiting_ones_end_at_once, start, stop),
        cmocka_unit_test_setup_teardown(test_stop_ends_all, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
