/* fuzz_list_rows.c: proves that no list makes list_rows read outside it, give a row without a path, or not come to an
 * end, and that its columns have a row for each of its rows. The first byte says which form it has, and whether a
 * column of labels is named. */
#include <stdlib.h>
#include <string.h>

#include "cache/source/list_rows.h"
#include "cache/source/pixels.h"
#include "common/check.h"
#include "tests/fuzz/fuzz.h"

size_t fuzz_seed(size_t number, uint8_t *buf, size_t cap)
{
    static const char *const texts[] = {
        "\1path,label,more\na/b.jpg,3,1.5\n\"c \"\"d\"\".jpg\",cat,\"two\nlines\"\r\n,,\n\ne.jpg\n",
        "\5\xef\xbb\xbf"
        "breed\tfile_name\nbeagle\tx.png\r\npug\ty.png",
        "\2{\"path\": \"a.jpg\", \"label\": 7}\n\n{\"image\": \"b\\u00e4.jpg\", \"label\": \"cat\", \"more\": [1]}\n",
        "\22{\"path\": \"a\", \"more\": {\"box\": [[1, 2.5, 3, 4]]}}\n{\"path\": \"b\", \"more\": [{\"box\": [1]}, "
        "{}]}\n",
        "\6{\"file\": \"a\", \"breed\": -1}\r\n",
        "\1path,offset,bytes,crc32,raw,key\na.bin,0,12,4294967295,2x2x3,n\na.bin,9223372036854775807,0,,28x28,\n"
        "a.bin,1,12,0,3x2x2,\n",
        "\2{\"path\": \"a\", \"offset\": 7, \"bytes\": \"12\", \"crc32\": 3, \"raw\": \"2x2x3\", \"key\": \"k\"}\n"};
    if (number >= sizeof texts / sizeof *texts)
        return 0;
    size_t len = strlen(texts[number]);
    CHECK(len <= cap);
    memcpy(buf, texts[number], len);
    return len;
}

static void finish(struct cells *cells, size_t rows)
{
    struct column column;
    if (cells_finish(cells, &column))
        return;
    CHECK(column.count == rows && column.width > 0 && column.words);
    for (uint64_t i = 0; column.kind == COLUMN_TEXT && i < column.count; i++)
        CHECK(column.words[i] <= column.words[i + 1]);
    column_free(&column);
}

/* A shape that is understood has a PNM's header, and settling keeps within the pixels. */
static void check_place(const struct list_place *place, size_t size)
{
    struct pixels pixels;
    uint8_t head[PIXELS_HEAD_MAX];
    CHECK(place->offset <= INT64_MAX && place->bytes <= INT64_MAX - place->offset);
    CHECK(!place->key || strlen(place->key) <= size);
    if (!place->raw || !pixels_parse(place->raw, &pixels))
        return;
    uint64_t bytes = pixels_bytes(&pixels);
    CHECK(pixels_fit(&pixels) && pixels_head(&pixels, head) < PIXELS_HEAD_MAX);
    uint8_t *memory = bytes < 4096 ? calloc(1, bytes) : NULL;
    CHECK(!memory || pixels_settle(&pixels, memory) == 0);
    free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum list_form forms[] = {LIST_TSV, LIST_CSV, LIST_JSONL};
    struct list_rows *rows;
    struct list_row row;
    struct error err;
    bool there = true;
    struct cells cells = {.bytes_max = 1 << 20}, names = {.bytes_max = 1 << 20};
    size_t count = 0;
    int code = 0;
    if (size == 0 || list_rows_begin(forms[(data[0] & 3) % 3], data + 1, size - 1, data[0] & 4 ? "breed" : "",
                                     data[0] & 8 ? "mask" : NULL, &rows, &err))
        return 0;
    bool more = list_rows_want(rows, data[0] & 16 ? "more.box" : "more") == 0;
    for (size_t before = 0; !code && list_rows_next(rows, &row, &there, &err) == 0 && there; count++) {
        CHECK(count < size && row.line > before);
        CHECK(*row.path && strlen(row.path) <= size);
        CHECK(!row.label || strlen(row.label) <= size);
        if (row.placed)
            check_place(&row.place, size);
        before = row.line;
        code = more ? list_rows_cell(rows, &cells) : cells_add_none(&cells);
        code = code ? code : list_rows_names(rows, &names);
    }
    list_rows_end(rows);
    finish(&cells, cells.count);
    finish(&names, names.count);
    return 0;
}
