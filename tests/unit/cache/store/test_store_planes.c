/* test_store_planes.c: proves that a store with planes says so, has the fingerprint that it would have without them,
 * shares no sample with another kind of store, goes on when it was interrupted, and is never copied to a store whose
 * version knows no planes. Its planes here are made up: a mark before bytes that have a mark of restart rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/store/store.h"
#include "tests/unit/cache/store/store_fixture.h"

#define MARK 4
#define MADE_MAX (SAMPLE_BYTES_MAX + 2 * MARK)

static bool begins(const uint8_t *bytes, size_t len_bytes, const char mark[MARK])
{
    return len_bytes >= MARK && memcmp(bytes, mark, MARK) == 0;
}

static void make(struct store_made *made, const char *mark, const uint8_t *bytes, size_t len_bytes)
{
    size_t before = strlen(mark);
    made->len_bytes = before + len_bytes;
    made->bytes = malloc(made->len_bytes);
    assert_non_null(made->bytes);
    memcpy(made->bytes, mark, before);
    memcpy(made->bytes + before, bytes, len_bytes);
}

/* Every third sample stays, the next one gets restart rows, and the next planes, where they are asked for. What is in
 * planes stays so, or gets restart rows; with damage it is neither. Of an odd number of bytes the images are large. */
static int fake(const struct store_options *options, const uint8_t *bytes, size_t len_bytes, struct store_made *made,
                struct error *err)
{
    (void)err;
    bool shrunk = options->max_side && len_bytes % 2;
    if (begins(bytes, len_bytes, "PLNS") && !begins(bytes + MARK, len_bytes - MARK, "ROWS")) {
        made->form = options->planes ? 0 : STORE_FORM_UNDECODED;
        made->broken = true;
    } else if (begins(bytes, len_bytes, "PLNS")) {
        made->form = options->planes ? STORE_FORM_PLANES : STORE_FORM_RESTART_ROWS;
        if (!options->planes)
            make(made, "", bytes + MARK, len_bytes - MARK);
    } else if (begins(bytes, len_bytes, "ROWS")) {
        made->form = STORE_FORM_RESTART_ROWS;
    } else if (len_bytes % 3) {
        bool planes = options->planes && len_bytes % 3 == 2;
        made->form = (planes ? STORE_FORM_PLANES : STORE_FORM_RESTART_ROWS) | (shrunk ? STORE_FORM_SHRUNK : 0);
        make(made, planes ? "PLNSROWS" : "ROWS", bytes, shrunk ? len_bytes / 2 : len_bytes);
    }
    return 0;
}

/* A store's rewriting may give planes that later give no image. */
static int breaking(const struct store_options *options, const uint8_t *bytes, size_t len_bytes,
                    struct store_made *made, struct error *err)
{
    int code = fake(options, bytes, len_bytes, made, err);
    if (made->form & STORE_FORM_PLANES && made->bytes)
        memcpy(made->bytes + MARK, "LOST", MARK);
    return code;
}

static struct store_options planes(void)
{
    struct store_options options = small_options();
    options.rewrite = fake;
    options.restart_rows = options.planes = true;
    return options;
}

static struct store_options rows(void)
{
    struct store_options options = planes();
    options.planes = false;
    return options;
}

static struct store_options shrinking(struct store_options options, uint32_t max_side)
{
    options.max_side = max_side;
    options.quality = 80;
    return options;
}

static int pack_below(const char *from, const char *to, const struct store_options *options, struct error *err)
{
    char path[PATH_BYTES];
    struct dataset *dataset = open_below(from);
    path_below(path, to);
    int code = store_pack(dataset, path, options, NULL, NULL, err);
    dataset_unref(&dataset);
    return code;
}

static void assert_same_fingerprint(const struct dataset *a, const struct dataset *b, bool same)
{
    uint64_t one[2], other[2];
    dataset_fingerprint(a, one);
    dataset_fingerprint(b, other);
    assert_int_equal(memcmp(one, other, sizeof one) == 0, same);
}

/* The samples are what was made of them, under the source's indices and fingerprint, and are counted by what became of
 * them. Those of two stores with planes are one; none is one with a sample of another kind of store. */
