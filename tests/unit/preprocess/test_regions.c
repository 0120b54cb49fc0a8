/* test_regions.c: parts of PNGs of every form, by both ways to their pixels, and of TIFFs; and damage below a part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "images.h"
#include "preprocess/decode/decode.h"
#include "preprocess/prepare.h"

static const struct prepare_limits limits = {.pixels_max = 1 << 24, .scans_max = 10};

/* A thread's own memory is 64 KiB here, so that no image fits there and libpng reads all rows. */
#define SMALL_BUDGET ((uint64_t)64 << 20)
#define SMALL_THREADS 256

struct reader {
    struct decoder *decoder;
    struct scratch scratch;
};

static int read_part(struct reader *reader, const struct encoded *png, struct rect rect, struct image *out,
                     struct decode_fault *fault)
{
    struct rect whole;
    scratch_reset(&reader->scratch);
    int rc = decode_open(reader->decoder, png->data, png->len_bytes, &reader->scratch, &whole, fault);
    if (!rc)
        rc = decode_reserve(reader->decoder, rect, fault);
    if (!rc)
        rc = decode_region(reader->decoder, rect, out, fault);
    decode_close(reader->decoder);
    return rc;
}

static void check_part(struct reader *reader, const char *name, const struct encoded *png, const uint8_t *pixels,
                       uint32_t width, unsigned bands, struct rect rect)
{
    struct image image;
    struct decode_fault fault = {0};
    if (read_part(reader, png, rect, &image, &fault))
        fail_msg("%s: %s", name, fault.error.text);
    for (uint32_t y = 0; y < rect.height; y++) {
        for (uint32_t x = 0; x < rect.width; x++) {
            const uint8_t *want = pixels + ((size_t)(rect.y + y) * width + rect.x + x) * bands;
            const uint8_t *made = image_row(&image, y) + (size_t)x * IMAGE_CHANNELS;
            for (unsigned c = 0; c < IMAGE_CHANNELS; c++) {
                if (made[c] != want[bands < 3 ? 0 : c])
                    fail_msg("%s: %u × %u at %u, %u: pixel %u, %u is %u, not %u", name, rect.width, rect.height, rect.x,
                             rect.y, x, y, made[c], want[bands < 3 ? 0 : c]);
            }
        }
    }
}

static void check_parts(const char *name, const struct encoded *png, const uint8_t *pixels, uint32_t width,
                        uint32_t height, unsigned bands)
{
    struct scratch_budget *budget = NULL;
    assert_int_equal(scratch_budget_create(SMALL_BUDGET, SMALL_THREADS, &budget), 0);
    for (int way = 0; way < 2; way++) {
        struct reader reader;
        assert_int_equal(decoder_create(&limits, &reader.decoder), 0);
        scratch_init(&reader.scratch, prepare_memory(&limits), way ? budget : NULL);
        for (uint32_t y = 0; y < height; y += 1 + height / 12) {
            uint32_t x = y * 7 % width;
            check_part(&reader, name, png, pixels, width, bands, (struct rect){x, y, 1 + y % (width - x), 1});
            check_part(&reader, name, png, pixels, width, bands, (struct rect){x, 0, width - x, y + 1});
        }
        check_part(&reader, name, png, pixels, width, bands, (struct rect){0, 0, width, height});
        scratch_free(&reader.scratch);
        decoder_destroy(reader.decoder);
    }
    scratch_budget_destroy(budget);
}

/* Proves: every part of a PNG is that part of its pixels, whatever the filters, the blocks of the stream, bands and
 * bits; both where the rows are inflated at once and where libpng reads them. */
