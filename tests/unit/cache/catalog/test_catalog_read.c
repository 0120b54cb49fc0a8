/* test_catalog_read.c: proves that samples are parted into chunks, and that what is read is what was indexed, or an
 * error of the one sample that it belongs to. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "tests/unit/cache/catalog/catalog_fixture.h"

/* What a file did since it was indexed comes out as its own error, never as other bytes. */
static void test_read_failures(void **state)
{
    (void)state;
    char name[TREE_NAME_MAX + 64], bytes[16];
    struct error err;
    tree_file("12345", "%s/t/c/1-gone.jpg", root);
    tree_file("12345", "%s/t/c/2-short.jpg", root);
    tree_file("12345", "%s/t/c/3-new.jpg", root);
    tree_link("nowhere", "%s/t/c/4-dangling.jpg", root);
    tree_folder("%s/t/c", root);
    snprintf(name, sizeof name, "%s/t/c/5-pipe.jpg", root);
    assert_int_equal(mkfifo(name, 0600), 0);
    tree_file("", "%s/t/c/6-empty.jpg", root);
    tree_age(root);
    struct dataset *dataset = open_below("t");
    assert_int_equal(dataset_count(dataset), 6);
    snprintf(name, sizeof name, "%s/t/c/1-gone.jpg", root);
    assert_int_equal(unlink(name), 0);
    tree_file("123", "%s/t/c/2-short.jpg", root);
    tree_file("54321", "%s/t/c/3-new.jpg", root);
    const int codes[] = {LARDER_ENOENT, LARDER_ECHANGED, LARDER_ECHANGED, LARDER_ENOENT, LARDER_EFORMAT, 0};
    const char *const texts[] = {"1-gone.jpg", "3 bytes, was 5", "changed since it was indexed", "4-dangling.jpg",
                                 "not a regular file"};
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(dataset_read(dataset, i, bytes, &err), codes[i]);
        if (codes[i] && !strstr(err.text, texts[i]))
            fail_msg("'%s' lacks '%s'", err.text, texts[i]);
    }
    dataset_unref(&dataset);
}

/* A dangling link keeps its place; once its target is there the next open makes it a proper sample. */
static void test_link_comes_alive(void **state)
{
    (void)state;
    char bytes[8] = "";
    tree_file("1", "%s/t/c/1.jpg", root);
    tree_link("../../late.jpg", "%s/t/c/2.jpg", root);
    tree_age(root);
    struct dataset *before = open_below("t"), *same = open_below("t");
    assert_ptr_equal(before, same);
    assert_int_not_equal(dataset_read(before, 1, bytes, NULL), 0);
    tree_file("late", "%s/late.jpg", root);
    struct dataset *after = open_below("t");
    assert_ptr_not_equal(before, after);
    assert_int_equal(dataset_id(after, 0), dataset_id(before, 0));
    assert_int_not_equal(dataset_id(after, 1), dataset_id(before, 1));
    assert_int_equal(dataset_size(after, 1), 4);
    assert_int_equal(dataset_read(after, 1, bytes, NULL), 0);
    assert_string_equal(bytes, "late");
    dataset_unref(&before);
    dataset_unref(&same);
    dataset_unref(&after);
}

/* Chunks part the samples: each is in one place, full but for the last, and the shuffle depends on its seed alone. */
static void test_chunks(void **state)
{
    (void)state;
    struct dataset *datasets[3];
    const uint64_t seeds[3] = {7, 7, 8};
    char name[8];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 23; j++)
            tree_file("x", "%s/t%d/c%d/%d.jpg", root, i, j % 2, j);
        catalog_set_chunking(the_catalog, 5, seeds[i]);
        snprintf(name, sizeof name, "t%d", i);
        datasets[i] = open_below(name);
        assert_int_equal(dataset_chunk_size(datasets[i]), 5);
        assert_int_equal(dataset_chunk_count(datasets[i]), 5);
    }
    unsigned seen[23] = {0}, same = 0, different = 0, in_order = 0, last = 0;
    for (uint32_t chunk = 0; chunk < 5; chunk++) {
        uint32_t count[3], slot;
        const uint32_t *members[3];
        for (int i = 0; i < 3; i++)
            members[i] = dataset_chunk_members(datasets[i], chunk, &count[i]);
        assert_int_equal(count[0], chunk < 4 ? 5 : 3);
        for (uint32_t i = 0; i < count[0]; i++) {
            uint32_t index = members[0][i];
            assert_in_range(index, 0, 22);
            seen[index]++;
            assert_int_equal(dataset_chunk_of(datasets[0], index, &slot), chunk);
            assert_int_equal(slot, i);
            assert_int_equal(dataset_chunk_of(datasets[0], index, NULL), chunk);
            same += index == members[1][i];
            different += index != members[2][i];
            in_order += index == last + 1;
            last = index;
        }
    }
    for (int i = 0; i < 23; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(same, 23);
    assert_true(different > 12);
    assert_true(in_order < 8);
    for (int i = 0; i < 3; i++)
        dataset_unref(&datasets[i]);
}

/* Many samples at once: each has its own outcome, in whatever order they were asked for, and the
 * others' bytes are right. */
static void test_read_many(void **state)
{
    (void)state;
    char content[32], name[TREE_NAME_MAX + 64];
    struct sample_read reads[100];
    char bytes[100][32];
    for (int i = 0; i < 100; i++) {
        snprintf(content, sizeof content, "sample number %02d", i);
        tree_file(content, "%s/t/c/%02d.jpg", root, i);
    }
    struct dataset *dataset = open_below("t");
    snprintf(name, sizeof name, "%s/t/c/40.jpg", root);
    assert_int_equal(unlink(name), 0);
    tree_file("short", "%s/t/c/50.jpg", root);
    for (uint32_t i = 0; i < 100; i++)
        reads[i] = (struct sample_read){.index = 99 - i, .buf = bytes[i]};
    assert_int_equal(dataset_read_many(dataset, reads, 100, 0), 2);
    for (uint32_t i = 0; i < 100; i++) {
        int expected = reads[i].index == 40 ? LARDER_ENOENT : reads[i].index == 50 ? LARDER_ECHANGED : 0;
        assert_int_equal(reads[i].err.code, expected);
        snprintf(content, sizeof content, "sample number %02u", reads[i].index);
        if (expected)
            assert_non_null(strstr(reads[i].err.text, dataset_key(dataset, reads[i].index)));
        else
            assert_memory_equal(bytes[i], content, strlen(content));
    }
    assert_int_equal(dataset_read_many(dataset, reads, 0, 0), 0);
    dataset_unref(&dataset);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, catalog_set_up, catalog_tear_down)

int main(void)
{
    log_set_level(LOG_WARN);
    const struct CMUnitTest tests[] = {
        TEST(test_read_failures),
        TEST(test_link_comes_alive),
        TEST(test_chunks),
        TEST(test_read_many),
    };
    return cmocka_run_group_tests_name("catalog_read", tests, NULL, NULL);
}
