/* test_tar.c: proves that shards are opened as what they are: their samples, labels and chunks, whatever names them;
 * that damage costs what is damaged and is named by shard and byte; and that bytes that are not what was indexed reach
 * nobody. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/source/tar_header.h"
#include "tests/unit/cache/catalog/catalog_fixture.h"
#include "tests/unit/cache/source/tar_maker.h"

#define SHARD_SAMPLES 10

static const char *below(const char *name)
{
    static char path[4][PATH_BYTES];
    static unsigned next;
    char *at = path[next++ % 4];
    path_below(at, name);
    return at;
}

/* What a sample's image holds. */
static const char *image(unsigned number)
{
    static char body[1200];
    memset(body, 'a' + (int)(number % 26), sizeof body - 1);
    snprintf(body, sizeof body, "image %u", number);
    body[strlen(body)] = ' ';
    body[900 + number % 200] = '\0';
    return body;
}

static void add_sample(struct tar_made *tar, unsigned number, const char *cls)
{
    char name[32];
    snprintf(name, sizeof name, "k/%04u.jpg", number);
    tar_file(tar, name, image(number));
    snprintf(name, sizeof name, "k/%04u.cls", number);
    if (cls)
        tar_file(tar, name, cls);
}

/* A shard of SHARD_SAMPLES samples from `first` on, labelled number % 3. */
static void make_shard(const char *name, unsigned first)
{
    struct tar_made tar = {0};
    static const char *const cls[] = {"0", " 1\n", "2"};
    for (unsigned i = first; i < first + SHARD_SAMPLES; i++)
        add_sample(&tar, i, cls[i % 3]);
    tar_zeros(&tar, 2);
    tar_write(&tar, below(name));
}

static int set_up(void **state)
{
    int rc = catalog_set_up(state);
    tree_folder("%s/s", root);
    make_shard("s/t-0.tar", 0);
    make_shard("s/t-1.tar", SHARD_SAMPLES);
    return rc;
}

static struct dataset *open_text(const char *text)
{
    struct dataset *dataset = NULL;
    struct error err;
    if (catalog_open(the_catalog, text, &dataset, &err))
        fail_msg("%s", err.text);
    return dataset;
}

static void assert_refused(const char *text, int code, const char *because)
{
    struct dataset *dataset = NULL;
    struct error err = {0};
    assert_int_equal(catalog_open(the_catalog, text, &dataset, &err), code);
    if (!strstr(err.text, because))
        fail_msg("%s", err.text);
}

static void assert_sample(struct dataset *dataset, uint32_t index, unsigned number)
{
    char bytes[2048] = "";
    struct error err;
    assert_int_equal(dataset_size(dataset, index), strlen(image(number)));
    if (dataset_read(dataset, index, bytes, &err))
        fail_msg("%s", err.text);
    assert_string_equal(bytes, image(number));
}

static void assert_bad(struct dataset *dataset, uint32_t index, int code, const char *because)
{
    char bytes[4096];
    struct error err = {0};
    assert_int_equal(dataset_read(dataset, index, bytes, &err), code);
    if (!strstr(err.text, because))
        fail_msg("%s", err.text);
}

/* All texts that name the same shards give the same samples, in the same order, with the same labels. */
static void test_texts(void **state)
{
    static const char *const texts[] = {"s/t-{0..1}.tar",          "s/t-{0,1}.tar", "s/*.tar",  "s/t-?.tar", "s",
                                        "s/t-0.tar::%s/s/t-1.tar", "{s,s}/t-0.tar", "s/t-0.tar"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[2 * PATH_BYTES], second[PATH_BYTES];
        snprintf(second, sizeof second, texts[i], root);
        snprintf(text, sizeof text, "%s/%s", root, second);
        struct dataset *dataset = open_text(text);
        bool one = i == 7, twice = i == 6;
        assert_int_equal(dataset_count(dataset), one ? SHARD_SAMPLES : 2 * SHARD_SAMPLES);
        assert_int_equal(dataset_classes(dataset), 3);
        assert_string_equal(dataset_class(dataset, 2), "2");
        for (uint32_t j = 0; j < dataset_count(dataset); j++) {
            unsigned number = twice ? j % SHARD_SAMPLES : j;
            assert_sample(dataset, j, number);
            assert_int_equal(dataset_label(dataset, j), number % 3);
        }
        if (i < 6)
            assert_string_equal(dataset_key(dataset, 11), i == 6 ? "" : "t-1.tar/k/0011.jpg");
        dataset_unref(&dataset);
    }
}

