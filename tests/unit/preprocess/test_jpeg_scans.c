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

#define COMPONENTS_MAX 3
#define SCANS_MAX 38
#define LEFT_BEHIND 0xa5 /* the bytes of a jpeg_rows that was in use: what failed may have left any */

static uint64_t seed = 31;

/* ── scripts ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A valid order of scans that complete all coefficients. */
struct script {
    int n_components, n_scans;
    jpeg_scan_info scans[SCANS_MAX];
    int bits[COMPONENTS_MAX][DCTSIZE2]; /* while it is made: the lowest of a coefficient that was sent; -1: none */
};

static int pick(struct rng *rng, int from, int to)
{
    return from + (int)random_below(rng, (uint64_t)(to - from + 1));
}

static bool add(struct script *script, jpeg_scan_info scan)
{
    if (script->n_scans == SCANS_MAX)
        return false;
    script->scans[script->n_scans++] = scan;
    for (int i = 0; i < scan.comps_in_scan; i++) {
        for (int k = scan.Ss; k <= scan.Se; k++)
            script->bits[scan.component_index[i]][k] = scan.Al;
    }
    return true;
}

/* One more bit of the DC coefficients of some components that have as many. */
static bool add_dc(struct script *script, struct rng *rng, int component)
{
    int had = script->bits[component][0];
    jpeg_scan_info scan = {.comps_in_scan = 1, .component_index = {component}, .Ah = had < 0 ? 0 : had};
    for (int i = component + 1; i < script->n_components && pick(rng, 0, 3) > 0; i++) {
        if (script->bits[i][0] == had)
            scan.component_index[scan.comps_in_scan++] = i;
    }
    scan.Al = had < 0 ? pick(rng, 0, 2) : had - 1;
    return add(script, scan);
}

static bool add_ac(struct script *script, struct rng *rng, int component, int first)
{
    const int *bits = script->bits[component];
    int last = first;
    while (last + 1 < DCTSIZE2 && bits[last + 1] == bits[first] && pick(rng, 0, 39) > 0)
        last++;
    int had = bits[first], low = had < 0 ? pick(rng, 0, 3) : had - 1;
    return add(script, (jpeg_scan_info){.comps_in_scan = 1,
                                        .component_index = {component},
                                        .Ss = first,
                                        .Se = last,
                                        .Ah = had < 0 ? 0 : had,
                                        .Al = low});
}

/* One more scan; false: all bits are sent, or there are too many scans. */
static bool add_any(struct script *script, struct rng *rng, bool *complete)
{
    int open[COMPONENTS_MAX * DCTSIZE2], n_open = 0;
    for (int i = 0; i < script->n_components; i++) {
        for (int k = 0; k < DCTSIZE2; k++) {
            int bits = script->bits[i][k];
            bool begins = k <= 1 || bits != script->bits[i][k - 1];
            if (bits != 0 && begins && (k == 0 || script->bits[i][0] >= 0))
                open[n_open++] = i * DCTSIZE2 + k;
        }
    }
    *complete = n_open == 0;
    if (n_open == 0)
        return false;
    int chosen = open[random_below(rng, (uint64_t)n_open)];
    return chosen % DCTSIZE2 == 0 ? add_dc(script, rng, chosen / DCTSIZE2)
                                  : add_ac(script, rng, chosen / DCTSIZE2, chosen % DCTSIZE2);
}

static void draw_script(struct script *script, struct rng *rng, int n_components)
{
    bool complete = false;
    while (!complete) {
        *script = (struct script){.n_components = n_components};
        memset(script->bits, -1, sizeof script->bits);
        while (add_any(script, rng, &complete))
            ;
    }
}

/* ── JPEGs ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The coefficients of a JPEG in other scans. */
static struct encoded in_scans(const struct encoded *jpeg, const struct script *script, unsigned interval)
{
    struct jpeg_decompress_struct from;
    struct jpeg_compress_struct to;
    struct jpeg_error_mgr errors;
    unsigned char *memory = NULL;
    unsigned long len = 0;
    from.err = to.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&from);
    jpeg_create_compress(&to);
    jpeg_mem_src(&from, jpeg->data, jpeg->len_bytes);
    jpeg_mem_dest(&to, &memory, &len);
    jpeg_read_header(&from, TRUE);
    jvirt_barray_ptr *coefficients = jpeg_read_coefficients(&from);
    jpeg_copy_critical_parameters(&from, &to);
    to.restart_interval = interval;
    to.scan_info = script->scans;
    to.num_scans = script->n_scans;
    jpeg_write_coefficients(&to, coefficients);
    jpeg_finish_compress(&to);
    jpeg_destroy_compress(&to);
    jpeg_destroy_decompress(&from);
    return (struct encoded){memory, len};
}

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
    for (uint32_t row = (uint32_t)random_below(rng, 2); row < rows->n_rows; row += (uint32_t)pick(rng, 1, 3)) {
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
            struct script script;
            draw_script(&script, rng, forms[f].components);
            unsigned interval = intervals[random_below(rng, sizeof intervals / sizeof *intervals)];
            struct encoded jpeg = in_scans(&plain, &script, interval);
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_coefficients)};
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 10);
    printf("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
