/* test_jpeg_rows.c: coefficients of JPEGs, with and without restart markers, beside those that libjpeg reads. Takes a
 * seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <cmocka.h>

#include "common/check.h"
#include "common/random.h"
#include "images.h"
#include "preprocess/decode/jpeg_rows.h"

#define COMPONENTS_MAX 4

static uint64_t seed = 1;

#define LEFT_BEHIND 0xa5 /* the bytes of a jpeg_rows that was in use: what failed may have left any */

/* A JPEG, open for jpeg_rows, with room for one row of MCUs that nothing was written to yet. */
struct opened {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    struct jpeg_rows *rows;
    JBLOCKARRAY blocks[COMPONENTS_MAX];
};

static void open_rows(struct opened *opened, const struct encoded *jpeg)
{
    struct jpeg_decompress_struct *cinfo = &opened->cinfo;
    cinfo->err = jpeg_std_error(&opened->errors);
    jpeg_create_decompress(cinfo);
    jpeg_mem_src(cinfo, jpeg->data, jpeg->len_bytes);
    jpeg_read_header(cinfo, TRUE);
    opened->rows = xmalloc(sizeof *opened->rows);
    memset(opened->rows, LEFT_BEHIND, sizeof *opened->rows);
}

static void place_rows(struct opened *opened)
{
    struct jpeg_decompress_struct *cinfo = &opened->cinfo;
    for (int i = 0; i < cinfo->num_components; i++) {
        const jpeg_component_info *component = &cinfo->comp_info[i];
        JDIMENSION across = opened->rows->per_row * (JDIMENSION)component->h_samp_factor;
        opened->blocks[i] = cinfo->mem->alloc_barray((j_common_ptr)cinfo, JPOOL_IMAGE, across,
                                                     (JDIMENSION)component->v_samp_factor);
        jpeg_rows_place(opened->rows, i, opened->blocks[i]);
    }
}

static void close_rows(struct opened *opened)
{
    jpeg_destroy_decompress(&opened->cinfo);
    free(opened->rows);
}

/* The coefficients of the wanted columns of a row equal those of `whole`, which libjpeg read. */
static void compare_row(const struct opened *opened, j_decompress_ptr whole, jvirt_barray_ptr *coefficients,
                        uint32_t row)
{
    for (int i = 0; i < whole->num_components; i++) {
        const jpeg_component_info *component = &whole->comp_info[i];
        JDIMENSION high = (JDIMENSION)component->v_samp_factor, wide = (JDIMENSION)component->h_samp_factor;
        for (JDIMENSION y = 0; y < high && row * high + y < component->height_in_blocks; y++) {
            JBLOCKARRAY expected = whole->mem->access_virt_barray((j_common_ptr)whole, coefficients[i], row * high + y,
                                                                  1, FALSE);
            JDIMENSION from = opened->rows->first * wide, end = from + opened->rows->count * wide;
            end = end < component->width_in_blocks ? end : component->width_in_blocks;
            if (from < end)
                assert_memory_equal(opened->blocks[i][y][from], expected[0][from], (end - from) * sizeof(JBLOCK));
        }
    }
}

/* What is remembered of a JPEG from one time to the next. */
struct remembered {
    struct huffman_mark marks[4096];
    uint32_t count, room;
};

static void recall(struct opened *opened, struct remembered *remembered)
{
    uint32_t room = jpeg_rows_mark(opened->rows, &opened->cinfo);
    assert_true(remembered->count == 0 || remembered->room == room);
    assert_true(room <= sizeof remembered->marks / sizeof *remembered->marks);
    remembered->room = room;
    if (remembered->count)
        memcpy(opened->rows->marks, remembered->marks, remembered->count * sizeof *remembered->marks);
    if (remembered->count)
        opened->rows->n_marks = remembered->count;
}

static void remember(const struct jpeg_rows *rows, struct remembered *remembered)
{
    if (remembered->room == 0)
        return;
    assert_in_range(rows->n_marks, remembered->count ? remembered->count : 1, remembered->room);
    assert_memory_equal(rows->marks, remembered->marks, remembered->count * sizeof *remembered->marks);
    memcpy(remembered->marks, rows->marks, rows->n_marks * sizeof *rows->marks);
    remembered->count = rows->n_marks;
}

