/* packed_rows.h: what an index has of its samples, packed: a row a sample, as bytes that may as well lie in a file.
 *
 * Rows stand in blocks of PACKED_BLOCK. A block's head has for each column the least value and the number of bytes that
 * the differences from it take: none where all are the same. All numbers are little-endian. Rows never change. Any
 * thread may read them. */
#ifndef LARDER_CACHE_SOURCE_PACKED_ROWS_H
#define LARDER_CACHE_SOURCE_PACKED_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/little_endian.h"

#define PACKED_BLOCK_BITS 8
#define PACKED_BLOCK (1u << PACKED_BLOCK_BITS) /* rows of a block; the last one may have fewer */

/* What is asked for most often is first. */
enum packed_column {
    PACKED_SIZE,
    PACKED_LABEL,
    PACKED_FLAGS,
    PACKED_KEY,
    PACKED_MTIME,
    PACKED_CTIME,
    PACKED_DEVICE,
    PACKED_INODE,
    PACKED_OFFSET,
    PACKED_PROOF,
    PACKED_COLUMNS
};

/* A head: u64 where the block's rows begin, u64 a column's least value, u8 a column's width, u8 a row's length, zeros
 * to a multiple of eight. Behind the last row are PACKED_SLACK bytes, so that eight can be read anywhere. */
#define PACKED_WIDTHS (8 + 8 * PACKED_COLUMNS)
#define PACKED_HEAD_BYTES ((PACKED_WIDTHS + PACKED_COLUMNS + 1 + 7) / 8 * 8)
#define PACKED_SLACK 8

struct packed_rows {
    uint8_t *heads; /* packed_rows_blocks(count) of them; NULL: there are no rows */
    uint8_t *bytes;
    size_t count, len_bytes; /* rows; and the length of bytes */
};

static inline size_t packed_rows_blocks(size_t count)
{
    return (count + PACKED_BLOCK - 1) >> PACKED_BLOCK_BITS;
}

/* packed_rows_value returns what a row < count has in a column. */
static inline uint64_t packed_rows_value(const struct packed_rows *rows, size_t row, enum packed_column column)
{
    const uint8_t *head = rows->heads + (row >> PACKED_BLOCK_BITS) * PACKED_HEAD_BYTES, *widths = head + PACKED_WIDTHS;
    size_t at = (size_t)get_u64(head) + (row & (PACKED_BLOCK - 1)) * widths[PACKED_COLUMNS];
    for (unsigned i = 0; i < (unsigned)column; i++)
        at += widths[i];
    unsigned width = widths[column];
    uint64_t base = get_u64(head + 8 + 8 * (size_t)column);
    return width ? base + (get_u64(rows->bytes + at) & UINT64_MAX >> (64 - 8 * width)) : base;
}

/* packed_rows_pack packs `count` rows that `give` writes the values of, by their numbers. The caller frees what *out
 * holds by packed_rows_free. LARDER_ENOMEM. */
typedef void packed_rows_give(const void *context, size_t row, uint64_t values[PACKED_COLUMNS]);
int packed_rows_pack(size_t count, packed_rows_give *give, const void *context, struct packed_rows *out);
void packed_rows_free(struct packed_rows *rows);
/* packed_rows_are_within says whether no row lies outside the bytes, whatever the bytes are. */
bool packed_rows_are_within(const struct packed_rows *rows);

#endif
