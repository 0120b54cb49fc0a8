/* test_changed_files.c: proves that a sample is only ever read from the file that was indexed, that opening a dataset
 * notices what changed below folders whose times did not, and that no two contents have one name. pread and statfs are
 * replaced at link time (--wrap). */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cache/catalog/catalog_priv.h"
#include "cache/source/files.h"
#include "cache/source/tree.h"
#include "common/log.h"
#include "tests/unit/cache/catalog/catalog_fixture.h"

#define SMALL 600
#define LARGE 3000

static long fake_type;        /* of file system; 0: the real one */
static const char *rewritten; /* a file below the root that somebody writes to during the next read; NULL: none */

int __real_statfs(const char *path, struct statfs *out);
int __wrap_statfs(const char *path, struct statfs *out);
int __wrap_statfs(const char *path, struct statfs *out)
{
    int rc = __real_statfs(path, out);
    if (fake_type)
        out->f_type = (__typeof__(out->f_type))fake_type;
    return rc;
}

static const struct timespec long_ago = {.tv_sec = 7};

static void set_time(const char *name, struct timespec time)
{
    char path[PATH_BYTES];
    struct timespec times[2] = {time, time};
    path_below(path, name);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

ssize_t __real_pread(int fd, void *buf, size_t len, off_t offset);
ssize_t __wrap_pread(int fd, void *buf, size_t len, off_t offset);
ssize_t __wrap_pread(int fd, void *buf, size_t len, off_t offset)
{
    ssize_t got = __real_pread(fd, buf, len, offset);
    if (rewritten)
        set_time(rewritten, long_ago);
    rewritten = NULL;
    return got;
}

static void restart(void)
{
    catalog_destroy(the_catalog);
    the_catalog = catalog_at("checkpoints");
}

static int set_up(void **state)
{
    (void)state;
    tree_new(root);
    the_catalog = catalog_at("checkpoints");
    return 0;
}

static int tear_down(void **state)
{
    fake_type = 0;
    return catalog_tear_down(state);
}

/* Files of five bytes whose content is their number, all of one time. */
static void make_tree(int count)
{
    char content[8];
    for (int i = 0; i < count; i++) {
        snprintf(content, sizeof content, "%05d", i);
        tree_file(content, "%s/t/c%d/%05d.jpg", root, i % 2, i);
    }
    tree_age(root);
}

/* Writes to a file what is as long as what it held; its folder does not change. */
static void rewrite(int number)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/t/c%d/%05d.jpg", root, number % 2, number);
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "newer", 5), 5);
    close(fd);
}

static void swap(const char *a, const char *b)
{
    char from[PATH_BYTES], to[PATH_BYTES];
    path_below(from, a);
    path_below(to, b);
    assert_int_equal(renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE), 0);
}

static void expect_read(const struct dataset *dataset, uint32_t index, int code, const char *content)
{
    char bytes[8] = "";
    struct error err = {0};
    int got = dataset_read(dataset, index, bytes, &err);
    if (got != code)
        fail_msg("sample %u: %s instead of %s: %s, '%s'", index, larder_err_name(got), larder_err_name(code), err.text,
                 bytes);
    if (code)
        assert_non_null(strstr(err.text, dataset_key(dataset, index)));
    else
        assert_string_equal(bytes, content);
}

/* Two files of one size and time exchange their names: none is read as the other. A dataset of hard links to them,
 * which nobody touched, goes on, and shares with the other again once that is opened anew. */
static void test_swapped_names(void **state)
{
    (void)state;
    char from[PATH_BYTES], to[PATH_BYTES];
    make_tree(4);
    tree_folder("%s/links/c", root);
    for (int i = 0; i < 4; i++) {
        snprintf(from, sizeof from, "%s/t/c%d/%05d.jpg", root, i % 2, i);
        snprintf(to, sizeof to, "%s/links/c/%05d.jpg", root, i);
        assert_int_equal(link(from, to), 0);
    }
    struct dataset *tree = open_below("t"), *links = open_below("links");
    assert_int_equal(dataset_id(tree, 0), dataset_id(links, 0));
    swap("t/c0/00000.jpg", "t/c1/00001.jpg");
    expect_read(tree, 0, LARDER_ECHANGED, NULL);
    expect_read(tree, 1, 0, "00002");
    expect_read(links, 0, 0, "00000");
    expect_read(links, 1, 0, "00001");
    struct dataset *after = open_below("t");
    assert_ptr_not_equal(after, tree);
    assert_int_equal(dataset_id(after, 0), dataset_id(links, 1));
    assert_int_equal(dataset_id(after, 2), dataset_id(links, 0));
    expect_read(after, 0, 0, "00001");
    dataset_unref(&tree);
    dataset_unref(&links);
    dataset_unref(&after);
}