static void test_samples(void **state)
{
    (void)state;
    static uint8_t original[SAMPLE_BYTES_MAX], got[MADE_MAX];
    struct store_options options = small_options();
    pack_well("plain", &options);
    options = rows();
    pack_well("rows", &options);
    options = planes();
    pack_well("a", &options);
    options.seed = 5;
    options.chunk_size = 9;
    pack_well("b", &options);
    struct dataset *plain = open_below("plain"), *marked = open_below("rows"), *a = open_below("a"),
                   *b = open_below("b");
    uint32_t in_planes = 0, in_rows = 0, index;
    assert_same_fingerprint(source, a, true);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        struct store_made made = {0};
        assert_int_equal(dataset_read(source, i, original, NULL), 0);
        assert_int_equal(fake(&options, original, dataset_size(source, i), &made, NULL), 0);
        assert_int_equal(dataset_size(a, i), made.bytes ? made.len_bytes : dataset_size(source, i));
        assert_int_equal(dataset_read(a, i, got, NULL), 0);
        assert_memory_equal(got, made.bytes ? made.bytes : original, dataset_size(a, i));
        free(made.bytes);
        assert_int_equal(store_in(a)->forms[i], made.form);
        in_planes += made.form == STORE_FORM_PLANES;
        in_rows += made.form == STORE_FORM_RESTART_ROWS;
        assert_int_equal(dataset_label(a, i), dataset_label(source, i));
        assert_int_equal(dataset_id(a, i), dataset_id(b, i));
        assert_false(dataset_index(plain, dataset_id(a, i), &index) || dataset_index(marked, dataset_id(a, i), &index));
    }
    struct packing packing;
    dataset_packing(a, &packing);
    assert_true(packing.packed && packing.planes && packing.restart_rows && !packing.max_side && !packing.quality);
    assert_true(in_planes && packing.samples_planes == in_planes);
    assert_true(in_rows && packing.samples_restart_rows == in_rows);
    dataset_packing(marked, &packing);
    assert_true(!packing.planes && !packing.samples_planes);
    dataset_unref(&plain);
    dataset_unref(&marked);
    dataset_unref(&a);
    dataset_unref(&b);
}

/* With planes the version is 4, without them it is what it was. No kind of pack goes over another's store. */
static void test_versions(void **state)
{
    (void)state;
    static const char *const names[] = {"one", "two", "three", "four", "smaller"};
    const struct store_options options[] = {small_options(), rows(), shrinking(rows(), 300), planes(),
                                            shrinking(planes(), 300)};
    struct error err;
    for (unsigned i = 0; i < 5; i++) {
        char *bytes;
        pack_well(names[i], &options[i]);
        load(names[i], STORE_INDEX_NAME, &bytes);
        assert_int_equal(bytes[8], i < 4 ? i + 1 : 4);
        free(bytes);
        load(names[i], "segment-00000.larder", &bytes);
        assert_int_equal(bytes[8], i < 4 ? i + 1 : 4);
        free(bytes);
        for (unsigned j = 0; j < i; j++)
            assert_int_equal(pack(names[i], &options[j], NULL, NULL, &err), LARDER_EINVAL);
    }
}

/* Shrunk images in planes have the fingerprint of the same size and quality without planes, and share no sample with
 * those, nor with planes of the originals. */
static void test_shrunk(void **state)
{
    (void)state;
    static uint8_t got[MADE_MAX];
    struct store_options options = shrinking(planes(), 300);
    pack_well("a", &options);
    options = shrinking(rows(), 300);
    pack_well("rows", &options);
    options = planes();
    pack_well("whole", &options);
    struct dataset *a = open_below("a"), *marked = open_below("rows"), *whole = open_below("whole");
    uint32_t both = 0, index;
    assert_same_fingerprint(a, marked, true);
    assert_same_fingerprint(a, whole, false);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        assert_int_equal(dataset_read(a, i, got, NULL), 0);
        assert_int_equal((store_in(a)->forms[i] & STORE_FORM_PLANES) != 0, begins(got, dataset_size(a, i), "PLNS"));
        both += store_in(a)->forms[i] == (STORE_FORM_PLANES | STORE_FORM_SHRUNK);
        assert_false(dataset_index(marked, dataset_id(a, i), &index) || dataset_index(whole, dataset_id(a, i), &index));
    }
    struct packing packing;
    dataset_packing(a, &packing);
    assert_true(both && packing.planes && packing.max_side == 300 && packing.quality == 80);
    dataset_unref(&a);
    dataset_unref(&marked);
    dataset_unref(&whole);
}

