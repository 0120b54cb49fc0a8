/* test_packed_rows.c: proves that packed rows give back every value, whatever the values are, in as few bytes as their
 * differences take, and that rows which would lie outside their bytes are found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/source/packed_rows.h"
#include "common/random.h"

struct table {
    size_t count;
    uint64_t (*values)[PACKED_COLUMNS];
};

static void give(const void *context, size_t row, uint64_t values[PACKED_COLUMNS])
{
    memcpy(values, ((const struct table *)context)->values[row], sizeof *((const struct table *)context)->values);
}

/* Each column has numbers of its own: one and the same, small, around 2^63 and beyond 2^64, or of any length. */
static uint64_t draw(struct rng *rng, unsigned kind)
{
    switch (kind) {
    case 0: return UINT64_MAX;
    case 1: return random_below(rng, 256);
    case 2: return UINT64_MAX - random_below(rng, 1000);
    case 3: return random_below(rng, 2) ? 0 : UINT64_MAX;
    default: return random_u64(rng) >> random_below(rng, 64);
    }
}

static void check_table(struct rng *rng, size_t count)
{
    struct table table = {count, calloc(count, sizeof *table.values)};
    struct packed_rows rows;
    assert_non_null(table.values);
    for (size_t i = 0; i < count; i++) {
        for (unsigned j = 0; j < PACKED_COLUMNS; j++)
            table.values[i][j] = draw(rng, j % 5);
    }
    assert_int_equal(packed_rows_pack(count, give, &table, &rows), 0);
    assert_true(packed_rows_are_within(&rows));
    for (size_t i = 0; i < count; i++) {
        for (unsigned j = 0; j < PACKED_COLUMNS; j++)
            assert_true(packed_rows_value(&rows, i, (enum packed_column)j) == table.values[i][j]);
    }
    rows.len_bytes--;
    assert_false(packed_rows_are_within(&rows));
    packed_rows_free(&rows);
    free(table.values);
}

static void test_values(void **state)
{
    static const size_t counts[] = {1, 2, PACKED_BLOCK - 1, PACKED_BLOCK, PACKED_BLOCK + 1, 3 * PACKED_BLOCK + 7};
    struct rng rng;
    (void)state;
    random_seed(&rng, 7);
    for (size_t i = 0; i < 20 * sizeof counts / sizeof *counts; i++)
        check_table(&rng, counts[i % (sizeof counts / sizeof *counts)]);
}

/* A column that is the same for all takes nothing; one of differences below 2^16 takes two bytes. */
static void test_lengths(void **state)
{
    struct table table = {1000, calloc(1000, sizeof *table.values)};
    struct packed_rows rows;
    (void)state;
    assert_non_null(table.values);
    for (size_t i = 0; i < table.count; i++) {
        table.values[i][PACKED_DEVICE] = UINT64_C(1) << 40;
        table.values[i][PACKED_KEY] = (UINT64_C(1) << 40) + i * 200;
    }
    assert_int_equal(packed_rows_pack(table.count, give, &table, &rows), 0);
    assert_int_equal(rows.len_bytes, 2 * table.count + PACKED_SLACK);
    packed_rows_free(&rows);
    free(table.values);
}

/* A width that no number has, a row of another length than its columns, and a block that begins behind the bytes. */
static void test_outside(void **state)
{
    struct table table = {2, calloc(2, sizeof *table.values)};
    struct packed_rows rows;
    (void)state;
    assert_non_null(table.values);
    table.values[1][0] = 7;
    assert_int_equal(packed_rows_pack(table.count, give, &table, &rows), 0);
    const size_t places[] = {0, 7, PACKED_WIDTHS, PACKED_WIDTHS + PACKED_COLUMNS - 1, PACKED_WIDTHS + PACKED_COLUMNS};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        rows.heads[places[i]] ^= 0x40;
        assert_false(packed_rows_are_within(&rows));
        rows.heads[places[i]] ^= 0x40;
    }
    assert_true(packed_rows_are_within(&rows));
    packed_rows_free(&rows);
    free(table.values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_lengths),
                                       cmocka_unit_test(test_outside)};
    return cmocka_run_group_tests_name("rows", tests, NULL, NULL);
}
