/* jpeg_planes.c: libjpeg reads the header. It reports errors by calling error_exit, which jumps back to
 * jpeg_planes_make. A warning is an error here. */
#include "preprocess/decode/jpeg_planes.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "common/little_endian.h"
#include "preprocess/decode/jpeg_rows.h"
#include "preprocess/decode/jpeg_whole.h"

#define SAMPLED_MAX 1024 /* blocks of a table that it is fitted to */
#define FIRST_BYTES ((size_t)64 << 10)
#define ROOM_BYTES (PLANES_SEGMENT_MAX + 2 * PLANES_SLACK_BYTES) /* before a segment is begun */

bool jpeg_planes_is(const uint8_t *bytes, size_t len_bytes)
{
    return len_bytes >= 8 && memcmp(bytes, PLANES_MAGIC, 8) == 0;
}

/* ── making ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

struct make {
    struct jpeg_decompress_struct from;
    struct jpeg_error_mgr errors;
    jmp_buf back;
    uint32_t per_row, n_rows, interval;
    JBLOCKARRAY rows[PLANES_PARTS_MAX]; /* the blocks of the row of MCUs at hand */
    int last_dc[PLANES_PARTS_MAX];
    struct planes_table tables[PLANES_TABLES_MAX];
    uint32_t n_tables;

    JBLOCK *sampled[PLANES_TABLES_MAX]; /* blocks to fit the tables to: one of `every` */
    size_t n_sampled[PLANES_TABLES_MAX];
    uint64_t seen[PLANES_TABLES_MAX], every[PLANES_TABLES_MAX];

    uint8_t *bytes; /* the JPEG in planes that is made */
    size_t cap_bytes;
    struct planes_writer writer;
};

static _Noreturn void error_exit(j_common_ptr cinfo)
{
    longjmp(*(jmp_buf *)cinfo->client_data, 1);
}

static void emit_message(j_common_ptr cinfo, int level)
{
    if (level < 0)
        error_exit(cinfo);
}

static void each_block(struct make *make, uint32_t column,
                       void (*block)(struct make *make, uint32_t table, JBLOCK made))
{
    for (int i = 0; i < make->from.comps_in_scan; i++) {
        const jpeg_component_info *component = make->from.cur_comp_info[i];
        int p = component->component_index;
        uint32_t width = (uint32_t)component->h_samp_factor, height = (uint32_t)component->v_samp_factor;
        for (uint32_t b = 0; b < width * height; b++) {
            JBLOCK made;
            memcpy(made, make->rows[p][b / width][column * width + b % width], sizeof made);
            int dc = made[0];
            made[0] = (JCOEF)(dc - make->last_dc[p]);
            make->last_dc[p] = dc;
            block(make, i > 0, made);
        }
    }
}

static void load_row(struct make *make, jvirt_barray_ptr *coefficients, uint32_t row)
{
    struct jpeg_decompress_struct *from = &make->from;
    for (int p = 0; p < from->num_components; p++) {
        JDIMENSION height = (JDIMENSION)from->comp_info[p].v_samp_factor;
        make->rows[p] = from->mem->access_virt_barray((j_common_ptr)from, coefficients[p], row * height, height, FALSE);
    }
}

static void sample_block(struct make *make, uint32_t table, JBLOCK made)
{
    if (make->seen[table]++ % make->every[table] == 0)
        memcpy(make->sampled[table][make->n_sampled[table]++], made, sizeof(JBLOCK));
}

static void write_block(struct make *make, uint32_t table, JBLOCK made)
{
    if (!planes_write(&make->writer, &make->tables[table], made))
        ERREXIT(&make->from, JERR_BAD_DCT_COEF);
}

static void fit_tables(struct make *make, jvirt_barray_ptr *coefficients)
{
    uint64_t blocks[PLANES_TABLES_MAX] = {0};
    for (int p = 0; p < make->from.num_components; p++)
        blocks[p > 0] += (uint64_t)make->per_row * make->n_rows * (uint32_t)make->from.comp_info[p].h_samp_factor *
                         (uint32_t)make->from.comp_info[p].v_samp_factor;
    for (uint32_t t = 0; t < make->n_tables; t++) {
        make->every[t] = (blocks[t] + SAMPLED_MAX - 1) / SAMPLED_MAX;
        if (!(make->sampled[t] = malloc(sizeof(JBLOCK) * SAMPLED_MAX)))
            ERREXIT1(&make->from, JERR_OUT_OF_MEMORY, 0);
    }
    for (uint32_t row = 0; row < make->n_rows; row++) {
        load_row(make, coefficients, row);
        for (uint32_t column = 0; column < make->per_row; column++) {
            if (column % make->interval == 0)
                memset(make->last_dc, 0, sizeof make->last_dc);
            each_block(make, column, sample_block);
        }
    }
    for (uint32_t t = 0; t < make->n_tables; t++) {
        if (!planes_fit(&make->tables[t], (const int16_t(*)[PLANES_PLACES])make->sampled[t], make->n_sampled[t]))
            ERREXIT1(&make->from, JERR_OUT_OF_MEMORY, 0);
    }
}

/* Makes room for a segment, which is zeros. */
static void make_room(struct make *make)
{
    size_t used = make->writer.at / 8;
    if (make->bytes && make->cap_bytes - used >= ROOM_BYTES)
        return;
    size_t cap = make->bytes ? make->cap_bytes * 2 : FIRST_BYTES;
    uint8_t *bytes = realloc(make->bytes, cap);
    if (!bytes)
        ERREXIT1(&make->from, JERR_OUT_OF_MEMORY, 0);
    memset(bytes + make->cap_bytes, 0, cap - make->cap_bytes);
    make->bytes = make->writer.bytes = bytes;
    make->cap_bytes = cap;
}

