/* test_store_rewritten.c: proves that a store whose samples were rewritten has the source's fingerprint and the
 * rewritten bytes, that these are checked, and that threads and interruptions do not show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/store/store.h"
#include "tests/unit/cache/store/store_fixture.h"

/* Samples of a length that three divides stay; the others are doubled or lose half. */
static uint8_t *fake(const uint8_t *bytes, size_t len_bytes, size_t *new_bytes)
{
    if (len_bytes % 3 == 0)
        return NULL;
    size_t len = len_bytes % 3 == 1 ? len_bytes * 2 : len_bytes / 2;
    uint8_t *made = malloc(len + 1);
    assert_non_null(made);
    for (size_t i = 0; i < len; i++)
        made[i] = (uint8_t)~bytes[i % len_bytes];
    *new_bytes = len;
    return made;
}

static int fake_rewrite(const struct store_options *options, const uint8_t *bytes, size_t len_bytes,
                        struct store_made *made, struct error *err)
{
    (void)options, (void)err;
    made->bytes = fake(bytes, len_bytes, &made->len_bytes);
    return 0;
}

static struct store_options rewriting(void)
{
    struct store_options options = small_options();
    options.rewrite = fake_rewrite;
    return options;
}

/* The samples are the rewritten bytes under the source's indices and fingerprint, and the version has the source's
 * content. None of them is taken for a sample of a store that holds the originals, and those of two rewritten stores
 * are the same. */
static void test_samples(void **state)
{
    (void)state;
    static uint8_t original[SAMPLE_BYTES_MAX], expected[2 * SAMPLE_BYTES_MAX], got[2 * SAMPLE_BYTES_MAX];
    struct store_options options = small_options();
    pack_well("plain", &options);
    options = rewriting();
    pack_well("a", &options);
    options.seed = 5;
    options.chunk_size = 9;
    pack_well("b", &options);
    struct dataset *plain = open_below("plain"), *a = open_below("a"), *b = open_below("b");
    uint64_t print_source[2], print_store[2];
    uint32_t rewritten = 0;
    dataset_fingerprint(source, print_source);
    dataset_fingerprint(a, print_store);
    assert_memory_equal(print_source, print_store, sizeof print_source);
    struct dataset_version of_source, of_store;
    catalog_wait_saved(catalog);
    dataset_version(source, &of_source);
    dataset_version(a, &of_store);
    assert_true(dataset_version_has_content(&of_source));
    assert_memory_equal(of_source.content, of_store.content, sizeof of_source.content);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint32_t index;
        size_t len = dataset_size(source, i);
        assert_int_equal(dataset_read(source, i, original, NULL), 0);
        uint8_t *made = fake(original, len, &len);
        memcpy(expected, made ? made : original, len);
        rewritten += made != NULL;
        free(made);
        assert_int_equal(dataset_size(a, i), len);
        assert_int_equal(dataset_read(a, i, got, NULL), 0);
        assert_memory_equal(got, expected, len);
        assert_int_equal(dataset_read(b, i, got, NULL), 0);
        assert_memory_equal(got, expected, len);
        assert_string_equal(dataset_key(a, i), dataset_key(source, i));
        assert_int_equal(dataset_label(a, i), dataset_label(source, i));
        assert_int_equal(dataset_id(a, i), dataset_id(b, i));
        assert_false(dataset_index(plain, dataset_id(a, i), &index));
        struct identity hash = store_in(plain)->hashes[i], same = store_in(a)->hashes[i];
        assert_memory_equal(&hash, &same, sizeof hash);
    }
    struct packing packing;
    dataset_packing(a, &packing);
    assert_true(packing.packed && packing.restart_rows && !packing.max_side && !packing.samples_shrunk);
    assert_int_equal(packing.samples_restart_rows, rewritten);
    dataset_packing(plain, &packing);
    assert_true(packing.packed && !packing.restart_rows && !packing.samples_restart_rows);
    dataset_packing(source, &packing);
    assert_false(packing.packed || packing.restart_rows);
    dataset_unref(&plain);
    dataset_unref(&a);
    dataset_unref(&b);
}

/* Without rewriting the version is 1, as ever; with it 2. Neither pack goes over the other's store. */
static void test_versions(void **state)
{
    (void)state;
    struct error err;
    struct store_options plain = small_options(), rewritten = rewriting();
    pack_well("one", &plain);
    pack_well("two", &rewritten);
    for (unsigned version = 1; version <= 2; version++) {
        char *bytes;
        size_t len = load(version == 1 ? "one" : "two", STORE_INDEX_NAME, &bytes);
        assert_true(len > 12 && (unsigned)bytes[8] == version);
        free(bytes);
    }
    assert_int_equal(pack("one", &rewritten, NULL, NULL, &err), LARDER_EINVAL);
    assert_int_equal(pack("two", &plain, NULL, NULL, &err), LARDER_EINVAL);
}

static void test_threads_do_not_show(void **state)
{
    (void)state;
    struct store_options options = rewriting();
    options.threads = 5;
    pack_well("five", &options);
    options.threads = 1;
    pack_well("one", &options);
    assert_same_files("five", "one");
}

static bool stop_soon(void *context, const struct store_progress *progress)
{
    (void)context;
    return progress->samples_done < 100;
}

/* An interrupted pack goes on after its finished segments, and a segment whose length is not what its footer says is
 * packed again. */
static void test_resume(void **state)
{
    (void)state;
    struct store_options options = rewriting();
    struct watch watch = {0};
    struct error err;
    char path[PATH_BYTES];
    pack_well("whole", &options);
    int code = pack("s", &options, stop_soon, NULL, &err);
    assert_true(code == 0 || code == LARDER_EGONE);
    path_below(path, "s/" STORE_INDEX_NAME);
    remove(path);
    pretend_cut("whole", "s");
    assert_int_equal(pack("s", &options, watch_progress, &watch, &err), 0);
    assert_true(watch.last.samples_resumed > 0 && watch.last.samples_resumed < SAMPLES);
    assert_int_equal(watch.last.samples_done, SAMPLES);
    assert_int_equal(watch.last.bytes_done, watch.last.bytes_total);
    assert_same_files("whole", "s");
}

/* Damage of stored bytes is found on reading and by store_verify. */
static void test_damage(void **state)
{
    (void)state;
    static uint8_t got[2 * SAMPLE_BYTES_MAX];
    struct store_options options = rewriting();
    struct error err;
    char path[PATH_BYTES], *bytes;
    pack_well("s", &options);
    path_below(path, "s");
    assert_int_equal(store_verify(path, NULL, NULL, NULL, &err), 0);
    struct dataset *store = open_below("s");
    uint32_t count, index = dataset_chunk_members(store, 0, &count)[0];
    for (uint32_t i = 0; dataset_size(store, index) == 0; i++)
        index = dataset_chunk_members(store, 0, &count)[i];
    size_t len = load("s", "segment-00000.larder", &bytes);
    bytes[store_in(store)->offsets[index]] ^= 4;
    save("s", "segment-00000.larder", bytes, len);
    free(bytes);
    assert_int_equal(dataset_read(store, index, got, &err), LARDER_EFORMAT);
    assert_int_equal(store_verify(path, NULL, NULL, NULL, &err), LARDER_EFORMAT);
    dataset_unref(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_samples, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_versions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_threads_do_not_show, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_resume, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
