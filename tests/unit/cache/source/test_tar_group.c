/* test_tar_group.c: proves that names and members are grouped as webdataset groups them. The rows are what webdataset
 * 1.0.2 does; tests/parity/tar_parity.py asks it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cache/source/tar_group.h"

/* Keys end before the dot; NULL: passed over. */
static void test_names(void **state)
{
    static const struct {
        const char *name, *key;
    } rows[] = {{"a.jpg", "a"},         {"a.seg.png", "a"},
                {"x.1/a.jpg", "x.1/a"}, {"./a.jpg", "./a"},
                {"README", NULL},       {"x.1/README", NULL},
                {".hidden", NULL},      {"x/.hidden", "x/"},
                {"x.1/.hidden", NULL},  {"x.1/y/.hidden", "x.1/y/"},
                {"/.hidden", "/"},      {"a.", "a"},
                {"__meta__", NULL},     {"__meta__/a.jpg", NULL},
                {"__a__.jpg", "__a__"}, {"__index__.json", "__index__"},
                {"___.jpg", "___"},     {"x/__meta__/a.jpg", "x/__meta__/a"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t key_len = 0;
        bool split = tar_name_split(rows[i].name, strlen(rows[i].name), &key_len);
        if (split != (rows[i].key != NULL))
            fail_msg("%s", rows[i].name);
        if (split && (key_len != strlen(rows[i].key) || strncmp(rows[i].name, rows[i].key, key_len) != 0))
            fail_msg("%s: %zu", rows[i].name, key_len);
    }
}

/* Neighbours of a key are one sample, another part that it has begins one, in whatever case. */
static void test_groups(void **state)
{
    static const struct {
        const char *name;
        enum tar_place place;
    } rows[] = {{"a.jpg", TAR_BEGINS},  {"a.cls", TAR_JOINS},    {"a.seg.png", TAR_JOINS}, {"b.jpg", TAR_BEGINS},
                {"a.json", TAR_BEGINS}, {"a.JSON", TAR_REPEATS}, {"a.jpg", TAR_JOINS},     {"a.jpg", TAR_REPEATS},
                {"a.jpg", TAR_REPEATS}, {"x/a.cls", TAR_BEGINS}, {"./a.cls", TAR_BEGINS}};
    struct tar_group group = {0};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(tar_group_add(&group, rows[i].name, (size_t)(strchr(rows[i].name + 1, '.') - rows[i].name)),
                         rows[i].place);
    tar_group_free(&group);
}

/* A sample has as many parts as may be, and not one more. */
static void test_many(void **state)
{
    struct tar_group group = {0};
    char name[32];
    (void)state;
    for (unsigned i = 0; i < TAR_PARTS_MAX; i++) {
        snprintf(name, sizeof name, "a.%u", i);
        assert_int_equal(tar_group_add(&group, name, 1), i ? TAR_JOINS : TAR_BEGINS);
    }
    assert_int_equal(tar_group_add(&group, "a.more", 1), TAR_TOO_MANY);
    tar_group_free(&group);
}

/* The image is the part of the first of these names. */
static void test_images(void **state)
{
    (void)state;
    assert_int_equal(tar_kind_rank("jpg", FILES_IMAGES), 1);
    assert_int_equal(tar_kind_rank("JPG", FILES_IMAGES), 1);
    assert_true(tar_kind_rank("jpeg", FILES_IMAGES) < tar_kind_rank("png", FILES_IMAGES));
    assert_true(tar_kind_rank("png", FILES_IMAGES) < tar_kind_rank("webp", FILES_IMAGES));
    assert_true(tar_kind_rank("webp", FILES_IMAGES) < tar_kind_rank("pgm", FILES_IMAGES));
    assert_int_equal(tar_kind_rank("seg.png", FILES_IMAGES), 0);
    assert_int_equal(tar_kind_rank("jpg.txt", FILES_IMAGES), 0);
    assert_int_equal(tar_kind_rank("jp", FILES_IMAGES), 0);
    assert_int_equal(tar_kind_rank("", FILES_IMAGES), 0);
    assert_int_equal(tar_kind_rank("flac", FILES_IMAGES), 0);
}

/* The sound, where sounds are asked for. */
static void test_sounds(void **state)
{
    (void)state;
    assert_int_equal(tar_kind_rank("flac", FILES_SOUNDS), 1);
    assert_true(tar_kind_rank("WAV", FILES_SOUNDS) < tar_kind_rank("mp3", FILES_SOUNDS));
    assert_int_equal(tar_kind_rank("jpg", FILES_SOUNDS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_groups),
                                       cmocka_unit_test(test_many), cmocka_unit_test(test_images),
                                       cmocka_unit_test(test_sounds)};
    return cmocka_run_group_tests_name("tar_group", tests, NULL, NULL);
}