static void test_parts(void **state)
{
    (void)state;
    static const char *const filters[] = {"none", "sub", "up", "avg", "paeth", "all"};
    const uint32_t w = 331, h = 240; /* more than a stored block can hold */
    for (unsigned bands = 1; bands <= 4; bands++) {
        uint8_t *pixels = picture(w, h, bands, bands);
        uint16_t *wide = xmalloc((size_t)w * h * bands * sizeof *wide);
        for (size_t i = 0; i < (size_t)w * h * bands; i++)
            wide[i] = bands == 1 ? pixels[i]
                                 : (uint16_t)(pixels[i] << 8 | (i * 7919 & 255)); /* grey is cut, not scaled */
        for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
            for (int bits = 8; bits <= 16; bits += 8) {
                char suffix[64];
                snprintf(suffix, sizeof suffix, ".png[filter=%s,compression=%d]", filters[i], (int)i % 2 ? 0 : 5);
                struct encoded png = encode_vips(bits == 8 ? (const void *)pixels : wide, w, h, bands, bits, suffix);
                check_parts(suffix, &png, pixels, w, h, bands);
                encoded_free(&png);
            }
        }
        free(pixels);
        free(wide);
    }
}

/* Proves: the same of interlaced ones, and of pixels narrower than a byte. */
static void test_other_parts(void **state)
{
    (void)state;
    const uint32_t w = 61, h = 47;
    uint8_t *pixels = picture(w, h, 3, 9), *grey = picture(w, h, 1, 10);
    struct encoded interlaced = encode_vips(pixels, w, h, 3, 8, ".png[interlace]");
    check_parts("interlaced", &interlaced, pixels, w, h, 3);
    for (int bits = 1; bits <= 4; bits *= 2) {
        char suffix[64];
        int most = (1 << bits) - 1;
        for (size_t i = 0; i < (size_t)w * h; i++)
            grey[i] = (uint8_t)((grey[i] & most) * (255 / most));
        for (int interlace = 0; interlace < 2; interlace++) {
            snprintf(suffix, sizeof suffix, ".png[bitdepth=%d%s]", bits, interlace ? ",interlace" : "");
            struct encoded png = encode_vips(grey, w, h, 1, 8, suffix);
            check_parts(suffix, &png, grey, w, h, 1);
            encoded_free(&png);
        }
        free(grey);
        grey = picture(w, h, 1, 10);
    }
    encoded_free(&interlaced);
    free(pixels);
    free(grey);
}

/* Proves: every part of a TIFF is that part of its pixels, in strips and tiles. */
static void test_tiff_parts(void **state)
{
    (void)state;
    static const char *const suffixes[] = {".tif", ".tif[compression=lzw,predictor=horizontal]",
                                           ".tif[compression=deflate,tile,tile-width=48,tile-height=32]",
                                           ".tif[compression=zstd]", ".tif[compression=packbits,bigtiff]"};
    const uint32_t w = 331, h = 240;
    for (unsigned bands = 1; bands <= 4; bands += bands == 1 ? 2 : 1) {
        uint8_t *pixels = picture(w, h, bands, bands);
        for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
            struct encoded tiff = encode_vips(pixels, w, h, bands, 8, suffixes[i]);
            check_parts(suffixes[i], &tiff, pixels, w, h, bands);
            encoded_free(&tiff);
        }
        free(pixels);
    }
}

/* Proves: a part above damaged bytes is read as it is, and a part with them is refused. */
static void test_damage_below(void **state)
{
    (void)state;
    const uint32_t w = 331, h = 240;
    uint8_t *pixels = picture(w, h, 3, 11);
    struct encoded png = encode_vips(pixels, w, h, 3, 8, ".png[filter=all]");
    struct reader reader;
    struct image image;
    struct decode_fault fault;
    assert_int_equal(decoder_create(&limits, &reader.decoder), 0);
    scratch_init(&reader.scratch, prepare_memory(&limits), NULL);
    png.data[png.len_bytes / 4 * 3] ^= 0x10;
    check_part(&reader, "above", &png, pixels, w, 3, (struct rect){3, 20, 100, 60});
    assert_int_equal(read_part(&reader, &png, (struct rect){3, 20, 100, h - 20}, &image, &fault), LARDER_EFORMAT);
    assert_int_equal(fault.reason, BAD_CORRUPT);
    scratch_free(&reader.scratch);
    decoder_destroy(reader.decoder);
    encoded_free(&png);
    free(pixels);
}

static int begin(void **state)
{
    (void)state;
    prepare_init();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts), cmocka_unit_test(test_other_parts),
                                       cmocka_unit_test(test_tiff_parts), cmocka_unit_test(test_damage_below)};
    return cmocka_run_group_tests(tests, begin, NULL);
}
