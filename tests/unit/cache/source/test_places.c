/* test_places.c: proves that a list of places gives each sample its own range of its file, pixels as PNM; that rows
 * which cannot be right are refused with their line; and that bytes that are not what was indexed or listed reach
 * nobody. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/source/pixels.h"
#include "tests/unit/cache/catalog/catalog_fixture.h"
#include "tests/unit/cache/source/tar_maker.h"

#define SAMPLES 40
#define SAMPLE_BYTES 12

static const char *below(const char *name)
{
    static char path[4][PATH_BYTES];
    static unsigned next;
    char *at = path[next++ % 4];
    path_below(at, name);
    return at;
}

/* What sample `number` holds: twelve letters. */
static const char *body(unsigned number)
{
    static char text[SAMPLE_BYTES + 1];
    snprintf(text, sizeof text, "%02u%c%c%c%c%c%c%c%c%c%c", number, 'a' + number % 26, 'b', 'c', 'd', 'e', 'f', 'g',
             'h', 'i', 'j');
    return text;
}

/* A file of samples from `first` on, with two bytes between neighbours, and its time an hour ago. */
static void make_file(const char *name, unsigned first)
{
    char text[SAMPLES * (SAMPLE_BYTES + 2) + 1] = "";
    for (unsigned i = 0; i < SAMPLES / 2; i++) {
        strcat(text, body(first + i));
        strcat(text, "--");
    }
    tree_file(text, "%s", below(name));
}

static unsigned offset_of(unsigned number)
{
    return number % (SAMPLES / 2) * (SAMPLE_BYTES + 2);
}

static void write_list(const char *name, const char *text)
{
    tree_file(text, "%s", below(name));
}

/* A list of all samples of two files; more: further columns of a row, of its number. */
static void make_list(const char *name, const char *titles, const char *more)
{
    char text[8192];
    int len = snprintf(text, sizeof text, "path,offset,bytes,label%s\n", titles);
    for (unsigned i = 0; i < SAMPLES; i++) {
        len += snprintf(text + len, sizeof text - (size_t)len, "d/%c.bin,%u,%d,%u", i < SAMPLES / 2 ? 'a' : 'b',
                        offset_of(i), SAMPLE_BYTES, i % 3);
        len += snprintf(text + len, sizeof text - (size_t)len, "%s\n", more);
    }
    write_list(name, text);
}

static int set_up(void **state)
{
    int rc = catalog_set_up(state);
    make_file("d/a.bin", 0);
    make_file("d/b.bin", SAMPLES / 2);
    make_list("x.csv", "", "");
    tree_age(root);
    return rc;
}

static void assert_sample(struct dataset *dataset, uint32_t index, unsigned number)
{
    char bytes[SAMPLE_BYTES + 1] = "";
    struct error err;
    assert_int_equal(dataset_size(dataset, index), SAMPLE_BYTES);
    if (dataset_read(dataset, index, bytes, &err))
        fail_msg("%s", err.text);
    assert_string_equal(bytes, body(number));
}

static void assert_bad(struct dataset *dataset, uint32_t index, int code, const char *because)
{
    char bytes[4096];
    struct error err = {0};
    assert_int_equal(dataset_read(dataset, index, bytes, &err), code);
    if (!strstr(err.text, because))
        fail_msg("%s", err.text);
}

/* All samples come, alone and as chunks, whose neighbours one read brings; a restart finds the same. */
static void test_read(void **state)
{
    (void)state;
    for (int start = 0; start < 2; start++) {
        struct catalog *catalog = catalog_at("checkpoints");
        struct dataset *dataset = open_in(catalog, "x.csv");
        struct dataset_look look;
        struct sample_read reads[SAMPLES];
        char bytes[SAMPLES][SAMPLE_BYTES];
        assert_stats(catalog, start, 1 - start);
        dataset_look(dataset, &look);
        assert_int_equal(look.shards, 2);
        assert_int_equal(dataset_classes(dataset), 3);
        assert_string_equal(dataset_key(dataset, 1), "a.bin/@14");
        for (uint32_t i = 0; i < SAMPLES; i++) {
            assert_sample(dataset, i, i);
            assert_int_equal(dataset_label(dataset, i), i % 3);
            reads[i] = (struct sample_read){.index = SAMPLES - 1 - i, .buf = bytes[SAMPLES - 1 - i]};
        }
        assert_int_equal(dataset_read_many(dataset, reads, SAMPLES, 0), 0);
        for (uint32_t i = 0; i < SAMPLES; i++)
            assert_memory_equal(bytes[i], body(i), SAMPLE_BYTES);
        dataset_unref(&dataset);
        catalog_destroy(catalog);
    }
}

