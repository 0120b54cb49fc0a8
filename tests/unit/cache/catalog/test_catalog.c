/* test_catalog.c: proves that a tree becomes the dataset that ImageFolder's rules give, that ids follow the files, and
 * that trees nobody can train on are refused with a text that says why. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/catalog/catalog_priv.h"
#include "common/log.h"
#include "tests/unit/cache/catalog/catalog_fixture.h"

static void assert_refused(const char *name, int code, const char *text)
{
    char path[TREE_NAME_MAX + 64];
    struct error err = {0};
    struct dataset *dataset = NULL;
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(catalog_open(the_catalog, path, &dataset, &err), code);
    assert_null(dataset);
    assert_int_equal(err.code, code);
    if (!strstr(err.text, text))
        fail_msg("'%s' lacks '%s'", err.text, text);
}

static void assert_keys(const struct dataset *dataset, const char *const *keys, size_t count)
{
    assert_int_equal(dataset_count(dataset), count);
    for (uint32_t i = 0; i < count; i++)
        assert_string_equal(dataset_key(dataset, i), keys[i]);
}

/* Classes, labels, keys and their order; files at the root, other extensions and hidden files. */
static void test_order(void **state)
{
    (void)state;
    tree_file("1", "%s/t/dog/b.JPEG", root);
    tree_file("22", "%s/t/dog/a.png", root);
    tree_file("3", "%s/t/dog/note.txt", root);
    tree_file("4", "%s/t/dog/jpg", root);
    tree_file("5", "%s/t/Cat/x/y.tiff", root);
    tree_file("6", "%s/t/Cat/x-y/z.webp", root);
    tree_file("0", "%s/t/Cat/x/s/1.ppm", root);
    tree_file("7", "%s/t/Cat/z.jpg", root);
    tree_file("8", "%s/t/Cat/.jpg", root);
    tree_folder("%s/t/Cat/empty.jpg", root);
    tree_file("9", "%s/t/readme.jpg", root);
    struct dataset *dataset = open_below("t/");
    const char *keys[] = {"Cat/.jpg",      "Cat/z.jpg", "Cat/x/y.tiff", "Cat/x-y/z.webp",
                          "Cat/x/s/1.ppm", "dog/a.png", "dog/b.JPEG"};
    assert_keys(dataset, keys, 7);
    assert_int_equal(dataset_classes(dataset), 2);
    assert_string_equal(dataset_class(dataset, 0), "Cat");
    assert_string_equal(dataset_class(dataset, 1), "dog");
    assert_null(dataset_class(dataset, 2));
    for (uint32_t i = 0; i < 7; i++) {
        uint32_t index;
        assert_int_equal(dataset_label(dataset, i), i >= 5);
        assert_int_equal(dataset_id(dataset, i), i);
        assert_true(dataset_index(dataset, i, &index));
        assert_int_equal(index, i);
    }
    uint32_t untouched = 77;
    assert_false(dataset_index(dataset, 7, &untouched));
    assert_false(dataset_index(dataset, SAMPLE_NONE, &untouched));
    assert_int_equal(untouched, 77);
    char expected[TREE_NAME_MAX + 8], bytes[3] = "";
    snprintf(expected, sizeof expected, "%s/t", root);
    assert_string_equal(dataset_path(dataset), expected);
    assert_int_equal(dataset_size(dataset, 5), 2);
    assert_int_equal(dataset_read(dataset, 5, bytes, NULL), 0);
    assert_string_equal(bytes, "22");
    dataset_unref(&dataset);
    assert_null(dataset);
}

