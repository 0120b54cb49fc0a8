/* test_versions.c: proves that datasets of one fingerprint are told apart by their version exactly when their files are
 * others, and that a version costs few reads. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/catalog/catalog_priv.h"
#include "tests/unit/cache/catalog/catalog_fixture.h"

enum { CLASSES = 3, FILES = 90, LARGE_FILES = 60, LARGE_BYTES = 8 << 20, WAIT_MS = 60000 };

/* A tree whose files have sizes of their own, and bytes that depend on `salt`. */
static void make_tree(const char *name, char salt)
{
    for (int i = 0; i < FILES; i++) {
        char content[FILES + 2] = "";
        memset(content, salt, (size_t)i + 1);
        tree_file(content, "%s/%s/c%d/%02d.jpg", root, name, i % CLASSES, i);
    }
}

/* The version of a tree. Its fingerprint is that of every other tree that make_tree makes. */
static struct dataset_version version_of(const char *name)
{
    static uint64_t print[2];
    uint64_t own[2];
    struct dataset_version version;
    struct dataset *dataset = open_below(name);
    dataset_fingerprint(dataset, own);
    if (!print[0])
        memcpy(print, own, sizeof print);
    assert_memory_equal(own, print, sizeof print);
    dataset_version(dataset, &version);
    assert_true(dataset_version_has_content(&version));
    dataset_unref(&dataset);
    return version;
}

static void set_time(const char *name, time_t seconds)
{
    char path[PATH_BYTES];
    path_below(path, name);
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* The times of all files of a tree: `seconds` and the file's number. Two trees that are written within one tick of the
 * kernel's clock have the same times, so a test that wants others sets them. */
static void set_times(const char *tree, time_t seconds)
{
    char path[PATH_BYTES];
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/c%d/%02d.jpg", tree, i % CLASSES, i);
        set_time(path, seconds + i);
    }
}

/* A copy with other times agrees, and one with the same times; files of the same names and sizes with other bytes do
 * not, whatever their times. */
static void test_copies(void **state)
{
    (void)state;
    make_tree("here", 'a');
    make_tree("copy", 'a');
    make_tree("other", 'b');
    set_times("copy", 2000000);
    struct dataset_version here = version_of("here"), copy = version_of("copy"), other = version_of("other");
    assert_false(dataset_version_same_times(&here, &copy));
    assert_true(dataset_version_agrees(&here, &copy));
    assert_false(dataset_version_agrees(&here, &other));
    set_times("here", 1000000);
    set_times("copy", 1000000);
    set_times("other", 1000000);
    here = version_of("here");
    copy = version_of("copy");
    other = version_of("other");
    assert_true(dataset_version_same_times(&here, &copy));
    assert_true(dataset_version_agrees(&here, &copy));
    assert_true(dataset_version_same_times(&here, &other));
    assert_false(dataset_version_agrees(&here, &other));
}

/* The same folder is another version after its files were rewritten in place, and not after they were touched. */
static void test_rewritten(void **state)
{
    (void)state;
    make_tree("t", 'a');
    struct dataset_version before = version_of("t");
    set_time("t/c1/01.jpg", 1000000);
    struct dataset_version touched = version_of("t");
    assert_false(dataset_version_same_times(&before, &touched));
    assert_true(dataset_version_agrees(&before, &touched));
    make_tree("t", 'b');
    struct dataset_version after = version_of("t");
    assert_false(dataset_version_agrees(&before, &after));
}

/* A checkpoint keeps the content: a second start reads nothing for it. A write that no time shows, shows that. */
static void test_checkpoint(void **state)
{
    (void)state;
    make_tree("t", 'a');
    set_times("t", 1000000);
    struct dataset_version versions[2];
    for (int start = 0; start < 2; start++) {
        struct catalog *catalog = catalog_start();
        struct dataset *dataset = open_in(catalog, "t");
        assert_stats(catalog, start == 1, start == 0);
        dataset_version(dataset, &versions[start]);
        dataset_unref(&dataset);
        catalog_destroy(catalog);
        make_tree("t", 'b');
        set_times("t", 1000000);
    }
    assert_true(dataset_version_has_content(&versions[0]));
    assert_memory_equal(&versions[0], &versions[1], sizeof versions[0]);
    struct dataset_version read_anew = version_of("t");
    assert_false(dataset_version_agrees(&versions[0], &read_anew));
}

