/* jpeg_scans_find.c: the scans of a file, found before one is read, and what stands in their headers. It refuses more
 * than libjpeg does: what it only warns of, and segments that have no business between scans. */
#include <string.h>

#include "preprocess/decode/jpeg_marker.h"
#include "preprocess/decode/jpeg_scans.h"

#define MARKER_DHT 0xc4
#define MARKER_SOS 0xda
#define MARKER_DRI 0xdd
#define LOW_MAX 13 /* libjpeg's limit */
#define CODES_TYPICAL 12

/* A segment behind its marker and length. */
struct segment {
    const uint8_t *bytes;
    size_t len_bytes;
};

bool jpeg_scans_fit(const struct jpeg_decompress_struct *cinfo)
{
    return cinfo->progressive_mode && !cinfo->arith_code && cinfo->data_precision == 8 &&
           (cinfo->num_components == 1 || cinfo->num_components == JPEG_SCANS_PARTS);
}

/* ── codes ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool read_codes(struct jpeg_scans *scans, struct segment segment)
{
    const uint8_t *at = segment.bytes, *end = at + segment.len_bytes;
    while (end - at > HUFFMAN_LONGEST) {
        uint32_t used = 0;
        if ((at[0] & ~0x10) >= NUM_HUFF_TBLS)
            return false;
        struct jpeg_scans_code *code = &scans->codes[at[0] >> 4][at[0] & 15];
        *code = (struct jpeg_scans_code){.defined = true};
        memcpy(code->counts + 1, at + 1, HUFFMAN_LONGEST);
        at += 1 + HUFFMAN_LONGEST;
        for (uint32_t length = 1; length <= HUFFMAN_LONGEST; length++)
            used += code->counts[length];
        if (used > sizeof code->values || used > (size_t)(end - at))
            return false;
        memcpy(code->values, at, used);
        at += used;
    }
    return at == end;
}

static void take_codes(struct jpeg_scans *scans, const struct jpeg_decompress_struct *cinfo)
{
    for (size_t i = 0; i < 2 * (size_t)NUM_HUFF_TBLS; i++) {
        const JHUFF_TBL *table = i < NUM_HUFF_TBLS ? cinfo->dc_huff_tbl_ptrs[i]
                                                   : cinfo->ac_huff_tbl_ptrs[i - NUM_HUFF_TBLS];
        struct jpeg_scans_code *code = &scans->codes[i / NUM_HUFF_TBLS][i % NUM_HUFF_TBLS];
        *code = (struct jpeg_scans_code){.defined = table != NULL};
        if (table) {
            memcpy(code->counts, table->bits, sizeof code->counts);
            memcpy(code->values, table->huffval, sizeof code->values);
        }
    }
}

static const struct huffman *make_code(struct jpeg_scans *scans, struct jpeg_decompress_struct *cinfo, bool ac,
                                       uint32_t index)
{
    struct jpeg_scans_code *code = &scans->codes[ac][index % NUM_HUFF_TBLS];
    if (index >= NUM_HUFF_TBLS || !code->defined)
        return NULL;
    if (!code->made) {
        code->made = cinfo->mem->alloc_large((j_common_ptr)cinfo, JPOOL_IMAGE, sizeof *code->made);
        code->made->made = HUFFMAN_NOTHING;
        if (!huffman_build(code->made, code->counts, code->values, !ac))
            return NULL;
    }
    return code->made;
}

/* ── headers ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Whether a scan's bits are those that a component lacks; counts them as read. */
static bool goes_on(struct jpeg_scans_part *part, const struct progressive_scan *read)
{
    if (read->first > 0 && part->bits[0] < 0)
        return false;
    for (uint32_t k = read->first; k <= read->last; k++) {
        if (part->bits[k] != (read->refines ? (int)read->low + 1 : -1))
            return false;
        part->bits[k] = (int8_t)read->low;
    }
    return true;
}

static bool read_band(struct progressive_scan *read, uint32_t n_parts, const uint8_t *at)
{
    uint32_t high = at[2] >> 4;
    read->first = at[0], read->last = at[1], read->low = at[2] & 15;
    read->refines = high > 0;
    return read->low <= LOW_MAX && (high == 0 || high == read->low + 1) &&
           (read->first == 0 ? read->last == 0 : read->first <= read->last && read->last < DCTSIZE2 && n_parts == 1);
}

