/* store_fixture.h: a tree of four hundred small samples and stores packed from it, for the store's tests. */
#ifndef LARDER_TESTS_UNIT_CACHE_STORE_STORE_FIXTURE_H
#define LARDER_TESTS_UNIT_CACHE_STORE_STORE_FIXTURE_H

#include <limits.h>

#include "cache/pack/pack.h"
#include "cache/store/store.h"
#include "tests/unit/cache/catalog/tree_maker.h"

#define PATH_BYTES (TREE_NAME_MAX + 300)
#define SAMPLES 400
#define SAMPLE_BYTES_MAX 4000
#define FIXTURE_SEED 11
#define STORE_FILES_MAX 64

/* The test's folder, the catalog, and the tree, which is folder "t" below root; made by set_up,
 * removed by tear_down. */
extern char root[TREE_NAME_MAX];
extern struct catalog *catalog;
extern struct dataset *source;

int set_up(void **state);
int tear_down(void **state);

void path_below(char path[PATH_BYTES], const char *name);
struct dataset *open_below(const char *name);
const struct store *store_in(const struct dataset *dataset);

/* small_options: 16 samples a chunk, 64 KiB a segment (a dozen of them), three threads. */
struct store_options small_options(void);
/* pack packs the source into folder `name`; pack_well fails the test when that fails, and has the store forget which
 * files it was packed from. */
int pack(const char *name, const struct store_options *options, store_progress_fn *progress, void *context,
         struct error *err);
void pack_well(const char *name, const struct store_options *options);

/* The files of a folder, one of them as malloc'ed bytes (with a byte to spare), and written again. */
unsigned list_folder(const char *name, char names[STORE_FILES_MAX][NAME_MAX + 1]);
size_t load(const char *folder, const char *name, char **bytes);
void save(const char *folder, const char *name, const char *bytes, size_t len);

/* assert_same_files fails the test unless two folders hold the same files, four of them at least. */
void assert_same_files(const char *a, const char *b);
/* pretend_cut makes folder `to` what an interrupted pack has left of the pack whose store is folder `whole`: its mark,
 * segment 1 cut short and segment 2 whole. */
void pretend_cut(const char *whole, const char *to);

/* reseal makes a store's index say something else of the form of sample 1 (0: as it was), and of what was done to all,
 * sealed as by whoever wrote it, as an index of `version`, 3 or later. It gives what parsing that gives: where it is
 * refused, the store is as before. */
int reseal(const char *name, uint32_t version, uint32_t form, struct packing packing);

/* A progress function that checks what it is told and keeps the last of it. */
struct watch {
    struct store_progress last;
    unsigned calls;
};
bool watch_progress(void *context, const struct store_progress *progress);

#endif
