#include "preprocess/decode/jpeg_rows.h"

#include "preprocess/decode/jpeg_marker.h"

#define SKIPPED_BLOCKS_MIN 6000 /* from here on, huffman_build_skips is worth its time */
#define MARKED_SEGMENTS_MIN 4   /* from here on, a JPEG is worth its marks */
#define MARKED_BLOCKS 48        /* of a segment that begins at a mark, about */

bool jpeg_rows_fit(const struct jpeg_decompress_struct *cinfo)
{
    const jpeg_component_info *only = cinfo->cur_comp_info[0];
    if (jpeg_scans_fit(cinfo))
        return true;
    if (cinfo->progressive_mode || cinfo->arith_code || cinfo->data_precision != 8 ||
        cinfo->comps_in_scan != cinfo->num_components)
        return false;
    /* The blocks of one component follow each other row by row, whatever its sampling. */
    return cinfo->comps_in_scan > 1 || (only->h_samp_factor == 1 && only->v_samp_factor == 1);
}

static bool build_code(struct huffman *codes, JHUFF_TBL *const *tables, int index, bool dc)
{
    return index >= 0 && index < NUM_HUFF_TBLS && tables[index] &&
           huffman_build(&codes[index], tables[index]->bits, tables[index]->huffval, dc);
}

static bool begin_parts(struct jpeg_rows *rows, const struct jpeg_decompress_struct *cinfo)
{
    unsigned built_dc = 0, built_ac = 0;
    rows->mcu.n_parts = (uint32_t)cinfo->comps_in_scan;
    for (uint32_t i = 0; i < rows->mcu.n_parts; i++) {
        const jpeg_component_info *component = cinfo->cur_comp_info[i];
        int dc = component->dc_tbl_no, ac = component->ac_tbl_no;
        if (!(built_dc >> dc & 1) && !build_code(rows->dc, cinfo->dc_huff_tbl_ptrs, dc, true))
            return false;
        if (!(built_ac >> ac & 1) && !build_code(rows->ac, cinfo->ac_huff_tbl_ptrs, ac, false))
            return false;
        built_dc |= 1u << dc, built_ac |= 1u << ac;
        rows->ac[ac].skips = NULL; /* the JPEG before may have had the same code */
        rows->components[i] = component->component_index;
        rows->mcu.parts[i] = (struct huffman_part){.dc = &rows->dc[dc],
                                                   .ac = &rows->ac[ac],
                                                   .width = (uint32_t)component->h_samp_factor,
                                                   .height = (uint32_t)component->v_samp_factor};
    }
    return huffman_mcu_order(&rows->mcu);
}

/* Begins to read the segment that starts at `at`, in the front lane. */
static bool begin_segment(struct jpeg_rows *rows, const uint8_t *at)
{
    const uint8_t *marker = jpeg_marker_find(at, rows->end);
    if (!marker)
        return false;
    huffman_lane_begin(rows->front, at, marker);
    rows->at = marker;
    rows->done = 0;
    return true;
}

/* Whether the marker behind a segment is the one that belongs there. */
static bool marker_fits(const struct jpeg_rows *rows)
{
    bool last = (rows->segment + 1) * rows->interval >= (uint64_t)rows->per_row * rows->n_rows;
    if (last)
        return rows->at[1] < JPEG_RST0 || rows->at[1] >= JPEG_RST0 + JPEG_MARKER_RESTARTS;
    return rows->at[1] == JPEG_RST0 + rows->segment % JPEG_MARKER_RESTARTS;
}

/* Goes on to a segment, which is not before the one that the front lane reads. */
static bool seek_segment(struct jpeg_rows *rows, uint64_t segment)
{
    for (; rows->segment + 1 < segment; rows->segment++) {
        if (!marker_fits(rows) || !(rows->at = jpeg_marker_find(rows->at + 2, rows->end)))
            return false;
    }
    if (!marker_fits(rows) || !begin_segment(rows, rows->at + 2))
        return false;
    rows->segment = segment;
    return marker_fits(rows);
}

static uint32_t mcus_across(const struct jpeg_decompress_struct *cinfo)
{
    uint32_t width = DCTSIZE * (uint32_t)cinfo->max_h_samp_factor;
    return (cinfo->image_width + width - 1) / width;
}