/* A file that is written to while it is read is not given away half old, half new. */
static void test_written_while_read(void **state)
{
    (void)state;
    make_tree(2);
    struct dataset *dataset = open_below("t");
    expect_read(dataset, 0, 0, "00000");
    rewritten = "t/c0/00000.jpg";
    expect_read(dataset, 0, LARDER_ECHANGED, NULL);
    expect_read(dataset, 1, 0, "00001");
    dataset_unref(&dataset);
}

/* What the dataset holds is what the files hold now, and a sample has its old id exactly where its file is the old one.
 * */
static void expect_every_third_new(const struct dataset *before, const struct dataset *after)
{
    char content[8];
    assert_int_equal(dataset_count(before), dataset_count(after));
    for (uint32_t i = 0; i < dataset_count(after); i++) {
        const char *name = strrchr(dataset_key(after, i), '/') + 1;
        bool new = atoi(name) % 3 == 0;
        snprintf(content, sizeof content, "%.5s", new ? "newer" : name);
        expect_read(after, i, 0, content);
        assert_int_equal(dataset_id(after, i) != dataset_id(before, i), new);
    }
}

/* A third of a small tree is rewritten in place, which changes no folder's time: opening it again, and opening it after
 * a restart that finds a checkpoint, give what the files hold now. */
static void test_rewritten_in_place(void **state)
{
    (void)state;
    struct catalog_stats stats;
    make_tree(SMALL);
    struct dataset *before = open_below("t"), *after;
    for (int i = 0; i < SMALL; i += 3)
        rewrite(i);
    after = open_below("t");
    expect_every_third_new(before, after);
    expect_read(before, 0, LARDER_ECHANGED, NULL); /* which leaves the new checkpoint alone */
    dataset_unref(&before);
    dataset_unref(&after);
    restart();
    after = open_below("t");
    catalog_stats(the_catalog, &stats);
    assert_int_equal(stats.checkpoints_loaded, 1); /* it was replaced when the change was noticed */
    expect_read(after, 0, 0, "newer");
    dataset_unref(&after);
    for (int i = 1; i < SMALL; i += 3)
        rewrite(i);
    restart();
    after = open_below("t");
    catalog_stats(the_catalog, &stats);
    assert_int_equal(stats.checkpoints_loaded, 0);
    for (uint32_t i = 0; i < SMALL; i++) {
        const char *name = strrchr(dataset_key(after, i), '/') + 1;
        if (atoi(name) % 3 < 2)
            expect_read(after, i, 0, "newer");
    }
    dataset_unref(&after);
}

/* The same of a tree so large that only some of its files are looked at. */
static void test_rewritten_in_large_tree(void **state)
{
    (void)state;
    make_tree(LARGE);
    assert_true(LARGE > FILES_ALL_MAX);
    struct dataset *before = open_below("t"), *same = open_below("t"), *after;
    assert_ptr_equal(before, same);
    for (int i = 0; i < LARGE; i += 3)
        rewrite(i);
    after = open_below("t");
    expect_every_third_new(before, after);
    dataset_unref(&before);
    dataset_unref(&same);
    dataset_unref(&after);
}

/* A change that only a read has met makes the next open index anew, even when nothing shows it any more. */
static void test_read_tells_the_next_open(void **state)
{
    (void)state;
    struct catalog_stats stats;
    struct stat st;
    char path[PATH_BYTES];
    make_tree(8);
    path_below(path, "t/c0/00004.jpg");
    assert_int_equal(stat(path, &st), 0);
    struct dataset *before = open_below("t");
    set_time("t/c0/00004.jpg", long_ago);
    expect_read(before, 2, LARDER_ECHANGED, NULL);
    set_time("t/c0/00004.jpg", st.st_mtim);
    struct dataset *after = open_below("t");
    assert_ptr_not_equal(before, after);
    dataset_unref(&before);
    dataset_unref(&after);
    restart();
    after = open_below("t");
    catalog_stats(the_catalog, &stats);
    assert_int_equal(stats.checkpoints_loaded, 1);
    dataset_unref(&after);
}