/* An interrupted pack goes on after its finished segments. Its counts are those of the whole. */
static void test_resume(void **state)
{
    (void)state;
    struct store_options options = planes();
    struct watch whole = {0}, rest = {0};
    struct error err;
    assert_int_equal(pack("whole", &options, watch_progress, &whole, &err), 0);
    pretend_cut("whole", "s");
    options.threads = 1;
    assert_int_equal(pack("s", &options, watch_progress, &rest, &err), 0);
    assert_true(rest.last.samples_resumed > 0 && rest.last.samples_resumed < SAMPLES);
    assert_true(whole.last.samples_planes > 0);
    assert_int_equal(rest.last.samples_planes, whole.last.samples_planes);
    assert_int_equal(rest.last.samples_rewritten, whole.last.samples_rewritten);
    assert_int_equal(rest.last.bytes_packed, whole.last.bytes_packed);
    assert_same_files("whole", "s");
}

/* Planes that give no image end the pack of their store, or are samples that cannot be read, which a pack that goes on
 * counts too. */
static void test_broken(void **state)
{
    (void)state;
    struct store_options options = planes();
    struct watch whole = {0};
    struct error err;
    options.rewrite = breaking;
    assert_int_equal(pack("planes", &options, watch_progress, &whole, &err), 0);
    struct dataset *dataset = open_below("planes");
    for (unsigned i = 0; i < 2; i++) {
        static const char *const names[] = {"back", "again", "back's rest", "again's rest"};
        char path[PATH_BYTES];
        struct watch first = {0}, rest = {0};
        options = i ? planes() : rows();
        assert_int_equal(pack_below("planes", names[i], &options, &err), LARDER_EFORMAT);
        assert_non_null(strstr(err.text, "its planes are damaged"));
        options.skip_unreadable = true;
        path_below(path, names[i]);
        assert_int_equal(store_pack(dataset, path, &options, watch_progress, &first, &err), 0);
        assert_true(first.last.samples_skipped > 0);
        assert_int_equal(first.last.samples_skipped, whole.last.samples_planes);
        assert_int_equal(first.last.samples_rewritten + first.last.samples_undecoded, 0);
        pretend_cut(names[i], names[i + 2]);
        path_below(path, names[i + 2]);
        assert_int_equal(store_pack(dataset, path, &options, watch_progress, &rest, &err), 0);
        assert_int_equal(rest.last.samples_skipped, whole.last.samples_planes);
        struct dataset *made = open_below(names[i]);
        for (uint32_t j = 0; j < SAMPLES; j++) {
            bool broken = store_in(dataset)->forms[j] & STORE_FORM_PLANES;
            uint32_t flags = index_flags(&dataset_source(made)->index, j);
            assert_int_equal((flags & INDEX_UNREACHABLE) != 0, broken);
        }
        dataset_unref(&made);
    }
    dataset_unref(&dataset);
}

/* Rewritten is what has other bytes than in the source that is packed, in a pack that goes on too. */
static void test_rewritten(void **state)
{
    (void)state;
    struct store_options options = planes(), back = rows();
    struct watch whole = {0}, first = {0}, rest = {0};
    struct error err;
    char path[PATH_BYTES];
    assert_int_equal(pack("planes", &options, watch_progress, &whole, &err), 0);
    struct dataset *dataset = open_below("planes");
    path_below(path, "again");
    assert_int_equal(store_pack(dataset, path, &options, watch_progress, &first, &err), 0);
    assert_int_equal(first.last.samples_rewritten, 0);
    pretend_cut("again", "rest");
    path_below(path, "rest");
    assert_int_equal(store_pack(dataset, path, &options, watch_progress, &rest, &err), 0);
    assert_true(rest.last.samples_resumed > 0 && rest.last.samples_rewritten == 0);
    memset(&rest, 0, sizeof rest);
    path_below(path, "back");
    assert_int_equal(store_pack(dataset, path, &back, watch_progress, &rest, &err), 0);
    assert_int_equal(rest.last.samples_rewritten, whole.last.samples_planes);
    dataset_unref(&dataset);
}

/* What cannot be is refused. What the index says otherwise than the segments is found by verifying, which says how the
 * store was packed. */