static uint32_t mcus_down(const struct jpeg_decompress_struct *cinfo)
{
    uint32_t height = DCTSIZE * (uint32_t)cinfo->max_v_samp_factor;
    return (cinfo->image_height + height - 1) / height;
}

static uint32_t blocks_of_mcu(const struct jpeg_decompress_struct *cinfo)
{
    uint32_t blocks = 0;
    for (int i = 0; i < cinfo->num_components; i++)
        blocks += (uint32_t)(cinfo->comp_info[i].h_samp_factor * cinfo->comp_info[i].v_samp_factor);
    return blocks;
}

/* Memory for the AC codes' skips; 0: there are not blocks enough. */
static size_t skips_bytes(const struct jpeg_decompress_struct *cinfo)
{
    uint64_t blocks = (uint64_t)mcus_across(cinfo) * mcus_down(cinfo) * blocks_of_mcu(cinfo);
    return blocks >= SKIPPED_BLOCKS_MIN ? NUM_HUFF_TBLS * sizeof *((struct jpeg_rows *)0)->skips : 0;
}

/* MCUs of a segment that begins at a mark. */
static uint32_t marked_interval(const struct jpeg_decompress_struct *cinfo)
{
    uint32_t blocks = blocks_of_mcu(cinfo);
    return blocks < MARKED_BLOCKS ? MARKED_BLOCKS / blocks : 1;
}

/* Segments that begin at marks; 0: none does. */
static uint32_t marked_segments(const struct jpeg_decompress_struct *cinfo)
{
    uint64_t mcus = (uint64_t)mcus_across(cinfo) * mcus_down(cinfo);
    uint64_t segments = (mcus + marked_interval(cinfo) - 1) / marked_interval(cinfo);
    return segments >= MARKED_SEGMENTS_MIN && !cinfo->restart_interval ? (uint32_t)segments : 0;
}

static void measure(struct jpeg_rows *rows, const struct jpeg_decompress_struct *cinfo)
{
    rows->per_row = mcus_across(cinfo);
    rows->n_rows = mcus_down(cinfo);
    jpeg_rows_want(rows, 0, rows->per_row);
}

bool jpeg_rows_begin_planes(struct jpeg_rows *rows, const struct jpeg_decompress_struct *cinfo,
                            const struct planes_file *file)
{
    struct planes_mcu mcu = {.n_parts = (uint32_t)cinfo->comps_in_scan};
    rows->kind = JPEG_ROWS_PLANES;
    measure(rows, cinfo);
    for (uint32_t i = 0; i < mcu.n_parts; i++) {
        const jpeg_component_info *component = cinfo->cur_comp_info[i];
        rows->components[i] = component->component_index;
        mcu.parts[i].width = (uint32_t)component->h_samp_factor;
        mcu.parts[i].height = (uint32_t)component->v_samp_factor;
    }
    return !cinfo->progressive_mode && planes_rows_begin(&rows->planes, file, &mcu, rows->per_row, rows->n_rows);
}

bool jpeg_rows_begin(struct jpeg_rows *rows, struct jpeg_decompress_struct *cinfo)
{
    rows->kind = cinfo->progressive_mode ? JPEG_ROWS_SCANS : JPEG_ROWS_ONE_SCAN;
    measure(rows, cinfo);
    if (rows->kind == JPEG_ROWS_SCANS)
        return jpeg_scans_begin(&rows->scans, cinfo);
    if (!begin_parts(rows, cinfo))
        return false;
    rows->interval = cinfo->restart_interval ? cinfo->restart_interval : rows->per_row * rows->n_rows;
    size_t bytes = rows->interval >= rows->per_row ? skips_bytes(cinfo) : 0;
    rows->skips = bytes ? cinfo->mem->alloc_large((j_common_ptr)cinfo, JPOOL_IMAGE, bytes) : NULL;
    rows->end = cinfo->src->next_input_byte + cinfo->src->bytes_in_buffer;
    rows->segment = 0;
    rows->marks = NULL;
    rows->front = &rows->lanes[0];
    rows->lanes[1].skip = rows->lanes[1].left = 0; /* the JPEG before may have failed */
    return begin_segment(rows, cinfo->src->next_input_byte) && marker_fits(rows);
}

