/* test_store.c: proves that a packed store is the same dataset as its source, and that packing goes on after an
 * interruption and touches nothing that is not its own. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/log.h"
#include "common/random.h"
#include "tests/unit/cache/store/store_fixture.h"

static void assert_same_samples(const struct dataset *a, const struct dataset *b)
{
    static char bytes_a[4096], bytes_b[4096];
    uint64_t print_a[2], print_b[2];
    struct error err;
    assert_int_equal(dataset_count(a), dataset_count(b));
    assert_int_equal(dataset_classes(a), dataset_classes(b));
    for (uint32_t i = 0; i < dataset_classes(a); i++)
        assert_string_equal(dataset_class(a, i), dataset_class(b, i));
    for (uint32_t i = 0; i < dataset_count(a); i++) {
        assert_string_equal(dataset_key(a, i), dataset_key(b, i));
        assert_int_equal(dataset_label(a, i), dataset_label(b, i));
        assert_int_equal(dataset_size(a, i), dataset_size(b, i));
        if (dataset_read(a, i, bytes_a, &err) || dataset_read(b, i, bytes_b, &err))
            fail_msg("%s", err.text);
        assert_memory_equal(bytes_a, bytes_b, dataset_size(a, i));
    }
    dataset_fingerprint(a, print_a);
    dataset_fingerprint(b, print_b);
    assert_memory_equal(print_a, print_b, sizeof print_a);
}

/* The store has the source's classes, keys, labels, order, bytes and fingerprint, also when it is packed again. */
static void test_same_dataset(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct store_options options = small_options();
    pack_well("s", &options);
    struct dataset *store = open_below("s");
    assert_same_samples(source, store);
    assert_int_equal(dataset_chunk_size(store), 16);
    assert_int_equal(dataset_chunk_count(store), 25);
    options.chunk_size = 7;
    options.seed = 3;
    path_below(path, "again");
    assert_int_equal(store_pack(store, path, &options, NULL, NULL, NULL), 0);
    struct dataset *again = open_below("again");
    assert_same_samples(source, again);
    dataset_unref(&store);
    dataset_unref(&again);
}

/* A store and its folder have one content, and so have two stores of it, with the same times besides; a store of other
 * samples of the same names and sizes has another. */
static void test_version(void **state)
{
    (void)state;
    static char bytes[SAMPLE_BYTES_MAX + 1];
    struct store_options options = small_options();
    struct dataset_version of_folder, of_store, of_second, of_other;
    pack_well("a", &options);
    options.seed = 99;
    pack_well("b", &options);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        memset(bytes, 'z', dataset_size(source, i));
        bytes[dataset_size(source, i)] = '\0';
        tree_file(bytes, "%s/other/%s", root, dataset_key(source, i));
    }
    char path[PATH_BYTES];
    path_below(path, "c");
    struct dataset *other = open_below("other"), *a = open_below("a"), *b = open_below("b");
    assert_int_equal(store_pack(other, path, &options, NULL, NULL, NULL), 0);
    struct dataset *c = open_below("c");
    uint64_t print_a[2], print_c[2];
    dataset_fingerprint(a, print_a);
    dataset_fingerprint(c, print_c);
    assert_memory_equal(print_a, print_c, sizeof print_a);
    catalog_wait_saved(catalog);
    dataset_version(source, &of_folder);
    dataset_version(a, &of_store);
    dataset_version(b, &of_second);
    dataset_version(c, &of_other);
    assert_memory_equal(of_folder.content, of_store.content, sizeof of_store.content);
    assert_true(dataset_version_has_content(&of_store));
    assert_memory_equal(&of_store, &of_second, sizeof of_store);
    assert_false(dataset_version_same_times(&of_store, &of_other));
    assert_false(dataset_version_agrees(&of_store, &of_other));
    dataset_unref(&a);
    dataset_unref(&b);
    dataset_unref(&c);
    dataset_unref(&other);
}

/* The same content in two stores, and twice in one, is known by its content; in the tree every file is its own. */
static void test_identity(void **state)
{
    (void)state;
    struct store_options options = small_options();
    pack_well("a", &options);
    options.seed = 99;
    options.chunk_size = 64;
    pack_well("b", &options);
    struct dataset *a = open_below("a"), *b = open_below("b");
    unsigned distinct = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint32_t index;
        assert_int_equal(dataset_id(a, i), dataset_id(b, i));
        assert_true(dataset_index(b, dataset_id(a, i), &index));
        assert_int_equal(index, i);
        distinct += !dataset_index(source, dataset_id(a, i), &index);
    }
    assert_int_equal(distinct, SAMPLES);
    tree_file("something else", "%s/u/class/0000.jpg", root);
    char content[4096] = "", path[PATH_BYTES];
    assert_int_equal(dataset_read(source, 7, content, NULL), 0);
    tree_file(content, "%s/u/class/copy.jpg", root);
    path_below(path, "u");
    struct dataset *other = open_below("u");
    path_below(path, "c");
    assert_int_equal(store_pack(other, path, &options, NULL, NULL, NULL), 0);
    struct dataset *c = open_below("c");
    assert_int_equal(dataset_id(c, 1), dataset_id(a, 7));
    dataset_unref(&a);
    dataset_unref(&b);
    dataset_unref(&c);
    dataset_unref(&other);
}