static bool find_component(const struct jpeg_decompress_struct *cinfo, uint32_t id, uint32_t *out)
{
    uint32_t found = 0;
    for (int i = 0; i < cinfo->num_components; i++) {
        if ((uint32_t)cinfo->comp_info[i].component_id == id) {
            *out = (uint32_t)i;
            found++;
        }
    }
    return found == 1;
}

/* A component of a scan, which its header names together with the codes. */
static bool read_part(struct jpeg_scans *scans, struct jpeg_decompress_struct *cinfo, struct jpeg_scan *scan,
                      uint32_t i, const uint8_t *at)
{
    struct progressive_scan *read = &scan->read;
    bool apart = read->mcu.n_parts == 1, dc = read->first == 0;
    if (!find_component(cinfo, at[0], &scan->components[i]))
        return false;
    struct jpeg_scans_part *part = &scans->parts[scan->components[i]];
    struct huffman_part *coded = &read->mcu.parts[i];
    *coded = (struct huffman_part){.width = apart ? 1 : part->wide, .height = apart ? 1 : part->high};
    if (!dc)
        coded->ac = make_code(scans, cinfo, true, at[1] & 15);
    else if (!read->refines)
        coded->dc = make_code(scans, cinfo, false, at[1] >> 4);
    const struct huffman *code = dc ? coded->dc : coded->ac;
    return goes_on(part, read) && (code ? progressive_fits(read, code) : dc && read->refines);
}

static uint64_t count_mcus(const struct jpeg_scans *scans, const struct jpeg_scan *scan)
{
    const struct jpeg_scans_part *part = &scans->parts[scan->components[0]];
    return scan->read.mcu.n_parts == 1 ? (uint64_t)part->across * part->down : (uint64_t)scans->per_row * scans->n_rows;
}

/* Begins with the first segment of a scan, and returns where the scan ends; NULL: it does not. */
static const uint8_t *begin_scan(struct jpeg_scans *scans, struct jpeg_scan *scan, const uint8_t *at)
{
    const uint8_t *end = jpeg_marker_find(at, scans->end);
    if (!end)
        return NULL;
    uint64_t mcus = count_mcus(scans, scan);
    progressive_begin(&scan->read, at, end);
    scan->skipped = scan->read.first > 0 && scans->parts[scan->components[0]].flat;
    scan->interval = scans->interval && scans->interval < mcus ? scans->interval : (uint32_t)mcus;
    scan->left = scan->interval;
    scan->behind = mcus - scan->left;
    scan->segment = 0;
    scan->at = end;
    while (end && end[1] >= JPEG_RST0 && end[1] < JPEG_RST0 + JPEG_MARKER_RESTARTS)
        end = jpeg_marker_find(end + 2, scans->end);
    return end;
}

static const uint8_t *read_scan(struct jpeg_scans *scans, struct jpeg_decompress_struct *cinfo, struct segment segment)
{
    struct jpeg_scan *scan = &scans->scans[scans->n_scans];
    uint32_t n_parts = segment.len_bytes ? segment.bytes[0] : 0;
    if (scans->n_scans == JPEG_SCANS_MAX || n_parts == 0 || n_parts > scans->n_parts ||
        segment.len_bytes != 4 + 2 * (size_t)n_parts)
        return NULL;
    scan->read.mcu.n_parts = n_parts;
    if (!read_band(&scan->read, n_parts, segment.bytes + 1 + 2 * (size_t)n_parts))
        return NULL;
    for (uint32_t i = 0; i < n_parts; i++) {
        if (!read_part(scans, cinfo, scan, i, segment.bytes + 1 + 2 * (size_t)i))
            return NULL;
    }
    if (!huffman_mcu_order(&scan->read.mcu))
        return NULL;
    scans->n_scans++;
    return begin_scan(scans, scan, segment.bytes + segment.len_bytes);
}

/* Reads what stands between scans, and their headers, up to the end of the image. */
static bool read_headers(struct jpeg_scans *scans, struct jpeg_decompress_struct *cinfo, const uint8_t *at)
{
    while (at && scans->end - at >= 4 && at[0] == 0xff && at[1] != JPEG_EOI) {
        struct segment segment = {at + 4, (size_t)at[2] << 8 | at[3]};
        uint8_t marker = at[1];
        if (segment.len_bytes < 2 || (size_t)(scans->end - at) - 2 < segment.len_bytes)
            return false;
        segment.len_bytes -= 2;
        at = segment.bytes + segment.len_bytes;
        if (marker == MARKER_SOS)
            at = read_scan(scans, cinfo, segment);
        else if (marker == MARKER_DRI && segment.len_bytes == 2)
            scans->interval = (uint32_t)segment.bytes[0] << 8 | segment.bytes[1];
        else if (marker != MARKER_DHT || !read_codes(scans, segment))
            return false;
    }
    return at && scans->end - at >= 2 && at[0] == 0xff && at[1] == JPEG_EOI;
}