uint32_t jpeg_rows_mark(struct jpeg_rows *rows, struct jpeg_decompress_struct *cinfo)
{
    rows->start = cinfo->src->next_input_byte;
    rows->n_segments = rows->kind == JPEG_ROWS_ONE_SCAN ? marked_segments(cinfo) : 0;
    if (rows->n_segments == 0 || rows->at - rows->start > (ptrdiff_t)HUFFMAN_MARK_BYTES_MAX)
        return 0;
    rows->marks = cinfo->mem->alloc_large((j_common_ptr)cinfo, JPOOL_IMAGE, rows->n_segments * sizeof *rows->marks);
    rows->marks[0] = (struct huffman_mark){0};
    rows->n_marks = 1;
    rows->interval = marked_interval(cinfo);
    return rows->n_segments;
}

uint32_t jpeg_rows_scans(const struct jpeg_rows *rows)
{
    return rows->kind == JPEG_ROWS_SCANS ? rows->scans.n_scans : 1;
}

void jpeg_rows_place(struct jpeg_rows *rows, int component, JBLOCKARRAY blocks)
{
    bool in_planes = rows->kind == JPEG_ROWS_PLANES;
    uint32_t n_parts = in_planes ? rows->planes.mcu.n_parts : rows->mcu.n_parts;
    if (rows->kind == JPEG_ROWS_SCANS) {
        rows->scans.parts[component].rows = blocks;
        return;
    }
    for (uint32_t i = 0; i < n_parts; i++) {
        if (rows->components[i] != component)
            continue;
        if (in_planes)
            rows->planes.mcu.parts[i].rows = blocks;
        else
            rows->mcu.parts[i].rows = blocks;
    }
}

void jpeg_rows_want(struct jpeg_rows *rows, uint32_t first, uint32_t count)
{
    rows->first = first;
    rows->count = count;
}

/* Before the first row that is wanted: makes the codes' skips if many blocks above and beside the columns may be
 * skipped. */
static void begin_skipping(struct jpeg_rows *rows, uint32_t row)
{
    uint64_t mcus = (uint64_t)row * rows->per_row + (uint64_t)(rows->n_rows - row) * (rows->per_row - rows->count);
    uint64_t known = rows->marks ? (uint64_t)(rows->n_marks - 1) * rows->interval : 0;
    mcus -= known < mcus ? known : mcus;
    for (uint32_t i = 0; i < rows->mcu.n_parts && mcus * rows->mcu.n_blocks >= SKIPPED_BLOCKS_MIN; i++) {
        struct huffman *code = &rows->ac[rows->mcu.parts[i].ac - rows->ac];
        if (code->skips)
            continue;
        uint16_t *skips = rows->skips[code - rows->ac];
        huffman_build_skips(code, skips);
        code->skips = skips;
    }
    rows->skips = NULL;
}

/* Tells the front lane to read *count of its segment's MCUs from `before` on, or fewer if the segment ends, and to
 * store them from `column` on. It sets *count to their number. */
static bool aim_front(struct jpeg_rows *rows, uint32_t before, uint32_t column, uint32_t *count)
{
    uint32_t left = rows->interval - before;
    if (rows->done > before)
        return false;
    *count = *count < left ? *count : left;
    uint32_t skip = before - rows->done;
    rows->done = before + *count;
    bool to_end = rows->marks ? rows->segment * rows->interval + rows->done == (uint64_t)rows->per_row * rows->n_rows
                              : rows->done == rows->interval;
    return huffman_lane_aim(rows->front, &rows->mcu, skip, column, *count, to_end);
}

/* Reads until a lane has nothing left to do, which then is the front lane. */
static bool free_lane(struct jpeg_rows *rows)
{
    struct huffman_lane *a = &rows->lanes[0], *b = &rows->lanes[1];
    if (a->left && b->left && !huffman_read_both(a, b, &rows->mcu))
        return false;
    rows->front = a->left ? b : a;
    return true;
}

