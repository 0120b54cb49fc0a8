/* test_read_faults.c: proves that interrupted and short reads are gone on with, and that a disk error or a file that
 * shrinks under the read costs the one sample it belongs to. The system calls are replaced at link time (--wrap). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/pack/pack.h"
#include "common/log.h"
#include "tests/unit/cache/catalog/faults.h"
#include "tests/unit/cache/catalog/tree_maker.h"

static char root[TREE_NAME_MAX];
static struct catalog *catalog;
static struct dataset *dataset; /* the tree, or a store of it */

static int set_up(void **state)
{
    (void)state;
    char content[32], path[TREE_NAME_MAX + 8];
    tree_new(root);
    for (int i = 0; i < 20; i++) {
        snprintf(content, sizeof content, "the bytes of sample %02d", i);
        tree_file(content, "%s/t/c/%02d.jpg", root, i);
    }
    snprintf(path, sizeof path, "%s/t", root);
    if (catalog_create(NULL, &catalog, NULL) || catalog_open(catalog, path, &dataset, NULL))
        return -1;
    catalog_wait_saved(catalog); /* nothing reads beside the test */
    return 0;
}

/* The same samples, packed into one segment: the layout is the order of the chunks' members from byte 4096 on. */
static int set_up_store(void **state)
{
    struct store_options options;
    char path[TREE_NAME_MAX + 8];
    if (set_up(state))
        return -1;
    store_options_default(&options);
    snprintf(path, sizeof path, "%s/s", root);
    if (store_pack(dataset, path, &options, NULL, NULL, NULL))
        return -1;
    dataset_unref(&dataset);
    return catalog_open(catalog, path, &dataset, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    faults = (struct faults){0};
    dataset_unref(&dataset);
    catalog_destroy(catalog);
    tree_remove(root);
    return 0;
}

static void read_all(uint32_t bad_index, int bad_code)
{
    char expected[32], bytes[20][32];
    struct sample_read reads[20];
    for (uint32_t i = 0; i < 20; i++)
        reads[i] = (struct sample_read){.index = i, .buf = bytes[i]};
    assert_int_equal(dataset_read_many(dataset, reads, 20, 0), bad_code != 0);
    for (uint32_t i = 0; i < 20; i++) {
        snprintf(expected, sizeof expected, "the bytes of sample %02u", i);
        if (i == bad_index) {
            assert_int_equal(reads[i].err.code, bad_code);
            assert_non_null(strstr(reads[i].err.text, dataset_key(dataset, i)));
        } else {
            assert_int_equal(reads[i].err.code, 0);
            assert_memory_equal(bytes[i], expected, strlen(expected));
        }
    }
}

/* One byte a call, and every second call interrupted: all bytes arrive. */
static void test_short_and_interrupted(void **state)
{
    (void)state;
    faults = (struct faults){.most_bytes = 1, .interrupt_every = 2};
    read_all(SAMPLE_NONE, 0);
    assert_true(faults.calls > 20 * 22 * 2 - 2);
}

/* A disk error in the middle of one file fails that sample with its name. */
static void test_disk_error(void **state)
{
    (void)state;
    faults = (struct faults){
        .most_bytes = 11, .fail_inode = fault_inode("%s/t/c/07.jpg", root), .fail_offset = 11, .fail_errno = EIO};
    read_all(7, LARDER_EIO);
}

/* A file that ends early although its size was right when it was opened fails that sample. */
static void test_shrinks_while_read(void **state)
{
    (void)state;
    faults = (struct faults){.fail_inode = fault_inode("%s/t/c/19.jpg", root), .fail_offset = 4};
    read_all(19, LARDER_ECHANGED);
}

static struct dataset_version opened_version(struct catalog *other)
{
    char path[TREE_NAME_MAX + 8];
    struct dataset *opened;
    struct dataset_version version;
    snprintf(path, sizeof path, "%s/t", root);
    assert_int_equal(catalog_open(other, path, &opened, NULL), 0);
    catalog_wait_saved(other);
    dataset_version(opened, &version);
    dataset_unref(&opened);
    return version;
}

/* A version is told by times alone where one of the files that stand for the content cannot be read, until they can. */
static void test_content_that_cannot_be_read(void **state)
{
    (void)state;
    struct catalog *other;
    struct dataset_version here, unread, read;
    dataset_version(dataset, &here);
    assert_int_equal(catalog_create(NULL, &other, NULL), 0);
    faults = (struct faults){.fail_inode = fault_inode("%s/t/c/07.jpg", root), .fail_offset = 11, .fail_errno = EIO};
    unread = opened_version(other);
    assert_false(dataset_version_has_content(&unread));
    assert_true(dataset_version_is_known(&unread) && dataset_version_agrees(&unread, &here));
    faults = (struct faults){0};
    read = opened_version(other);
    assert_memory_equal(&read, &here, sizeof read);
    catalog_destroy(other);
}

/* The same of a store, where one request brings all the samples. */
static void test_store_short_and_interrupted(void **state)
{
    (void)state;
    faults = (struct faults){.most_bytes = 5, .interrupt_every = 3};
    read_all(SAMPLE_NONE, 0);
    assert_true(faults.calls > 20 * 22 / 5);
}

/* A bad block fails the sample that lies on it; the others are read one by one. */
static void test_store_disk_error(void **state)
{
    (void)state;
    uint32_t count;
    const uint32_t *members = dataset_chunk_members(dataset, 0, &count);
    faults = (struct faults){.fail_inode = fault_inode("%s/s/segment-00000.larder", root),
                             .fail_offset = 4096 + 22 * 5 + 7,
                             .fail_len = 3,
                             .fail_errno = EIO};
    read_all(members[5], LARDER_EIO);
}

static int read_code(uint32_t index)
{
    char bytes[32];
    struct error err = {0};
    return dataset_read(dataset, index, bytes, &err);
}

static void move(const char *from, const char *to)
{
    char old_path[TREE_NAME_MAX + 16], new_path[TREE_NAME_MAX + 16];
    snprintf(old_path, sizeof old_path, "%s/%s", root, from);
    snprintf(new_path, sizeof new_path, "%s/%s", root, to);
    assert_int_equal(rename(old_path, new_path), 0);
}

/* A file that is gone from a folder that is there is told from a folder, or a root, that is away: also when an empty
 * folder is there instead, as a mount point is. When it is back, so are its files. */
static void test_away_is_not_gone(void **state)
{
    (void)state;
    move("t/c", "aside");
    assert_int_equal(read_code(3), LARDER_EIO);
    move("aside", "t/c");
    assert_int_equal(read_code(3), 0);
    move("t", "aside");
    assert_int_equal(read_code(3), LARDER_EIO);
    tree_file("", "%s/t/c/other.jpg", root);
    assert_int_equal(read_code(3), LARDER_EIO);
    move("t", "mount point");
    move("aside", "t");
    assert_int_equal(read_code(3), 0);
    move("t/c/03.jpg", "03.jpg");
    assert_int_equal(read_code(3), LARDER_ENOENT);
    assert_int_equal(read_code(4), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    log_set_level(LOG_WARN);
    const struct CMUnitTest tests[] = {
        TEST(test_short_and_interrupted),
        TEST(test_disk_error),
        TEST(test_shrinks_while_read),
        TEST(test_away_is_not_gone),
        TEST(test_content_that_cannot_be_read),
        cmocka_unit_test_setup_teardown(test_store_short_and_interrupted, set_up_store, tear_down),
        cmocka_unit_test_setup_teardown(test_store_disk_error, set_up_store, tear_down),
    };
    return cmocka_run_group_tests_name("read_faults", tests, NULL, NULL);
}
