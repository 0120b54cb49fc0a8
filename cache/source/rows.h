/* rows.h: what an index has of its samples, packed: a row a sample, as bytes that may as well lie in a file.
 *
 * Rows stand in blocks of ROWS_BLOCK. A block's head has for each column the least value and the number of bytes that
 * the differences from it take: none where all are the same. All numbers are little-endian. Rows never change. Any
 * thread may read them. */
#ifndef LARDER_CACHE_SOURCE_ROWS_H
#define LARDER_CACHE_SOURCE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/little_endian.h"

#define ROWS_BLOCK_BITS 8
#define ROWS_BLOCK (1u << ROWS_BLOCK_BITS) /* rows of a block; the last one may have fewer */

/* What is asked for most often is first. */
enum rows_column {
    ROWS_SIZE,
    ROWS_LABEL,
    ROWS_FLAGS,
    ROWS_KEY,
    ROWS_MTIME,
    ROWS_CTIME,
    ROWS_DEVICE,
    ROWS_INODE,
    ROWS_OFFSET,
    ROWS_PROOF,
    ROWS_COLUMNS
};

/* A head: u64 where the block's rows begin, u64 a column's least value, u8 a column's width, u8 a row's length, zeros
 * to a multiple of eight. Behind the last row are ROWS_SLACK bytes, so that eight can be read anywhere. */
#define ROWS_WIDTHS (8 + 8 * ROWS_COLUMNS)
#define ROWS_HEAD_BYTES ((ROWS_WIDTHS + ROWS_COLUMNS + 1 + 7) / 8 * 8)
#define ROWS_SLACK 8

struct rows {
    uint8_t *heads; /* rows_blocks(count) of them; NULL: there are no rows */
    uint8_t *bytes;
    size_t count, len_bytes; /* rows; and the length of bytes */
};

static inline size_t rows_blocks(size_t count)
{
    return (count + ROWS_BLOCK - 1) >> ROWS_BLOCK_BITS;
}

/* rows_value returns what a row < count has in a column. */
static inline uint64_t rows_value(const struct rows *rows, size_t row, enum rows_column column)
{
    const uint8_t *head = rows->heads + (row >> ROWS_BLOCK_BITS) * ROWS_HEAD_BYTES, *widths = head + ROWS_WIDTHS;
    size_t at = (size_t)get_u64(head) + (row & (ROWS_BLOCK - 1)) * widths[ROWS_COLUMNS];
    for (unsigned i = 0; i < (unsigned)column; i++)
        at += widths[i];
    unsigned width = widths[column];
    uint64_t base = get_u64(head + 8 + 8 * (size_t)column);
    return width ? base + (get_u64(rows->bytes + at) & UINT64_MAX >> (64 - 8 * width)) : base;
}

/* rows_pack packs `count` rows that `give` writes the values of, by their numbers, twice each. The caller frees what
 * *out holds by rows_free. LARDER_ENOMEM. */
typedef void rows_give(const void *context, size_t row, uint64_t values[ROWS_COLUMNS]);
int rows_pack(size_t count, rows_give *give, const void *context, struct rows *out);
void rows_free(struct rows *rows);
/* rows_are_within says whether no row lies outside the bytes, whatever the bytes are. */
bool rows_are_within(const struct rows *rows);

#endif