/* Names with blanks, line breaks, other scripts, and bytes that are no UTF-8, in the order of Python's texts. */
static void test_names(void **state)
{
    (void)state;
    const char *keys[] = {"c/\n.jpg",
                          "c/ .jpg",
                          "c/\xc3\xa9.jpg",
                          "c/\xed\x9f\xbf.jpg",
                          "c/\x80.jpg",
                          "c/\xff.jpg",
                          "c/\xee\x80\x80.jpg",
                          "c/\xef\xbf\xbd.jpg",
                          "c/\xf0\x9f\x90\xb1.jpg"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        tree_file("x", "%s/t/%s", root, keys[i]);
    struct dataset *dataset = open_below("t");
    assert_keys(dataset, keys, sizeof keys / sizeof *keys);
    dataset_unref(&dataset);
}

/* The same file in two trees, by hard link or symbolic link and under another label, is one sample;
 * a copy is another. */
static void test_shared_ids(void **state)
{
    (void)state;
    char target[TREE_NAME_MAX + 64], link_name[TREE_NAME_MAX + 64];
    tree_file("one", "%s/a/x/1.jpg", root);
    tree_file("two", "%s/a/x/2.jpg", root);
    tree_file("three", "%s/a/y/3.jpg", root);
    tree_file("one", "%s/b/u/1.jpg", root);
    tree_folder("%s/b/v", root);
    snprintf(target, sizeof target, "%s/a/x/2.jpg", root);
    snprintf(link_name, sizeof link_name, "%s/b/v/hard.jpg", root);
    assert_int_equal(link(target, link_name), 0);
    tree_link("../../a/y/3.jpg", "%s/b/v/soft.jpg", root);
    tree_link("../../a/y/3.jpg", "%s/b/v/soft2.jpg", root);
    tree_link("../a/x", "%s/b/w", root);
    struct dataset *a = open_below("a"), *b = open_below("b");
    const char *keys[] = {"u/1.jpg", "v/hard.jpg", "v/soft.jpg", "v/soft2.jpg", "w/1.jpg", "w/2.jpg"};
    assert_keys(b, keys, 6);
    assert_int_equal(dataset_id(b, 0), 3); /* a copy is a file of its own */
    assert_int_equal(dataset_id(b, 1), dataset_id(a, 1));
    assert_int_equal(dataset_id(b, 2), dataset_id(a, 2));
    assert_int_equal(dataset_id(b, 3), 4); /* the second occurrence in b */
    assert_int_equal(dataset_id(b, 4), dataset_id(a, 0));
    assert_int_equal(dataset_id(b, 5), 5);
    assert_int_equal(dataset_label(a, 1), 0);
    assert_int_equal(dataset_label(b, 1), 1);
    for (uint32_t i = 0; i < 6; i++) {
        uint32_t index;
        assert_true(dataset_index(b, dataset_id(b, i), &index));
        assert_int_equal(index, i);
    }
    struct catalog_stats stats;
    catalog_stats(the_catalog, &stats);
    assert_int_equal(stats.samples, 6);
    assert_int_equal(stats.datasets, 2);
    dataset_unref(&a);
    dataset_unref(&b);
}

static uint64_t bytes_now(void)
{
    struct catalog_stats stats;
    catalog_stats(the_catalog, &stats);
    return stats.samples_bytes + stats.paths_bytes;
}

/* What datasets take is counted, and goes with them. Beyond the limit one that nobody uses is given up for another, and
 * what does not fit beside those in use is refused; those in use are given to others nevertheless. */
static void test_limit(void **state)
{
    (void)state;
    struct error err;
    char path[PATH_BYTES];
    struct dataset *refused = NULL;
    for (int i = 0; i < 300; i++) {
        tree_file("x", "%s/a/c/%d.jpg", root, i);
        tree_file("x", "%s/b/c/%d.jpg", root, i);
    }
    tree_file("x", "%s/small/c/1.jpg", root);
    assert_int_equal(bytes_now(), 0);
    struct dataset *a = open_below("a");
    uint64_t one = bytes_now();
    assert_in_range(one, 300 * 10, 300 * 100);
    catalog_set_limit(the_catalog, one * 5 / 4);
    path_below(path, "b");
    assert_int_equal(catalog_open(the_catalog, path, &refused, &err), LARDER_ELIMIT);
    assert_non_null(strstr(err.text, "limits.catalogs"));
    assert_null(refused);
    struct dataset *again = open_below("a");
    assert_ptr_equal(a, again);
    dataset_unref(&a);
    dataset_unref(&again);
    catalog_wait_saved(the_catalog); /* nobody looks at them any more */
    struct dataset *b = open_below("b");
    struct catalog_stats stats;
    catalog_stats(the_catalog, &stats);
    assert_int_equal(stats.datasets, 1);
    catalog_set_limit(the_catalog, 1);
    assert_int_equal(catalog_open(the_catalog, path, &again, &err), 0);
    path_below(path, "small");
    assert_int_equal(catalog_open(the_catalog, path, &refused, &err), LARDER_ELIMIT);
    dataset_unref(&again);
    dataset_unref(&b);
    catalog_destroy(the_catalog);
    the_catalog = NULL;
    assert_int_equal(dataset_bytes_all().samples + dataset_bytes_all().paths, 0);
}

/* Ten thousand links to one file are ten thousand samples, without trouble. */
static void test_one_file_many_times(void **state)
{
    (void)state;
    tree_file("x", "%s/t/c/0.jpg", root);
    for (int i = 1; i < 10000; i++)
        tree_link("0.jpg", "%s/t/c/%d.jpg", root, i);
    struct dataset *dataset = open_below("t");
    assert_int_equal(dataset_count(dataset), 10000);
    for (uint32_t i = 0; i < 10000; i++)
        assert_int_equal(dataset_id(dataset, i), i);
    dataset_unref(&dataset);
}

/* Each tree that cannot be a dataset is refused with a text that names the trouble. */
static void test_refusals(void **state)
{
    (void)state;
    tree_folder("%s/nothing", root);
    tree_file("x", "%s/notes/readme.txt", root);
    tree_file("x", "%s/flat/a.jpg", root);
    tree_folder("%s/hollow/a", root);
    tree_folder("%s/hollow/b", root);
    tree_file("x", "%s/partly/full/a.jpg", root);
    tree_folder("%s/partly/void", root);
    tree_file("x", "%s/partly/texts/readme.txt", root);
    tree_file("x", "%s/looped/c/a.jpg", root);
    tree_link("..", "%s/looped/c/d/back", root);
    tree_file("x", "%s/rooted/c/a.jpg", root);
    tree_link("..", "%s/rooted/c/up", root);
    tree_file("x", "%s/circle/c/a.jpg", root);
    tree_link("e", "%s/circle/d", root);
    tree_link("d", "%s/circle/e", root);
    assert_refused("missing", LARDER_ENOENT, "No such file");
    assert_refused("flat/a.jpg", LARDER_EINVAL, "not a folder");
    assert_refused("nothing", LARDER_EINVAL, "no class folders");
    assert_refused("notes", LARDER_EINVAL, "CLASS/IMAGE.jpg");
    assert_refused("hollow", LARDER_EINVAL, "no image in any of its 2 class folders");
    assert_refused("partly", LARDER_EINVAL, "2 of 3 classes: texts, void");
    assert_refused("looped", LARDER_EINVAL, "'c/d/back' leads back to c");
    assert_refused("rooted", LARDER_EINVAL, "'c/up' leads back to");
    assert_refused("circle", LARDER_EIO, "symbolic links");
    struct dataset *none = NULL;
    struct error err;
    assert_int_equal(catalog_open(the_catalog, "", &none, &err), LARDER_EINVAL);
    struct catalog_stats stats;
    catalog_stats(the_catalog, &stats);
    assert_int_equal(stats.datasets, 0);
}

/* A folder that has images and no folders is a dataset of one class. Its files are known by their names, and shared
 * with a tree in which it is a class. With a folder beside them they are files at the root again. */
static void test_flat(void **state)
{
    (void)state;
    static const char *const keys[] = {"a.jpg", "b.png"};
    char bytes[3] = "";
    tree_file("1", "%s/t/flat/b.png", root);
    tree_file("22", "%s/t/flat/a.jpg", root);
    tree_file("3", "%s/t/flat/note.txt", root);
    struct dataset *flat = open_below("t/flat"), *above = open_below("t"), *again = open_below("t/flat");
    assert_keys(flat, keys, 2);
    assert_ptr_equal(flat, again);
    assert_int_equal(dataset_classes(flat), 1);
    assert_string_equal(dataset_class(flat, 0), ".");
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(dataset_label(flat, i), 0);
        assert_int_equal(dataset_id(flat, i), dataset_id(above, i));
    }
    assert_int_equal(dataset_read(flat, 0, bytes, NULL), 0);
    assert_string_equal(bytes, "22");
    dataset_unref(&again);
    dataset_unref(&flat);
    dataset_unref(&above);
    tree_file("4", "%s/t/flat/c.jpg", root);
    flat = open_below("t/flat");
    assert_int_equal(dataset_count(flat), 3);
    dataset_unref(&flat);
    tree_folder("%s/t/flat/empty", root);
    assert_refused("t/flat", LARDER_EINVAL, "no image in any of its 1 class folders");
}