static void test_header(void **state)
{
    (void)state;
    const uint32_t version = STORE_VERSION_PLANES;
    struct store_options options = planes();
    struct watch watch = {0};
    struct error err;
    char path[PATH_BYTES];
    pack_well("s", &options);
    path_below(path, "s");
    const struct packing good = {.restart_rows = true, .planes = true};
    struct packing wrong = good;
    wrong.planes = false;
    assert_int_equal(reseal("s", version, 0, wrong), LARDER_EFORMAT);
    wrong = good;
    wrong.restart_rows = false;
    assert_int_equal(reseal("s", version, 0, wrong), LARDER_EFORMAT);
    wrong = good;
    wrong.quality = 90;
    assert_int_equal(reseal("s", version, 0, wrong), LARDER_EFORMAT);
    wrong.quality = 101;
    wrong.max_side = 256;
    assert_int_equal(reseal("s", version, 0, wrong), LARDER_EFORMAT);
    wrong.quality = 90;
    wrong.max_side = STORE_SIDE_MAX + 1;
    assert_int_equal(reseal("s", version, 0, wrong), LARDER_EFORMAT);
    wrong.max_side = 256; /* version 3 knows no planes, neither of the store nor of a sample */
    assert_int_equal(reseal("s", STORE_VERSION_SHRUNK, 0, wrong), LARDER_EFORMAT);
    wrong.planes = false;
    assert_int_equal(reseal("s", STORE_VERSION_SHRUNK, STORE_FORM_PLANES, wrong), LARDER_EFORMAT);
    static const uint32_t forms[] = {STORE_FORM_PLANES | STORE_FORM_RESTART_ROWS, STORE_FORM_PLANES | STORE_FORM_SHRUNK,
                                     STORE_FORM_UNDECODED, STORE_FORM_PLANES | STORE_FORM_UNDECODED, 16};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        assert_int_equal(reseal("s", version, forms[i], good), LARDER_EFORMAT);
    assert_int_equal(store_verify(path, watch_progress, NULL, &watch, &err), 0);
    assert_true(watch.last.packing.planes && watch.last.packing.samples_planes > 0);
    struct dataset *store = open_below("s");
    uint32_t other = store_in(store)->forms[1] == STORE_FORM_PLANES ? STORE_FORM_RESTART_ROWS : STORE_FORM_PLANES;
    dataset_unref(&store);
    assert_int_equal(reseal("s", version, other, good), 0);
    assert_int_equal(store_verify(path, NULL, NULL, NULL, &err), LARDER_EFORMAT);
}

/* A store with planes is not copied to one of version 1, and planes need what writes them. Packed with planes again its
 * samples stay; without, what is stored is what restart rows of the source are. Either is the same dataset as if it
 * were packed from the source. Where others may write to the store, its samples are shared with none of those. */
static void test_source(void **state)
{
    (void)state;
    struct store_options options = planes();
    struct error err;
    char path[PATH_BYTES];
    pack_well("planes", &options);
    assert_int_equal(pack_below("planes", "again", &options, &err), 0);
    options = rows();
    pack_well("rows", &options);
    assert_int_equal(pack_below("planes", "back", &options, &err), 0);
    options = small_options();
    assert_int_equal(pack_below("planes", "copy", &options, &err), LARDER_EINVAL);
    assert_non_null(strstr(err.text, "in planes"));
    options.planes = true;
    assert_int_equal(pack("copy", &options, NULL, NULL, &err), LARDER_EINVAL);
    path_below(path, "copy/" STORE_INDEX_NAME);
    assert_int_not_equal(access(path, F_OK), 0);
    options = planes();
    pack_well("of others", &options);
    path_below(path, "of others");
    assert_int_equal(chmod(path, 0777), 0);
    options = rows();
    assert_int_equal(pack_below("of others", "foreign", &options, &err), 0);
    struct dataset *first = open_below("planes"), *again = open_below("again"), *marked = open_below("rows"),
                   *back = open_below("back"), *foreign = open_below("foreign");
    assert_int_equal(store_in(back)->version, STORE_VERSION_REWRITTEN);
    assert_same_fingerprint(source, again, true);
    assert_same_fingerprint(source, back, true);
    assert_same_fingerprint(source, foreign, true);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        struct identity one = store_in(again)->checksums[i], other = store_in(first)->checksums[i];
        assert_memory_equal(&one, &other, sizeof one);
        assert_int_equal(store_in(again)->forms[i], store_in(first)->forms[i]);
        one = store_in(back)->checksums[i];
        other = store_in(marked)->checksums[i];
        assert_memory_equal(&one, &other, sizeof one);
        one = store_in(foreign)->checksums[i];
        assert_memory_equal(&one, &other, sizeof one);
        assert_int_equal(dataset_id(back, i), dataset_id(marked, i));
        if (store_in(first)->forms[i] == STORE_FORM_PLANES)
            assert_int_not_equal(dataset_id(foreign, i), dataset_id(marked, i));
    }
    dataset_unref(&first);
    dataset_unref(&again);
    dataset_unref(&marked);
    dataset_unref(&back);
    dataset_unref(&foreign);
}

