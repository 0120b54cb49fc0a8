/* jpeg_planes.c: errors leave through the error_exit of what libjpeg read. */
#include "preprocess/decode/jpeg_planes.h"

#include <stdlib.h>
#include <string.h>

#include <jerror.h>

#include "common/little_endian.h"

#define SAMPLED_MAX 1024 /* blocks of a table that it is fitted to */
#define AC_MAX 1023      /* of a baseline JPEG */
#define FIRST_BYTES ((size_t)64 << 10)
#define ROOM_BYTES (PLANES_SEGMENT_MAX + 2 * PLANES_SLACK_BYTES) /* before a segment is begun */

bool jpeg_planes_is(const uint8_t *bytes, size_t len_bytes)
{
    return len_bytes >= 8 && memcmp(bytes, PLANES_MAGIC, 8) == 0;
}

/* ── coefficients ───────────────────────────────────────────────────────────────────────────────────────────────── */

struct make {
    struct jpeg_decompress_struct *from;
    jvirt_barray_ptr *coefficients;
    uint32_t per_row, n_rows, interval;
    JBLOCKARRAY rows[PLANES_PARTS_MAX]; /* the blocks of the row of MCUs at hand */
    int last_dc[PLANES_PARTS_MAX];
    struct planes_table tables[PLANES_TABLES_MAX];
    uint32_t n_tables;

    JBLOCK *sampled[PLANES_TABLES_MAX]; /* blocks to fit the tables to: one of `every` */
    size_t n_sampled[PLANES_TABLES_MAX];
    uint64_t seen[PLANES_TABLES_MAX], every[PLANES_TABLES_MAX];

    struct jpeg_planes *made;
    struct planes_writer writer;
};

/* The blocks of an MCU that lie outside of the image: as libjpeg writes them. */
static void fill_outside(struct make *make, int p, uint32_t column, uint32_t inside_wide, uint32_t inside_high)
{
    const jpeg_component_info *component = &make->from->comp_info[p];
    uint32_t width = (uint32_t)component->h_samp_factor, height = (uint32_t)component->v_samp_factor;
    JCOEF dc = 0;
    for (uint32_t b = 0; b < width * height; b++) {
        JCOEF *block = make->rows[p][b / width][column * width + b % width];
        if (b / width >= inside_high || b % width >= inside_wide) {
            memset(block, 0, sizeof(JBLOCK));
            block[0] = dc;
        }
        dc = block[0];
    }
}

static uint32_t inside(JDIMENSION blocks, int factor)
{
    uint32_t over = blocks % (uint32_t)factor;
    return over ? over : (uint32_t)factor;
}

static void load_row(struct make *make, uint32_t row)
{
    struct jpeg_decompress_struct *from = make->from;
    if (from->progress)
        from->progress->progress_monitor((j_common_ptr)from);
    for (int p = 0; p < from->num_components; p++) {
        const jpeg_component_info *component = &from->comp_info[p];
        JDIMENSION height = (JDIMENSION)component->v_samp_factor;
        make->rows[p] = from->mem->access_virt_barray((j_common_ptr)from, make->coefficients[p], row * height, height,
                                                      TRUE);
        uint32_t wide = inside(component->width_in_blocks, component->h_samp_factor), high = height;
        if (row + 1 == make->n_rows)
            high = inside(component->height_in_blocks, component->v_samp_factor);
        for (uint32_t column = 0; high < height && column + 1 < make->per_row; column++)
            fill_outside(make, p, column, (uint32_t)component->h_samp_factor, high);
        fill_outside(make, p, make->per_row - 1, wide, high);
    }
}