/* ── components ─────────────────────────────────────────────────────────────────────────────────────────────────── */

static void begin_part(struct jpeg_scans *scans, struct jpeg_decompress_struct *cinfo, uint32_t i)
{
    const jpeg_component_info *component = &cinfo->comp_info[i];
    struct jpeg_scans_part *part = &scans->parts[i];
    part->wide = (uint32_t)component->h_samp_factor, part->high = (uint32_t)component->v_samp_factor;
    part->across = component->width_in_blocks, part->down = component->height_in_blocks;
    part->flat = component->DCT_scaled_size == 1;
    memset(part->bits, -1, sizeof part->bits);
    part->rows = NULL;
    part->masks = cinfo->mem->alloc_large((j_common_ptr)cinfo, JPOOL_IMAGE,
                                          sizeof *part->masks * part->high * part->wide * scans->per_row);
}

/* No table is defined between scans, so libjpeg would copy these. */
static bool set_tables(struct jpeg_decompress_struct *cinfo)
{
    for (int i = 0; i < cinfo->num_components; i++) {
        int table = cinfo->comp_info[i].quant_tbl_no;
        if (table < 0 || table >= NUM_QUANT_TBLS || !cinfo->quant_tbl_ptrs[table])
            return false;
    }
    for (int i = 0; i < cinfo->num_components; i++)
        cinfo->comp_info[i].quant_table = cinfo->quant_tbl_ptrs[cinfo->comp_info[i].quant_tbl_no];
    return true;
}

static bool is_complete(const struct jpeg_scans *scans)
{
    static const int8_t all[DCTSIZE2];
    for (uint32_t i = 0; i < scans->n_parts; i++) {
        if (memcmp(scans->parts[i].bits, all, sizeof all) != 0)
            return false;
    }
    return true;
}

/* The header of the first scan, which libjpeg has read: it ends where the source is. */
static const uint8_t *first_header(const struct jpeg_decompress_struct *cinfo)
{
    return cinfo->src->next_input_byte - (4 + 4 + 2 * (size_t)cinfo->comps_in_scan);
}

bool jpeg_scans_begin(struct jpeg_scans *scans, struct jpeg_decompress_struct *cinfo)
{
    uint32_t mcu_width = DCTSIZE * (uint32_t)cinfo->max_h_samp_factor;
    uint32_t mcu_height = DCTSIZE * (uint32_t)cinfo->max_v_samp_factor;
    scans->per_row = (cinfo->image_width + mcu_width - 1) / mcu_width;
    scans->n_rows = (cinfo->image_height + mcu_height - 1) / mcu_height;
    scans->next = 0;
    scans->n_parts = (uint32_t)cinfo->num_components;
    scans->n_scans = 0;
    scans->end = cinfo->src->next_input_byte + cinfo->src->bytes_in_buffer;
    scans->interval = cinfo->restart_interval;
    take_codes(scans, cinfo);
    for (uint32_t i = 0; i < scans->n_parts; i++)
        begin_part(scans, cinfo, i);
    scans->scans = cinfo->mem->alloc_large((j_common_ptr)cinfo, JPOOL_IMAGE, JPEG_SCANS_MAX * sizeof *scans->scans);
    return read_headers(scans, cinfo, first_header(cinfo)) && is_complete(scans) && set_tables(cinfo);
}

size_t jpeg_scans_bytes(const struct jpeg_decompress_struct *cinfo)
{
    size_t mcu_width = DCTSIZE * (size_t)cinfo->max_h_samp_factor, blocks = 0;
    for (int i = 0; i < cinfo->num_components; i++)
        blocks += (size_t)cinfo->comp_info[i].h_samp_factor * (size_t)cinfo->comp_info[i].v_samp_factor;
    return (cinfo->image_width + mcu_width - 1) / mcu_width * blocks * sizeof(uint64_t) +
           JPEG_SCANS_MAX * sizeof(struct jpeg_scan) + CODES_TYPICAL * sizeof(struct huffman);
}