/* Reads some rows, and of these some columns, as the random numbers say. Returns whether a code got skips. */
static bool compare_some(const struct encoded *jpeg, struct rng *rng, struct remembered *remembered)
{
    struct jpeg_decompress_struct whole;
    struct jpeg_error_mgr errors;
    struct opened opened;
    whole.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&whole);
    jpeg_mem_src(&whole, jpeg->data, jpeg->len_bytes);
    jpeg_read_header(&whole, TRUE);
    jvirt_barray_ptr *coefficients = jpeg_read_coefficients(&whole);
    open_rows(&opened, jpeg);
    struct jpeg_rows *rows = opened.rows;
    assert_true(jpeg_rows_fit(&opened.cinfo) && jpeg_rows_begin(rows, &opened.cinfo));
    if (remembered)
        recall(&opened, remembered);
    place_rows(&opened);
    uint32_t first = (uint32_t)random_below(rng, rows->per_row);
    jpeg_rows_want(rows, first, 1 + (uint32_t)random_below(rng, rows->per_row - first));
    uint32_t row = (uint32_t)random_below(rng, rows->n_rows);
    for (; row < rows->n_rows; row += 1 + (uint32_t)random_below(rng, 3)) {
        assert_true(jpeg_rows_load(rows, row));
        compare_row(&opened, &whole, coefficients, row);
    }
    if (remembered)
        remember(rows, remembered);
    bool skips = rows->mcu.parts[0].ac->skips;
    close_rows(&opened);
    jpeg_destroy_decompress(&whole);
    return skips;
}

static const struct jpeg_form forms[] = {
    {3, 1, 1, false, 90, 0, 0}, {3, 2, 1, false, 99, 0, 0}, {3, 2, 2, false, 80, 0, 0}, {3, 1, 2, false, 30, 0, 0},
    {3, 4, 1, false, 80, 0, 0}, {3, 4, 2, false, 80, 0, 0}, {1, 1, 1, false, 90, 0, 0}, {4, 1, 1, false, 75, 0, 0},
};

/* Proves: whatever rows and columns are wanted, whatever the interval (parts of a row, rows, neither), the coefficients
 * are libjpeg's. */
static void test_coefficients(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{160, 120}, {97, 131}, {17, 9}, {1, 1}, {3, 300}, {300, 3}};
    static const unsigned intervals[] = {0, 1, 2, 3, 4, 5, 7, 10, 20, 65535};
    struct rng rng;
    random_seed(&rng, seed);
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            uint8_t *pixels = picture(sizes[s][0], sizes[s][1], (unsigned)forms[f].components, f);
            struct encoded plain = encode_jpeg(pixels, sizes[s][0], sizes[s][1], &forms[f]);
            for (size_t i = 0; i < sizeof intervals / sizeof *intervals; i++) {
                struct encoded marked = mark_jpeg(&plain, intervals[i]);
                for (int draw = 0; draw < 6; draw++)
                    compare_some(&marked, &rng, NULL);
                encoded_free(&marked);
            }
            encoded_free(&plain);
            free(pixels);
        }
    }
}

/* Proves: the same for JPEGs of which so many blocks are skipped that codes get skips. */
static void test_large(void **state)
{
    (void)state;
    const uint32_t width = 700, height = 560;
    struct rng rng;
    random_seed(&rng, seed);
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        uint32_t skipped = 0;
        uint8_t *pixels = picture(width, height, (unsigned)forms[f].components, f);
        struct encoded jpeg = encode_jpeg(pixels, width, height, &forms[f]);
        for (int draw = 0; draw < 12; draw++)
            skipped += compare_some(&jpeg, &rng, NULL);
        assert_true(skipped > 0 || forms[f].components == 1);
        encoded_free(&jpeg);
        free(pixels);
    }
}

/* Proves: the same where it is remembered from one time to the next where MCUs begin, until all of it is known. */
static void test_remembered(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{160, 120}, {97, 131}, {1, 1}, {3, 900}, {900, 3}, {500, 400}};
    struct rng rng;
    uint32_t whole = 0, parts = 0;
    random_seed(&rng, seed);
    for (size_t i = 0; i < sizeof forms / sizeof *forms * (sizeof sizes / sizeof *sizes); i++) {
        const struct jpeg_form *form = &forms[i % (sizeof forms / sizeof *forms)];
        const uint32_t *size = sizes[i / (sizeof forms / sizeof *forms)];
        uint8_t *pixels = picture(size[0], size[1], (unsigned)form->components, i);
        struct encoded jpeg = encode_jpeg(pixels, size[0], size[1], form);
        struct remembered *remembered = xcalloc(1, sizeof *remembered);
        for (int draw = 0; draw < 20; draw++) {
            compare_some(&jpeg, &rng, remembered);
            parts += remembered->count > 1 && remembered->count < remembered->room;
        }
        whole += remembered->room > 0 && remembered->count == remembered->room;
        free(remembered);
        encoded_free(&jpeg);
        free(pixels);
    }
    assert_true(whole >= 10 && parts >= 10);
}