static void put_bytes(struct make *make, const uint8_t *bytes, size_t len_bytes)
{
    for (size_t put = 0; put < len_bytes;) {
        make_room(make);
        size_t part = len_bytes - put < PLANES_SEGMENT_MAX ? len_bytes - put : PLANES_SEGMENT_MAX;
        memcpy(make->bytes + make->writer.at / 8, bytes + put, part);
        make->writer.at += part * 8;
        put += part;
    }
}

/* The length of a JPEG's header: up to where entropy-coded data begins. 0: it has none. */
static size_t header_of(const uint8_t *jpeg, size_t len_bytes)
{
    size_t at = 2;
    while (at + 4 <= len_bytes && jpeg[at] == 0xff) {
        size_t segment = 2 + ((size_t)jpeg[at + 2] << 8 | jpeg[at + 3]);
        if (segment > len_bytes - at)
            return 0;
        if (jpeg[at + 1] == 0xda)
            return at + segment;
        at += segment;
    }
    return 0;
}

static void put_header(struct make *make, const uint8_t *jpeg, size_t header_bytes)
{
    put_bytes(make, jpeg, 2);
    for (size_t at = 2; at < header_bytes;) {
        size_t segment = 2 + ((size_t)jpeg[at + 2] << 8 | jpeg[at + 3]);
        if (jpeg[at + 1] != 0xc4)
            put_bytes(make, jpeg + at, segment);
        at += segment;
    }
}

static void put_head(struct make *make, const uint8_t *jpeg, size_t header_bytes)
{
    uint8_t head[PLANES_HEAD_BYTES + PLANES_TABLES_MAX * PLANES_TABLE_BYTES] = PLANES_MAGIC;
    put_u16(head + 12, (uint16_t)make->interval);
    head[14] = (uint8_t)make->n_tables;
    for (uint32_t t = 0; t < make->n_tables; t++)
        planes_table_write(&make->tables[t], head + PLANES_HEAD_BYTES + (size_t)t * PLANES_TABLE_BYTES);
    size_t head_bytes = PLANES_HEAD_BYTES + (size_t)make->n_tables * PLANES_TABLE_BYTES;
    put_bytes(make, head, head_bytes);
    put_header(make, jpeg, header_bytes);
    put_u32(make->bytes + 8, (uint32_t)(make->writer.at / 8 - head_bytes));
}

static void put_segments(struct make *make, jvirt_barray_ptr *coefficients)
{
    static const uint8_t nothing[2];
    uint64_t lengths = make->writer.at / 8, segment = 0;
    uint64_t n_segments = (uint64_t)make->n_rows * ((make->per_row + make->interval - 1) / make->interval);
    for (uint64_t i = 0; i < n_segments; i++)
        put_bytes(make, nothing, sizeof nothing);
    for (uint32_t row = 0; row < make->n_rows; row++) {
        load_row(make, coefficients, row);
        for (uint32_t column = 0; column < make->per_row;) {
            make_room(make);
            memset(make->last_dc, 0, sizeof make->last_dc);
            uint64_t begin = make->writer.at / 8;
            for (uint32_t i = 0; i < make->interval && column < make->per_row; i++)
                each_block(make, column++, write_block);
            make->writer.at = (make->writer.at + 7) & ~UINT64_C(7);
            put_u16(make->bytes + lengths + 2 * segment++, (uint16_t)(make->writer.at / 8 - begin));
        }
    }
}

static bool make_body(struct make *make, const uint8_t *jpeg, size_t len_bytes)
{
    struct jpeg_decompress_struct *from = &make->from;
    jpeg_create_decompress(from);
    jpeg_mem_src(from, jpeg, len_bytes);
    jpeg_read_header(from, TRUE);
    size_t header_bytes = header_of(jpeg, len_bytes);
    if (from->progressive_mode || !jpeg_rows_fit(from) || (from->num_components != 1 && from->num_components != 3) ||
        from->restart_interval == 0 || from->restart_interval > PLANES_INTERVAL_MAX || header_bytes == 0)
        return false;
    jvirt_barray_ptr *coefficients = jpeg_whole_read(from, NULL);
    if (!coefficients)
        return false;
    uint32_t mcu_width = DCTSIZE * (uint32_t)from->max_h_samp_factor;
    make->per_row = (from->image_width + mcu_width - 1) / mcu_width;
    make->n_rows = from->total_iMCU_rows;
    make->interval = from->restart_interval;
    make->n_tables = from->num_components > 1 ? PLANES_TABLES_MAX : 1;
    fit_tables(make, coefficients);
    put_head(make, jpeg, header_bytes);
    put_segments(make, coefficients);
    return true;
}

uint8_t *jpeg_planes_make(const uint8_t *jpeg, size_t len_bytes, size_t *new_bytes)
{
    struct make *make = calloc(1, sizeof *make);
    if (!make)
        return NULL;
    make->from.err = jpeg_std_error(&make->errors);
    make->from.client_data = &make->back;
    make->errors.error_exit = error_exit;
    make->errors.emit_message = emit_message;
    bool good = setjmp(make->back) == 0 && make_body(make, jpeg, len_bytes);
    jpeg_destroy_decompress(&make->from);
    uint8_t *made = make->bytes;
    if (good) {
        *new_bytes = make->writer.at / 8;
    } else {
        free(made);
        made = NULL;
    }
    for (uint32_t t = 0; t < PLANES_TABLES_MAX; t++)
        free(make->sampled[t]);
    free(make);
    return made;
}
