/* test_column.c: proves what a list's cells become: whole numbers, numbers, vectors of one length, or texts; that no
 * number becomes another; and that a column stays within its bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/source/list_rows.h"
#include "common/larder_err.h"

/* Writes a column as "WHOLE 1: 3 4" or "TEXT 1: a|b". */
static void show(const struct column *column, char *out, size_t cap)
{
    static const char *const kinds[] = {"WHOLE", "REAL", "TEXT"};
    size_t len = (size_t)snprintf(out, cap, "%s %u:", kinds[column->kind], column->width);
    for (uint64_t i = 0; i < column->count * column->width; i++) {
        double real;
        memcpy(&real, &column->words[i], sizeof real);
        if (column->kind == COLUMN_TEXT)
            len += (size_t)snprintf(out + len, cap - len, "%s%.*s", i ? "|" : " ",
                                    (int)(column->words[i + 1] - column->words[i]), column->texts + column->words[i]);
        else if (column->kind == COLUMN_WHOLE)
            len += (size_t)snprintf(out + len, cap - len, " %lld", (long long)column->words[i]);
        else
            len += (size_t)snprintf(out + len, cap - len, " %.17g", real);
    }
}

/* The column of a list by its name, as show writes it; "none": it has no such column. */
static const char *column_of(enum list_form form, const char *text, const char *name)
{
    static char shown[1024];
    struct list_rows *rows;
    struct list_row row;
    struct error err;
    struct cells cells = {.bytes_max = 4096};
    struct column column;
    bool there = true, names = strcmp(name, COLUMN_NAMES) == 0;
    assert_int_equal(list_rows_begin(form, (const uint8_t *)text, strlen(text), "", NULL, &rows, &err), 0);
    int code = names ? 0 : list_rows_want(rows, name);
    while (!code && (code = list_rows_next(rows, &row, &there, &err)) == 0 && there)
        code = names ? list_rows_names(rows, &cells) : list_rows_cell(rows, &cells);
    code = code || names || list_rows_met(rows) ? code : LARDER_ENOENT;
    list_rows_end(rows);
    if (code) {
        assert_int_equal(code, LARDER_ENOENT);
        cells_free(&cells);
        return "none";
    }
    assert_int_equal(cells_finish(&cells, &column), 0);
    show(&column, shown, sizeof shown);
    column_free(&column);
    return shown;
}

