/* Preparing rates between runs: what is written is read again, what is damaged is not used, no table grows beyond its
 * bound, and the next governor begins with the rate of the one before. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/check.h"
#include "common/random.h"
#include "governor_scene.h"
#include "server/governor/kept.h"

static struct kept_row row(uint64_t fingerprint, uint32_t size)
{
    return (struct kept_row){
        .fingerprint = fingerprint, .size = size, .part = 0.25, .count = 2, .points = {{1, 100.5 + size}, {48, 2000}}};
}

static void fill(struct kept *kept, uint32_t count)
{
    kept_create(kept);
    for (uint32_t i = 0; i < count; i++) {
        struct kept_row one = row(UINT64_MAX - i / 2, 10 + i % 2);
        kept_put(kept, &one);
    }
}

static int decode(const char *bytes, size_t len_bytes, uint32_t *count)
{
    struct kept kept;
    struct error err;
    kept_create(&kept);
    int code = kept_decode(bytes, len_bytes, &kept, &err);
    *count = kept.count;
    kept_free(&kept);
    return code;
}

static void test_round_trip(void **state)
{
    (void)state;
    struct kept first, second;
    struct error err;
    size_t len_bytes;
    fill(&first, 9);
    char *text = kept_encode(&first, &len_bytes);
    kept_create(&second);
    assert_int_equal(kept_decode(text, len_bytes, &second, &err), 0);
    assert_int_equal(second.count, 9);
    for (uint32_t i = 0; i < 9; i++)
        assert_memory_equal(&first.rows[i], &second.rows[i], sizeof first.rows[i]);
    free(text);
    kept_free(&first);
    kept_free(&second);
}

/* The latest is first, no pipeline and size is there twice, and the table is bounded. */
static void test_put(void **state)
{
    (void)state;
    struct kept kept;
    fill(&kept, KEPT_ROWS_MAX);
    struct kept_row again = row(UINT64_MAX, 10), none = row(7, 3);
    kept_put(&kept, &again);
    assert_int_equal(kept.count, KEPT_ROWS_MAX);
    assert_true(kept.rows[0].fingerprint == UINT64_MAX && kept.rows[0].size == 10);
    none.count = 0;
    kept_put(&kept, &none);
    assert_true(kept.rows[0].fingerprint == UINT64_MAX);
    for (uint32_t i = 0; i < 3; i++) {
        struct kept_row more = row(1, i);
        kept_put(&kept, &more);
    }
    assert_int_equal(kept.count, KEPT_ROWS_MAX);
    assert_true(kept.rows[0].fingerprint == 1 && kept.rows[3].fingerprint == UINT64_MAX); /* the oldest made place */
    kept_free(&kept);
}

/* A file that was cut off or changed in any byte is refused, and nothing of it is used. */
static void test_damaged(void **state)
{
    (void)state;
    struct kept kept;
    size_t len_bytes;
    uint32_t count;
    fill(&kept, 3);
    char *text = kept_encode(&kept, &len_bytes);
    for (size_t at = 0; at < len_bytes; at++) {
        assert_true(decode(text, at, &count) < 0 && count == 0);
        for (int bit = 0; bit < 8; bit++) {
            text[at] ^= (char)(1 << bit);
            assert_true(decode(text, len_bytes, &count) < 0 && count == 0);
            text[at] ^= (char)(1 << bit);
        }
    }
    assert_int_equal(decode(text, len_bytes, &count), 0);
    char *title = strchr(text, '1');
    *title = '2';
    assert_int_equal(decode(text, len_bytes, &count), LARDER_EVERSION);
    free(text);
    kept_free(&kept);
}