/* Reads the last row of a JPEG with what is remembered of it. Returns its first block. */
static void read_last_row(const struct encoded *jpeg, struct remembered *remembered, JBLOCK block)
{
    struct opened opened;
    open_rows(&opened, jpeg);
    assert_true(jpeg_rows_begin(opened.rows, &opened.cinfo));
    recall(&opened, remembered);
    place_rows(&opened);
    assert_true(jpeg_rows_load(opened.rows, opened.rows->n_rows - 1));
    remember(opened.rows, remembered);
    memcpy(block, opened.blocks[0][0][0], sizeof(JBLOCK));
    close_rows(&opened);
}

/* Proves: what stands above is not read any more once it is remembered where a row begins. */
static void test_not_read_again(void **state)
{
    (void)state;
    static struct remembered remembered;
    uint8_t *pixels = picture(400, 300, 3, 3);
    struct encoded jpeg = encode_jpeg(pixels, 400, 300, &forms[2]);
    JBLOCK first, again;
    read_last_row(&jpeg, &remembered, first);
    assert_true(remembered.count == remembered.room && remembered.room > 40);
    size_t last = remembered.marks[remembered.room - 1].bits / 8, half = last / 2;
    memset(jpeg.data + jpeg.len_bytes - 2 - last, 0, half); /* a part of the scan, above the last row */
    read_last_row(&jpeg, &remembered, again);
    assert_memory_equal(first, again, sizeof first);
    encoded_free(&jpeg);
    free(pixels);
}

struct skipping {
    struct opened opened;
    const uint8_t *from; /* the scan's bytes, and their end */
    const uint8_t *to;
    struct huffman_lane lane;
    bool fine;
    JBLOCK block; /* the first that was stored */
};

/* Skips MCUs, and stores one behind them. */
static void skip_then_store(struct skipping *skipping, uint32_t count, bool to_end)
{
    const struct huffman_mcu *mcu = &skipping->opened.rows->mcu;
    huffman_lane_begin(&skipping->lane, skipping->from, skipping->to);
    skipping->fine = huffman_lane_aim(&skipping->lane, mcu, count, 0, 1, to_end) && huffman_read(&skipping->lane, mcu);
    memcpy(skipping->block, mcu->parts[0].rows[0][0], sizeof skipping->block);
}

static uint16_t skips[NUM_HUFF_TBLS][1 << HUFFMAN_SKIP_BITS];

static void set_skips(struct jpeg_rows *rows, bool wanted)
{
    for (uint32_t i = 0; i < rows->mcu.n_parts; i++) {
        size_t code = (size_t)(rows->mcu.parts[i].ac - rows->ac);
        rows->ac[code].skips = wanted ? skips[code] : NULL;
    }
}

/* Proves: blocks skipped by skips end where those skipped one symbol after the other do, and are as valid, whatever the
 * bytes. */
static void test_damaged_skips(void **state)
{
    (void)state;
    static struct skipping one, many;
    struct rng rng;
    uint32_t fine = 0, n_draws = 1500;
    random_seed(&rng, seed);
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        uint8_t *pixels = picture(97, 131, (unsigned)forms[f].components, f);
        struct encoded jpeg = encode_jpeg(pixels, 97, 131, &forms[f]);
        open_rows(&one.opened, &jpeg);
        struct jpeg_rows *rows = one.opened.rows;
        assert_true(jpeg_rows_begin(rows, &one.opened.cinfo));
        place_rows(&one.opened);
        for (uint32_t i = 0; i < rows->mcu.n_parts; i++)
            huffman_build_skips(rows->mcu.parts[i].ac, skips[rows->mcu.parts[i].ac - rows->ac]);
        many.opened = one.opened;
        many.from = one.from = one.opened.cinfo.src->next_input_byte;
        many.to = one.to = rows->at;
        uint8_t *scan = jpeg.data + (one.from - jpeg.data);
        for (uint32_t draw = 0; draw < n_draws; draw++) {
            uint8_t *byte = scan + random_below(&rng, (uint64_t)(one.to - one.from)), old = *byte;
            uint32_t last = rows->per_row * rows->n_rows - 1;
            uint32_t count = draw % 4 ? 1 + (uint32_t)random_below(&rng, last - 1) : last;
            *byte = old == 0xff || draw % 3 == 0 ? old : (uint8_t)random_below(&rng, 255);
            set_skips(rows, false);
            skip_then_store(&one, count, count == last);
            set_skips(rows, true);
            skip_then_store(&many, count, count == last);
            assert_int_equal(one.fine, many.fine);
            assert_true(!one.fine || memcmp(one.block, many.block, sizeof one.block) == 0);
            assert_true(!one.fine || memcmp(one.lane.last_dc, many.lane.last_dc, sizeof one.lane.last_dc) == 0);
            fine += one.fine;
            *byte = old;
        }
        close_rows(&one.opened);
        encoded_free(&jpeg);
        free(pixels);
    }
    uint32_t in_all = n_draws * (uint32_t)(sizeof forms / sizeof *forms);
    assert_true(fine > in_all / 3 && fine < in_all); /* both happened */
}