static void test_csv(void **state)
{
    static const char *const rows[][2] = {
        {"1\n-2\n+3\n007", "WHOLE 1: 1 -2 3 7"},
        {"9223372036854775807\n-9223372036854775808", "WHOLE 1: 9223372036854775807 -9223372036854775808"},
        {"9223372036854775808\n1", "TEXT 1: 9223372036854775808|1"},
        {"1\n2.5\n.5\n1e3\n 4 ", "REAL 1: 1 2.5 0.5 1000 4"},
        {"1\nnan\n-inf", "REAL 1: 1 nan -inf"},
        {"nan\ninf", "TEXT 1: nan|inf"},
        {"1\n\"\"\n3", "REAL 1: 1 nan 3"},
        {"\"\"\n\"\"", "TEXT 1: |"},
        {"1\na cat", "TEXT 1: 1|a cat"},
        {"1\n0x10\n1e\n1.2.3\n-\n.", "TEXT 1: 1|0x10|1e|1.2.3|-|."},
        {"\"a, \"\"b\"\"\nc\"\n[1;2]", "TEXT 1: a, \"b\"\nc|[1;2]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        size_t len = (size_t)snprintf(text, sizeof text, "path,more\n");
        for (const char *at = rows[i][0]; *at;) { /* a path before each cell; a line's end in quotes is the cell's */
            size_t cell = 0;
            for (bool quotes = false; at[cell] && (quotes || at[cell] != '\n'); cell++)
                quotes ^= at[cell] == '"';
            len += (size_t)snprintf(text + len, sizeof text - len, "x.jpg,%.*s\n", (int)cell, at);
            at += cell + (at[cell] != '\0');
        }
        assert_string_equal(column_of(LIST_CSV, text, "more"), rows[i][1]);
    }
    const char *list = "label,file_name,score,\"a,b\"\ncat,x.jpg,1\ndog,y.jpg,2,z\n";
    assert_string_equal(column_of(LIST_CSV, list, "score"), "WHOLE 1: 1 2");
    assert_string_equal(column_of(LIST_CSV, list, "a,b"), "TEXT 1: |z");
    assert_string_equal(column_of(LIST_CSV, list, "label"), "TEXT 1: cat|dog");
    assert_string_equal(column_of(LIST_CSV, list, "file_name"), "TEXT 1: x.jpg|y.jpg");
    assert_string_equal(column_of(LIST_CSV, list, "Score"), "none");
    assert_string_equal(column_of(LIST_CSV, list, COLUMN_NAMES), "TEXT 1: label|file_name|score|a,b");
}

static void test_jsonl(void **state)
{
    static const char *const rows[][2] = {
        {"1\n-2", "WHOLE 1: 1 -2"},
        {"1\n2.5\nnull", "REAL 1: 1 2.5 nan"},
        {"0.1\n1e-300", "REAL 1: 0.10000000000000001 1e-300"},
        {"true\nfalse", "WHOLE 1: 1 0"},
        {"\"1\"\n\"2\"", "TEXT 1: 1|2"},
        {"[1, 2]\n[3, 4]", "WHOLE 2: 1 2 3 4"},
        {"[1, 2.5]\nnull\n[3, 4]", "REAL 2: 1 2.5 nan nan 3 4"},
        {"[1, 2]\n[3]", "TEXT 1: [1,2]|[3]"},
        {"[1, 2]\n3", "TEXT 1: [1,2]|3"},
        {"[]\n[]", "TEXT 1: []|[]"},
        {"[[1, 2]]\n{\"a\": [1]}", "TEXT 1: [[1,2]]|{\"a\":[1]}"},
        {"\"\\u00e4\"\nnull", "TEXT 1: \xc3\xa4|"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        size_t len = 0;
        for (const char *at = rows[i][0]; *at;) {
            size_t cell = strcspn(at, "\n");
            len += (size_t)snprintf(text + len, sizeof text - len, "{\"path\": \"x\", \"more\": %.*s}\n", (int)cell,
                                    at);
            at += cell + (at[cell] != '\0');
        }
        assert_string_equal(column_of(LIST_JSONL, text, "more"), rows[i][1]);
    }
    const char *list = "{\"path\": \"x\", \"b\": 1}\n{\"a\": \"z\", \"path\": \"y\"}\n";
    assert_string_equal(column_of(LIST_JSONL, list, "a"), "TEXT 1: |z");
    assert_string_equal(column_of(LIST_JSONL, list, "b"), "REAL 1: 1 nan");
    assert_string_equal(column_of(LIST_JSONL, list, "c"), "none");
    assert_string_equal(column_of(LIST_JSONL, list, COLUMN_NAMES), "TEXT 1: path|b|a");
}

static void test_bounds(void **state)
{
    struct column column;
    struct cells cells = {.bytes_max = 100};
    (void)state;
    assert_int_equal(cells_add_text(&cells, "0123456789", 10), 0);
    for (int i = 0; i < 6; i++)
        assert_int_equal(cells_add_text(&cells, "0123456789", 10), i < 5 ? 0 : LARDER_ELIMIT);
    cells_free(&cells);
    for (int i = 0; i < 11; i++) /* a number takes one byte of text, and eight at last */
        assert_int_equal(cells_add(&cells, "1", 1), 0);
    assert_int_equal(cells_finish(&cells, &column), 0);
    assert_int_equal(column_bytes(&column), 88);
    column_free(&column);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_csv), cmocka_unit_test(test_jsonl),
                                       cmocka_unit_test(test_bounds)};
    return cmocka_run_group_tests_name("column", tests, NULL, NULL);
}