static void test_pixels(void **state)
{
    static const char hwc[] = "P6\n2 2\n255\n00abcdefghij", chw[] = "P6\n2 2\n255\n0cg0dhaeibfj";
    static const struct {
        const char *raw, *bytes;
    } rows[] = {{"2x2x3", hwc},
                {"3x2x2", chw},
                {"3x4", "P5\n4 3\n255\n00abcdefghij"},
                {"1x4x3", NULL},
                {"6x2x1", "P5\n2 6\n255\n00abcdefghij"},
                {"1x6x2", "P5\n2 6\n255\n00abcdefghij"}};
    struct pixels pixels;
    struct error err;
    uint64_t seen[6][2] = {{0}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char more[16], bytes[64] = "";
        snprintf(more, sizeof more, ",%s", rows[i].raw);
        make_list("p.csv", ",raw", more);
        struct dataset *dataset = open_below("p.csv");
        uint64_t size = dataset_size(dataset, 0);
        if (dataset_read(dataset, 0, bytes, &err))
            fail_msg("%s", err.text);
        assert_int_equal(memcmp(bytes, i == 3 ? "P6\n4 1\n255\n" : rows[i].bytes, size - (i == 3 ? 12 : 0)), 0);
        assert_true(dataset_content_id(dataset, 0, 1, seen[i]));
        dataset_unref(&dataset);
    }
    assert_memory_not_equal(seen[0], seen[1], 16); /* the same bytes, and another image */
    for (const char *const *text = (const char *const[]){"", "3", "x3", "3x", "0x3", "2x2x2", "2x2x3x1", "-1x3",
                                                         "1048577x3", "2,2,3", "2x2x3 ", NULL};
         *text; text++)
        assert_false(pixels_parse(*text, &pixels));
}

/* A sample whose CRC-32 is not the list's is bad, and none else; so is one behind the file's end, or of no file. */
static void test_damage(void **state)
{
    (void)state;
    write_list("y.csv", "file,offset,bytes,crc32,key\n"
                        "d/a.bin,0,12,2644353851,first\n"
                        "d/a.bin,14,12,1,second\n"
                        "d/a.bin,270,12,,third\n"
                        "d/none.bin,0,12,,\n"
                        "d/b.bin,9223372036854775795,12,,\n"
                        "d/b.bin,14,12,,\n"
                        "d,0,0,,\n");
    struct dataset *dataset = open_below("y.csv");
    assert_bad(dataset, 1, LARDER_EFORMAT, "d/a.bin/second, at byte 14 of the file: its CRC-32");
    assert_bad(dataset, 2, LARDER_EFORMAT, "d/a.bin/third, at byte 270 of the file: the file ends");
    assert_bad(dataset, 3, LARDER_ENOENT, "d/none.bin/@0, at byte 0");
    assert_bad(dataset, 4, LARDER_EFORMAT, "the file ends");
    assert_bad(dataset, 6, LARDER_EFORMAT, "not a regular file");
    assert_sample(dataset, 0, 0);
    assert_sample(dataset, 5, SAMPLES / 2 + 1);
    dataset_unref(&dataset);
    make_file("d/none.bin", 3);
    dataset = open_below("y.csv"); /* it is noticed that the file is there now */
    assert_sample(dataset, 3, 3);
    dataset_unref(&dataset);
}

