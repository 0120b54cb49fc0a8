/* test_store_verify.c: proves that verifying names every kind of damage to a store, and that
 * reading never gives damaged bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/log.h"
#include "common/random.h"
#include "tests/unit/cache/store/store_fixture.h"

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
    random_seed(&rng, FIXTURE_SEED);
    for (unsigned i = 0; i < count; i++) {
        char *bytes;
        size_t len = load("s", names[i], &bytes);
        for (int j = 0; j < 24; j++) {
            size_t at = j < 10   ? (size_t)j * 5
                        : j < 14 ? len - 1 - (size_t)(j - 10) * 20
                                 : (size_t)random_below(&rng, len);
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
    assert_int_equal(dataset_read_many(store, reads, count, 0), 1);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(reads[i].err.code, i == bad ? LARDER_EFORMAT : 0);
    assert_non_null(strstr(reads[bad].err.text, "segment-00000.larder"));
    assert_non_null(strstr(reads[bad].err.text, dataset_key(store, members[bad])));
    save("s", "segment-00000.larder", segment, (size_t)offset + 60);
    assert_int_equal(dataset_read_many(store, reads, count, 0), count - bad);
    char path[PATH_BYTES];
    path_below(path, "s/segment-00000.larder");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(dataset_read_many(store, reads, count, 0), count);
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
    for (uint32_t i = 0; i < SAMPLES; i++)
        assert_int_equal(dataset_id(store, i), dataset_id(fresh, i));
    dataset_unref(&store);
    dataset_unref(&same);
    dataset_unref(&fresh);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {TEST(test_verify_flips), TEST(test_verify_foreign), TEST(test_read_damaged)};
    return cmocka_run_group_tests_name("store_verify", tests, NULL, NULL);
}