/* A folder that is there is what it is, whatever its name, and one with folders and shards is a tree as before. */
static void test_folders(void **state)
{
    struct dataset *dataset;
    (void)state;
    tree_file("x", "%s/braces{1..2}/c/a.jpg", root);
    dataset = open_text(below("braces{1..2}"));
    assert_string_equal(dataset_class(dataset, 0), "c");
    dataset_unref(&dataset);
    tree_file("x", "%s/s/class/a.jpg", root);
    dataset = open_text(below("s"));
    assert_int_equal(dataset_count(dataset), 1);
    assert_string_equal(dataset_class(dataset, 0), "class");
    dataset_unref(&dataset);
}

/* What cannot be used says why. */
static void test_refusals(void **state)
{
    struct dataset *none = NULL;
    struct error err;
    struct tar_made tar = {0};
    (void)state;
    assert_refused(below("s/t-{0..2}.tar"), LARDER_ENOENT, "t-2.tar: there is no such shard");
    assert_refused(below("s/u-*.tar"), LARDER_ENOENT, "no such shard");
    assert_refused(below("nowhere/*.tar"), LARDER_ENOENT, "nowhere");
    assert_refused(below("s/x.tar.gz"), LARDER_EINVAL, "gunzip");
    assert_refused(below("s/t-{0..1000000000}.tar"), LARDER_ELIMIT, "1,048,576 shards");
    assert_refused(below("s#labels=else"), LARDER_EINVAL, "it has no else");
    assert_refused(below("s#labels=json:"), LARDER_EINVAL, "cls, json:KEY, KEY or none");
    assert_refused(below("s#labels=json:key"), LARDER_EINVAL, "it has no key");
    assert_int_equal(catalog_open_for(the_catalog, &(struct catalog_wish){.path = below("s"), .files = FILES_ALL},
                                      &none, &err),
                     LARDER_EINVAL);
    tar_block(&tar, 'S', "holes.jpg", 0);
    tar_write(&tar, below("s/sparse.tar"));
    assert_refused(below("s/sparse.tar"), LARDER_EINVAL, "--sparse");
    tree_file("\x1f\x8b and so on, which takes more than a block of bytes to be looked at", "%s/s/z.tar", root);
    assert_int_equal(truncate(below("s/z.tar"), 2048), 0);
    assert_refused(below("s/z.tar"), LARDER_EINVAL, "compressed");
    tar_file(&tar, "a.txt", "no image");
    tar_write(&tar, below("s/text.tar"));
    assert_refused(below("s/text.tar"), LARDER_EINVAL, "no sample with an image");
}

