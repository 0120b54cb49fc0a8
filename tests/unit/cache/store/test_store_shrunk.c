/* test_store_shrunk.c: proves that a store whose images were shrunk says so, is a dataset of its own for each size and
 * quality, shares no sample with a store of the originals, and is the same whoever packs it and however often that is
 * interrupted. */
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

/* What becomes of a sample: one of three is shrunk, of the others those of an even length cannot be decoded. */
static uint32_t form_of(const struct store_options *options, size_t len_bytes)
{
    if (len_bytes % 3 == 1)
        return STORE_FORM_SHRUNK | (options->restart_rows ? STORE_FORM_RESTART_ROWS : 0);
    return len_bytes % 2 == 0 ? STORE_FORM_UNDECODED : 0;
}

static int fake_shrink(const struct store_options *options, const uint8_t *bytes, size_t len_bytes,
                       struct store_made *made, struct error *err)
{
    made->form = form_of(options, len_bytes);
    if (made->form & STORE_FORM_UNDECODED)
        error_set(&made->why, LARDER_EFORMAT, "it is even");
    if (!(made->form & STORE_FORM_SHRUNK))
        return 0;
    if (options->quality == 13)
        return error_set(err, LARDER_ENOMEM, "no memory");
    made->len_bytes = len_bytes / 2 + 1;
    made->bytes = malloc(made->len_bytes);
    assert_non_null(made->bytes);
    memcpy(made->bytes, bytes, made->len_bytes);
    made->bytes[0] = (uint8_t)(options->max_side ^ options->quality);
    return 0;
}

static struct store_options shrinking(uint32_t max_side, uint32_t quality)
{
    struct store_options options = small_options();
    options.rewrite = fake_shrink;
    options.max_side = max_side;
    options.quality = quality;
    return options;
}

static struct identity fingerprint_of(const char *name)
{
    uint64_t print[2];
    struct dataset *dataset = open_below(name);
    dataset_fingerprint(dataset, print);
    dataset_unref(&dataset);
    return (struct identity){print[0], print[1]};
}

static bool same(struct identity a, struct identity b)
{
    return a.low == b.low && a.high == b.high;
}

/* Each size and each quality is a dataset of its own; seed, chunk size and restart rows change nothing. */
static void test_fingerprint(void **state)
{
    (void)state;
    struct store_options options = small_options();
    pack_well("plain", &options);
    options = shrinking(256, 90);
    pack_well("a", &options);
    options.seed = 9;
    options.chunk_size = 20;
    options.restart_rows = true;
    pack_well("a2", &options);
    options = shrinking(257, 90);
    pack_well("b", &options);
    options = shrinking(256, 91);
    pack_well("c", &options);
    const char *const names[] = {"plain", "a", "b", "c"};
    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < i; j++)
            assert_false(same(fingerprint_of(names[i]), fingerprint_of(names[j])));
    }
    assert_true(same(fingerprint_of("a"), fingerprint_of("a2")));
}

/* The samples are what was made of them, under the source's indices; those of equal bytes are one in two stores with
 * shrunk images, and none is one with a sample of another kind of store. What became of them is counted. */
static void test_samples(void **state)
{
    (void)state;
    static uint8_t original[SAMPLE_BYTES_MAX], got[SAMPLE_BYTES_MAX];
    struct store_options options = small_options();
    pack_well("plain", &options);
    options = shrinking(300, 80);
    options.restart_rows = true;
    pack_well("a", &options);
    options.seed = 7;
    pack_well("b", &options);
    struct dataset *plain = open_below("plain"), *a = open_below("a"), *b = open_below("b");
    uint32_t shrunk = 0, undecoded = 0, index;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        size_t len = dataset_size(source, i);
        struct store_made made = {0};
        assert_int_equal(dataset_read(source, i, original, NULL), 0);
        assert_int_equal(fake_shrink(&options, original, len, &made, NULL), 0);
        assert_int_equal(dataset_size(a, i), made.bytes ? made.len_bytes : len);
        assert_int_equal(dataset_read(a, i, got, NULL), 0);
        assert_memory_equal(got, made.bytes ? made.bytes : original, dataset_size(a, i));
        assert_string_equal(dataset_key(a, i), dataset_key(source, i));
        assert_int_equal(dataset_label(a, i), dataset_label(source, i));
        assert_int_equal(dataset_id(a, i), dataset_id(b, i));
        assert_false(dataset_index(plain, dataset_id(a, i), &index));
        assert_int_equal(store_in(a)->forms[i], form_of(&options, len));
        shrunk += (made.form & STORE_FORM_SHRUNK) != 0;
        undecoded += (made.form & STORE_FORM_UNDECODED) != 0;
        free(made.bytes);
    }
    struct packing packing;
    dataset_packing(a, &packing);
    assert_true(packing.packed && packing.restart_rows && packing.max_side == 300 && packing.quality == 80);
    assert_true(shrunk && packing.samples_shrunk == shrunk && packing.samples_restart_rows == shrunk);
    assert_true(undecoded && packing.samples_undecoded == undecoded);
    dataset_unref(&plain);
    dataset_unref(&a);
    dataset_unref(&b);
}

/* A size that a store cannot say, and one without what shrinks, are refused; so is to pack over another size's store.
 * What fails in shrinking ends the pack, with the sample's name. */
