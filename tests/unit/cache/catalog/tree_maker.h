/* tree_maker.h: makes and changes trees of small files for the catalog's tests. Whatever cannot be
 * made stops the test. */
#ifndef LARDER_TESTS_UNIT_CACHE_CATALOG_TREE_MAKER_H
#define LARDER_TESTS_UNIT_CACHE_CATALOG_TREE_MAKER_H

#include <stddef.h>

/* tree_new makes an empty folder below $TMPDIR (or /tmp) and writes its name into buf, links resolved. */
#define TREE_NAME_MAX 256
void tree_new(char buf[TREE_NAME_MAX]);
void tree_remove(const char *root); /* with everything below, links not followed */

/* Paths are printf formats. tree_folder makes parents too; tree_file makes its folders and holds `content`. */
void tree_folder(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void tree_file(const char *content, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tree_link(const char *target, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* tree_age sets the modification time of every folder and file below root to an hour ago, so that the folders' times
 * prove something at once. */
void tree_age(const char *root);

#endif