/* Labels are numbers or names, of one member or of a key in another, and all samples have one or none. */
static void test_labels(void **state)
{
    struct tar_made tar = {0};
    struct dataset *dataset;
    (void)state;
    tar_file(&tar, "a.jpg", "1");
    tar_file(&tar, "a.json", "{\"kind\": \"cat\", \"n\": 2}");
    tar_file(&tar, "b.json", "{\"kind\": \"ant\", \"n\": 0}");
    tar_file(&tar, "b.jpg", "22");
    tar_file(&tar, "c.jpg", "333");
    tar_file(&tar, "c.json", "{\"kind\": \"cat\", \"n\": 5, \"b\": 1.5}");
    tar_write(&tar, below("j.tar"));
    dataset = open_text(below("j.tar"));
    assert_int_equal(dataset_classes(dataset), 1);
    dataset_unref(&dataset);
    dataset = open_text(below("j.tar#labels=json:kind"));
    assert_int_equal(dataset_classes(dataset), 2);
    assert_string_equal(dataset_class(dataset, 0), "ant");
    assert_int_equal(dataset_label(dataset, 0), 1);
    assert_int_equal(dataset_label(dataset, 1), 0);
    assert_int_equal(dataset_label(dataset, 2), 1);
    dataset_unref(&dataset);
    dataset = open_text(below("j.tar#labels=json:n"));
    assert_int_equal(dataset_classes(dataset), 6);
    assert_int_equal(dataset_label(dataset, 2), 5);
    dataset_unref(&dataset);
    assert_refused(below("j.tar#labels=json:b"), LARDER_EINVAL, "neither a whole number nor a text");
    assert_refused(below("j.tar#labels=cls"), LARDER_EINVAL, "a.jpg: it has no .cls");
    char deep[1000] = "{\"k\": \"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\", \"l\": ";
    tar_file(&tar, "a.jpg", "1");
    memset(deep + strlen(deep), '[', 33);
    tar_file(&tar, "a.json", deep);
    tar_write(&tar, below("d.tar"));
    assert_refused(below("d.tar#labels=json:k"), LARDER_EINVAL, "more than 32 levels deep");
    static const char *const wrong[][2] = {{"-1", "not 0 to"},
                                           {"1048576", "not 0 to"},
                                           {"\xff", "no text in UTF-8"},
                                           {"", "no text of 1"},
                                           {"cat", "make them all one"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        add_sample(&tar, 1, "1");
        add_sample(&tar, 2, wrong[i][0]);
        tar_write(&tar, below("w.tar"));
        assert_refused(below("w.tar"), LARDER_EINVAL, wrong[i][1]);
    }
    add_sample(&tar, 1, "1");
    add_sample(&tar, 2, NULL);
    tar_write(&tar, below("w.tar"));
    assert_refused(below("w.tar"), LARDER_EINVAL, "0002.jpg: it has no .cls, and others have");
}

/* Classes have the names that all shards give, in their order; where shards differ, or a name is missing, they are
 * called by their numbers. */
static void test_named_classes(void **state)
{
    (void)state;
    static const struct {
        const char *first, *second, *class_1;
        uint32_t count;
    } cases[] = {{"cat\nant\nbee\nnone\n", "cat\nant\nbee\nnone\n", "ant", 4},
                 {"cat\nant\nbee\n", "cat\nant\nbee\nnone\n", "1", 3},
                 {"cat\nant\nbee\n", NULL, "1", 3},
                 {"cat\nant\n", "cat\nant\n", "1", 3},
                 {"cat\nant\nbee", "cat\nant\nbee", "1", 3},
                 {"cat\n\nbee\n", "cat\n\nbee\n", "1", 3},
                 {"cat\n\x1b[1m\nbee\n", "cat\n\x1b[1m\nbee\n", "1", 3},
                 {"", "", "1", 3}};
    static const char *const cls[] = {"0", "1", "2"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tar_made tar = {0};
        char folder[32], path[64];
        const char *names[] = {cases[i].first, cases[i].second};
        snprintf(folder, sizeof folder, "s/%zu", i); /* of its own: the times of files written at once may be equal */
        assert_int_equal(mkdir(below(folder), 0700), 0);
        for (unsigned shard = 0; shard < 2; shard++) {
            if (names[shard])
                tar_file(&tar, "__classes__", names[shard]);
            for (unsigned number = 0; number < 3; number++)
                add_sample(&tar, shard * 3 + number, cls[number]);
            snprintf(path, sizeof path, "%s/t-%u.tar", folder, shard);
            tar_write(&tar, below(path));
        }
        struct dataset *dataset = open_text(below(folder));
        assert_int_equal(dataset_count(dataset), 6);
        assert_int_equal(dataset_classes(dataset), cases[i].count);
        assert_string_equal(dataset_class(dataset, 1), cases[i].class_1);
        assert_int_equal(dataset_label(dataset, 5), 2);
        dataset_unref(&dataset);
    }
}

/* Two classes of one name are refused. */
static void test_one_name_twice(void **state)
{
    (void)state;
    struct tar_made tar = {0};
    tar_file(&tar, "__classes__", "cat\nant\ncat\n");
    add_sample(&tar, 0, "1");
    tar_write(&tar, below("s/t-0.tar"));
    assert_refused(below("s/t-0.tar"), LARDER_EINVAL, "two classes are called \"cat\" in its __classes__");
}

/* Of a shard that is cut off or damaged, what stands before that is as ever; one sample says where, and why. */
static void test_damage(void **state)
{
    (void)state;
    /* In an image, in a label, in the header of an image. */
    const off_t sample = TAR_BLOCK_BYTES * 5, cuts[] = {3 * sample + 700, 4 * sample - TAR_BLOCK_BYTES, 3 * sample + 9};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        make_shard("s/t-0.tar", 0);
        assert_int_equal(truncate(below("s/t-0.tar"), cuts[i]), 0);
        struct dataset *dataset = open_text(below("s"));
        uint32_t bad = 3;
        assert_int_equal(dataset_count(dataset), 4 + SHARD_SAMPLES);
        for (uint32_t j = 0; j < dataset_count(dataset); j++) {
            if (j != bad)
                assert_sample(dataset, j, j < bad ? j : SHARD_SAMPLES + j - bad - 1);
        }
        assert_bad(dataset, bad, LARDER_EFORMAT, "t-0.tar");
        assert_bad(dataset, bad, LARDER_EFORMAT, "ends in the middle");
        dataset_unref(&dataset);
    }
}

