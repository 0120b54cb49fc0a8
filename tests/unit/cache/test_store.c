/* test_store.c: proves that a packed store is the same dataset as its source, that packing goes on after an interruption
 * and touches nothing that is not its own, and that verifying names every kind of damage. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
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

#include "cache/store.h"
#include "common/log.h"
#include "common/random.h"
#include "tests/unit/cache/tree_maker.h"

#define PATH_BYTES (TREE_NAME_MAX + 300)
#define SAMPLES 400
#define SEED 11

static char root[TREE_NAME_MAX];
static struct catalog *catalog;
static struct dataset *source;

static void path_below(char path[PATH_BYTES], const char *name)
{
    snprintf(path, PATH_BYTES, "%s/%s", root, name);
}

static struct dataset *open_below(const char *name)
{
    char path[PATH_BYTES];
    struct error err;
    struct dataset *dataset;
    path_below(path, name);
    if (catalog_open(catalog, path, &dataset, &err))
        fail_msg("%s", err.text);
    return dataset;
}

/* Four hundred samples of 0 to 4,000 bytes in five classes; every hundredth has the content of the one before. */
static void make_source(void)
{
    char content[4001];
    struct rng rng;
    random_seed(&rng, SEED);
    for (int i = 0; i < SAMPLES; i++) {
        size_t len = (size_t)random_below(&rng, sizeof content);
        for (size_t j = 0; i % 100 != 1 && j < len; j++)
            content[j] = (char)(' ' + random_below(&rng, 90));
        if (i % 100 != 1)
            content[len] = '\0';
        tree_file(content, "%s/t/class%d/%04d.jpg", root, i % 5, i);
    }
    tree_age(root);
}

static int set_up(void **state)
{
    (void)state;
    char path[PATH_BYTES];
    tree_new(root);
    make_source();
    path_below(path, "t");
    return catalog_create(NULL, &catalog, NULL) || catalog_open(catalog, path, &source, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    dataset_unref(&source);
    catalog_destroy(catalog);
    tree_remove(root);
    return 0;
}

static struct store_options small_options(void)
{
    struct store_options options;
    store_options_default(&options);
    options.chunk_size = 16;
    options.segment_bytes = STORE_SEGMENT_MIN;
    options.threads = 3;
    return options;
}

static int pack(const char *name, const struct store_options *options, store_progress_fn *progress, void *context, struct error *err)
{
    char path[PATH_BYTES];
    path_below(path, name);
    return store_pack(source, path, options, progress, context, err);
}

static void pack_well(const char *name, const struct store_options *options)
{
    struct error err;
    if (pack(name, options, NULL, NULL, &err))
        fail_msg("%s", err.text);
}

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
    random_seed(&rng, SEED);
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
        assert_int_equal(dataset_read_many(store, reads, count), 0);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(dataset_read(source, reads[i].index, expected, NULL), 0);
            assert_memory_equal(bytes[i], expected, dataset_size(source, reads[i].index));
        }
    }
    dataset_unref(&store);
}

static unsigned list_folder(const char *name, char names[64][NAME_MAX + 1])
{
    char path[PATH_BYTES];
    unsigned count = 0;
    path_below(path, name);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] != '.' && count < 64)
            strcpy(names[count++], entry->d_name);
    }
    closedir(dir);
    return count;
}

static size_t load(const char *folder, const char *name, char **bytes)
{
    char path[PATH_BYTES + NAME_MAX];
    snprintf(path, sizeof path, "%s/%s/%s", root, folder, name);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    *bytes = malloc(1 << 20);
    assert_non_null(*bytes);
    size_t len = fread(*bytes, 1, 1 << 20, in);
    assert_in_range(len, 1, (1 << 20) - 1);
    fclose(in);
    return len;
}

static void save(const char *folder, const char *name, const char *bytes, size_t len)
{
    char path[PATH_BYTES + NAME_MAX];
    snprintf(path, sizeof path, "%s/%s/%s", root, folder, name);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, len, out), len);
    assert_int_equal(fclose(out), 0);
}

