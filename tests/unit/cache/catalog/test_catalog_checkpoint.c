/* test_catalog_checkpoint.c: proves that a second start trusts the checkpoint exactly as long as the tree is as it was,
 * and that no checkpoint, however broken, is more than a lost shortcut. */
#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/catalog/catalog_priv.h"
#include "cache/sealed.h"
#include "cache/source/tree.h"
#include "common/log.h"
#include "tests/unit/cache/catalog/catalog_fixture.h"

#define MAY_READ 65536 /* the tree has no file of this size */

/* The number of files in the checkpoint folder; the last one's path in `file`. */
static unsigned checkpoint_file(char file[PATH_BYTES])
{
    char folder[PATH_BYTES - 256];
    unsigned count = 0;
    snprintf(folder, sizeof folder, "%s/state/checkpoints", root);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, PATH_BYTES, "%s/%s", folder, entry->d_name);
        count++;
    }
    closedir(dir);
    return count;
}

/* Opens the tree in a fresh catalog, as a new start would, and says whether the checkpoint served. */
static bool served_by_checkpoint(uint32_t expect_count)
{
    struct catalog *catalog = catalog_start();
    struct dataset *dataset = open_in(catalog, "t");
    struct catalog_stats stats;
    catalog_stats(catalog, &stats);
    assert_int_equal(dataset_count(dataset), expect_count);
    assert_int_equal(stats.checkpoints_loaded + stats.trees_walked, 1);
    dataset_unref(&dataset);
    catalog_destroy(catalog);
    return stats.checkpoints_loaded == 1;
}

/* A second start takes the checkpoint and gives the same dataset; a second open in one start gives the same object. */
static void test_reuse(void **state)
{
    (void)state;
    struct catalog *first = catalog_start();
    struct dataset *a = open_in(first, "t"), *again = open_in(first, "t");
    assert_ptr_equal(a, again);
    assert_stats(first, 0, 1);
    struct catalog *second = catalog_start();
    struct dataset *b = open_in(second, "t");
    assert_stats(second, 1, 0);
    uint64_t print_a[2], print_b[2];
    dataset_fingerprint(a, print_a);
    dataset_fingerprint(b, print_b);
    assert_memory_equal(print_a, print_b, sizeof print_a);
    assert_int_equal(dataset_count(b), 30);
    for (uint32_t i = 0; i < 30; i++) {
        char bytes[1];
        assert_string_equal(dataset_key(a, i), dataset_key(b, i));
        assert_int_equal(dataset_label(a, i), dataset_label(b, i));
        assert_int_equal(dataset_id(a, i), dataset_id(b, i));
        assert_int_equal(dataset_read(b, i, bytes, NULL), 0);
    }
    assert_string_equal(dataset_class(b, 2), "c2");
    char file[PATH_BYTES];
    assert_int_equal(checkpoint_file(file), 1);
    dataset_unref(&a);
    dataset_unref(&again);
    dataset_unref(&b);
    catalog_destroy(first);
    catalog_destroy(second);
}

/* A tree of all files has a checkpoint of its own beside that of its images. */
static void test_all_files(void **state)
{
    (void)state;
    char path[PATH_BYTES], file[PATH_BYTES];
    tree_file("x", "%s/t/c0/text.txt", root);
    path_below(path, "t");
    for (unsigned start = 0; start < 2; start++) {
        struct catalog *catalog = catalog_start();
        struct dataset *images = open_in(catalog, "t"), *files = NULL;
        assert_int_equal(
            catalog_open_for(catalog, &(struct catalog_wish){.path = path, .files = FILES_ALL}, &files, NULL), 0);
        assert_int_equal(dataset_count(images), 30);
        assert_int_equal(dataset_count(files), 31);
        assert_stats(catalog, start ? 2 : 0, start ? 0 : 2);
        dataset_unref(&images);
        dataset_unref(&files);
        catalog_destroy(catalog);
    }
    assert_int_equal(checkpoint_file(file), 2);
}

static void add_file(void)
{
    tree_file("x", "%s/t/c1/s0/new.jpg", root);
}