/* Gives samples `from` to `end` of a packed index devices with other numbers. */
static void move_samples(struct index *index, size_t from, size_t end, uint64_t by)
{
    struct index_sample *samples = calloc(index->sample_count, sizeof *samples);
    assert_non_null(samples);
    for (size_t i = 0; i < index->sample_count; i++) {
        samples[i] = index_sample(index, i);
        samples[i].device += i >= from && i < end ? by : 0;
    }
    packed_rows_free(&index->rows);
    index->samples = samples;
    assert_int_equal(index_pack(index), 0);
}

/* A dataset as if it had been indexed when the devices of `from` to `end` had other numbers. */
static struct dataset *indexed_elsewhere(uint32_t from, uint32_t end)
{
    char path[PATH_BYTES];
    struct dataset_parts parts = {0};
    struct dataset *dataset = NULL;
    path_below(path, "t");
    assert_int_equal(source_index(&tree_kind, &(struct source_wish){.text = path}, &parts.source, NULL), 0);
    struct index *index = &parts.source->index;
    uint32_t count = (uint32_t)index->sample_count;
    move_samples(index, from, end, 1000);
    parts.ids = malloc(count * sizeof *parts.ids);
    assert_non_null(parts.ids);
    for (uint32_t i = 0; i < count; i++)
        parts.ids[i] = i;
    assert_int_equal(chunking_shuffle(count, 4, 1, &parts.source->chunking), 0);
    assert_int_equal(dataset_from_parts(&parts, &dataset), 0);
    return dataset;
}

/* Where all files of a device have the same other device, their file system was mounted anew, and they are read; where
 * one file alone has another device, it is another file. */
static void test_remounted_while_open(void **state)
{
    (void)state;
    char content[8];
    make_tree(8);
    struct dataset *remounted = indexed_elsewhere(0, 8), *part = indexed_elsewhere(4, 8);
    struct dataset *moved = indexed_elsewhere(2, 3);
    for (uint32_t i = 0; i < 8; i++) {
        snprintf(content, sizeof content, "%05d", i < 4 ? i * 2 : (i - 4) * 2 + 1);
        expect_read(remounted, i, 0, content);
        expect_read(part, i, 0, content);
        expect_read(moved, i, i == 2 ? LARDER_ECHANGED : 0, content);
    }
    assert_false(atomic_load(&remounted->stale));
    assert_true(atomic_load(&moved->stale));
    swap("t/c0/00000.jpg", "t/c1/00001.jpg");
    expect_read(remounted, 0, LARDER_ECHANGED, NULL);
    dataset_unref(&remounted);
    dataset_unref(&part);
    dataset_unref(&moved);
}

/* A checkpoint from when the file system had another device number is used, with identities of the device that it has:
 * the samples are shared with those of a tree that is walked. One whose files do not all agree is not used. */
static void test_checkpoint_of_another_device(void **state)
{
    (void)state;
    struct catalog_stats stats;
    char path[PATH_BYTES], dir[PATH_BYTES], from[PATH_BYTES], to[PATH_BYTES];
    make_tree(4);
    tree_folder("%s/links/c", root);
    path_below(from, "t/c0/00000.jpg");
    path_below(to, "links/c/00000.jpg");
    assert_int_equal(link(from, to), 0);
    path_below(path, "t");
    path_below(dir, "checkpoints");
    char *checkpoint = checkpoint_path(dir, path, FILES_IMAGES);
    for (int differing = 0; differing < 2; differing++) {
        struct source *source;
        assert_int_equal(source_index(&tree_kind, &(struct source_wish){.text = path}, &source, NULL), 0);
        struct index *index = &source->index;
        for (size_t i = 0; i < index->folder_count; i++)
            index->folders[i].device += 1000;
        move_samples(index, 0, index->sample_count, 1000);
        move_samples(index, 3, differing ? 4 : 3, 1000);
        assert_int_equal(checkpoint_save(checkpoint, index, &source->chunking, NULL), 0);
        source_free(&source);
        restart();
        struct dataset *tree = open_below("t");
        catalog_stats(the_catalog, &stats);
        assert_int_equal(stats.checkpoints_loaded, !differing);
        struct dataset *links = open_below("links");
        assert_int_equal(dataset_id(tree, 0), dataset_id(links, 0));
        expect_read(tree, 3, 0, "00003");
        dataset_unref(&tree);
        dataset_unref(&links);
    }
    free(checkpoint);
}

