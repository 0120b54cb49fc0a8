/* test_jpeg_scans.c: coefficients of progressive JPEGs beside those that libjpeg reads. Takes a seed. */
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
#include "scans.h"

#define COMPONENTS_MAX 3
#define LEFT_BEHIND 0xa5 /* the bytes of a jpeg_rows that was in use: what failed may have left any */

static uint64_t seed = 31;

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

static bool begin_rows(struct opened *opened)
{
    struct jpeg_decompress_struct *cinfo = &opened->cinfo;
    if (!jpeg_rows_fit(cinfo) || !jpeg_rows_begin(opened->rows, cinfo))
        return false;
    for (int i = 0; i < cinfo->num_components; i++) {
        const jpeg_component_info *component = &cinfo->comp_info[i];
        JDIMENSION across = opened->rows->per_row * (JDIMENSION)component->h_samp_factor;
        opened->blocks[i] = cinfo->mem->alloc_barray((j_common_ptr)cinfo, JPOOL_IMAGE, across,
                                                     (JDIMENSION)component->v_samp_factor);
        jpeg_rows_place(opened->rows, i, opened->blocks[i]);
    }
    return true;
}

static void close_rows(struct opened *opened)
{
    jpeg_destroy_decompress(&opened->cinfo);
    free(opened->rows);
}

/* ── comparisons ────────────────────────────────────────────────────────────────────────────────────────────────── */

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

/* Reads some rows, and of these some columns, as the random numbers say. */
static void compare_some(const struct encoded *jpeg, struct rng *rng)
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
    assert_true(begin_rows(&opened));
    struct jpeg_rows *rows = opened.rows;
    uint32_t first = (uint32_t)random_below(rng, rows->per_row);
    jpeg_rows_want(rows, first, 1 + (uint32_t)random_below(rng, rows->per_row - first));
    for (uint32_t row = (uint32_t)random_below(rng, 2); row < rows->n_rows; row += 1 + (uint32_t)random_below(rng, 3)) {
        assert_true(jpeg_rows_load(rows, row));
        compare_row(&opened, &whole, coefficients, row);
    }
    assert_true(jpeg_rows_finish(rows));
    close_rows(&opened);
    jpeg_destroy_decompress(&whole);
}

static const struct jpeg_form forms[] = {
    {3, 1, 1, false, 90, 0, 0}, {3, 2, 1, false, 99, 0, 0}, {3, 2, 2, false, 80, 0, 0}, {3, 1, 2, false, 30, 0, 0},
    {3, 4, 1, false, 80, 0, 0}, {3, 4, 2, false, 60, 0, 0}, {1, 1, 1, false, 90, 0, 0}, {1, 2, 2, false, 97, 0, 0},
};

static void compare_size(uint32_t width, uint32_t height, int draws, struct rng *rng)
{
    static const unsigned intervals[] = {0, 1, 2, 3, 7, 20, 65535};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        uint8_t *pixels = picture(width, height, (unsigned)forms[f].components, f + width);
        struct encoded plain = encode_jpeg(pixels, width, height, &forms[f]);
        for (int draw = 0; draw < draws; draw++) {
            unsigned interval = intervals[random_below(rng, sizeof intervals / sizeof *intervals)];
            struct encoded jpeg = scan_jpeg(&plain, interval, rng);
            compare_some(&jpeg, rng);
            encoded_free(&jpeg);
        }
        encoded_free(&plain);
        free(pixels);
    }
}

/* Proves: whatever the order of scans, their bands and bits, the sampling, the interval, and which rows and columns are
 * wanted, the coefficients are libjpeg's, in each version. */
static void test_coefficients(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{160, 120}, {97, 131}, {3, 300}, {300, 3}, {500, 17}};
    struct rng rng;
    for (int version = 0; version < PROGRESSIVE_VERSIONS; version++) {
        if (!progressive_use((enum progressive_version)version)) {
            print_message("this processor cannot run version %d\n", version);
            continue;
        }
        random_seed(&rng, seed);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            compare_size(sizes[s][0], sizes[s][1], 12, &rng);
        for (uint32_t side = 1; side <= 40; side++) {
            compare_size(side, 41 - side, 2, &rng);
            compare_size(side, side, 2, &rng);
        }
    }
}