/* A chunk's samples come with their right bytes, whichever are wanted, in whatever order they are asked for. */
static void test_read_many(void **state)
{
    (void)state;
    static char bytes[CHUNK_SAMPLES_MAX][4008], expected[4008];
    static struct sample_read reads[CHUNK_SAMPLES_MAX];
    struct store_options options = small_options();
    pack_well("s", &options);
    struct dataset *store = open_below("s");
    struct rng rng;
    random_seed(&rng, FIXTURE_SEED);
    for (int round = 0; round < 200; round++) {
        uint32_t count = 0, members_count;
        if (round % 10 == 0) { /* any samples of the whole store */
            for (count = 0; count < 300; count++)
                reads[count].index = (uint32_t)random_below(&rng, SAMPLES);
        } else {
            const uint32_t *members = dataset_chunk_members(store, (uint32_t)random_below(&rng, 25), &members_count);
            for (uint32_t i = 0; i < members_count; i++) {
                if (random_below(&rng, 4) || round % 2)
                    reads[count++].index = members[members_count - 1 - i];
            }
        }
        for (uint32_t i = 0; i < count; i++)
            reads[i].buf = bytes[i];
        assert_int_equal(dataset_read_many(store, reads, count, 0), 0);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(dataset_read(source, reads[i].index, expected, NULL), 0);
            assert_memory_equal(bytes[i], expected, dataset_size(source, reads[i].index));
        }
    }
    dataset_unref(&store);
}

/* What is packed depends on source and options, not on the threads; another seed packs another order. */
static void test_threads_do_not_show(void **state)
{
    (void)state;
    struct store_options options = small_options();
    pack_well("three", &options);
    options.threads = 1;
    pack_well("one", &options);
    assert_same_files("three", "one");
    options.seed++;
    pack_well("other", &options);
    struct dataset *one = open_below("one"), *other = open_below("other");
    uint32_t count, same = 0;
    const uint32_t *a = dataset_chunk_members(one, 0, &count), *b = dataset_chunk_members(other, 0, &count);
    for (uint32_t i = 0; i < count; i++)
        same += a[i] == b[i];
    assert_in_range(same, 0, 4);
    dataset_unref(&one);
    dataset_unref(&other);
}

/* A file that cannot be read ends the pack with its name; once it is back, the same call goes on, and the store is the
 * same as one packed without trouble. Until it is finished it is no dataset. */
static void test_resume(void **state)
{
    (void)state;
    char path[PATH_BYTES], moved[PATH_BYTES], key[128];
    struct store_options options = small_options();
    struct watch watch = {0};
    struct error err;
    struct dataset *none = NULL;
    uint32_t count;
    pack_well("whole", &options);
    struct dataset *whole = open_below("whole");
    options.threads = 1;
    snprintf(key, sizeof key, "t/%s", dataset_key(source, dataset_chunk_members(whole, 18, &count)[3]));
    path_below(path, key);
    path_below(moved, "aside");
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(pack("s", &options, NULL, NULL, &err), LARDER_ENOENT);
    assert_non_null(strstr(err.text, strrchr(key, '/')));
    assert_int_equal(rename(moved, path), 0);
    path_below(moved, "s");
    assert_int_equal(catalog_open(catalog, moved, &none, &err), LARDER_EINVAL);
    assert_non_null(strstr(err.text, "interrupted"));
    assert_int_equal(pack("s", &options, watch_progress, &watch, &err), 0);
    assert_in_range(watch.last.samples_resumed, 200, 18 * 16);
    assert_int_equal(watch.last.samples_done, SAMPLES);
    assert_int_equal(watch.last.bytes_done, watch.last.bytes_total);
    assert_same_files("whole", "s");
    assert_int_equal(store_verify(moved, NULL, NULL, NULL, &err), 0);
    dataset_unref(&whole);
}

/* kill -9 at a random moment, over and over: in the end the store is as if nothing had happened. */
static void test_killed(void **state)
{
    (void)state;
    struct store_options options = small_options();
    char path[PATH_BYTES];
    pack_well("whole", &options);
    path_below(path, "s");
    unsigned killed = 0;
    for (double delay_us = 300; delay_us < 3e7; delay_us *= 1.25) {
        pid_t child = fork();
        if (child == 0)
            _exit(store_pack(source, path, &options, NULL, NULL, NULL) ? 1 : 0);
        usleep((useconds_t)delay_us);
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            break;
        }
        killed++;
    }
    print_message("killed %u times\n", killed);
    assert_true(killed > 0);
    pack_well("s", &options);
    assert_same_files("whole", "s");
}

static bool stop_at_once(void *context, const struct store_progress *progress)
{
    (void)context, (void)progress;
    return false;
}