/* A header that is damaged ends its shard. */
static void test_damaged_header(void **state)
{
    (void)state;
    int fd = open(below("s/t-0.tar"), O_WRONLY);
    assert_int_equal(pwrite(fd, "?", 1, TAR_BLOCK_BYTES * 5 * 4), 1);
    close(fd);
    struct dataset *dataset = open_text(below("s/t-*.tar"));
    assert_int_equal(dataset_count(dataset), 5 + SHARD_SAMPLES);
    assert_string_equal(dataset_key(dataset, 4), "t-0.tar/@10240");
    assert_bad(dataset, 4, LARDER_EFORMAT, "at byte 10240 of the shard: no header");
    assert_sample(dataset, 3, 3);
    assert_sample(dataset, 5, SHARD_SAMPLES);
    dataset_unref(&dataset);
    tree_file("", "%s/s/t-0.tar", root);
    dataset = open_text(below("s/t-*.tar"));
    assert_int_equal(dataset_count(dataset), 1 + SHARD_SAMPLES);
    assert_bad(dataset, 0, LARDER_EFORMAT, "no bytes");
    dataset_unref(&dataset);
}

/* Whatever is done to a shard behind the index's back, no read gives other bytes than were indexed: another file in its
 * place, bytes written over, and what is written over with the old time set. */