/* Reads all rows; how many could be read. */
static uint32_t read_all(const struct encoded *jpeg, uint32_t *n_rows)
{
    struct opened opened;
    open_rows(&opened, jpeg);
    uint32_t row = 0;
    if (jpeg_rows_fit(&opened.cinfo) && jpeg_rows_begin(opened.rows, &opened.cinfo)) {
        place_rows(&opened);
        while (row < opened.rows->n_rows && jpeg_rows_load(opened.rows, row))
            row++;
    }
    *n_rows = opened.rows->n_rows;
    close_rows(&opened);
    return row;
}

/* Where the n-th restart marker stands. */
static size_t find_restart(const struct encoded *jpeg, int n)
{
    for (size_t at = 0; at + 1 < jpeg->len_bytes; at++) {
        if (jpeg->data[at] == 0xff && (jpeg->data[at + 1] & 0xf8) == JPEG_RST0 && n-- == 0)
            return at;
    }
    fail_msg("there are too few restart markers");
    return 0;
}

/* A copy in which `cut` bytes at `at` are replaced by `len` others. */
static struct encoded splice(const struct encoded *jpeg, size_t at, size_t cut, const char *bytes, size_t len)
{
    struct encoded copy = {xmalloc(jpeg->len_bytes - cut + len), jpeg->len_bytes - cut + len};
    memcpy(copy.data, jpeg->data, at);
    memcpy(copy.data + at, bytes, len);
    memcpy(copy.data + at + len, jpeg->data + at + cut, jpeg->len_bytes - at - cut);
    return copy;
}

static void expect_failure(struct encoded damaged, const char *what)
{
    uint32_t n_rows, read = read_all(&damaged, &n_rows);
    if (read == n_rows)
        fail_msg("%s: all rows were read", what);
    encoded_free(&damaged);
}

/* Proves: markers out of order, missing, too many, a segment that is too short or too long, an interval that is not
 * what the header says: a row fails, and nothing else happens. */
static void test_lies(void **state)
{
    (void)state;
    uint8_t *pixels = picture(160, 120, 3, 5);
    struct encoded plain = encode_jpeg(pixels, 160, 120, &forms[2]), marked = mark_jpeg(&plain, 5);
    size_t third = find_restart(&marked, 2), fourth = find_restart(&marked, 3), end = marked.len_bytes - 2;
    uint32_t n_rows;
    assert_int_equal(read_all(&marked, &n_rows), 8);
    expect_failure(splice(&marked, third, 2, "\xff\xd7", 2), "out of order");
    expect_failure(splice(&marked, third, 2, "", 0), "missing");
    expect_failure(splice(&marked, third, 0, "\xff\xd2", 2), "too many");
    expect_failure(splice(&marked, end, 0, "\xff\xd7", 2), "one more at the end");
    expect_failure(splice(&marked, third, fourth - third, "", 0), "a segment is missing");
    expect_failure(splice(&marked, third + 2, fourth - third - 2, "", 0), "a segment is empty");
    expect_failure(splice(&marked, fourth - 4, 4, "", 0), "too short");
    expect_failure(splice(&marked, fourth, 0, "\x55\x55", 2), "too long");
    expect_failure(splice(&marked, third, 0, "\xff", 1), "fill bytes");
    expect_failure(splice(&marked, end, 2, "", 0), "no end");
    expect_failure(splice(&marked, third + 1, marked.len_bytes - third - 1, "", 0), "half a marker");
    for (size_t at = 0; at + 6 < marked.len_bytes; at++) {
        if (memcmp(marked.data + at, "\xff\xdd\0\4\0\5", 6) == 0) {
            expect_failure(splice(&marked, at + 5, 1, "\4", 1), "a shorter interval");
            expect_failure(splice(&marked, at + 5, 1, "\12", 1), "a longer interval");
        }
    }
    encoded_free(&plain);
    encoded_free(&marked);
    free(pixels);
}

