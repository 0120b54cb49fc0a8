/* test_tier: a storage class gives back exactly what was put in, over restarts and kills; whatever happens to its files
 * it opens again, and never gives wrong bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "cache/tier/tier.h"
#include "common/check.h"
#include "common/random.h"
#include "tests/unit/cache/catalog/tree_maker.h"

enum { SAMPLES = 64, ROUNDS = 60 };
#define SIZE (UINT64_C(8) << 20)

static char folder[TREE_NAME_MAX];
static uint64_t seed = 1;

static void remove_files(void)
{
    char path[512];
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    if (dir)
        closedir(dir);
}

static int set_up(void **state)
{
    (void)state;
    tree_new(folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tree_remove(folder);
    return 0;
}

/* ── samples whose bytes follow from their number ── */

static struct tier_key key_of(uint32_t number)
{
    return (struct tier_key){random_mix64(number), number};
}

static uint64_t len_of(uint32_t number)
{
    return 1 + random_mix64(number * UINT64_C(31)) % 30000;
}

static uint8_t *bytes_of(uint32_t number)
{
    uint8_t *bytes = xmalloc(len_of(number));
    uint64_t at = random_mix64(~(uint64_t)number);
    for (uint64_t i = 0; i < len_of(number); i++)
        bytes[i] = (uint8_t)((at = random_mix64(at + 1)) >> 17);
    return bytes;
}

static struct tier *open_class(uint64_t size)
{
    struct tier *tier = NULL;
    struct error err = {0};
    if (tier_open(folder, size, &tier, &err))
        fail_msg("%s", err.text);
    return tier;
}

static uint32_t write_some(struct tier *tier, uint64_t owner, uint32_t first, uint32_t count)
{
    struct tier_record records[SAMPLES];
    assert_true(count <= SAMPLES);
    for (uint32_t i = 0; i < count; i++)
        records[i] = (struct tier_record){key_of(first + i), bytes_of(first + i), len_of(first + i)};
    uint32_t written = tier_write(tier, owner, records, count);
    for (uint32_t i = 0; i < count; i++)
        free((void *)records[i].bytes);
    return written;
}

/* Gives how many of the samples are there; what is there is right. */
static uint32_t check_some(struct tier *tier, uint32_t first, uint32_t count)
{
    struct tier_read reads[SAMPLES];
    assert_true(count <= SAMPLES);
    for (uint32_t i = 0; i < count; i++)
        reads[i] = (struct tier_read){
            .key = key_of(first + i), .bytes = len_of(first + i), .buf = xmalloc(len_of(first + i))};
    uint32_t got = tier_read_many(tier, reads, count), done = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *right = bytes_of(first + i);
        if (reads[i].done)
            assert_memory_equal(reads[i].buf, right, len_of(first + i));
        done += reads[i].done;
        free(right);
        free(reads[i].buf);
    }
    assert_int_equal(got, done);
    return got;
}

static struct tier_stats stats_of(struct tier *tier)
{
    struct tier_stats stats;
    tier_stats(tier, &stats);
    return stats;
}

/* A record that follows the last whole one, half written. */
static void damage(const char *name, uint64_t at, uint8_t flip, bool cut)
{
    char path[512];
    uint8_t byte;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    if (cut) {
        assert_int_equal(ftruncate(fd, (off_t)at), 0);
    } else {
        assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
        byte ^= flip;
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    }
    close(fd);
}

