/* catalog_fixture.h: what the catalog's tests share: a folder, catalogs and the datasets that they open below it.
 * Whatever fails stops the test. */
#ifndef LARDER_TESTS_UNIT_CACHE_CATALOG_CATALOG_FIXTURE_H
#define LARDER_TESTS_UNIT_CACHE_CATALOG_CATALOG_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cache/catalog/catalog.h"
#include "tests/unit/cache/catalog/tree_maker.h"

#define PATH_BYTES (TREE_NAME_MAX + 300)

extern char root[TREE_NAME_MAX];    /* the folder */
extern struct catalog *the_catalog; /* the one that most tests open all in; NULL: none */

/* path_below writes the path of what has that name below the root. */
void path_below(char path[PATH_BYTES], const char *name);
/* catalog_at makes a catalog that keeps checkpoints in the folder of that name below the root. */
struct catalog *catalog_at(const char *checkpoints);
struct dataset *open_in(struct catalog *catalog, const char *name); /* its checkpoint is written */
struct dataset *open_below(const char *name);                       /* in the_catalog */
void assert_stats(struct catalog *catalog, unsigned loaded, unsigned walked);

/* Before and after a test: an empty folder and the_catalog, without checkpoints; or a tree of thirty files, t, for
 * catalogs of the test's own, which catalog_start makes with checkpoints. */
int catalog_set_up(void **state);
int tree_set_up(void **state);
struct catalog *catalog_start(void);
int catalog_tear_down(void **state);

#endif