/* Begins to read a segment that begins at a mark, in the front lane. */
static bool begin_marked(struct jpeg_rows *rows, uint64_t segment)
{
    const struct huffman_mark *mark = &rows->marks[segment];
    if (mark->bits / 8 > rows->at - rows->start)
        return false;
    huffman_lane_begin_at(rows->front, mark, rows->start, rows->at);
    rows->segment = segment;
    rows->done = 0;
    return true;
}

/* Reads what the front lane was told, of the last segment whose beginning is known. If that is all of the segment, the
 * beginning of the next one is known then. */
static bool read_unmarked(struct jpeg_rows *rows)
{
    if (!huffman_read(rows->front, &rows->mcu))
        return false;
    if (rows->done == rows->interval && rows->n_marks < rows->n_segments)
        rows->marks[rows->n_marks++] = huffman_lane_mark(rows->front, rows->start);
    return true;
}

/* Goes on to a segment whose beginning is not known: passes all before it. */
static bool pass_unmarked(struct jpeg_rows *rows, uint64_t segment)
{
    if (rows->segment + 1 != rows->n_marks && !begin_marked(rows, rows->n_marks - 1))
        return false;
    while (rows->segment < segment) {
        uint32_t skip = rows->interval - rows->done;
        rows->done = rows->interval;
        if (!huffman_lane_aim(rows->front, &rows->mcu, skip, 0, 0, false) || !read_unmarked(rows))
            return false;
        rows->segment++;
        rows->done = 0;
    }
    return true;
}

/* Has the front lane read a segment, which is not before the one that it reads. */
static bool seek(struct jpeg_rows *rows, uint64_t segment)
{
    if (segment == rows->segment)
        return true;
    if (rows->marks && segment >= rows->n_marks)
        return pass_unmarked(rows, segment);
    return free_lane(rows) && (rows->marks ? begin_marked(rows, segment) : seek_segment(rows, segment));
}

bool jpeg_rows_load(struct jpeg_rows *rows, uint32_t row)
{
    if (rows->kind == JPEG_ROWS_PLANES)
        return planes_rows_load(&rows->planes, row, rows->first, rows->count);
    if (rows->kind == JPEG_ROWS_SCANS)
        return jpeg_scans_load(&rows->scans, row, rows->first, rows->count);
    uint64_t begin = (uint64_t)row * rows->per_row, at = begin + rows->first, end = at + rows->count;
    if (row >= rows->n_rows || at / rows->interval < rows->segment)
        return false;
    if (rows->skips)
        begin_skipping(rows, row);
    struct huffman_lane *last = rows->front; /* the row below may go on with it */
    while (at < end) {
        uint64_t segment = at / rows->interval;
        uint32_t before = (uint32_t)(at % rows->interval), count = (uint32_t)(end - at);
        if (!seek(rows, segment) || !aim_front(rows, before, (uint32_t)(at - begin), &count))
            return false;
        if (rows->marks && segment + 1 == rows->n_marks && !read_unmarked(rows))
            return false;
        last = rows->front;
        at += count;
    }
    bool fine = free_lane(rows) && huffman_read(&rows->lanes[0], &rows->mcu) &&
                huffman_read(&rows->lanes[1], &rows->mcu);
    rows->front = last;
    return fine;
}

bool jpeg_rows_finish(struct jpeg_rows *rows)
{
    return rows->kind != JPEG_ROWS_SCANS || jpeg_scans_finish(&rows->scans);
}

size_t jpeg_rows_bytes(const struct jpeg_decompress_struct *cinfo)
{
    size_t bytes = 0;
    uint32_t per_row = mcus_across(cinfo);
    for (int i = 0; i < cinfo->num_components; i++) {
        const jpeg_component_info *component = &cinfo->comp_info[i];
        bytes += (size_t)per_row * (size_t)component->h_samp_factor * (size_t)component->v_samp_factor;
    }
    bytes *= sizeof(JBLOCK);
    if (jpeg_scans_fit(cinfo))
        return bytes + jpeg_scans_bytes(cinfo);
    return bytes + skips_bytes(cinfo) + marked_segments(cinfo) * sizeof(struct huffman_mark);
}