static uint64_t file_bytes(const char *name)
{
    char path[512];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* ── tests ── */

/* What was written is there, once, and still after closing and opening; another size or key is not. */
static void test_keeps(void **state)
{
    (void)state;
    struct tier *tier = open_class(SIZE);
    uint64_t number = tier_seed(tier);
    assert_int_equal(write_some(tier, 7, 0, 40), 40);
    assert_int_equal(write_some(tier, 7, 0, 50), 10);
    assert_int_equal(check_some(tier, 0, 60), 50);
    assert_false(tier_find(tier, key_of(1), len_of(1) + 1));
    assert_int_equal(stats_of(tier).samples, 50);
    tier_close(tier);
    tier = open_class(SIZE);
    assert_int_equal(tier_seed(tier), number);
    assert_int_equal(check_some(tier, 0, 60), 50);
    assert_int_equal(write_some(tier, 7, 50, 10), 10);
    assert_int_equal(check_some(tier, 0, 60), 60);
    tier_close(tier);
}

/* A process that is killed loses at most what it was writing: without an index the records are found again. */
static void test_killed(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 3; round++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            struct tier *tier = open_class(SIZE);
            write_some(tier, 1, round * 20, 20);
            _exit(0); /* nothing is closed or sealed */
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    struct tier *tier = open_class(SIZE);
    assert_int_equal(check_some(tier, 0, 60), 60);
    tier_close(tier);
}

/* Two processes never have one class, the error names the folder; and a folder that is something else is refused and
 * left as it is. */
static void test_refused(void **state)
{
    (void)state;
    struct tier *tier = open_class(SIZE), *other = NULL;
    struct error err;
    assert_int_equal(tier_open(folder, SIZE, &other, &err), LARDER_EBUSY);
    assert_non_null(strstr(err.text, folder));
    assert_int_equal(tier_empty(folder, &err), LARDER_EBUSY);
    tier_close(tier);
    assert_int_equal(tier_empty(folder, &err), 0);
    remove_files();
    char path[TREE_NAME_MAX + 32];
    snprintf(path, sizeof path, "%s/photograph.jpg", folder);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(tier_open(folder, SIZE, &other, &err), LARDER_EINVAL);
    assert_int_equal(tier_empty(folder, &err), LARDER_EINVAL);
    assert_int_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/lock", folder);
    assert_int_not_equal(access(path, F_OK), 0);
    remove_files();
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(tier_open(folder, SIZE, &other, &err), LARDER_EPERM);
    assert_non_null(strstr(err.text, "chmod"));
}

/* ── a class's folder, damaged ── */

static void write_file(const char *name, const void *bytes, size_t len)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void remove_file(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(remove(path), 0);
}

/* What lies in place of a file: nothing, no bytes, zeros, other bytes, a text, a folder, a link, a pipe. */
enum place { GONE, EMPTY, ZEROS, RANDOM, TEXT, FOLDER, LINK, PIPE };

static void replace(const char *name, enum place place)
{
    char path[512], bytes[5000] = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    uint64_t len = file_bytes(name) < sizeof bytes ? file_bytes(name) : sizeof bytes;
    if (place == ZEROS || place == EMPTY) {
        write_file(name, bytes, place == EMPTY ? 0 : len);
    } else if (place == RANDOM) {
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (char)random_mix64(i);
        write_file(name, bytes, sizeof bytes);
    } else if (place == TEXT) {
        write_file(name, "first class\n", 12);
    } else {
        remove_file(name);
    }
    if (place == FOLDER)
        assert_int_equal(mkdir(path, 0700), 0);
    if (place == LINK)
        assert_int_equal(symlink("/etc/passwd", path), 0);
    if (place == PIPE)
        assert_int_equal(mkfifo(path, 0600), 0);
}

static void make_class(void)
{
    char path[512];
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (*entry->d_name != '.')
            (void)remove(path);
    }
    closedir(dir);
    struct tier *tier = open_class(SIZE);
    assert_int_equal(write_some(tier, 1, 0, 40), 40);
    tier_close(tier);
    assert_true(file_bytes("class") > 0 && file_bytes("lock") == file_bytes("class"));
}

/* The class opens, gives `left` of its samples and takes the others; the next time it has them all. */
static void opens_with(uint32_t left)
{
    for (int again = 0; again < 2; again++) {
        struct tier *tier = open_class(SIZE);
        assert_int_equal(check_some(tier, 0, 40), again ? 40 : left);
        assert_int_equal(write_some(tier, 1, 0, 40), again ? 0 : 40 - left);
        tier_close(tier);
    }
}

/* Any byte of `class` may be another, or be lacking with all behind it: the class opens with all samples, by the copy
 * in `lock`. Only where the two have different seeds nobody knows which is right, and it begins anew. */
static void test_class_bytes(void **state)
{
    (void)state;
    make_class();
    uint64_t bytes = file_bytes("class");
    uint32_t anew = 0;
    for (uint64_t at = 0; at < bytes + bytes / 8; at += 3) {
        if (at < bytes)
            damage("class", at, (uint8_t)(at % 4 ? 1 : 0x80), false);
        else
            damage("class", (at - bytes) * 8, 0, true);
        struct tier *tier = open_class(SIZE);
        uint32_t written = write_some(tier, 1, 0, 40);
        assert_true(written == 0 || written == 40);
        anew += written == 40;
        assert_int_equal(check_some(tier, 0, 40), 40);
        tier_close(tier);
    }
    assert_in_range(anew, 1, 6); /* of 16 digits */
}

/* Whatever lies in place of `class`, with a copy or without (as an earlier release left it), the class opens: with its
 * samples where the copy is, empty where nothing says what its seed was. A file of others beside it stays. */