static void open_to_others(const char *name, bool open)
{
    char path[PATH_BYTES];
    path_below(path, name);
    assert_int_equal(chmod(path, open ? 0777 : 0755), 0);
    catalog_destroy(catalog); /* it knows the store as it was */
    assert_int_equal(catalog_create(NULL, &catalog, NULL), 0);
}

/* Planes of a store with restart rows are the same dataset as planes of its source, and share its samples, unless
 * others may write to the store. What was packed of smaller images stays a dataset of its own. */
static void test_source_with_rows(void **state)
{
    (void)state;
    struct store_options options = rows();
    struct error err;
    pack_well("rows", &options);
    options = shrinking(rows(), 300);
    pack_well("smaller", &options);
    options = planes();
    pack_well("planes", &options);
    assert_int_equal(pack_below("rows", "later", &options, &err), 0);
    assert_int_equal(pack_below("smaller", "small", &options, &err), 0);
    open_to_others("rows", true);
    assert_int_equal(pack_below("rows", "foreign", &options, &err), 0);
    struct dataset *first = open_below("planes"), *later = open_below("later"), *small = open_below("small"),
                   *foreign = open_below("foreign");
    assert_same_fingerprint(source, later, true);
    assert_same_fingerprint(source, foreign, true);
    assert_same_fingerprint(source, small, false);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        struct identity one = store_in(later)->hashes[i], other = store_in(first)->hashes[i];
        assert_memory_equal(&one, &other, sizeof one);
        other = store_in(foreign)->hashes[i];
        bool rewritten = store_in(later)->forms[i] != 0;
        assert_int_equal(memcmp(&one, &other, sizeof one) != 0, rewritten);
    }
    dataset_unref(&first);
    dataset_unref(&later);
    dataset_unref(&small);
    dataset_unref(&foreign);
}

/* A pack that was interrupted does not go on when others may write to its source since, or may no longer. */
static void test_source_changes_hands(void **state)
{
    (void)state;
    struct store_options options = planes();
    struct error err;
    pack_well("planes", &options);
    options = rows();
    pack_well("rows", &options);
    assert_int_equal(pack_below("planes", "of mine", &options, &err), 0);
    open_to_others("planes", true);
    assert_int_equal(pack_below("planes", "of others", &options, &err), 0);
    pretend_cut("of mine", "a");
    pretend_cut("of others", "b");
    assert_int_equal(pack_below("planes", "a", &options, &err), LARDER_EINVAL);
    assert_non_null(strstr(err.text, "an unfinished pack of another source"));
    assert_int_equal(pack_below("planes", "b", &options, &err), 0);
    assert_same_files("of others", "b");
    open_to_others("planes", false);
    pretend_cut("of others", "c");
    assert_int_equal(pack_below("planes", "c", &options, &err), LARDER_EINVAL);
    assert_int_equal(pack_below("planes", "a", &options, &err), 0);
    assert_same_files("of mine", "a");
    options = planes();
    assert_int_equal(pack_below("rows", "planes of mine", &options, &err), 0);
    open_to_others("rows", true);
    pretend_cut("planes of mine", "d");
    assert_int_equal(pack_below("rows", "d", &options, &err), LARDER_EINVAL);
}

static void assert_plan(const char *name, uint64_t low, uint64_t high)
{
    struct dataset *dataset = open_below(name);
    const uint64_t *plan = store_in(dataset)->plan;
    if (plan[0] != low || plan[1] != high)
        fail_msg("%s: the plan is %016llx, %016llx", name, (unsigned long long)plan[0], (unsigned long long)plan[1]);
    dataset_unref(&dataset);
}

/* A plan that a store of an earlier build has does not become another one, or that build's packs would not go on. */
static void test_plans(void **state)
{
    (void)state;
    struct store_options options = planes();
    struct error err;
    pack_well("planes", &options);
    assert_int_equal(pack_below("planes", "again", &options, &err), 0);
    options = rows();
    assert_int_equal(pack_below("planes", "back", &options, &err), 0);
    options = shrinking(planes(), 300);
    pack_well("smaller", &options);
    options = rows();
    assert_int_equal(pack_below("smaller", "rows", &options, &err), 0);
    assert_plan("again", UINT64_C(0x0dc3c10d22caae4d), UINT64_C(0x7611cc9d617c7069));
    assert_plan("back", UINT64_C(0xe4796738d29bbe10), UINT64_C(0x28c08f34cf8b69ec));
    assert_plan("rows", UINT64_C(0x6a0ba05a2562e35d), UINT64_C(0xaae4318e2b8ba598));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_samples, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_versions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shrunk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_resume, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_broken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rewritten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_header, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_source, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_source_with_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_source_changes_hands, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_plans, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