static void remove_file(void)
{
    char path[PATH_BYTES];
    path_below(path, "t/c1/s0/4.jpg");
    assert_int_equal(unlink(path), 0);
}

static void rename_file(void)
{
    char from[PATH_BYTES], to[PATH_BYTES];
    path_below(from, "t/c1/s0/4.jpg");
    path_below(to, "t/c1/s0/other.jpg");
    assert_int_equal(rename(from, to), 0);
}

static void add_class(void)
{
    tree_file("x", "%s/t/a-first/1.jpg", root);
}

static void replace_file(void)
{
    char from[PATH_BYTES], to[PATH_BYTES];
    tree_file("changed", "%s/spare.jpg", root);
    path_below(from, "spare.jpg");
    path_below(to, "t/c1/s0/4.jpg");
    assert_int_equal(rename(from, to), 0);
}

static void check_change(void (*change)(void), int count_change)
{
    struct catalog *catalog = catalog_start();
    struct dataset *before = open_in(catalog, "t");
    change();
    struct dataset *after = open_in(catalog, "t"), *same = open_in(catalog, "t");
    assert_ptr_not_equal(before, after);
    assert_ptr_equal(after, same);
    assert_int_equal(dataset_count(before), 30);
    assert_int_equal(dataset_count(after), 30 + count_change);
    assert_stats(catalog, 0, 2);
    uint32_t kept = 0, index;
    for (uint32_t i = 0; i < dataset_count(after); i++)
        kept += dataset_index(before, dataset_id(after, i), &index);
    assert_true(kept >= 29); /* what did not change keeps its id */
    assert_true(served_by_checkpoint((uint32_t)(30 + count_change)));
    dataset_unref(&before);
    dataset_unref(&after);
    dataset_unref(&same);
    catalog_destroy(catalog);
}

/* Each kind of change to the tree is noticed by the next open, and old references keep what they had. */
static void test_changes_noticed(void **state)
{
    static const struct {
        void (*change)(void);
        int count_change;
    } changes[] = {{add_file, 1}, {remove_file, -1}, {rename_file, 0}, {add_class, 1}, {replace_file, 0}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        check_change(changes[i].change, changes[i].count_change);
        catalog_tear_down(state);
        tree_set_up(state);
    }
}

/* A change made while nobody was running is noticed by the next start. */
static void test_change_between_starts(void **state)
{
    (void)state;
    assert_false(served_by_checkpoint(30));
    assert_true(served_by_checkpoint(30));
    add_file();
    assert_false(served_by_checkpoint(31));
    assert_true(served_by_checkpoint(31));
}

/* A folder listed within the granularity of its own time is compared by its names: a change that leaves the folder's
 * time as it was is noticed, and none is invented. */
static void test_change_within_granularity(void **state)
{
    (void)state;
    char folder[PATH_BYTES];
    struct stat st;
    add_file(); /* the folder's time is now */
    assert_false(served_by_checkpoint(31));
    assert_true(served_by_checkpoint(31));
    path_below(folder, "t/c1/s0");
    assert_int_equal(stat(folder, &st), 0);
    tree_file("x", "%s/t/c1/s0/newer.jpg", root);
    struct timespec times[2] = {st.st_atim, st.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, folder, times, 0), 0);
    assert_false(served_by_checkpoint(32));
}

/* A file changed in place leaves its folder's time alone: reading it says so, and the next open, and the next start,
 * index anew. */
static void test_changed_in_place(void **state)
{
    (void)state;
    char bytes[8] = "", file[PATH_BYTES];
    struct error err;
    struct catalog *catalog = catalog_start();
    struct dataset *before = open_in(catalog, "t"), *after;
    uint32_t index = 0;
    tree_file("yy", "%s/t/%s", root, dataset_key(before, index));
    assert_int_equal(dataset_read(before, index, bytes, &err), LARDER_ECHANGED);
    assert_non_null(strstr(err.text, "changed since it was indexed"));
    assert_int_equal(checkpoint_file(file), 0);
    after = open_in(catalog, "t");
    assert_ptr_not_equal(before, after);
    assert_int_equal(dataset_read(after, index, bytes, NULL), 0);
    assert_string_equal(bytes, "yy");
    assert_int_not_equal(dataset_id(after, index), dataset_id(before, index));
    assert_true(served_by_checkpoint(30));
    dataset_unref(&before);
    dataset_unref(&after);
    catalog_destroy(catalog);
}

