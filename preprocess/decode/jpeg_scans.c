#include "preprocess/decode/jpeg_scans.h"

#include <string.h>

#include "preprocess/decode/jpeg_marker.h"

/* What is left of the columns of a row of blocks that are wanted. */
struct span {
    uint32_t from, to;
};

/* Ends a segment that was read whole, and begins with the next. */
static bool next_segment(struct jpeg_scans *scans, struct jpeg_scan *scan)
{
    const uint8_t *at = scan->at;
    if (!progressive_done(&scan->read) || scan->behind == 0 ||
        at[1] != JPEG_RST0 + scan->segment % JPEG_MARKER_RESTARTS)
        return false;
    scan->at = jpeg_marker_find(at + 2, scans->end);
    if (!scan->at)
        return false;
    progressive_begin(&scan->read, at + 2, scan->at);
    scan->segment++;
    scan->left = scan->behind < scan->interval ? (uint32_t)scan->behind : scan->interval;
    scan->behind -= scan->left;
    return true;
}

/* Reads some MCUs of a line of a scan, `y` below the first of the row; they are all wanted, or all not. */
static bool read_some(struct jpeg_scans *scans, struct jpeg_scan *scan, uint32_t y, uint32_t column, uint32_t count,
                      bool stores)
{
    if (scan->read.first == 0)
        return progressive_read_dc(&scan->read, column, count, stores);
    const struct jpeg_scans_part *part = &scans->parts[scan->components[0]];
    uint64_t *masks = part->masks + (size_t)y * scans->per_row * part->wide + column;
    return progressive_read_ac(&scan->read, stores ? part->rows[y] + column : NULL, masks, count);
}

static bool read_line(struct jpeg_scans *scans, struct jpeg_scan *scan, uint32_t y, uint32_t total, struct span wanted)
{
    for (uint32_t column = 0; column < total;) {
        if (scan->left == 0 && !next_segment(scans, scan))
            return false;
        bool stores = column >= wanted.from && column < wanted.to;
        uint32_t until = column < wanted.from ? wanted.from : stores ? wanted.to : total;
        uint32_t count = (until < total ? until : total) - column;
        count = count < scan->left ? count : scan->left;
        if (!read_some(scans, scan, y, column, count, stores))
            return false;
        column += count;
        scan->left -= count;
    }
    return true;
}

/* Reads a scan's part of a row of MCUs. The blocks of one component follow each other line by line, whatever its
 * sampling, and without those that only fill up MCUs. */
static bool read_row(struct jpeg_scans *scans, struct jpeg_scan *scan, uint32_t row, struct span wanted)
{
    struct huffman_mcu *mcu = &scan->read.mcu;
    if (mcu->n_parts > 1) {
        for (uint32_t i = 0; i < mcu->n_parts; i++)
            mcu->parts[i].rows = scans->parts[scan->components[i]].rows;
        return read_line(scans, scan, 0, scans->per_row, wanted);
    }
    const struct jpeg_scans_part *part = &scans->parts[scan->components[0]];
    struct span blocks = {wanted.from * part->wide, wanted.to * part->wide};
    for (uint32_t y = 0; y < part->high && row * part->high + y < part->down; y++) {
        mcu->parts[0].rows = part->rows ? part->rows + y : NULL;
        if (!read_line(scans, scan, y, part->across, blocks))
            return false;
    }
    return true;
}

static void clear(struct jpeg_scans *scans, struct span wanted)
{
    for (uint32_t i = 0; i < scans->n_parts; i++) {
        const struct jpeg_scans_part *part = &scans->parts[i];
        if (!part->flat)
            memset(part->masks, 0, (size_t)part->high * part->wide * scans->per_row * sizeof *part->masks);
        for (uint32_t y = 0; wanted.from < wanted.to && y < part->high; y++)
            memset(part->rows[y] + (size_t)wanted.from * part->wide, 0,
                   (size_t)(wanted.to - wanted.from) * part->wide * sizeof(JBLOCK));
    }
}

static bool read_next(struct jpeg_scans *scans, struct span wanted)
{
    clear(scans, wanted);
    for (uint32_t i = 0; i < scans->n_scans; i++) {
        if (!scans->scans[i].skipped && !read_row(scans, &scans->scans[i], scans->next, wanted))
            return false;
    }
    scans->next++;
    return true;
}

static bool is_read(const struct jpeg_scan *scan)
{
    bool restarts = scan->at[1] >= JPEG_RST0 && scan->at[1] < JPEG_RST0 + JPEG_MARKER_RESTARTS;
    return scan->skipped || (scan->left == 0 && scan->behind == 0 && !restarts && progressive_done(&scan->read));
}

bool jpeg_scans_load(struct jpeg_scans *scans, uint32_t row, uint32_t first, uint32_t count)
{
    static const struct span none;
    if (row < scans->next || row >= scans->n_rows)
        return false;
    while (scans->next < row) {
        if (!read_next(scans, none))
            return false;
    }
    return read_next(scans, (struct span){first, first + count});
}

bool jpeg_scans_finish(struct jpeg_scans *scans)
{
    static const struct span none;
    while (scans->next < scans->n_rows) {
        if (!read_next(scans, none))
            return false;
    }
    for (uint32_t i = 0; i < scans->n_scans; i++) {
        if (!is_read(&scans->scans[i]))
            return false;
    }
    return true;
}
