/* fuzz_list_rows.c: proves that no list makes list_rows read outside it, give a row without a path, or not come to an
 * end. The first byte says which form it has, and whether a column of labels is named. */
#include <string.h>

#include "cache/source/list_rows.h"
#include "common/check.h"
#include "tests/fuzz/fuzz.h"

size_t fuzz_seed(size_t number, uint8_t *buf, size_t cap)
{
    static const char *const texts[] = {
        "\1path,label,more\na/b.jpg,3,x\n\"c \"\"d\"\".jpg\",cat,\"two\nlines\"\r\n,,\n\ne.jpg\n",
        "\5\xef\xbb\xbf"
        "breed\tfile_name\nbeagle\tx.png\r\npug\ty.png",
        "\2{\"path\": \"a.jpg\", \"label\": 7}\n\n{\"image\": \"b\\u00e4.jpg\", \"label\": \"cat\", \"label2\": [1]}\n",
        "\6{\"file\": \"a\", \"breed\": -1}\r\n"};
    if (number >= sizeof texts / sizeof *texts)
        return 0;
    size_t len = strlen(texts[number]);
    CHECK(len <= cap);
    memcpy(buf, texts[number], len);
    return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum list_form forms[] = {LIST_TSV, LIST_CSV, LIST_JSONL};
    struct list_rows *rows;
    struct list_row row;
    struct error err;
    bool there = true;
    if (size == 0 ||
        list_rows_begin(forms[(data[0] & 3) % 3], data + 1, size - 1, data[0] & 4 ? "breed" : "", &rows, &err))
        return 0;
    for (size_t count = 0, before = 0; list_rows_next(rows, &row, &there, &err) == 0 && there; count++) {
        CHECK(count < size && row.line > before);
        CHECK(*row.path && strlen(row.path) <= size);
        CHECK(!row.label || strlen(row.label) <= size);
        before = row.line;
    }
    list_rows_end(rows);
    return 0;
}