/* On a file system that numbers its files anew whenever it likes, another inode is no sign of another file. */
static void test_inodes_that_do_not_last(void **state)
{
    (void)state;
    struct stat st, folder;
    char path[PATH_BYTES];
    make_tree(4);
    struct dataset *dataset = open_below("t"), *again;
    path_below(path, "t/c0");
    assert_int_equal(stat(path, &folder), 0);
    path_below(path, "t/c0/00000.jpg");
    assert_int_equal(stat(path, &st), 0);
    tree_file("00000", "%s/t/c0/other", root);
    set_time("t/c0/other", st.st_mtim);
    swap("t/c0/00000.jpg", "t/c0/other");
    path_below(path, "t/c0/other");
    assert_int_equal(unlink(path), 0);
    set_time("t/c0", folder.st_mtim); /* as make_tree left it */
    fake_type = FUSE_SUPER_MAGIC;
    assert_false(medium_inodes_last(root));
    expect_read(dataset, 0, 0, "00000");
    again = open_below("t");
    assert_ptr_equal(again, dataset);
    fake_type = EXT4_SUPER_MAGIC;
    assert_true(medium_inodes_last(root));
    expect_read(dataset, 0, LARDER_ECHANGED, NULL);
    dataset_unref(&dataset);
    dataset_unref(&again);
}

/* Writes to a file as rewrite does, and puts its modification time back. The file system's clock has ticks: it goes on
 * until the change time has become another one. */
static void rewrite_and_set_back(int number)
{
    struct stat before, after;
    char name[32], path[PATH_BYTES];
    snprintf(name, sizeof name, "t/c%d/%05d.jpg", number % 2, number);
    path_below(path, name);
    assert_int_equal(stat(path, &before), 0);
    do {
        rewrite(number);
        set_time(name, before.st_mtim);
        assert_int_equal(stat(path, &after), 0);
    } while (file_ctime_ns(&after) == file_ctime_ns(&before));
    assert_true(file_mtime_ns(&after) == file_mtime_ns(&before));
    assert_true(after.st_ino == before.st_ino && after.st_size == before.st_size);
}

static void content_names(const char *folder, uint64_t names[4][2])
{
    struct dataset *dataset = open_below(folder);
    assert_int_equal(dataset_count(dataset), 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(dataset_content_id(dataset, i, 5, names[i]));
    dataset_unref(&dataset);
}

/* A content's name lasts over restarts, with a checkpoint. Once the tree is indexed anew, a file that was written to
 * has another name, even if device, inode, size and modification time are as they were; the others keep theirs. */
static void test_names_of_contents(void **state)
{
    (void)state;
    uint64_t before[4][2], after[4][2];
    make_tree(4); /* t/c0 has 0 and 2, t/c1 has 1 and 3 */
    content_names("t", before);
    restart();
    content_names("t", after);
    assert_memory_equal(after, before, sizeof before);
    rewrite_and_set_back(0);
    tree_file("00004", "%s/t/c1/00005.jpg", root); /* a folder that changes, so that all is indexed anew */
    char path[PATH_BYTES];
    path_below(path, "t/c1/00005.jpg");
    restart();
    struct dataset *more = open_below("t");
    assert_int_equal(dataset_count(more), 5);
    dataset_unref(&more);
    assert_int_equal(unlink(path), 0);
    restart();
    content_names("t", after);
    assert_memory_not_equal(after[0], before[0], sizeof before[0]);
    assert_memory_equal(after[1], before[1], 3 * sizeof before[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        TEST(test_swapped_names),
        TEST(test_written_while_read),
        TEST(test_rewritten_in_place),
        TEST(test_rewritten_in_large_tree),
        TEST(test_read_tells_the_next_open),
        TEST(test_remounted_while_open),
        TEST(test_checkpoint_of_another_device),
        TEST(test_inodes_that_do_not_last),
        TEST(test_names_of_contents),
    };
    return cmocka_run_group_tests_name("changed_files", tests, NULL, NULL);
}