static void test_changed(void **state)
{
    struct stat st;
    (void)state;
    for (int how = 0; how < 4; how++) {
        make_shard("s/t-0.tar", 0);
        struct dataset *dataset = open_text(below("s/t-0.tar"));
        assert_int_equal(stat(below("s/t-0.tar"), &st), 0);
        if (how == 0) {
            make_shard("s/other", 100);
            assert_int_equal(rename(below("s/other"), below("s/t-0.tar")), 0);
        } else if (how == 1) {
            assert_int_equal(truncate(below("s/t-0.tar"), TAR_BLOCK_BYTES * 3), 0);
        } else {
            make_shard("s/t-0.tar", 100); /* in place, of the same size or not */
            struct timespec times[2] = {st.st_mtim, st.st_mtim};
            times[1].tv_nsec ^= how == 2 ? 1 : 0;
            assert_int_equal(utimensat(AT_FDCWD, below("s/t-0.tar"), times, 0), 0);
            assert_int_equal(truncate(below("s/t-0.tar"), st.st_size), 0);
            assert_int_equal(utimensat(AT_FDCWD, below("s/t-0.tar"), times, 0), 0);
        }
        for (uint32_t i = 0; i < SHARD_SAMPLES; i++)
            assert_bad(dataset, i, LARDER_ECHANGED, "open the dataset again");
        dataset_unref(&dataset);
        if (how != 1) {
            dataset = open_text(below("s/t-0.tar"));
            assert_sample(dataset, 0, 100);
            dataset_unref(&dataset);
        }
    }
}

/* A chunk is a run of neighbours where labels are mixed, and of single samples where a class lies together, or where
 * samples are said not to be mixed. */
static void test_chunks(void **state)
{
    (void)state;
    for (int mixed = 0; mixed < 3; mixed++) {
        static const char *const texts[] = {"sorted.tar", "mixed.tar", "mixed.tar#mixed=no#labels=cls"};
        struct tar_made tar = {0};
        char cls[8];
        for (unsigned i = 0; i < 640; i++) {
            snprintf(cls, sizeof cls, "%u", mixed ? i * 7 % 40 : i / 16);
            add_sample(&tar, i, cls);
        }
        tar_write(&tar, below(mixed ? "mixed.tar" : "sorted.tar"));
        struct dataset *dataset = open_text(below(texts[mixed]));
        uint32_t count, neighbours = 0;
        for (uint32_t chunk = 0; chunk < dataset_chunk_count(dataset); chunk++) {
            const uint32_t *members = dataset_chunk_members(dataset, chunk, &count);
            assert_int_equal(count, 64);
            for (uint32_t i = 1; i < count; i++)
                neighbours += members[i] == members[i - 1] + 1;
        }
        if (mixed == 1)
            assert_int_equal(neighbours, 63 * 10);
        else
            assert_true(neighbours < 64);
        struct sample_read reads[64];
        static char bytes[64][2048];
        const uint32_t *members = dataset_chunk_members(dataset, 3, &count);
        for (uint32_t i = 0; i < count; i++)
            reads[i] = (struct sample_read){.index = members[count - 1 - i], .buf = bytes[i]};
        assert_int_equal(dataset_read_many(dataset, reads, count, 0), 0);
        for (uint32_t i = 0; i < count; i++)
            assert_memory_equal(bytes[i], image(reads[i].index), strlen(image(reads[i].index)));
        dataset_unref(&dataset);
    }
}

/* A second start takes the checkpoint as long as the shards are as they were, and no others have come. */
static void test_checkpoint(void **state)
{
    char text[PATH_BYTES];
    (void)state;
    snprintf(text, sizeof text, "s/t-*.tar");
    for (int start = 0; start < 4; start++) {
        struct catalog *catalog = catalog_at("checkpoints");
        if (start == 2)
            make_shard("s/t-2.tar", 2 * SHARD_SAMPLES);
        struct dataset *dataset = open_in(catalog, text);
        assert_stats(catalog, start % 2, 1 - start % 2);
        assert_int_equal(dataset_count(dataset), (start < 2 ? 2 : 3) * SHARD_SAMPLES);
        for (uint32_t i = 0; i < dataset_count(dataset); i++) {
            assert_sample(dataset, i, i);
            assert_int_equal(dataset_label(dataset, i), i % 3);
        }
        dataset_unref(&dataset);
        catalog_destroy(catalog);
    }
}

