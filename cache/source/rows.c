/* rows.c: packs rows, and checks packed ones. See rows.h. */
#include "cache/source/rows.h"

#include <stdlib.h>
#include <string.h>

#include "common/larder_err.h"

struct block {
    uint64_t values[ROWS_BLOCK][ROWS_COLUMNS];
    uint64_t least[ROWS_COLUMNS];
    uint8_t widths[ROWS_COLUMNS], row_bytes;
    size_t count;
};

static uint8_t width_of(uint64_t most)
{
    return (uint8_t)(most ? (64 - (unsigned)__builtin_clzll(most) + 7) / 8 : 0);
}

/* Reads a block's values, and finds out what they take. */
static void read_block(struct block *block, size_t first, size_t count, rows_give *give, const void *context)
{
    uint64_t most[ROWS_COLUMNS] = {0};
    block->count = count - first < ROWS_BLOCK ? count - first : ROWS_BLOCK;
    memset(block->least, 0xff, sizeof block->least);
    for (size_t i = 0; i < block->count; i++) {
        uint64_t *values = block->values[i];
        give(context, first + i, values);
        for (unsigned j = 0; j < ROWS_COLUMNS; j++) {
            block->least[j] = values[j] < block->least[j] ? values[j] : block->least[j];
            most[j] = values[j] > most[j] ? values[j] : most[j];
        }
    }
    block->row_bytes = 0;
    for (unsigned j = 0; j < ROWS_COLUMNS; j++) {
        block->widths[j] = width_of(most[j] - block->least[j]);
        block->row_bytes = (uint8_t)(block->row_bytes + block->widths[j]);
    }
}

static void put_head(const struct block *block, size_t at, uint8_t *head)
{
    head = put_u64(head, at);
    for (unsigned j = 0; j < ROWS_COLUMNS; j++)
        head = put_u64(head, block->least[j]);
    memcpy(head, block->widths, ROWS_COLUMNS);
    head[ROWS_COLUMNS] = block->row_bytes;
}

/* Each value is put whole; what it has beyond its width, the next one overwrites. */
static void put_rows(const struct block *block, uint8_t *at)
{
    for (size_t i = 0; i < block->count; i++) {
        for (unsigned j = 0; j < ROWS_COLUMNS; j++) {
            put_u64(at, block->values[i][j] - block->least[j]);
            at += block->widths[j];
        }
    }
    memset(at, 0, ROWS_SLACK);
}

static bool grow(struct rows *rows, size_t *cap, size_t len_bytes)
{
    if (len_bytes <= *cap)
        return true;
    *cap = len_bytes + len_bytes / 4;
    uint8_t *bytes = realloc(rows->bytes, *cap);
    rows->bytes = bytes ? bytes : rows->bytes;
    return bytes;
}

int rows_pack(size_t count, rows_give *give, const void *context, struct rows *out)
{
    struct rows rows = {.heads = calloc(rows_blocks(count), ROWS_HEAD_BYTES), .count = count};
    struct block *block = malloc(sizeof *block);
    size_t cap = 0, at = 0;
    bool room = rows.heads && block;
    for (size_t first = 0; room && first < count; first += ROWS_BLOCK) {
        read_block(block, first, count, give, context);
        size_t len_bytes = at + block->count * block->row_bytes;
        room = grow(&rows, &cap, len_bytes + ROWS_SLACK);
        if (room) {
            put_head(block, at, rows.heads + (first >> ROWS_BLOCK_BITS) * ROWS_HEAD_BYTES);
            put_rows(block, rows.bytes + at);
        }
        at = len_bytes;
    }
    free(block);
    if (!room) {
        rows_free(&rows);
        return LARDER_ENOMEM;
    }
    rows.len_bytes = at + ROWS_SLACK;
    uint8_t *bytes = realloc(rows.bytes, rows.len_bytes);
    rows.bytes = bytes ? bytes : rows.bytes;
    *out = rows;
    return 0;
}

void rows_free(struct rows *rows)
{
    free(rows->heads);
    free(rows->bytes);
    *rows = (struct rows){0};
}

bool rows_are_within(const struct rows *rows)
{
    const uint8_t *head = rows->heads;
    for (size_t first = 0; first < rows->count; first += ROWS_BLOCK, head += ROWS_HEAD_BYTES) {
        uint64_t at = get_u64(head), count = rows->count - first < ROWS_BLOCK ? rows->count - first : ROWS_BLOCK;
        uint64_t row_bytes = 0;
        for (unsigned j = 0; j < ROWS_COLUMNS; j++) {
            if (head[ROWS_WIDTHS + j] > 8)
                return false;
            row_bytes += head[ROWS_WIDTHS + j];
        }
        if (head[ROWS_WIDTHS + ROWS_COLUMNS] != row_bytes || rows->len_bytes < ROWS_SLACK ||
            at > rows->len_bytes - ROWS_SLACK || count * row_bytes > rows->len_bytes - ROWS_SLACK - at)
            return false;
    }
    return true;
}