/* Proves: a code that is none, that has one of ones alone, or that is not one for DC coefficients, is refused. */
static void test_codes(void **state)
{
    (void)state;
    struct huffman *code = xcalloc(1, sizeof *code);
    uint8_t counts[17] = {0, 1, 1, 1}, values[256] = {0, 1, 2, 3};
    assert_true(huffman_build(code, counts, values, true));
    counts[3] = 3;
    assert_false(huffman_build(code, counts, values, true));
    counts[3] = 2;
    assert_false(huffman_build(code, counts, values, true));
    counts[3] = 1, counts[16] = 1;
    values[3] = 0x10;
    assert_false(huffman_build(code, counts, values, true));
    assert_true(huffman_build(code, counts, values, false));
    memset(counts, 255, sizeof counts);
    counts[1] = counts[2] = counts[3] = counts[4] = counts[5] = counts[6] = counts[7] = counts[8] = 0;
    assert_false(huffman_build(code, counts, values, false));
    free(code);
}

static jmp_buf back;

static _Noreturn void jump_back(j_common_ptr cinfo)
{
    (void)cinfo;
    longjmp(back, 1);
}

static bool libjpeg_reads(const struct encoded *jpeg)
{
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    cinfo.err = jpeg_std_error(&errors);
    errors.error_exit = jump_back;
    jpeg_create_decompress(&cinfo);
    bool reads = setjmp(back) == 0;
    if (reads) {
        jpeg_mem_src(&cinfo, jpeg->data, jpeg->len_bytes);
        jpeg_read_header(&cinfo, TRUE);
        jpeg_start_decompress(&cinfo);
    }
    jpeg_destroy_decompress(&cinfo);
    return reads;
}

/* Proves: a JPEG with a code of ones alone is refused, as libjpeg refuses it. */
static void test_ones(void **state)
{
    (void)state;
    uint8_t *pixels = picture(64, 48, 1, 2);
    struct encoded jpeg = encode_jpeg(pixels, 64, 48, &forms[6]);
    size_t at = 0, codes = 0;
    while (memcmp(jpeg.data + at, "\xff\xc4", 2) != 0)
        at++;
    size_t counts = at + 4; /* less one: of the first table's codes by length */
    for (size_t length = 1; length <= 16; length++)
        codes += jpeg.data[counts + length];
    struct encoded ones = splice(&jpeg, counts + 17 + codes, 0, "\13", 1);
    assert_int_equal(ones.data[counts + 9], 1); /* the longest code, of eight ones and a zero */
    ones.data[at + 3]++;
    ones.data[counts + 9]++;
    uint32_t n_rows;
    assert_true(libjpeg_reads(&jpeg) && read_all(&jpeg, &n_rows) == 6);
    assert_false(libjpeg_reads(&ones));
    assert_int_equal(read_all(&ones, &n_rows), 0);
    encoded_free(&ones);
    encoded_free(&jpeg);
    free(pixels);
}

/* Proves: a code made again is what it was the first time, whatever was made in between: another code, the same for
 * coefficients of the other kind, or none. */
static void test_codes_again(void **state)
{
    (void)state;
    struct huffman *code = xcalloc(1, sizeof *code), *first = xcalloc(1, sizeof *first);
    const uint8_t counts[17] = {0, 1, 1, 1}, other_counts[17] = {0, 0, 3}, wrong[17] = {0, 3};
    const uint8_t values[256] = {0, 1, 2}, other_values[256] = {0, 1, 4};
    assert_true(huffman_build(first, counts, values, true));
    for (int between = 0; between < 5; between++) {
        assert_true(huffman_build(code, counts, values, true));
        assert_memory_equal(code->look, first->look, sizeof code->look);
        if (between == 1)
            assert_true(huffman_build(code, other_counts, values, true));
        else if (between == 2)
            assert_true(huffman_build(code, counts, other_values, true));
        else if (between == 3)
            assert_true(huffman_build(code, counts, values, false));
        else if (between == 4)
            assert_false(huffman_build(code, wrong, values, true));
        if (between > 0)
            assert_memory_not_equal(code->look, first->look, sizeof code->look);
    }
    assert_true(huffman_build(code, counts, values, true));
    assert_memory_equal(code->look, first->look, sizeof code->look);
    free(code);
    free(first);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coefficients), cmocka_unit_test(test_large),      cmocka_unit_test(test_damaged_skips),
        cmocka_unit_test(test_lies),         cmocka_unit_test(test_codes),      cmocka_unit_test(test_codes_again),
        cmocka_unit_test(test_ones),         cmocka_unit_test(test_remembered), cmocka_unit_test(test_not_read_again),
    };
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 10);
    printf("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
