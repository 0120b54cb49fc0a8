/* test_store_owners.c: proves which stores share samples, and that bytes which are not what a store's index says never
 * pass for a sample, whoever wrote them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/store/store.h"
#include "common/log.h"
#include "tests/unit/cache/store/store_fixture.h"

#define STRANGER 54321

static void expect_shared(const char *a, const char *b, bool shared)
{
    struct dataset *left = open_below(a), *right = open_below(b);
    uint32_t same = 0;
    for (uint32_t i = 0; i < SAMPLES; i++)
        same += dataset_id(left, i) == dataset_id(right, i);
    assert_int_equal(same, shared ? SAMPLES : 0);
    dataset_unref(&left);
    dataset_unref(&right);
}

/* The catalog forgets what it has in memory, as after a start. */
static void forget(void)
{
    catalog_destroy(catalog);
    assert_int_equal(catalog_create(NULL, &catalog, NULL), 0);
}

static void change_mode(const char *store, const char *name, mode_t mode)
{
    char path[PATH_BYTES + STORE_NAME_MAX];
    snprintf(path, sizeof path, "%s/%s/%s", root, store, name);
    assert_int_equal(chmod(path, mode), 0);
}

static void give_away(const char *store, const char *name)
{
    char path[PATH_BYTES + STORE_NAME_MAX];
    snprintf(path, sizeof path, "%s/%s/%s", root, store, name);
    assert_int_equal(chown(path, STRANGER, STRANGER), 0);
}

/* Stores of this user share what they both contain; one whose folder, index or segment others may write to shares with
 * no other, whether that is this user's or as open as itself. */
static void test_writable_stores_share_with_themselves(void **state)
{
    (void)state;
    struct store_options options = small_options();
    const char *const names[] = {".", STORE_INDEX_NAME, "segment-00003.larder"};
    pack_well("a", &options);
    options.seed = 2;
    pack_well("b", &options);
    options.seed = 3;
    pack_well("c", &options);
    expect_shared("a", "b", true);
    for (int i = 0; i < 3; i++) {
        mode_t mode = i ? 0644 : 0755;
        forget();
        change_mode("b", names[i], mode | (i == 1 ? S_IWOTH : S_IWGRP));
        change_mode("c", names[i], mode | S_IWOTH);
        expect_shared("a", "b", false);
        expect_shared("b", "c", false);
        expect_shared("b", "b", true);
        change_mode("b", names[i], mode);
        change_mode("c", names[i], mode);
    }
    forget();
    expect_shared("a", "b", true);
}

/* The same of stores that another user owns, in whole or in part. */
static void test_others_stores_share_with_themselves(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: only root can make files of another user\n");
        skip();
    }
    struct store_options options = small_options();
    const char *const names[] = {"segment-00003.larder", STORE_INDEX_NAME, "."};
    pack_well("a", &options);
    for (int i = 0; i < 3; i++) {
        char name[2] = {(char)('b' + i), '\0'};
        options.seed++;
        pack_well(name, &options);
        expect_shared("a", name, true);
        forget();
        give_away(name, names[i]);
        expect_shared("a", name, false);
        expect_shared(name, name, true);
    }
    expect_shared("b", "c", false);
    expect_shared("c", "d", false);
}

/* Makes store `name`'s index say that sample `liar` has the content of sample `model`. */
static void forge_index(const char *name, uint32_t liar, uint32_t model)
{
    char *bytes;
    uint8_t *forged;
    struct index index;
    struct chunking chunking;
    struct store store;
    struct error err;
    size_t len = load(name, STORE_INDEX_NAME, &bytes);
    if (store_index_parse((uint8_t *)bytes, len, &index, &chunking, &store, &err))
        fail_msg("%s", err.text);
    store.hashes[liar] = store.hashes[model];
    assert_int_equal(store_index_encode(&index, &chunking, &store, &forged, &len), 0);
    save(name, STORE_INDEX_NAME, (char *)forged, len);
    index_free(&index);
    chunking_free(&chunking);
    store_free(&store);
    free(forged);
    free(bytes);
}

/* The next sample of the same size and other content, or SAMPLES. */
static uint32_t of_this_size(const struct dataset *dataset, uint32_t index)
{
    const struct identity *hashes = store_in(dataset)->hashes;
    uint32_t other = index + 1;
    while (other < SAMPLES && (dataset_size(dataset, other) != dataset_size(dataset, index) ||
                               memcmp(&hashes[other], &hashes[index], sizeof *hashes) == 0))
        other++;
    return other;
}

/* An index that claims another sample's hash for its own bytes: they are refused when they are read. */
static void test_index_that_lies(void **state)
{
    (void)state;
    char bytes[SAMPLE_BYTES_MAX];
    struct error err;
    struct store_options options = small_options();
    pack_well("a", &options);
    pack_well("b", &options);
    struct dataset *honest = open_below("a"), *lying;
    uint32_t liar, model = SAMPLES;
    for (liar = 0; model == SAMPLES && liar < SAMPLES; liar += model == SAMPLES)
        model = of_this_size(honest, liar);
    assert_in_range(model, liar + 1, SAMPLES - 1);
    forge_index("b", liar, model);
    lying = open_below("b");
    assert_int_equal(dataset_id(lying, liar), dataset_id(honest, model));
    assert_int_equal(dataset_read(lying, liar, bytes, &err), LARDER_EFORMAT);
    assert_non_null(strstr(err.text, "damaged"));
    assert_int_equal(dataset_read(lying, liar + 1, bytes, &err), 0);
    dataset_unref(&honest);
    dataset_unref(&lying);
}

static void move(const char *from, const char *to)
{
    char old[PATH_BYTES], new[PATH_BYTES];
    path_below(old, from);
    path_below(new, to);
    assert_int_equal(rename(old, new), 0);
}

/* Another store comes to the place of one that is open: reading says so, not that it is damaged, and opening it again
 * gives the new one. */
static void test_replaced(void **state)
{
    (void)state;
    char bytes[SAMPLE_BYTES_MAX], expected[SAMPLE_BYTES_MAX];
    struct error err;
    struct store_options options = small_options();
    struct sample_read read = {.index = 7, .buf = bytes};
    pack_well("s", &options);
    options.seed = 2;
    pack_well("other", &options);
    struct dataset *before = open_below("s");
    assert_int_equal(dataset_read(before, 7, expected, &err), 0);
    move("s", "gone");
    move("other", "s");
    assert_int_equal(dataset_read(before, 7, bytes, &err), LARDER_ECHANGED);
    assert_non_null(strstr(err.text, "replaced"));
    assert_int_equal(dataset_read_many(before, &read, 1, 0), 1);
    assert_int_equal(read.err.code, LARDER_ECHANGED);
    struct dataset *after = open_below("s");
    assert_ptr_not_equal(before, after);
    assert_int_equal(dataset_read(after, 7, bytes, &err), 0);
    assert_memory_equal(bytes, expected, dataset_size(after, 7));
    assert_int_equal(dataset_id(before, 7), dataset_id(after, 7)); /* the same content */
    dataset_unref(&before);
    dataset_unref(&after);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        TEST(test_writable_stores_share_with_themselves),
        TEST(test_others_stores_share_with_themselves),
        TEST(test_index_that_lies),
        TEST(test_replaced),
    };
    return cmocka_run_group_tests_name("store_owners", tests, NULL, NULL);
}