/* A file that was written to gives no bytes to a dataset that was opened before. */
static void test_changed(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        struct dataset *dataset = open_below("x.csv");
        assert_sample(dataset, 0, 0);
        if (how == 0) /* in place */
            make_file("d/a.bin", 0);
        else if (how == 1)
            assert_int_equal(truncate(below("d/a.bin"), 100), 0);
        else
            assert_int_equal(unlink(below("d/a.bin")), 0);
        assert_bad(dataset, 9, how == 2 ? LARDER_ENOENT : LARDER_ECHANGED, "a.bin/@126");
        assert_sample(dataset, SAMPLES - 1, SAMPLES - 1);
        dataset_unref(&dataset);
        make_file("d/a.bin", 0);
        tree_age(root);
    }
}

/* A member of a shard, and a place that is the same range, are one sample. */
static void test_ids(void **state)
{
    struct tar_made tar = {0};
    (void)state;
    tar_file(&tar, "k.jpg", body(7));
    tar_zeros(&tar, 2);
    tar_write(&tar, below("t.tar"));
    write_list("t.csv", "path,offset,bytes\nt.tar,512,12\nt.tar,512,11\n");
    struct dataset *shard = open_below("t.tar"), *list = open_below("t.csv");
    assert_int_equal(dataset_id(shard, 0), dataset_id(list, 0));
    assert_int_not_equal(dataset_id(shard, 0), dataset_id(list, 1));
    dataset_unref(&shard);
    dataset_unref(&list);
}

static void test_refused(void **state)
{
    static const struct {
        const char *name, *text, *because;
    } rows[] = {
        {"r.csv", "path,offset,bytes\nd/a.bin,0,12\nd/a.bin,-1,12\n", "r.csv:3:1: its offset is no whole number"},
        {"r.csv", "path,offset,bytes\nd/a.bin,9223372036854775807,1\n",
         "r.csv:2:1: its bytes is no whole number from "
         "0 to 0"},
        {"r.csv", "path,offset,bytes\nd/a.bin,99999999999999999999,1\n", "its offset"},
        {"r.csv", "path,offset,bytes\nd/a.bin,0\n", "its bytes"},
        {"r.csv", "path,offset,bytes\nd/a.bin,1.0,3\n", "its offset"},
        {"r.csv", "path,offset,bytes,crc32\nd/a.bin,0,12,4294967296\n", "its crc32 is no whole number"},
        {"r.csv", "path,offset,bytes,raw\nd/a.bin,0,12,2x2x2\n", "r.csv:2:1: raw \"2x2x2\" is no shape of pixels"},
        {"r.csv", "path,offset,bytes,raw\nd/a.bin,0,12,2x3x3\n", "pixels of 2x3x3 are 18 bytes, and its bytes are 12"},
        {"r.csv", "path,offset,bytes\n../a.bin,0,12\n", "\"..\""},
        {"r.jsonl", "{\"path\":\"d/a.bin\",\"offset\":0,\"bytes\":1}\n{\"path\":\"d/a.bin\"}\n",
         "r.jsonl:2:1: its "
         "offset"},
        {"r.jsonl", "{\"path\":\"d/a.bin\",\"offset\":0,\"bytes\":-1}\n", "its bytes"},
        {"r.jsonl", "{\"path\":\"d/a.bin\",\"offset\":0,\"bytes\":[]}\n", "neither a whole number nor a text"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dataset *dataset = NULL;
        struct error err = {0};
        write_list(rows[i].name, rows[i].text);
        assert_int_not_equal(catalog_open(the_catalog, below(rows[i].name), &dataset, &err), 0);
        if (!strstr(err.text, rows[i].because))
            fail_msg("%s", err.text);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, catalog_tear_down)
    const struct CMUnitTest tests[] = {TEST(test_read),    TEST(test_pixels), TEST(test_damage),
                                       TEST(test_changed), TEST(test_ids),    TEST(test_refused)};
    return cmocka_run_group_tests_name("places", tests, NULL, NULL);
}