/* Several classes fail, and several threads read them: the error is always that of the first class. */
static void test_first_error(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++)
        tree_file("x", "%s/loops/c%02d/a.jpg", root, i);
    for (int i = 7; i < 60; i += 3)
        tree_link("..", "%s/loops/c%02d/back", root, i);
    for (int round = 0; round < 50; round++)
        assert_refused("loops", LARDER_EINVAL, "'c07/back' leads back to the dataset's own folder");
}

/* A folder that may not be listed is an error, not a smaller dataset. */
static void test_no_permission(void **state)
{
    (void)state;
    if (geteuid() == 0) {
        print_message("skipped: root may list every folder\n");
        skip();
    }
    char folder[TREE_NAME_MAX + 64];
    tree_file("x", "%s/t/a/1.jpg", root);
    tree_file("x", "%s/t/b/1.jpg", root);
    snprintf(folder, sizeof folder, "%s/t/b", root);
    assert_int_equal(chmod(folder, 0), 0);
    assert_refused("t", LARDER_EPERM, "'b'");
    assert_int_equal(chmod(folder, 0755), 0);
}

/* A copy of a tree has the same fingerprint; another label, name, size or order has not. */
static void test_fingerprint(void **state)
{
    (void)state;
    const char *const names[] = {"original", "copy", "renamed", "longer", "moved"};
    uint64_t prints[5][2];
    for (int i = 0; i < 5; i++) {
        tree_file("x", "%s/%s/a/1.jpg", root, names[i]);
        tree_file(i == 3 ? "yy" : "y", "%s/%s/a/%s.jpg", root, names[i], i == 2 ? "3" : "2");
        tree_file("z", "%s/%s/%s/1.png", root, names[i], i == 4 ? "c" : "b");
        if (i == 1)
            tree_age(root);
        struct dataset *dataset = open_below(names[i]);
        dataset_fingerprint(dataset, prints[i]);
        dataset_unref(&dataset);
    }
    assert_memory_equal(prints[0], prints[1], sizeof prints[0]);
    for (int i = 2; i < 5; i++)
        assert_memory_not_equal(prints[0], prints[i], sizeof prints[0]);
}

