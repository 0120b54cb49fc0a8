#include "preprocess/decode/jpeg_rows.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define MARKER_MODULO 8 /* RST0 to RST7, over and over */

bool jpeg_rows_fit(const struct jpeg_decompress_struct *cinfo)
{
    const jpeg_component_info *only = cinfo->cur_comp_info[0];
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
        rows->components[i] = component->component_index;
        rows->mcu.parts[i] = (struct huffman_part){.dc = &rows->dc[dc],
                                                   .ac = &rows->ac[ac],
                                                   .width = (uint32_t)component->h_samp_factor,
                                                   .height = (uint32_t)component->v_samp_factor};
    }
    return huffman_mcu_order(&rows->mcu);
}

/* Returns the place of a 0xff that no 0 follows, or else of the last bytes, which are too few to be looked at together.
 * A 0 follows nearly every 0xff, so stopping at each takes longer. */
static const uint8_t *pass_over(const uint8_t *at, const uint8_t *end)
{
#ifdef __SSE2__
    const __m128i ones = _mm_set1_epi8((char)0xff), zeros = _mm_setzero_si128();
    for (; end - at > 16; at += 16) {
        __m128i here = _mm_loadu_si128((const __m128i *)at), next = _mm_loadu_si128((const __m128i *)(at + 1));
        __m128i found = _mm_andnot_si128(_mm_cmpeq_epi8(next, zeros), _mm_cmpeq_epi8(here, ones));
        int mask = _mm_movemask_epi8(found);
        if (mask)
            return at + __builtin_ctz((unsigned)mask);
    }
#endif
    return at;
}

/* The next marker; NULL: there is none, or it is written in an unusual way. */
static const uint8_t *find_marker(const uint8_t *at, const uint8_t *end)
{
    at = pass_over(at, end);
    while ((at = memchr(at, 0xff, (size_t)(end - at)))) {
        if (end - at < 2 || at[1] == 0xff)
            return NULL;
        if (at[1] != 0)
            return at;
        at += 2;
    }
    return NULL;
}

/* Begins to read the segment that starts at `at`, in the front lane. */
static bool begin_segment(struct jpeg_rows *rows, const uint8_t *at)
{
    const uint8_t *marker = find_marker(at, rows->end);
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
        return rows->at[1] < JPEG_RST0 || rows->at[1] >= JPEG_RST0 + MARKER_MODULO;
    return rows->at[1] == JPEG_RST0 + rows->segment % MARKER_MODULO;
}

/* Goes on to a segment, which is not before the one that the front lane reads. */
static bool seek_segment(struct jpeg_rows *rows, uint64_t segment)
{
    if (segment == rows->segment)
        return true;
    for (; rows->segment + 1 < segment; rows->segment++) {
        if (!marker_fits(rows) || !(rows->at = find_marker(rows->at + 2, rows->end)))
            return false;
    }
    if (!marker_fits(rows) || !begin_segment(rows, rows->at + 2))
        return false;
    rows->segment = segment;
    return marker_fits(rows);
}

static void measure(struct jpeg_rows *rows, const struct jpeg_decompress_struct *cinfo)
{
    uint32_t mcu_width = DCTSIZE * (uint32_t)cinfo->max_h_samp_factor;
    uint32_t mcu_height = DCTSIZE * (uint32_t)cinfo->max_v_samp_factor;
    rows->per_row = (cinfo->image_width + mcu_width - 1) / mcu_width;
    rows->n_rows = (cinfo->image_height + mcu_height - 1) / mcu_height;
    jpeg_rows_want(rows, 0, rows->per_row);
}

bool jpeg_rows_begin_planes(struct jpeg_rows *rows, const struct jpeg_decompress_struct *cinfo,
                            const struct planes_file *file)
{
    struct planes_mcu mcu = {.n_parts = (uint32_t)cinfo->comps_in_scan};
    rows->in_planes = true;
    measure(rows, cinfo);
    for (uint32_t i = 0; i < mcu.n_parts; i++) {
        const jpeg_component_info *component = cinfo->cur_comp_info[i];
        rows->components[i] = component->component_index;
        mcu.parts[i].width = (uint32_t)component->h_samp_factor;
        mcu.parts[i].height = (uint32_t)component->v_samp_factor;
    }
    return planes_rows_begin(&rows->planes, file, &mcu, rows->per_row, rows->n_rows);
}

bool jpeg_rows_begin(struct jpeg_rows *rows, const struct jpeg_decompress_struct *cinfo)
{
    rows->in_planes = false;
    if (!begin_parts(rows, cinfo))
        return false;
    measure(rows, cinfo);
    rows->interval = cinfo->restart_interval ? cinfo->restart_interval : rows->per_row * rows->n_rows;
    rows->end = cinfo->src->next_input_byte + cinfo->src->bytes_in_buffer;
    rows->segment = 0;
    rows->front = &rows->lanes[0];
    rows->lanes[1].skip = rows->lanes[1].left = 0; /* the JPEG before may have failed */
    return begin_segment(rows, cinfo->src->next_input_byte) && marker_fits(rows);
}

void jpeg_rows_place(struct jpeg_rows *rows, int component, JBLOCKARRAY blocks)
{
    uint32_t n_parts = rows->in_planes ? rows->planes.mcu.n_parts : rows->mcu.n_parts;
    for (uint32_t i = 0; i < n_parts; i++) {
        if (rows->components[i] != component)
            continue;
        if (rows->in_planes)
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
    return huffman_lane_aim(rows->front, &rows->mcu, skip, column, *count, rows->done == rows->interval);
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

bool jpeg_rows_load(struct jpeg_rows *rows, uint32_t row)
{
    if (rows->in_planes)
        return planes_rows_load(&rows->planes, row, rows->first, rows->count);
    uint64_t begin = (uint64_t)row * rows->per_row, at = begin + rows->first, end = at + rows->count;
    if (row >= rows->n_rows || at / rows->interval < rows->segment)
        return false;
    struct huffman_lane *last = rows->front; /* the row below may go on with it */
    while (at < end) {
        uint64_t segment = at / rows->interval;
        uint32_t before = (uint32_t)(at % rows->interval), count = (uint32_t)(end - at);
        if (segment != rows->segment && !free_lane(rows))
            return false;
        if (!seek_segment(rows, segment) || !aim_front(rows, before, (uint32_t)(at - begin), &count))
            return false;
        last = rows->front;
        at += count;
    }
    bool fine = free_lane(rows) && huffman_read(&rows->lanes[0], &rows->mcu) &&
                huffman_read(&rows->lanes[1], &rows->mcu);
    rows->front = last;
    return fine;
}

size_t jpeg_rows_bytes(const struct jpeg_decompress_struct *cinfo)
{
    size_t bytes = 0;
    uint32_t mcu_width = DCTSIZE * (uint32_t)cinfo->max_h_samp_factor;
    uint32_t per_row = (cinfo->image_width + mcu_width - 1) / mcu_width;
    for (int i = 0; i < cinfo->num_components; i++) {
        const jpeg_component_info *component = &cinfo->comp_info[i];
        bytes += (size_t)per_row * (size_t)component->h_samp_factor * (size_t)component->v_samp_factor;
    }
    return bytes * sizeof(JBLOCK);
}