static void test_refused(void **state)
{
    (void)state;
    struct error err;
    static const uint32_t wrong[][2] = {{STORE_SIDE_MAX + 1, 90}, {256, 0}, {256, 101}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct store_options options = shrinking(wrong[i][0], wrong[i][1]);
        assert_int_equal(pack("x", &options, NULL, NULL, &err), LARDER_EINVAL);
    }
    struct store_options options = shrinking(256, 90);
    options.rewrite = NULL;
    assert_int_equal(pack("x", &options, NULL, NULL, &err), LARDER_EINVAL);
    options = shrinking(256, 13);
    assert_int_equal(pack("y", &options, NULL, NULL, &err), LARDER_ENOMEM);
    assert_non_null(strstr(err.text, ".jpg: no memory"));
    options = shrinking(256, 90);
    pack_well("one", &options);
    options.quality = 91;
    assert_int_equal(pack("one", &options, NULL, NULL, &err), LARDER_EINVAL);
    options.quality = 90;
    options.restart_rows = true;
    assert_int_equal(pack("one", &options, NULL, NULL, &err), LARDER_EINVAL);
}

/* An interrupted pack goes on after its finished segments, with any number of threads. Its counts are those of the
 * whole. */
static void test_resume(void **state)
{
    (void)state;
    struct store_options options = shrinking(256, 90);
    struct watch whole = {0}, rest = {0};
    struct error err;
    assert_int_equal(pack("whole", &options, watch_progress, &whole, &err), 0);
    pretend_cut("whole", "s");
    options.threads = 1;
    assert_int_equal(pack("s", &options, watch_progress, &rest, &err), 0);
    assert_true(rest.last.samples_resumed > 0 && rest.last.samples_resumed < SAMPLES);
    assert_int_equal(rest.last.samples_rewritten, whole.last.samples_rewritten);
    assert_int_equal(rest.last.samples_shrunk, whole.last.samples_shrunk);
    assert_int_equal(rest.last.samples_undecoded, whole.last.samples_undecoded);
    assert_int_equal(rest.last.bytes_packed, whole.last.bytes_packed);
    assert_same_files("whole", "s");
}

/* A segment with a whole footer behind data of another length is packed again: its samples, which are longer in the
 * source, are read to where there is room for them. */
static void test_resume_damaged(void **state)
{
    (void)state;
    struct store_options options = shrinking(256, 90);
    struct watch watch = {0};
    struct error err;
    char *bytes;
    pack_well("whole", &options);
    pretend_cut("whole", "s");
    size_t len = load("whole", "segment-00000.larder", &bytes), half = len / 2;
    memmove(bytes + half, bytes + half + 1, len - half - 1);
    save("s", "segment-00000.larder", bytes, len - 1);
    free(bytes);
    options.threads = 1;
    assert_int_equal(pack("s", &options, watch_progress, &watch, &err), 0);
    assert_int_equal(watch.last.bytes_done, watch.last.bytes_total);
    assert_same_files("whole", "s");
}

/* What cannot be is refused. What the index says otherwise than the segments is found by verifying. */
static void test_header(void **state)
{
    (void)state;
    struct store_options options = shrinking(256, 90);
    struct error err;
    char path[PATH_BYTES];
    pack_well("s", &options);
    path_below(path, "s");
    struct packing good = {.packed = true, .max_side = 256, .quality = 90}, wrong = good;
    wrong.max_side = 0;
    assert_int_equal(reseal("s", STORE_VERSION_SHRUNK, 0, wrong), LARDER_EFORMAT);
    wrong.max_side = STORE_SIDE_MAX + 1;
    assert_int_equal(reseal("s", STORE_VERSION_SHRUNK, 0, wrong), LARDER_EFORMAT);
    wrong = good;
    wrong.quality = 0;
    assert_int_equal(reseal("s", STORE_VERSION_SHRUNK, 0, wrong), LARDER_EFORMAT);
    wrong.quality = 101;
    assert_int_equal(reseal("s", STORE_VERSION_SHRUNK, 0, wrong), LARDER_EFORMAT);
    assert_int_equal(reseal("s", STORE_VERSION_SHRUNK, 16, good), LARDER_EFORMAT);
    assert_int_equal(reseal("s", STORE_VERSION_SHRUNK, STORE_FORM_UNDECODED | STORE_FORM_SHRUNK, good), LARDER_EFORMAT);
    assert_int_equal(reseal("s", STORE_VERSION_SHRUNK, STORE_FORM_RESTART_ROWS, good), LARDER_EFORMAT);
    assert_int_equal(store_verify(path, NULL, NULL, NULL, &err), 0);
    struct dataset *store = open_below("s");
    uint32_t other = store_in(store)->forms[1] == STORE_FORM_SHRUNK ? STORE_FORM_UNDECODED : STORE_FORM_SHRUNK;
    dataset_unref(&store);
    assert_int_equal(reseal("s", STORE_VERSION_SHRUNK, other, good), 0);
    assert_int_equal(store_verify(path, NULL, NULL, NULL, &err), LARDER_EFORMAT);
}

/* Verifying says how the store was packed. */
static void test_verify(void **state)
{
    (void)state;
    struct store_options options = shrinking(99, 50);
    struct watch watch = {0};
    struct error err;
    char path[PATH_BYTES];
    pack_well("s", &options);
    path_below(path, "s");
    assert_int_equal(store_verify(path, watch_progress, NULL, &watch, &err), 0);
    assert_int_equal(watch.last.packing.max_side, 99);
    assert_int_equal(watch.last.packing.quality, 50);
    assert_true(watch.last.packing.samples_shrunk > 0 && !watch.last.packing.restart_rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fingerprint, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_samples, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_resume, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_resume_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_header, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_verify, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
