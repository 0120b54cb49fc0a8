#include "tests/unit/cache/catalog/catalog_fixture.h"

#include <stdio.h>

char root[TREE_NAME_MAX];

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
    return dataset;
}

void assert_stats(struct catalog *catalog, unsigned loaded, unsigned walked)
{
    struct catalog_stats stats;
    catalog_stats(catalog, &stats);
    assert_int_equal(stats.checkpoints_loaded, loaded);
    assert_int_equal(stats.trees_walked, walked);
}
