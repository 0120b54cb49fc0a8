/* test_selection.c: jobs on the same part of a dataset share what is found out of its samples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/registration/registration.h"
#include "tests/unit/cache/catalog/tree_maker.h"

enum { FILES = 40 };

static char root[TREE_NAME_MAX];
static struct catalog *catalog;

static int set_up(void **state)
{
    (void)state;
    tree_new(root);
    for (int i = 0; i < FILES; i++)
        tree_file("x", "%s/data/class/%02d.jpg", root, i);
    return catalog_create(NULL, &catalog, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    catalog_destroy(catalog);
    tree_remove(root);
    return 0;
}

static struct registration *resolve(const char *subset)
{
    static struct config config;
    struct engine_config engine = {.slot_least = 64};
    struct session_peer peer = {.client = "test"};
    char path[TREE_NAME_MAX + 8];
    int len = snprintf(path, sizeof path, "%s/data", root);
    struct wire_register wire = {.batch_size = 4,
                                 .prefetch = 2,
                                 .world_size = 1,
                                 .weight = 1,
                                 .name = {"job", 3},
                                 .dataset = {path, (uint32_t)len},
                                 .pipeline = {"[]", 2},
                                 .subset = {subset, (uint32_t)strlen(subset)}};
    struct registration *reg = registration_create(1, 1, &peer, &wire, -1);
    assert_int_equal(registration_resolve(reg, &(struct resolver){catalog, &config, &engine, NULL}), 0);
    assert_int_equal(reg->found.samples, reg->found.selection->view.count);
    assert_memory_equal(reg->found.view_fingerprint, reg->found.selection->fingerprint, 16);
    return reg;
}

/* A job that names what another one has named has its selection, as long as that job is there. Another part of the
 * dataset, and a changed folder, are another selection. So is a list, for its file may be another one by then. */
static void test_shared(void **state)
{
    (void)state;
    static const char half[] = "{\"range\": [0, 20]}";
    char list[TREE_NAME_MAX + 32];
    struct registration *first = resolve(half), *second = resolve(half), *whole = resolve("");
    assert_int_equal(first->found.samples, 20);
    assert_int_equal(whole->found.samples, FILES);
    assert_ptr_equal(first->found.selection, second->found.selection);
    assert_ptr_not_equal(first->found.selection, whole->found.selection);
    registration_destroy(first);
    registration_drop_found(second); /* as when its job is added */
    first = resolve(half);
    assert_ptr_equal(first->found.selection, second->found.selection);
    registration_destroy(first);

    tree_file("class/01.jpg\nclass/02.jpg\n", "%s/list", root);
    snprintf(list, sizeof list, "{\"list\": \"%s/list\"}", root);
    first = resolve(list);
    struct registration *third = resolve(list);
    assert_int_equal(first->found.samples, 2);
    assert_ptr_not_equal(first->found.selection, third->found.selection);
    registration_drop_found(third);
    assert_null(third->found.selection);
    registration_destroy(first);
    registration_destroy(third);

    tree_file("x", "%s/data/class/new.jpg", root);
    first = resolve(half);
    assert_ptr_not_equal(first->found.selection, second->found.selection);
    registration_destroy(first);
    registration_destroy(second);
    registration_destroy(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shared)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