/* `dc` is the difference to the block before. */
static void each_block(struct make *make, uint32_t column,
                       void (*block)(struct make *make, uint32_t table, const JCOEF *read, int dc))
{
    for (int p = 0; p < make->from->num_components; p++) {
        const jpeg_component_info *component = &make->from->comp_info[p];
        uint32_t width = (uint32_t)component->h_samp_factor, height = (uint32_t)component->v_samp_factor;
        for (uint32_t y = 0; y < height; y++) {
            for (uint32_t x = 0; x < width; x++) {
                const JCOEF *read = make->rows[p][y][column * width + x];
                int dc = read[0] - make->last_dc[p];
                make->last_dc[p] = read[0];
                block(make, p > 0, read, dc);
            }
        }
    }
}

static void copy_block(JBLOCK copy, const JCOEF *read, int dc)
{
    memcpy(copy, read, sizeof(JBLOCK));
    copy[0] = (JCOEF)dc;
}

static void sample_block(struct make *make, uint32_t table, const JCOEF *read, int dc)
{
    if (make->seen[table]++ % make->every[table] == 0)
        copy_block(make->sampled[table][make->n_sampled[table]++], read, dc);
}

/* Whether a baseline JPEG can have the coefficients. planes_write looks at the difference, if it fits its type. */
static bool is_baseline(const JCOEF *block, int dc)
{
    uint32_t too_large = dc != block[0];
    for (int i = 1; i < DCTSIZE2; i++)
        too_large |= block[i] > AC_MAX || block[i] < -AC_MAX;
    return !too_large;
}

static void write_block(struct make *make, uint32_t table, const JCOEF *read, int dc)
{
    JBLOCK block;
    copy_block(block, read, dc);
    if (!is_baseline(block, dc) || !planes_write(&make->writer, &make->tables[table], block))
        ERREXIT(make->from, JERR_BAD_DCT_COEF);
}

static void fit_tables(struct make *make)
{
    struct jpeg_decompress_struct *from = make->from;
    uint64_t blocks[PLANES_TABLES_MAX] = {0};
    for (int p = 0; p < from->num_components; p++)
        blocks[p > 0] += (uint64_t)make->per_row * make->n_rows * (uint32_t)from->comp_info[p].h_samp_factor *
                         (uint32_t)from->comp_info[p].v_samp_factor;
    for (uint32_t t = 0; t < make->n_tables; t++) {
        make->every[t] = (blocks[t] + SAMPLED_MAX - 1) / SAMPLED_MAX;
        make->sampled[t] = from->mem->alloc_large((j_common_ptr)from, JPOOL_IMAGE, sizeof(JBLOCK) * SAMPLED_MAX);
    }
    for (uint32_t row = 0; row < make->n_rows; row++) {
        load_row(make, row);
        for (uint32_t column = 0; column < make->per_row; column++) {
            if (column % make->interval == 0)
                memset(make->last_dc, 0, sizeof make->last_dc);
            each_block(make, column, sample_block);
        }
    }
    for (uint32_t t = 0; t < make->n_tables; t++) {
        if (!planes_fit(&make->tables[t], (const int16_t(*)[PLANES_PLACES])make->sampled[t], make->n_sampled[t]))
            ERREXIT1(from, JERR_OUT_OF_MEMORY, 0);
    }
}

/* ── bytes ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Makes room for a segment, which is zeros. */
static void make_room(struct make *make)
{
    struct jpeg_planes *made = make->made;
    size_t used = make->writer.at / 8;
    if (made->bytes && made->cap_bytes - used >= ROOM_BYTES)
        return;
    size_t cap = made->bytes ? made->cap_bytes * 2 : FIRST_BYTES;
    uint8_t *bytes = realloc(made->bytes, cap);
    if (!bytes)
        ERREXIT1(make->from, JERR_OUT_OF_MEMORY, 0);
    memset(bytes + made->cap_bytes, 0, cap - made->cap_bytes);
    made->bytes = make->writer.bytes = bytes;
    made->cap_bytes = cap;
}