static void test_class_replaced(void **state)
{
    (void)state;
    for (enum place place = GONE; place <= TEXT; place++) {
        make_class();
        replace("class", place);
        opens_with(40);
        make_class();
        replace("class", place);
        replace("lock", EMPTY);
        write_file("notes.txt", "mine", 4);
        opens_with(0);
        assert_int_equal(file_bytes("notes.txt"), 4);
        make_class();
        replace("class", place);
        remove_file("lock");
        opens_with(0);
    }
    make_class(); /* nothing but zeros, as after a power cut */
    replace("class", ZEROS);
    replace("lock", ZEROS);
    replace("segment-00000000", ZEROS);
    replace("index-00000000", ZEROS);
    opens_with(0);
    for (enum place place = FOLDER; place <= LINK; place++) {
        struct tier *tier;
        struct error err;
        make_class();
        replace("class", place);
        assert_int_equal(tier_open(folder, SIZE, &tier, &err), LARDER_EIO);
    }
    make_class();
    replace("class", PIPE);
    opens_with(40);
}

/* Whatever lies in place of a segment or of an index, the class opens with what the rest gives. */
static void test_files_replaced(void **state)
{
    (void)state;
    for (enum place place = GONE; place <= PIPE; place++) {
        make_class();
        replace("segment-00000000", place);
        opens_with(0);
        make_class();
        replace("index-00000000", place);
        opens_with(40);
    }
}

/* More segments than a class has, and one with the last number, cost no descriptors and no samples. */
static void test_too_many_segments(void **state)
{
    (void)state;
    char name[32];
    make_class();
    for (unsigned number = 1; number < 600; number++) {
        snprintf(name, sizeof name, "segment-%08x", number + 0x10);
        write_file(name, "x", 1);
    }
    write_file("segment-fffffffe", "x", 1);
    struct tier *tier = open_class(SIZE);
    assert_int_equal(stats_of(tier).segments, 0); /* the oldest went, the others hold nothing */
    assert_int_equal(write_some(tier, 1, 0, 40), 40);
    tier_close(tier);
    opens_with(40);
}

/* A class of another version is left as it is. A folder of somebody else's is, too, whatever its files are called. */
static void test_left_alone(void **state)
{
    (void)state;
    static const char other[] = "larder storage class\nversion 2\nseed 0000000000000001\nsize 8388608\n";
    struct tier *tier;
    struct error err;
    make_class();
    write_file("class", other, sizeof other - 1);
    write_file("lock", other, sizeof other - 1);
    uint64_t segment = file_bytes("segment-00000000");
    assert_int_equal(tier_open(folder, SIZE, &tier, &err), LARDER_EVERSION);
    assert_int_equal(file_bytes("segment-00000000"), segment);
    make_class();
    replace("class", TEXT);
    replace("lock", EMPTY);
    replace("segment-00000000", TEXT);
    write_file("photograph.jpg", "mine", 4);
    assert_int_equal(tier_open(folder, SIZE, &tier, &err), LARDER_EINVAL);
    assert_true(file_bytes("class") == 12 && file_bytes("segment-00000000") == 12);
    make_class();
    replace("class", TEXT);
    remove_file("lock");
    remove_file("segment-00000000");
    remove_file("index-00000000");
    assert_int_equal(tier_open(folder, SIZE, &tier, &err), LARDER_EINVAL);
    assert_true(file_bytes("class") == 12);
}

/* A full class takes nothing more, as long as all that it has is wanted. What is not wanted gives place, by whole
 * segments; and a class that is made smaller keeps within its new size. */
static void test_full(void **state)
{
    (void)state;
    struct tier *tier = open_class(TIER_SIZE_MIN * 2);
    tier_want(tier, (uint64_t[]){1}, 1);
    uint32_t number = 0;
    while (stats_of(tier).state == TIER_FILLING) {
        write_some(tier, 1, number, 10);
        number += 10;
    }
    uint64_t before = stats_of(tier).samples;
    assert_true(before > 60);
    assert_int_equal(stats_of(tier).state, TIER_FULL);
    assert_int_equal(write_some(tier, 2, 10000, 20), 0);
    assert_int_equal(stats_of(tier).samples, before);
    tier_want(tier, (uint64_t[]){2}, 1);
    assert_int_equal(stats_of(tier).state, TIER_FILLING);
    assert_int_equal(write_some(tier, 2, 10000, 20), 20);
    assert_int_equal(check_some(tier, 10000, 20), 20);
    assert_true(stats_of(tier).given_up > 0);
    assert_true(stats_of(tier).samples > 20);
    assert_true(stats_of(tier).used_bytes <= TIER_SIZE_MIN * 2);
    tier_close(tier);
    tier = open_class(TIER_SIZE_MIN);
    assert_true(stats_of(tier).used_bytes <= TIER_SIZE_MIN);
    assert_int_equal(check_some(tier, 10000, 20), 20);
    tier_close(tier);
}

