#include "preprocess/decode/planes_rows.h"

#include <string.h>

#include "common/little_endian.h"

bool planes_rows_begin(struct planes_rows *rows, const struct planes_file *file, const struct planes_mcu *mcu,
                       uint32_t per_row, uint32_t n_rows)
{
    rows->file = *file;
    rows->mcu = *mcu;
    rows->per_row = per_row;
    rows->n_rows = n_rows;
    rows->segments_per_row = (per_row + file->interval - 1) / file->interval;
    if (file->n_tables != (mcu->n_parts > 1 ? PLANES_TABLES_MAX : 1) ||
        !planes_file_segments(&rows->file, (uint64_t)rows->segments_per_row * n_rows))
        return false;
    for (uint32_t i = 0; i < file->n_tables; i++) {
        if (!planes_table_read(&rows->tables[i], file->tables + (size_t)i * PLANES_TABLE_BYTES))
            return false;
    }
    for (uint32_t i = 0; i < mcu->n_parts; i++)
        rows->mcu.parts[i].table = &rows->tables[i > 0];
    rows->segment = 0;
    rows->at = rows->file.segments;
    return true;
}

static uint32_t length_of(const struct planes_rows *rows, uint64_t segment)
{
    return get_u16(rows->file.lengths + segment * 2);
}

/* Returns the next segment. Whatever its bits are, reading it stays within the file or `tail`. */
static struct planes_segment take_segment(struct planes_rows *rows)
{
    uint32_t bytes = length_of(rows, rows->segment++);
    struct planes_segment segment = {.bytes = rows->at, .end = (uint64_t)bytes * 8};
    rows->at += bytes;
    if (rows->file.end - rows->at < PLANES_SLACK_BYTES) {
        memcpy(rows->tail, segment.bytes, bytes);
        memset(rows->tail + bytes, 0, PLANES_SLACK_BYTES);
        segment.bytes = rows->tail;
    }
    return segment;
}

bool planes_rows_load(struct planes_rows *rows, uint32_t row, uint32_t first, uint32_t count)
{
    uint32_t interval = rows->file.interval, end = first + count;
    uint64_t segment = (uint64_t)row * rows->segments_per_row + first / interval;
    if (row >= rows->n_rows || first > rows->per_row || count > rows->per_row - first || segment < rows->segment)
        return false;
    for (; rows->segment < segment; rows->segment++)
        rows->at += length_of(rows, rows->segment);
    for (uint32_t at = first; at < end;) {
        struct planes_segment bits = take_segment(rows);
        uint32_t begin = at - at % interval,
                 behind = rows->per_row - begin < interval ? rows->per_row : begin + interval;
        uint32_t until = behind < end ? behind : end;
        if (!planes_read(&bits, &rows->mcu, at - begin, at, until - at) || (until == behind && !planes_done(&bits)))
            return false;
        at = until;
    }
    return true;
}
