/* packed_rows.c: packs rows, and checks packed ones. See packed_rows.h. */
#include "cache/source/packed_rows.h"

#include <stdlib.h>
#include <string.h>

#include "common/larder_err.h"

struct block {
    uint64_t values[PACKED_BLOCK][PACKED_COLUMNS];
    uint64_t least[PACKED_COLUMNS];
    uint8_t widths[PACKED_COLUMNS], row_bytes;
    size_t count;
};

static uint8_t width_of(uint64_t most)
{
    return (uint8_t)(most ? (64 - (unsigned)__builtin_clzll(most) + 7) / 8 : 0);
}

/* Reads a block's values, and finds out what they take. */
static void read_block(struct block *block, size_t first, size_t count, packed_rows_give *give, const void *context)
{
    uint64_t most[PACKED_COLUMNS] = {0};
    block->count = count - first < PACKED_BLOCK ? count - first : PACKED_BLOCK;
    memset(block->least, 0xff, sizeof block->least);
    for (size_t i = 0; i < block->count; i++) {
        uint64_t *values = block->values[i];
        give(context, first + i, values);
        for (unsigned j = 0; j < PACKED_COLUMNS; j++) {
            block->least[j] = values[j] < block->least[j] ? values[j] : block->least[j];
            most[j] = values[j] > most[j] ? values[j] : most[j];
        }
    }
    block->row_bytes = 0;
    for (unsigned j = 0; j < PACKED_COLUMNS; j++) {
        block->widths[j] = width_of(most[j] - block->least[j]);
        block->row_bytes = (uint8_t)(block->row_bytes + block->widths[j]);
    }
}

static void put_head(const struct block *block, size_t at, uint8_t *head)
{
    head = put_u64(head, at);
    for (unsigned j = 0; j < PACKED_COLUMNS; j++)
        head = put_u64(head, block->least[j]);
    memcpy(head, block->widths, PACKED_COLUMNS);
    head[PACKED_COLUMNS] = block->row_bytes;
}

/* Each value is put whole; what it has beyond its width, the next one overwrites. */
static void put_rows(const struct block *block, uint8_t *at)
{
    for (size_t i = 0; i < block->count; i++) {
        for (unsigned j = 0; j < PACKED_COLUMNS; j++) {
            put_u64(at, block->values[i][j] - block->least[j]);
            at += block->widths[j];
        }
    }
    memset(at, 0, PACKED_SLACK);
}

static bool grow(struct packed_rows *rows, size_t *cap, size_t len_bytes)
{
    if (len_bytes <= *cap)
        return true;
    *cap = len_bytes + len_bytes / 4;
    uint8_t *bytes = realloc(rows->bytes, *cap);
    rows->bytes = bytes ? bytes : rows->bytes;
    return bytes;
}

int packed_rows_pack(size_t count, packed_rows_give *give, const void *context, struct packed_rows *out)
{
    struct packed_rows rows = {.heads = calloc(packed_rows_blocks(count), PACKED_HEAD_BYTES), .count = count};
    struct block *block = malloc(sizeof *block);
    size_t cap = 0, at = 0;
    bool room = rows.heads && block;
    for (size_t first = 0; room && first < count; first += PACKED_BLOCK) {
        read_block(block, first, count, give, context);
        size_t len_bytes = at + block->count * block->row_bytes;
        room = grow(&rows, &cap, len_bytes + PACKED_SLACK);
        if (room) {
            put_head(block, at, rows.heads + (first >> PACKED_BLOCK_BITS) * PACKED_HEAD_BYTES);
            put_rows(block, rows.bytes + at);
        }
        at = len_bytes;
    }
    free(block);
    if (!room) {
        packed_rows_free(&rows);
        return LARDER_ENOMEM;
    }
    rows.len_bytes = at + PACKED_SLACK;
    uint8_t *bytes = realloc(rows.bytes, rows.len_bytes);
    rows.bytes = bytes ? bytes : rows.bytes;
    *out = rows;
    return 0;
}

void packed_rows_free(struct packed_rows *rows)
{
    free(rows->heads);
    free(rows->bytes);
    *rows = (struct packed_rows){0};
}

bool packed_rows_are_within(const struct packed_rows *rows)
{
    const uint8_t *head = rows->heads;
    for (size_t first = 0; first < rows->count; first += PACKED_BLOCK, head += PACKED_HEAD_BYTES) {
        uint64_t at = get_u64(head), count = rows->count - first < PACKED_BLOCK ? rows->count - first : PACKED_BLOCK;
        uint64_t row_bytes = 0;
        for (unsigned j = 0; j < PACKED_COLUMNS; j++) {
            if (head[PACKED_WIDTHS + j] > 8)
                return false;
            row_bytes += head[PACKED_WIDTHS + j];
        }
        if (head[PACKED_WIDTHS + PACKED_COLUMNS] != row_bytes || rows->len_bytes < PACKED_SLACK ||
            at > rows->len_bytes - PACKED_SLACK || count * row_bytes > rows->len_bytes - PACKED_SLACK - at)
            return false;
    }
    return true;
}