/* Whether all rows could be read. */
static bool reads(const struct encoded *jpeg)
{
    struct opened opened;
    open_rows(&opened, jpeg);
    bool fine = begin_rows(&opened);
    for (uint32_t row = 0; fine && row < opened.rows->n_rows; row++)
        fine = jpeg_rows_load(opened.rows, row);
    fine = fine && jpeg_rows_finish(opened.rows);
    close_rows(&opened);
    return fine;
}

/* Where the n-th marker of a kind stands; -1: the last of them. */
static size_t find(const struct encoded *jpeg, uint8_t marker, int n)
{
    size_t last = 0;
    for (size_t at = 2; at + 1 < jpeg->len_bytes; at++) {
        if (jpeg->data[at] != 0xff || jpeg->data[at + 1] != marker)
            continue;
        last = at;
        if (n-- == 0)
            return at;
    }
    assert_true(n < 0 && last > 0);
    return last;
}

/* A copy in which `cut` bytes at `at` are replaced by `len` others cannot be read this way. */
static void expect_refusal(const struct encoded *jpeg, size_t at, size_t cut, const void *bytes, size_t len,
                           const char *what)
{
    struct encoded copy = {xmalloc(jpeg->len_bytes - cut + len), jpeg->len_bytes - cut + len};
    memcpy(copy.data, jpeg->data, at);
    memcpy(copy.data + at, bytes, len);
    memcpy(copy.data + at + len, jpeg->data + at + cut, jpeg->len_bytes - at - cut);
    if (reads(&copy))
        fail_msg("%s: all rows were read", what);
    encoded_free(&copy);
}

#define SOS 0xda
#define DHT 0xc4

/* Proves: what libjpeg smooths, repairs or warns of is left to it. */
static void test_refusals(void **state)
{
    (void)state;
    static const uint8_t table[] = {0xff, 0xdb, 0, 67, 0, [66] = 1}, comment[] = {0xff, 0xfe, 0, 3, 1};
    uint8_t *pixels = picture(160, 120, 3, 5);
    struct encoded jpeg = encode_jpeg(pixels, 160, 120, &(struct jpeg_form){3, 2, 2, true, 80, -5, 0});
    size_t end = jpeg.len_bytes - 2, last = find(&jpeg, DHT, -1), sos = find(&jpeg, SOS, -1);
    size_t third = find(&jpeg, JPEG_RST0 + 2, 0), fourth = find(&jpeg, JPEG_RST0 + 3, 0);
    assert_true(reads(&jpeg));
    expect_refusal(&jpeg, last, end - last, "", 0, "a scan is missing");
    expect_refusal(&jpeg, end, 0, jpeg.data + last, end - last, "a scan comes twice");
    expect_refusal(&jpeg, sos + 8, 1, "\x20", 1, "a scan refines another bit");
    expect_refusal(&jpeg, sos + 4, 1, "\2", 1, "a scan has fewer components than it names");
    expect_refusal(&jpeg, sos + 5, 1, "\x7f", 1, "a component that is none");
    expect_refusal(&jpeg, sos + 6, 1, "\x33", 1, "a code that is none");
    expect_refusal(&jpeg, last, 0, table, sizeof table, "a quantisation table between scans");
    expect_refusal(&jpeg, last, 0, comment, sizeof comment, "a comment between scans");
    expect_refusal(&jpeg, last, 0, "\x55", 1, "a byte between scans");
    expect_refusal(&jpeg, last + 4, 1, "\x14", 1, "the code is another one's");
    expect_refusal(&jpeg, last + 5, 1, "\3", 1, "a code that does not fit");
    expect_refusal(&jpeg, third, 2, "\xff\xd7", 2, "out of order");
    expect_refusal(&jpeg, third, 2, "", 0, "missing");
    expect_refusal(&jpeg, third, 0, "\xff\xd2", 2, "too many");
    expect_refusal(&jpeg, end, 0, "\xff\xd0", 2, "one more at the end");
    expect_refusal(&jpeg, third, fourth - third, "", 0, "a segment is missing");
    expect_refusal(&jpeg, third + 2, fourth - third - 2, "", 0, "a segment is empty");
    expect_refusal(&jpeg, fourth, 0, "\x55\x55", 2, "a segment is too long");
    expect_refusal(&jpeg, end - 1, 1, "", 0, "the last segment is too short");
    expect_refusal(&jpeg, end, 2, "", 0, "no end");
    encoded_free(&jpeg);
    free(pixels);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_coefficients), cmocka_unit_test(test_refusals)};
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 10);
    printf("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
