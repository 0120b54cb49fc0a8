/* test_jpeg_strips.c: rectangles of larger JPEGs whose colours have half of their resolution, made in strips, against
 * libjpeg. */
#include <stdlib.h>
#include <string.h>

#include <stdio.h>

#include <jpeglib.h>

#include "common/check.h"
#include "common/random.h"
#include "prepare_fixture.h"
#include "preprocess/decode/jpeg_idct.h"
#include "preprocess/simd.h"

#define COMPONENTS 3
#define SEED 20261129

/* ── coefficients that no photograph has ─────────────────────────────────────────────────────────────────────────── */

/* What coefficients of a block there are, in which of the block's rows and columns, and how large they may be. */
struct wild {
    uint32_t percent, side;
    int32_t dc, ac, quantiser;
};

static int16_t draw(struct rng *rng, int32_t most)
{
    return (int16_t)((int32_t)random_below(rng, (uint64_t)most * 2 + 1) - most);
}

static void fill_block(struct rng *rng, const struct wild *wild, JCOEF *block)
{
    memset(block, 0, sizeof(JBLOCK));
    block[0] = draw(rng, wild->dc);
    for (uint32_t i = 1; i < DCTSIZE2; i++) {
        if (i % DCTSIZE < wild->side && i / DCTSIZE < wild->side && random_below(rng, 100) < wild->percent)
            block[i] = draw(rng, wild->ac);
    }
}

static void fill_component(struct jpeg_compress_struct *cinfo, jvirt_barray_ptr array, JDIMENSION rows,
                           JDIMENSION columns, struct rng *rng, const struct wild *wild)
{
    for (JDIMENSION y = 0; y < rows; y++) {
        JBLOCKARRAY blocks = cinfo->mem->access_virt_barray((j_common_ptr)cinfo, array, y, 1, TRUE);
        for (JDIMENSION x = 0; x < columns; x++)
            fill_block(rng, wild, blocks[0][x]);
    }
}

static struct encoded encode_wild(uint32_t width, uint32_t height, struct rng *rng, const struct wild *wild)
{
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    jvirt_barray_ptr arrays[COMPONENTS];
    unsigned char *bytes = NULL;
    unsigned long len_bytes = 0;
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_compress(&cinfo);
    jpeg_mem_dest(&cinfo, &bytes, &len_bytes);
    cinfo.image_width = width;
    cinfo.image_height = height;
    cinfo.input_components = COMPONENTS;
    cinfo.in_color_space = JCS_RGB;
    jpeg_set_defaults(&cinfo);
    for (int table = 0; table < 2; table++) {
        for (int i = 0; i < DCTSIZE2; i++)
            cinfo.quant_tbl_ptrs[table]->quantval[i] = (UINT16)(1 + random_below(rng, (uint64_t)wild->quantiser));
    }
    cinfo.optimize_coding = TRUE;
    uint32_t across = (width + 2 * DCTSIZE - 1) / (2 * DCTSIZE), down = (height + 2 * DCTSIZE - 1) / (2 * DCTSIZE);
    for (int i = 0; i < COMPONENTS; i++) {
        uint32_t factor = i ? 1 : 2;
        arrays[i] = cinfo.mem->request_virt_barray((j_common_ptr)&cinfo, JPOOL_IMAGE, TRUE, across * factor,
                                                   down * factor, factor);
    }
    jpeg_write_coefficients(&cinfo, arrays);
    for (int i = 0; i < COMPONENTS; i++)
        fill_component(&cinfo, arrays[i], down * (i ? 1 : 2), across * (i ? 1 : 2), rng, wild);
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    return (struct encoded){bytes, len_bytes};
}

static void check_whole(const struct encoded *jpeg, const char *name)
{
    uint32_t width, height;
    uint8_t *expected = decode_plain(jpeg, &width, &height);
    struct made made = prepare(jpeg, center_crop(width, height), 0);
    if (made.rc)
        fail_msg("%s: %s", name, made.err.text);
    if (memcmp(made.pixels, expected, made.bytes) != 0)
        fail_msg("%s, %u × %u: not libjpeg's pixels", name, width, height);
    free(made.pixels);
    free(expected);
}