/* Two stores are the same to the byte. */
static void assert_same_files(const char *a, const char *b)
{
    static char names[64][NAME_MAX + 1], others[64][NAME_MAX + 1];
    unsigned count = list_folder(a, names);
    assert_in_range(count, 10, 63);
    assert_int_equal(list_folder(b, others), count);
    for (unsigned i = 0; i < count; i++) {
        char *left, *right;
        size_t left_len = load(a, names[i], &left), right_len = load(b, names[i], &right);
        assert_int_equal(left_len, right_len);
        assert_memory_equal(left, right, left_len);
        free(left);
        free(right);
    }
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

struct watch {
    struct store_progress last;
    unsigned calls;
    uint64_t stop_after; /* samples; 0: never */
};

static bool watch_progress(void *context, const struct store_progress *progress)
{
    struct watch *watch = context;
    assert_true(progress->samples_done >= watch->last.samples_done && progress->samples_done <= progress->samples_total);
    assert_true(progress->bytes_done >= watch->last.bytes_done && progress->bytes_done <= progress->bytes_total);
    watch->last = *progress;
    watch->calls++;
    return !watch->stop_after || progress->samples_done < watch->stop_after;
}

/* A file that cannot be read ends the pack with its name; once it is back, the same call goes on, and the store is the same
 * as one packed without trouble. Until it is finished it is no dataset. */
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
        assert_int_equal(dataset_read_many(store, &read, 1), dangling);
    }
    path_below(path, "s");
    assert_int_equal(store_verify(path, NULL, NULL, NULL, &err), 0);
    dataset_unref(&store);
}

/* ── verifying ── */

struct found {
    unsigned count;
    char file[64], what[600];
};

static void note_problem(void *context, const char *file, const char *what)
{
    struct found *found = context;
    found->count++;
    snprintf(found->file, sizeof found->file, "%s", file);
    snprintf(found->what, sizeof found->what, "%s", what);
}

static struct found verify(const char *name, int expected)
{
    char path[PATH_BYTES];
    struct found found = {0};
    struct error err;
    path_below(path, name);
    assert_int_equal(store_verify(path, NULL, note_problem, &found, &err), expected);
    return found;
}

/* One flipped bit anywhere, in any file, is found and its file named; so is each missing, shortened or grown file. */
static void test_verify_flips(void **state)
{
    (void)state;
    static char names[64][NAME_MAX + 1];
    struct store_options options = small_options();
    pack_well("s", &options);
    assert_int_equal(verify("s", 0).count, 0);
    unsigned count = list_folder("s", names);
    struct rng rng;
    random_seed(&rng, SEED);
    for (unsigned i = 0; i < count; i++) {
        char *bytes;
        size_t len = load("s", names[i], &bytes);
        for (int j = 0; j < 24; j++) {
            size_t at = j < 10 ? (size_t)j * 5 : j < 14 ? len - 1 - (size_t)(j - 10) * 20 : (size_t)random_below(&rng, len);
            char flip = (char)(1 << random_below(&rng, 8));
            bytes[at] ^= flip;
            save("s", names[i], bytes, len);
            bytes[at] ^= flip;
            char path[PATH_BYTES];
            struct found found = {0};
            path_below(path, "s");
            if (store_verify(path, NULL, note_problem, &found, NULL) == 0)
                fail_msg("a flip at %zu of %s was not found", at, names[i]);
            if (found.count) /* an index of another version is an error of its own */
                assert_string_equal(found.file, names[i]);
        }
        save("s", names[i], bytes, len - 1);
        assert_string_equal(verify("s", LARDER_EFORMAT).file, names[i]);
        save("s", names[i], bytes, 7);
        assert_string_equal(verify("s", LARDER_EFORMAT).file, names[i]);
        bytes[len] = 0;
        save("s", names[i], bytes, len + 1);
        assert_string_equal(verify("s", LARDER_EFORMAT).file, names[i]);
        save("s", names[i], bytes, len);
        free(bytes);
    }
    assert_int_equal(verify("s", 0).count, 0);
}

