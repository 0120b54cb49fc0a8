#include "tests/unit/cache/catalog/catalog_fixture.h"

#include <stdio.h>

char root[TREE_NAME_MAX];
struct catalog *the_catalog;

void path_below(char path[PATH_BYTES], const char *name)
{
    snprintf(path, PATH_BYTES, "%s/%s", root, name);
}

struct catalog *catalog_at(const char *checkpoints)
{
    char path[PATH_BYTES];
    struct catalog *catalog;
    path_below(path, checkpoints);
    assert_int_equal(catalog_create(path, &catalog, NULL), 0);
    return catalog;
}

struct dataset *open_in(struct catalog *catalog, const char *name)
{
    char path[PATH_BYTES];
    struct dataset *dataset = NULL;
    struct error err;
    path_below(path, name);
    if (catalog_open(catalog, path, &dataset, &err))
        fail_msg("%s", err.text);
    catalog_wait_saved(catalog);
    return dataset;
}

void assert_stats(struct catalog *catalog, unsigned loaded, unsigned walked)
{
    struct catalog_stats stats;
    catalog_stats(catalog, &stats);
    assert_int_equal(stats.checkpoints_loaded, loaded);
    assert_int_equal(stats.trees_walked, walked);
}

struct dataset *open_below(const char *name)
{
    return open_in(the_catalog, name);
}

int catalog_set_up(void **state)
{
    (void)state;
    tree_new(root);
    return catalog_create(NULL, &the_catalog, NULL);
}

int tree_set_up(void **state)
{
    (void)state;
    tree_new(root);
    for (int i = 0; i < 30; i++)
        tree_file("x", "%s/t/c%d/s%d/%d.jpg", root, i % 3, i % 2, i);
    tree_age(root);
    return 0;
}

struct catalog *catalog_start(void)
{
    return catalog_at("state/checkpoints");
}

int catalog_tear_down(void **state)
{
    (void)state;
    catalog_destroy(the_catalog);
    the_catalog = NULL;
    tree_remove(root);
    return 0;
}