/* Whoever has just opened a dataset can wait for its content. */
static void test_waiting(void **state)
{
    (void)state;
    make_tree("t", 'a');
    char path[PATH_BYTES];
    struct dataset *dataset;
    struct dataset_version version, again = version_of("t");
    struct catalog *catalog = catalog_start();
    path_below(path, "t");
    assert_int_equal(
        catalog_open_for(catalog, &(struct catalog_wish){.path = path, .files = FILES_ALL}, &dataset, NULL), 0);
    catalog_version(catalog, dataset, WAIT_MS, NULL, &version);
    assert_memory_equal(&version, &again, sizeof version);
    struct interrupt unwanted = {.set = true};
    catalog_version(catalog, dataset, WAIT_MS, &unwanted, &again);
    assert_memory_equal(&version, &again, sizeof version);
    dataset_unref(&dataset);
    catalog_destroy(catalog);
}

/* Files that cannot be read in any copy, such as links that lead nowhere and pipes, are part of the content. */
static void test_no_files(void **state)
{
    (void)state;
    struct dataset_version versions[2];
    for (int i = 0; i < 2; i++) {
        char name[] = {(char)('a' + i), '\0'}, path[PATH_BYTES];
        tree_file("x", "%s/%s/c/1.jpg", root, name);
        tree_link("nowhere", "%s/%s/c/2.jpg", root, name);
        snprintf(path, sizeof path, "%s/%s/c/3.jpg", root, name);
        assert_int_equal(mkfifo(path, 0600), 0);
        struct dataset *dataset = open_below(name);
        assert_int_equal(dataset_count(dataset), 3);
        dataset_version(dataset, &versions[i]);
        assert_true(dataset_version_has_content(&versions[i]));
        dataset_unref(&dataset);
    }
    assert_true(dataset_version_agrees(&versions[0], &versions[1]));
}

/* Of a large dataset a few dozen samples are read, all over it; of one of large files, fewer, but one at least. */
static void test_few_reads(void **state)
{
    (void)state;
    uint32_t witnesses[WITNESSES_MAX], parts[4] = {0};
    char path[PATH_BYTES];
    for (int i = 0; i < 40 * WITNESSES_MAX; i++)
        tree_file("x", "%s/many/c/%05d.jpg", root, i);
    struct dataset *dataset = open_below("many");
    assert_int_equal(version_witnesses(dataset, witnesses), WITNESSES_MAX);
    for (int i = 0; i < WITNESSES_MAX; i++)
        parts[witnesses[i] / (10 * WITNESSES_MAX)]++;
    for (int i = 0; i < 4; i++)
        assert_int_equal(parts[i], WITNESSES_MAX / 4);
    dataset_unref(&dataset);
    for (int i = 0; i < LARGE_FILES; i++) {
        tree_file("", "%s/large/c/%02d.jpg", root, i);
        snprintf(path, sizeof path, "%s/large/c/%02d.jpg", root, i);
        assert_int_equal(truncate(path, LARGE_BYTES), 0);
    }
    dataset = open_below("large");
    assert_int_equal(version_witnesses(dataset, witnesses), 8);
    dataset_unref(&dataset);
    tree_file("", "%s/one/c/1.jpg", root);
    path_below(path, "one/c/1.jpg");
    assert_int_equal(truncate(path, 100 << 20), 0);
    dataset = open_below("one");
    assert_int_equal(version_witnesses(dataset, witnesses), 1);
    dataset_unref(&dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_copies, catalog_set_up, catalog_tear_down),
        cmocka_unit_test_setup_teardown(test_rewritten, catalog_set_up, catalog_tear_down),
        cmocka_unit_test_setup_teardown(test_checkpoint, catalog_set_up, catalog_tear_down),
        cmocka_unit_test_setup_teardown(test_waiting, catalog_set_up, catalog_tear_down),
        cmocka_unit_test_setup_teardown(test_no_files, catalog_set_up, catalog_tear_down),
        cmocka_unit_test_setup_teardown(test_few_reads, catalog_set_up, catalog_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