static void write_bytes(const char *file, const unsigned char *bytes, size_t len)
{
    FILE *out = fopen(file, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, len, out), len);
    assert_int_equal(fclose(out), 0);
}

/* Every kind of damage to the checkpoint costs the shortcut and nothing else. */
static void test_damaged(void **state)
{
    (void)state;
    char file[PATH_BYTES], other[PATH_BYTES];
    unsigned char bytes[16384];
    assert_false(served_by_checkpoint(30));
    assert_int_equal(checkpoint_file(file), 1);
    FILE *in = fopen(file, "rb");
    assert_non_null(in);
    size_t len = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    assert_in_range(len, 1000, sizeof bytes - 1);
    const size_t flips[] = {0, 8, 12, 16, 24, 40, 48, len / 2, len - 1};
    for (size_t i = 0; i < sizeof flips / sizeof *flips; i++) {
        bytes[flips[i]] ^= 4;
        write_bytes(file, bytes, len);
        bytes[flips[i]] ^= 4;
        assert_false(served_by_checkpoint(30));
    }
    const size_t lengths[] = {0, 1, 39, 63, 64, len / 2, len - 1};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        write_bytes(file, bytes, lengths[i]);
        assert_false(served_by_checkpoint(30));
    }
    write_bytes(file, bytes, len + 1);
    assert_false(served_by_checkpoint(30));
    assert_true(served_by_checkpoint(30));
    assert_int_equal(unlink(file), 0);
    path_below(other, "nowhere");
    assert_int_equal(symlink(other, file), 0);
    assert_false(served_by_checkpoint(30));
    assert_int_equal(checkpoint_file(file), 1);
}

/* Asks a dataset for all that it knows of its samples, and reads them: what it says may be anything. */
static void use(struct dataset *dataset)
{
    uint64_t id[2];
    uint32_t slot, count;
    struct dataset_look look;
    dataset_look(dataset, &look);
    for (uint32_t i = 0; i < dataset_count(dataset); i++) {
        struct error err = {0};
        uint64_t size = dataset_size(dataset, i);
        char *bytes = malloc(size < MAY_READ ? size + 1 : 1);
        assert_non_null(bytes);
        assert_non_null(dataset_class(dataset, (uint32_t)dataset_label(dataset, i)));
        assert_non_null(memchr(dataset_key(dataset, i), 0, MAY_READ));
        dataset_lasting_id(dataset, i, id);
        dataset_content_id(dataset, i, 1, id);
        uint32_t chunk = dataset_chunk_of(dataset, i, &slot);
        assert_int_equal(dataset_chunk_members(dataset, chunk, &count)[slot], i);
        if (size < MAY_READ && dataset_read(dataset, i, bytes, &err))
            assert_int_not_equal(err.text[0], 0);
        free(bytes);
    }
}

/* Makes a dataset of a checkpoint, whether or not the tree is as it says. NULL: it is refused. */
static struct dataset *believe(const char *file, const char *tree)
{
    struct dataset_parts parts = {0};
    struct dataset *dataset = NULL;
    bool settled;
    assert_int_equal(source_create(&tree_kind, &parts.source, NULL), 0);
    struct source *source = parts.source;
    if (checkpoint_load(file, tree, NULL, &source->index, &source->chunking, NULL)) {
        source_free(&parts.source);
        return NULL;
    }
    tree_kind.restore(source);
    tree_kind.unchanged(source, NULL, &settled);
    uint32_t count = (uint32_t)source->index.sample_count;
    if (!source->chunking.members)
        assert_int_equal(chunking_shuffle(count, 64, 1, &source->chunking), 0);
    parts.ids = malloc(count * sizeof *parts.ids);
    assert_non_null(parts.ids);
    for (uint32_t i = 0; i < count; i++)
        parts.ids[i] = i;
    assert_int_equal(dataset_from_parts(&parts, &dataset), 0);
    return dataset;
}