/* Two texts that name one shard share its samples' ids; a rewritten shard's samples are others. */
static void test_ids(void **state)
{
    (void)state;
    struct dataset *one = open_text(below("s/t-1.tar")), *both = open_text(below("s"));
    for (uint32_t i = 0; i < SHARD_SAMPLES; i++) {
        assert_int_equal(dataset_id(one, i), dataset_id(both, SHARD_SAMPLES + i));
        assert_int_not_equal(dataset_id(both, i), dataset_id(both, SHARD_SAMPLES + i));
    }
    make_shard("s/other", SHARD_SAMPLES);
    assert_int_equal(rename(below("s/other"), below("s/t-1.tar")), 0);
    struct dataset *again = open_text(below("s/t-1.tar"));
    for (uint32_t i = 0; i < SHARD_SAMPLES; i++)
        assert_int_not_equal(dataset_id(one, i), dataset_id(again, i));
    uint64_t print_one[2], print_again[2];
    dataset_fingerprint(one, print_one);
    dataset_fingerprint(again, print_again);
    assert_memory_equal(print_one, print_again, sizeof print_one);
    dataset_unref(&one);
    dataset_unref(&both);
    dataset_unref(&again);
}

/* Writes the .idx that DALI would of SHARD_SAMPLES samples from `first` on. */
static void make_idx(const char *name, unsigned first)
{
    FILE *out = fopen(below(name), "w");
    assert_non_null(out);
    fprintf(out, "v1.2 %d\n", SHARD_SAMPLES);
    for (unsigned i = 0; i < SHARD_SAMPLES; i++)
        fprintf(out, "jpg %u %zu k/%04u.jpg cls %u %u k/%04u.cls\n", TAR_BLOCK_BYTES * (5 * i + 1),
                strlen(image(first + i)), first + i, TAR_BLOCK_BYTES * (5 * i + 4), (first + i) % 3 == 1 ? 3 : 1,
                first + i);
    fclose(out);
}

/* With an .idx that fits the samples are the same. One that does not fit is passed over; and one that seems to fit and
 * lies gives no wrong bytes. */
static void test_idx(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 2; wrong++) {
        make_shard("s/t-0.tar", 0);
        make_idx("s/t-0.idx", wrong ? 3 : 0);
        make_idx("s/t-1.idx", SHARD_SAMPLES);
        struct dataset *dataset = open_text(below("s/t-{0..1}.tar"));
        assert_int_equal(dataset_count(dataset), 2 * SHARD_SAMPLES);
        for (uint32_t i = 0; i < dataset_count(dataset); i++) {
            assert_sample(dataset, i, i);
            assert_int_equal(dataset_label(dataset, i), i % 3);
        }
        dataset_unref(&dataset);
    }
    make_idx("s/t-0.idx", 0);
    FILE *idx = fopen(below("s/t-0.idx"), "r+");
    char text[4096] = "";
    size_t len = fread(text, 1, sizeof text - 1, idx);
    char *name = strstr(text, "k/0005.jpg");
    memcpy(name, "k/0055.jpg", 10);
    rewind(idx);
    assert_int_equal(fwrite(text, 1, len, idx), len);
    fclose(idx);
    struct dataset *dataset = open_text(below("s/t-0.tar#labels=none"));
    assert_bad(dataset, 5, LARDER_ECHANGED, ".idx");
    assert_sample(dataset, 6, 6);
    dataset_unref(&dataset);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, catalog_tear_down)
    const struct CMUnitTest tests[] = {TEST(test_texts),   TEST(test_folders),        TEST(test_refusals),
                                       TEST(test_labels),  TEST(test_named_classes),  TEST(test_one_name_twice),
                                       TEST(test_damage),  TEST(test_damaged_header), TEST(test_chunks),
                                       TEST(test_changed), TEST(test_checkpoint),     TEST(test_ids),
                                       TEST(test_idx)};
    return cmocka_run_group_tests_name("tar", tests, NULL, NULL);
}