/* Rows without sense are refused though their checksum is right. */
static void test_no_sense(void **state)
{
    (void)state;
    static const struct kept_row rows[] = {
        {.fingerprint = 1, .size = 64, .part = 1, .count = 1, .points = {{1, 5}}},
        {.fingerprint = 1, .size = 1, .part = 2, .count = 1, .points = {{1, 5}}},
        {.fingerprint = 1, .size = 1, .part = NAN, .count = 1, .points = {{1, 5}}},
        {.fingerprint = 1, .size = 1, .part = 1, .count = 1, .points = {{0, 5}}},
        {.fingerprint = 1, .size = 1, .part = 1, .count = 1, .points = {{1025, 5}}},
        {.fingerprint = 1, .size = 1, .part = 1, .count = 1, .points = {{1, -5}}},
        {.fingerprint = 1, .size = 1, .part = 1, .count = 1, .points = {{1, INFINITY}}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kept kept;
        size_t len_bytes;
        uint32_t count;
        fill(&kept, 1);
        kept_put(&kept, &rows[i]);
        char *text = kept_encode(&kept, &len_bytes);
        assert_true(decode(text, len_bytes, &count) < 0 && count == 0);
        free(text);
        kept_free(&kept);
    }
}

static void test_file(void **state)
{
    (void)state;
    char folder[] = "/tmp/larder-rates-XXXXXX", path[64];
    struct kept kept;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/rates", folder);
    kept_create(&kept);
    kept_save(&kept, path);
    assert_int_not_equal(access(path, F_OK), 0); /* nothing is known: nothing is kept */
    kept_load(&kept, path);
    assert_int_equal(kept.count, 0);
    kept_free(&kept);
    fill(&kept, 3);
    kept_save(&kept, path);
    kept_free(&kept);
    kept_create(&kept);
    kept_load(&kept, path);
    assert_int_equal(kept.count, 3);
    kept_free(&kept);
    FILE *file = fopen(path, "r+");
    assert_true(file && fseek(file, 40, SEEK_SET) == 0 && fputc('~', file) != EOF && fclose(file) == 0);
    kept_create(&kept);
    kept_load(&kept, path);
    assert_int_equal(kept.count, 0);
    kept_free(&kept);
    unlink(path);
    rmdir(folder);
}

static void work(struct governor *governor, uint32_t pipeline, uint32_t busy, double seconds)
{
    for (int i = 0; i < 40; i++)
        governor_prepared(governor, 0, &(struct governor_preparation){pipeline, busy, 100000, seconds});
}

/* A governor that has prepared nothing knows the rate of the one before, whatever number the pipeline has; and times
 * that are measured count at once. A pipeline that was not there is not known. */
static void test_guess(void **state)
{
    (void)state;
    const struct governor_backlog backlog = {0, 32, 64, 64, 1, {0}};
    struct kept kept;
    kept_create(&kept);
    struct governor *governor = make(8, 16);
    begin(governor, 0, 0, 1);
    assert_true(governor_guess(governor, 3, 77, &kept) == 0);
    double rate = 0;
    for (int window = 0; window < 20; window++) {
        work(governor, 3, 8, 0.010);
        rate = governor_decide(governor, &backlog, 1)->prepare_rate;
    }
    assert_true(near(rate, 800, 0.01));
    governor_learned(governor, 3, 77, &kept);
    governor_destroy(governor);
    assert_int_equal(kept.count, 1);

    governor = make(8, 16);
    begin(governor, 0, 0, 1);
    assert_true(governor_guess(governor, 4, 78, &kept) == 0);
    assert_true(near(governor_guess(governor, 9, 77, &kept), rate, 1e-6));
    assert_true(near(governor_decide(governor, &backlog, 1)->prepare_rate, rate, 1e-6));
    work(governor, 9, 8, 0.020); /* the tasks have become other tasks */
    assert_true(near(governor_decide(governor, &backlog, 1)->prepare_rate, 400, 0.01));
    governor_destroy(governor);
    kept_free(&kept);
}

/* What is kept of a pipeline that was away lately, and so has no part in the mixture, is a guess all the same. */
static void test_away(void **state)
{
    (void)state;
    const struct governor_backlog backlog = {0, 32, 64, 64, 1, {0}};
    struct kept kept;
    kept_create(&kept);
    struct governor *governor = make(8, 16);
    begin(governor, 0, 0, 1);
    for (uint32_t window = 0; window < 40; window++) {
        work(governor, window < 10 ? 1 : 2, 8, window < 10 ? 0.010 : 0.002);
        governor_decide(governor, &backlog, 1);
    }
    governor_learned(governor, 1, 11, &kept);
    governor_destroy(governor);
    governor = make(8, 16);
    assert_true(near(governor_guess(governor, 0, 11, &kept), 800, 0.01));
    governor_destroy(governor);
    kept_free(&kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_put),  cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_no_sense),   cmocka_unit_test(test_file), cmocka_unit_test(test_guess),
        cmocka_unit_test(test_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