/* A missing segment, one of another store, two that changed places, and a file that has no business there are named. */
static void test_verify_foreign(void **state)
{
    (void)state;
    struct store_options options = small_options();
    char *bytes, *other;
    pack_well("s", &options);
    options.seed++;
    pack_well("o", &options);
    size_t len = load("s", "segment-00003.larder", &bytes);
    size_t other_len = load("o", "segment-00003.larder", &other);
    save("s", "segment-00003.larder", other, other_len);
    struct found found = verify("s", LARDER_EFORMAT);
    assert_string_equal(found.file, "segment-00003.larder");
    free(other);
    other_len = load("s", "segment-00004.larder", &other);
    save("s", "segment-00003.larder", other, other_len);
    assert_string_equal(verify("s", LARDER_EFORMAT).file, "segment-00003.larder");
    save("s", "segment-00003.larder", bytes, len);
    save("s", "segment-99999.larder", bytes, len);
    found = verify("s", LARDER_EFORMAT);
    assert_string_equal(found.file, "segment-99999.larder");
    assert_string_equal(found.what, "does not belong to this store");
    char path[PATH_BYTES];
    path_below(path, "s/segment-99999.larder");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(verify("s", 0).count, 0);
    path_below(path, "s/segment-00003.larder");
    assert_int_equal(unlink(path), 0);
    found = verify("s", LARDER_EFORMAT);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.file, "segment-00003.larder");
    free(bytes);
    free(other);
}

/* Damage costs the samples it lies on: they fail with the file's name, the others come. A replaced index is noticed. */
static void test_read_damaged(void **state)
{
    (void)state;
    static char bytes[16][4008];
    struct sample_read reads[16];
    struct store_options options = small_options();
    char *segment;
    uint32_t count, bad = 0;
    pack_well("s", &options);
    struct dataset *store = open_below("s");
    const uint32_t *members = dataset_chunk_members(store, 0, &count);
    size_t len = load("s", "segment-00000.larder", &segment);
    uint64_t offset = 4096;
    while (dataset_size(store, members[bad]) < 100)
        offset += dataset_size(store, members[bad++]);
    segment[offset + 50] ^= 1;
    save("s", "segment-00000.larder", segment, len);
    for (uint32_t i = 0; i < count; i++)
        reads[i] = (struct sample_read){.index = members[i], .buf = bytes[i]};
    assert_int_equal(dataset_read_many(store, reads, count), 1);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(reads[i].err.code, i == bad ? LARDER_EFORMAT : 0);
    assert_non_null(strstr(reads[bad].err.text, "segment-00000.larder"));
    assert_non_null(strstr(reads[bad].err.text, dataset_key(store, members[bad])));
    save("s", "segment-00000.larder", segment, (size_t)offset + 60);
    assert_int_equal(dataset_read_many(store, reads, count), count - bad);
    char path[PATH_BYTES];
    path_below(path, "s/segment-00000.larder");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(dataset_read_many(store, reads, count), count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(reads[i].err.code, LARDER_ENOENT);
    free(segment);
    struct dataset *same = open_below("s");
    assert_ptr_equal(store, same);
    size_t index_len = load("s", "index.larder", &segment);
    path_below(path, "s/index.larder");
    assert_int_equal(unlink(path), 0);
    save("s", "other", "x", 1);
    save("s", "index.larder", segment, index_len);
    free(segment);
    struct dataset *fresh = open_below("s");
    assert_ptr_not_equal(store, fresh);
    assert_memory_equal(dataset_ids(store), dataset_ids(fresh), SAMPLES * sizeof(sample_id));
    dataset_unref(&store);
    dataset_unref(&same);
    dataset_unref(&fresh);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        TEST(test_same_dataset), TEST(test_identity), TEST(test_read_many),     TEST(test_threads_do_not_show),
        TEST(test_resume),       TEST(test_killed),   TEST(test_stop),          TEST(test_refusals),
        TEST(test_skip_unreadable), TEST(test_verify_flips), TEST(test_verify_foreign), TEST(test_read_damaged),
    };
    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