/* A damaged record is dropped and counted, its neighbours come, and it can be written anew. */
static void test_corrupt(void **state)
{
    (void)state;
    struct tier *tier = open_class(SIZE);
    assert_int_equal(write_some(tier, 1, 0, 20), 20);
    uint64_t at = 0;
    for (uint32_t i = 0; i < 7; i++)
        at += 56 + len_of(i);
    damage("segment-00000000", at + 56, 0x10, false);
    assert_int_equal(check_some(tier, 0, 20), 19);
    assert_int_equal(stats_of(tier).corrupt, 1);
    assert_false(tier_find(tier, key_of(7), len_of(7)));
    assert_int_equal(write_some(tier, 1, 0, 20), 1);
    assert_int_equal(check_some(tier, 0, 20), 20);
    tier_close(tier);
}

/* What is cut off a segment under the class's hands costs the samples that lay there. */
static void test_cut(void **state)
{
    (void)state;
    struct tier *tier = open_class(SIZE);
    assert_int_equal(write_some(tier, 1, 0, 20), 20);
    damage("segment-00000000", file_bytes("segment-00000000") / 2, 0, true);
    uint32_t left = check_some(tier, 0, 20);
    assert_true(left > 0 && left < 20);
    assert_int_equal(stats_of(tier).corrupt, 20 - left);
    assert_int_equal(stats_of(tier).state, TIER_FILLING);
    tier_close(tier);
}

/* Whatever happens to the class's files, it opens, gives nothing wrong, and takes new samples. */
static void test_damaged(void **state)
{
    (void)state;
    static const char *const names[] = {"segment-00000000", "index-00000000", "segment-00000001", "index-00000001"};
    struct rng rng;
    random_seed(&rng, seed);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        remove_files();
        struct tier *tier = open_class(TIER_SIZE_MIN * 2);
        write_some(tier, 1, 0, 60);
        tier_close(tier);
        for (uint32_t i = 0; i < 3; i++) {
            const char *name = names[random_below(&rng, 4)];
            uint64_t bytes = file_bytes(name);
            if (bytes)
                damage(name, random_below(&rng, bytes), (uint8_t)(1 + random_below(&rng, 255)),
                       random_below(&rng, 4) == 0);
        }
        tier = open_class(TIER_SIZE_MIN * 2);
        check_some(tier, 0, 60);
        write_some(tier, 1, 0, 60);
        assert_int_equal(check_some(tier, 0, 60), 60);
        tier_close(tier);
    }
}

/* Many datasets that write by turns do not make many segments, each of which has a descriptor. */
static void test_many_owners(void **state)
{
    (void)state;
    struct tier *tier = open_class(64 * SIZE);
    for (uint32_t number = 0; number < 400; number++)
        assert_int_equal(write_some(tier, 1 + number % 20, number, 1), 1);
    assert_true(stats_of(tier).segments <= 8);
    assert_int_equal(check_some(tier, 0, SAMPLES), SAMPLES);
    tier_close(tier);
}

static void count_problem(void *ctx, const char *file, const char *what)
{
    assert_true(*file && *what);
    ++*(uint32_t *)ctx;
}

/* The view from outside says what is there, that it is in use, and what is broken; emptying leaves a class. */
static void test_view(void **state)
{
    (void)state;
    struct tier_view view;
    struct error err;
    uint32_t problems = 0;
    struct tier_viewer viewer = {.verify = true, .problem = count_problem, .ctx = &problems};
    assert_int_equal(tier_view_read(folder, &viewer, &view, &err), LARDER_EINVAL);
    struct tier *tier = open_class(SIZE);
    write_some(tier, 1, 0, 20);
    assert_int_equal(tier_view_read(folder, &viewer, &view, &err), 0);
    assert_true(view.in_use && view.samples == 20 && view.sealed_segments == 0 && view.segments == 1);
    tier_close(tier);
    assert_int_equal(tier_view_read(folder, &viewer, &view, &err), 0);
    assert_true(!view.in_use && view.sealed_segments == 1 && view.broken == 0 && view.size_bytes == SIZE);
    assert_int_equal(problems, 0);
    damage("segment-00000000", 60, 1, false);
    assert_int_equal(tier_view_read(folder, &viewer, &view, &err), 0);
    assert_true(view.broken == 1 && problems == 1);
    assert_int_equal(tier_empty(folder, &err), 0);
    assert_int_equal(tier_view_read(folder, &viewer, &view, &err), 0);
    assert_true(view.samples == 0 && view.used_bytes == 0);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--seed") == 0)
        seed = strtoull(argv[2], NULL, 10);
    printf("seed %llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_keeps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_killed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_class_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_class_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_many_segments, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_corrupt, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_owners, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_view, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