/* Whoever can write a checkpoint's checksum, too, may have samples taken for others. He does not have the daemon read
 * anything outside the source or outside the checkpoint, nor end it. */
static void test_forged(void **state)
{
    (void)state;
    char file[PATH_BYTES], tree[PATH_BYTES];
    unsigned char bytes[16384];
    assert_false(served_by_checkpoint(30));
    assert_int_equal(checkpoint_file(file), 1);
    FILE *in = fopen(file, "rb");
    assert_non_null(in);
    size_t len = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    path_below(tree, "t");
    unsigned believed = 0;
    for (size_t at = SEALED_HEADER_BYTES; at < len; at++) {
        unsigned char was = bytes[at];
        bytes[at] ^= (unsigned char)(at % 2 ? 0xff : 1u << at / 2 % 8);
        XXH128_hash_t hash = XXH3_128bits(bytes + SEALED_HEADER_BYTES, len - SEALED_HEADER_BYTES);
        const uint64_t words[2] = {htole64(hash.low64), htole64(hash.high64)};
        memcpy(bytes + SEALED_HEADER_BYTES - sizeof words, words, sizeof words);
        write_bytes(file, bytes, len);
        bytes[at] = was;
        struct dataset *dataset = believe(file, tree);
        if (dataset) {
            use(dataset);
            dataset_unref(&dataset);
            believed++;
        }
    }
    assert_true(believed > 100); /* of labels, times, names of classes */
    printf("%u of %zu are believed\n", believed, len - SEALED_HEADER_BYTES);
}

/* Another tree's checkpoint under this tree's name is not believed. */
static void test_of_another_tree(void **state)
{
    (void)state;
    char tree[PATH_BYTES], aside[PATH_BYTES], file[PATH_BYTES], kept[PATH_BYTES];
    assert_false(served_by_checkpoint(30));
    checkpoint_file(file);
    path_below(kept, "kept");
    assert_int_equal(rename(file, kept), 0);
    path_below(tree, "t");
    path_below(aside, "u");
    assert_int_equal(rename(tree, aside), 0);
    tree_file("x", "%s/t/only/1.jpg", root);
    tree_age(tree);
    assert_false(served_by_checkpoint(1));
    assert_int_equal(rename(kept, file), 0);
    assert_false(served_by_checkpoint(1));
    assert_true(served_by_checkpoint(1));
}

/* A checkpoint folder that cannot be used is no reason to fail. */
static void test_no_checkpoint_folder(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct catalog *catalog;
    struct dataset *dataset;
    tree_file("a file", "%s/state", root);
    dataset = open_in(catalog = catalog_start(), "t");
    assert_stats(catalog, 0, 1);
    dataset_unref(&dataset);
    catalog_destroy(catalog);
    path_below(path, "state");
    assert_int_equal(unlink(path), 0);
    catalog = catalog_start();
    path_below(path, "state/checkpoints");
    assert_int_equal(rmdir(path), 0); /* it vanishes while the daemon runs */
    dataset = open_in(catalog, "t");
    assert_int_equal(dataset_count(dataset), 30);
    dataset_unref(&dataset);
    catalog_destroy(catalog);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, tree_set_up, catalog_tear_down)

int main(void)
{
    log_set_level(LOG_ERROR); /* damage is logged, and there is a lot of it here */
    const struct CMUnitTest tests[] = {
        TEST(test_reuse),
        TEST(test_all_files),
        TEST(test_changes_noticed),
        TEST(test_change_between_starts),
        TEST(test_change_within_granularity),
        TEST(test_changed_in_place),
        TEST(test_damaged),
        TEST(test_forged),
        TEST(test_of_another_tree),
        TEST(test_no_checkpoint_folder),
    };
    return cmocka_run_group_tests_name("catalog_checkpoint", tests, NULL, NULL);
}