/* A dataset outlives the catalog and the tree for whoever still holds it. */
static void test_outlives_catalog(void **state)
{
    (void)state;
    tree_file("x", "%s/t/c/1.jpg", root);
    struct catalog *own;
    struct dataset *dataset = NULL, *second;
    char path[TREE_NAME_MAX + 8];
    snprintf(path, sizeof path, "%s/t", root);
    assert_int_equal(catalog_create(NULL, &own, NULL), 0);
    assert_int_equal(catalog_open(own, path, &dataset, NULL), 0);
    catalog_destroy(own);
    second = dataset_ref(dataset);
    dataset_unref(&dataset);
    assert_string_equal(dataset_key(second, 0), "c/1.jpg");
    dataset_unref(&second);
    dataset_unref(&second);
}

/* Sources that nobody uses any more do not pile up in memory. */
static void test_idle_bounded(void **state)
{
    (void)state;
    char name[32];
    for (int i = 0; i < 40; i++) {
        tree_file("x", "%s/t%d/c/1.jpg", root, i);
        snprintf(name, sizeof name, "t%d", i);
        struct dataset *dataset = open_below(name);
        dataset_unref(&dataset);
    }
    struct catalog_stats stats;
    catalog_stats(the_catalog, &stats);
    assert_int_equal(stats.datasets, 17); /* sixteen, and the one that was in use at the last look */
    assert_int_equal(stats.samples, 17);
}

/* All files: whatever the name, but for hidden ones; the same folder's images are a dataset of their own beside it, and
 * a file that is in both has one id. */
static void test_all_files(void **state)
{
    (void)state;
    static const char *const every[] = {"speech/a.wav", "speech/b", "speech/deep/c.jpg", "text/d.txt"};
    struct dataset *files = NULL, *again = NULL;
    struct error err;
    char path[TREE_NAME_MAX + 64];
    tree_file("1", "%s/t/speech/a.wav", root);
    tree_file("22", "%s/t/speech/b", root);
    tree_file("333", "%s/t/speech/deep/c.jpg", root);
    tree_file("4", "%s/t/speech/.hidden", root);
    tree_file("5", "%s/t/text/d.txt", root);
    assert_refused("t", LARDER_EINVAL, "no image for 1 of 2 classes: text");
    snprintf(path, sizeof path, "%s/t", root);
    assert_int_equal(
        catalog_open_for(the_catalog, &(struct catalog_wish){.path = path, .files = FILES_ALL}, &files, &err), 0);
    assert_keys(files, every, 4);
    tree_file("66", "%s/t/text/e.png", root);
    struct dataset *images = open_below("t");
    assert_int_equal(dataset_count(images), 2);
    assert_int_equal(dataset_id(images, 0), dataset_id(files, 2));
    assert_int_equal(
        catalog_open_for(the_catalog, &(struct catalog_wish){.path = path, .files = FILES_ALL}, &again, &err), 0);
    assert_int_equal(dataset_count(again), 5);
    dataset_unref(&files);
    dataset_unref(&again);
    dataset_unref(&images);
    tree_folder("%s/u/empty", root);
    snprintf(path, sizeof path, "%s/u", root);
    assert_int_equal(catalog_open_for(the_catalog, &(struct catalog_wish){.path = path, .files = FILES_ALL}, &files,
                                      &err),
                     LARDER_EINVAL);
    assert_non_null(strstr(err.text, "no file"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, catalog_set_up, catalog_tear_down)

int main(void)
{
    log_set_level(LOG_WARN);
    const struct CMUnitTest tests[] = {
        TEST(test_order),        TEST(test_names),
        TEST(test_shared_ids),   TEST(test_one_file_many_times),
        TEST(test_refusals),     TEST(test_flat),
        TEST(test_first_error),  TEST(test_no_permission),
        TEST(test_fingerprint),  TEST(test_outlives_catalog),
        TEST(test_idle_bounded), TEST(test_all_files),
        TEST(test_limit),
    };
    return cmocka_run_group_tests_name("catalog", tests, NULL, NULL);
}