/* Proves: whatever the coefficients and quantisers are, the pixels are libjpeg's, also where sums of 16 bits overflow;
 * and with blocks that need half of the work or none beside others. */
static void test_wild(void **state)
{
    (void)state;
    static const struct wild kinds[] = {
        {50, 8, 1000, 1000, 255}, {30, 8, 1000, 60, 20}, {20, 4, 500, 30, 10}, {5, 8, 1000, 1000, 255},
        {1, 8, 1000, 10, 255},    {0, 8, 1000, 10, 255}, {10, 2, 100, 5, 40},  {3, 4, 1000, 1000, 255},
    };
    struct rng rng;
    random_seed(&rng, SEED);
    for (uint32_t round = 0; round < 64; round++) {
        uint32_t width = 129 + (uint32_t)random_below(&rng, 60), height = 17 + (uint32_t)random_below(&rng, 60);
        struct encoded jpeg = encode_wild(width, height, &rng, &kinds[round % (sizeof kinds / sizeof *kinds)]);
        char name[32];
        snprintf(name, sizeof name, "kind %zu", round % (sizeof kinds / sizeof *kinds));
        check_whole(&jpeg, name);
        encoded_free(&jpeg);
    }
}

/* ── rectangles, resized and not ─────────────────────────────────────────────────────────────────────────────────── */

static void crop_text(char *text, size_t cap, uint32_t width, uint32_t height, struct rng *rng)
{
    uint32_t wide = 1 + (uint32_t)random_below(rng, width), high = 1 + (uint32_t)random_below(rng, height);
    if (random_below(rng, 2))
        snprintf(text, cap, "[{\"center_crop\": {\"size\": [%u, %u]}}]", high, wide);
    else
        snprintf(text, cap, "[{\"random_resized_crop\": {\"size\": [%u, %u], \"scale\": [0.01, 1.0]}}]",
                 1 + (uint32_t)random_below(rng, 200), 1 + (uint32_t)random_below(rng, 200));
}

/* Proves: a rectangle made in strips has the bytes that libjpeg's way gives, wherever it lies, whatever the sides; kept
 * whole, or resampled row by row. */
static void test_rectangles(void **state)
{
    (void)state;
    struct rng rng;
    random_seed(&rng, SEED);
    simd_select();
    enum simd best = simd_selected();
    for (uint32_t round = 0; round < 60; round++) {
        uint32_t width = 129 + (uint32_t)random_below(&rng, 200), height = 1 + (uint32_t)random_below(&rng, 200);
        const struct jpeg_form form = {3, 2, 2, round % 5 == 4, 60 + (int)random_below(&rng, 40), round % 3 == 2, 0};
        uint8_t *pixels = picture(width, height, 3, round);
        struct encoded jpeg = encode_jpeg(pixels, width, height, &form);
        for (uint32_t i = 0; i < 20; i++) {
            char text[128];
            crop_text(text, sizeof text, width, height, &rng);
            assert_true(simd_use(SIMD_PORTABLE));
            struct made plain = prepare(&jpeg, text, i);
            assert_true(simd_use(best));
            struct made made = prepare(&jpeg, text, i);
            assert_true(made.rc == plain.rc && made.bytes == plain.bytes);
            if (!made.rc && memcmp(made.pixels, plain.pixels, made.bytes) != 0)
                fail_msg("%u × %u, round %u, %s, instance %u: not libjpeg's way's pixels", width, height, round, text,
                         i);
            free(plain.pixels);
            free(made.pixels);
        }
        encoded_free(&jpeg);
        free(pixels);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wild), cmocka_unit_test(test_rectangles)};
    return cmocka_run_group_tests(tests, prepare_begin, prepare_end);
}