static void put_bytes(struct make *make, const uint8_t *bytes, size_t len_bytes)
{
    for (size_t put = 0; put < len_bytes;) {
        make_room(make);
        size_t part = len_bytes - put < PLANES_SEGMENT_MAX ? len_bytes - put : PLANES_SEGMENT_MAX;
        memcpy(make->made->bytes + make->writer.at / 8, bytes + put, part);
        make->writer.at += part * 8;
        put += part;
    }
}

static void put_header(struct make *make, const uint8_t *header, size_t header_bytes)
{
    put_bytes(make, header, 2);
    for (size_t at = 2; at < header_bytes;) {
        size_t segment = 2 + ((size_t)header[at + 2] << 8 | header[at + 3]);
        if (header[at + 1] != 0xc4)
            put_bytes(make, header + at, segment);
        at += segment;
    }
}

static void put_head(struct make *make, const uint8_t *header, size_t header_bytes)
{
    uint8_t head[PLANES_HEAD_BYTES + PLANES_TABLES_MAX * PLANES_TABLE_BYTES] = PLANES_MAGIC;
    put_u16(head + 12, (uint16_t)make->interval);
    head[14] = (uint8_t)make->n_tables;
    for (uint32_t t = 0; t < make->n_tables; t++)
        planes_table_write(&make->tables[t], head + PLANES_HEAD_BYTES + (size_t)t * PLANES_TABLE_BYTES);
    size_t head_bytes = PLANES_HEAD_BYTES + (size_t)make->n_tables * PLANES_TABLE_BYTES;
    put_bytes(make, head, head_bytes);
    put_header(make, header, header_bytes);
    put_u32(make->made->bytes + 8, (uint32_t)(make->writer.at / 8 - head_bytes));
}

static void put_segments(struct make *make)
{
    static const uint8_t nothing[2];
    uint64_t lengths = make->writer.at / 8, segment = 0;
    uint64_t n_segments = (uint64_t)make->n_rows * ((make->per_row + make->interval - 1) / make->interval);
    for (uint64_t i = 0; i < n_segments; i++)
        put_bytes(make, nothing, sizeof nothing);
    for (uint32_t row = 0; row < make->n_rows; row++) {
        load_row(make, row);
        for (uint32_t column = 0; column < make->per_row;) {
            make_room(make);
            memset(make->last_dc, 0, sizeof make->last_dc);
            uint64_t begin = make->writer.at / 8;
            for (uint32_t i = 0; i < make->interval && column < make->per_row; i++)
                each_block(make, column++, write_block);
            make->writer.at = (make->writer.at + 7) & ~UINT64_C(7);
            put_u16(make->made->bytes + lengths + 2 * segment++, (uint16_t)(make->writer.at / 8 - begin));
        }
    }
}

bool jpeg_planes_fit(const struct jpeg_decompress_struct *from)
{
    const jpeg_component_info *first = &from->comp_info[0];
    return from->num_components == 3 ||
           (from->num_components == 1 && first->h_samp_factor == 1 && first->v_samp_factor == 1);
}

void jpeg_planes_write(struct jpeg_decompress_struct *from, jvirt_barray_ptr *coefficients, const uint8_t *header,
                       size_t header_bytes, struct jpeg_planes *made)
{
    struct make *make = from->mem->alloc_large((j_common_ptr)from, JPOOL_IMAGE, sizeof *make);
    uint32_t mcu_width = DCTSIZE * (uint32_t)from->max_h_samp_factor;
    *make = (struct make){.from = from, .coefficients = coefficients, .made = made};
    make->per_row = (from->image_width + mcu_width - 1) / mcu_width;
    make->n_rows = from->total_iMCU_rows;
    make->interval = make->per_row < PLANES_INTERVAL_MAX ? make->per_row : PLANES_INTERVAL_MAX;
    make->n_tables = from->num_components > 1 ? PLANES_TABLES_MAX : 1;
    fit_tables(make);
    put_head(make, header, header_bytes);
    put_segments(make);
    made->len_bytes = make->writer.at / 8;
}