/* The progress function can stop a pack or a verification; a finished store is left as it is. */
static void test_stop(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct store_options options = small_options();
    struct watch watch = {0};
    struct error err;
    path_below(path, "s");
    int code = pack("s", &options, stop_at_once, NULL, &err);
    assert_true(code == LARDER_EGONE || code == 0); /* it may be done before it is asked */
    assert_int_equal(pack("s", &options, watch_progress, &watch, &err), 0);
    assert_int_equal(pack("s", &options, NULL, NULL, &err), 0);
    watch = (struct watch){0};
    assert_int_equal(store_verify(path, watch_progress, NULL, &watch, &err), 0);
    assert_int_equal(watch.last.samples_done, SAMPLES);
    assert_int_equal(watch.last.bytes_done, watch.last.bytes_total);
}

static void assert_pack_refused(const char *name, const struct store_options *options, int code, const char *text)
{
    struct error err = {0};
    assert_int_equal(pack(name, options, NULL, NULL, &err), code);
    if (!strstr(err.text, text))
        fail_msg("'%s' lacks '%s'", err.text, text);
}

/* Nothing but an own unfinished or finished store is written to, and options are checked. */
static void test_refusals(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    struct store_options options = small_options(), wrong = options;
    pack_well("s", &options);
    wrong.seed++;
    assert_pack_refused("s", &wrong, LARDER_EINVAL, "already holds a store of another source");
    tree_file("mine", "%s/full/thesis.tex", root);
    assert_pack_refused("full", &options, LARDER_EINVAL, "not empty");
    assert_pack_refused("t/class0", &options, LARDER_EINVAL, "lies in the source");
    assert_pack_refused("t", &options, LARDER_EINVAL, "lies in the source");
    assert_pack_refused("no/such/parent", &options, LARDER_ENOENT, "make the store's folder");
    tree_file("00000000000000000000000000000000\n", "%s/begun/unfinished.larder", root);
    assert_pack_refused("begun", &options, LARDER_EINVAL, "an unfinished pack of another source");
    wrong = options;
    wrong.chunk_size = 0;
    assert_pack_refused("n", &wrong, LARDER_EINVAL, "chunk size 0");
    wrong.chunk_size = CHUNK_SAMPLES_MAX + 1;
    assert_pack_refused("n", &wrong, LARDER_EINVAL, "1 to 4096");
    wrong = options;
    wrong.segment_bytes = 1;
    assert_pack_refused("n", &wrong, LARDER_EINVAL, "64 KiB");
    wrong = options;
    wrong.threads = 65;
    assert_pack_refused("n", &wrong, LARDER_EINVAL, "at most 64");
    tree_folder("%s/locked", root);
    path_below(path, "locked");
    int fd = open(path, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_pack_refused("locked", &options, LARDER_EBUSY, "another pack");
    close(fd);
}

/* With skip_unreadable a sample that cannot be read keeps its place and label, and says so when it is read. */
static void test_skip_unreadable(void **state)
{
    (void)state;
    char path[PATH_BYTES], bytes[4096];
    struct store_options options = small_options();
    struct watch watch = {0};
    struct error err;
    tree_link("nowhere", "%s/t/class2/dangling.jpg", root);
    dataset_unref(&source);
    source = open_below("t");
    assert_int_equal(pack("s", &options, NULL, NULL, &err), LARDER_ENOENT);
    options.skip_unreadable = true;
    assert_int_equal(pack("s", &options, watch_progress, &watch, &err), 0);
    assert_int_equal(watch.last.samples_skipped, 1);
    struct dataset *store = open_below("s");
    assert_int_equal(dataset_count(store), SAMPLES + 1);
    for (uint32_t i = 0; i <= SAMPLES; i++) {
        bool dangling = strstr(dataset_key(store, i), "dangling") != NULL;
        struct sample_read read = {.index = i, .buf = bytes};
        assert_string_equal(dataset_key(store, i), dataset_key(source, i));
        assert_int_equal(dataset_label(store, i), dataset_label(source, i));
        assert_int_equal(dataset_read(store, i, bytes, &err), dangling ? LARDER_ENOENT : 0);
        assert_int_equal(dataset_read_many(store, &read, 1, 0), dangling);
    }
    path_below(path, "s");
    assert_int_equal(store_verify(path, NULL, NULL, NULL, &err), 0);
    dataset_unref(&store);
}

/* A file that was written to since the pack began can be read: leaving it out would lose a sample, so the pack ends. */
static void test_changed_while_packing(void **state)
{
    (void)state;
    struct store_options options = small_options();
    struct error err;
    options.skip_unreadable = true;
    tree_file("newer", "%s/t/%s", root, dataset_key(source, 9));
    assert_int_equal(pack("s", &options, NULL, NULL, &err), LARDER_ECHANGED);
    assert_non_null(strstr(err.text, dataset_key(source, 9)));
    dataset_unref(&source);
    source = open_below("t");
    assert_int_equal(pack("s2", &options, NULL, NULL, &err), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        TEST(test_same_dataset),
        TEST(test_version),
        TEST(test_identity),
        TEST(test_read_many),
        TEST(test_threads_do_not_show),
        TEST(test_resume),
        TEST(test_killed),
        TEST(test_stop),
        TEST(test_refusals),
        TEST(test_skip_unreadable),
        TEST(test_changed_while_packing),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
