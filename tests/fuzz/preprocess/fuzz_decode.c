/* fuzz_decode.c: proves that no bytes make a decoder read or write outside its memory, hang, or leave anything behind:
 * the same bytes give the same outcome before and after other images, what is refused has a reason, what can be
 * rewritten without loss has the same pixels, what was shrunk can be decoded, and libvips makes the same of PNG, TIFF
 * and GIF. Its seeds are images of FUZZ_FORMAT: there is a program for each format, so that each is reached. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/check.h"
#include "preprocess/decode/jpeg_planes.h"
#include "preprocess/decode/jpeg_rewrite.h"
#include "preprocess/prepare.h"
#include "preprocess/shrink.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/preprocess/same.h"
#include "tests/unit/preprocess/images.h"

#define N_PIPELINES 4

static const struct prepare_limits limits = {.pixels_max = 1 << 18, .scans_max = 30, .memory_max = 64 << 20};
static struct prepare_scratch *scratch, *remembering; /* the second remembers where MCUs of JPEGs begin */
static struct pipeline *pipelines[N_PIPELINES];
static uint8_t *results[2][N_PIPELINES];

static void start(void)
{
    static const char *const json[N_PIPELINES] = {
        "[{\"random_resized_crop\": {\"size\": [20, 31], \"scale\": [0.01, 1]}}, \"random_horizontal_flip\"]",
        "[{\"resize\": {\"size\": 24, \"max_size\": 60}}, {\"center_crop\": {\"size\": 24}}, \"rand_augment\"]",
        "[{\"center_crop\": {\"size\": [33, 9]}}]",
        "[{\"random_crop\": {\"size\": 50, \"pad_if_needed\": true}}, {\"to_dtype\": {\"dtype\": \"float32\"}}]",
    };
    if (scratch)
        return;
    prepare_init();
    struct prepare_limits with = limits;
    with.memory_max = 0;
    CHECK(prepare_scratch_create(&limits, &scratch) == 0);
    CHECK(scratch_budget_create(4 * limits.memory_max, 1, &with.budget) == 0);
    CHECK(prepare_scratch_create(&with, &remembering) == 0);
    for (size_t i = 0; i < N_PIPELINES; i++) {
        CHECK(pipeline_parse(json[i], strlen(json[i]), &pipelines[i], NULL) == 0);
        for (size_t r = 0; r < 2; r++)
            results[r][i] = xmalloc(pipeline_layout(pipelines[i])->bytes);
    }
}

/* An encoded seed. A JPEG, in planes or not, is encoded by libjpeg as `jpeg` says, all others by libvips with `suffix`.
 */
static const struct seed {
    const char *format, *suffix;
    unsigned bands;
    int bits;
    struct jpeg_form jpeg;
} seeds[] = {
    {.format = "jpeg", .jpeg = {3, 1, 1, false, 80, 0, 0}},
    {.format = "jpeg", .jpeg = {3, 2, 2, false, 80, 0, 6}},
    {.format = "jpeg", .jpeg = {3, 2, 1, true, 70, 0, 0}},
    {.format = "jpeg", .jpeg = {1, 1, 1, false, 80, 0, 0}},
    {.format = "jpeg", .jpeg = {4, 1, 1, false, 80, 0, 0}},
    {.format = "jpeg", .jpeg = {3, 2, 2, true, 60, 0, 0}},
    {.format = "jpeg", .jpeg = {3, 1, 2, false, 70, 2, 0}},
    {.format = "jpeg", .jpeg = {3, 4, 1, false, 70, 1, 0}},
    {.format = "jpeg", .jpeg = {3, 2, 2, false, 70, -1, 0}},
    {.format = "jpeg", .jpeg = {3, 2, 1, false, 70, -2, 0}},
    {.format = "jpeg", .jpeg = {3, 1, 1, false, 70, -7, 0}},
    {.format = "jpeg", .jpeg = {1, 1, 1, false, 70, -3, 0}},
    {.format = "jpeg", .jpeg = {4, 1, 1, false, 70, -4, 0}},
    {.format = "planes", .jpeg = {3, 1, 1, false, 80, 0, 0}},
    {.format = "planes", .jpeg = {3, 2, 2, false, 95, 0, 6}},
    {.format = "planes", .jpeg = {3, 2, 1, true, 40, 0, 0}},
    {.format = "planes", .jpeg = {1, 1, 1, false, 80, 0, 0}},
    {.format = "planes", .jpeg = {3, 1, 2, false, 70, 0, 0}},
    {"png", ".png", 3, 8, {0}},
    {"png", ".png[interlace]", 4, 8, {0}},
    {"png", ".png[palette]", 3, 8, {0}},
    {"png", ".png", 1, 8, {0}},
    {"png", ".png[compression=0]", 2, 8, {0}},
    {"png", ".png[interlace]", 3, 16, {0}},
    {"png", ".png[bitdepth=1]", 1, 8, {0}},
    {"png", ".png[bitdepth=4,interlace]", 1, 8, {0}},
    {"png", ".png[filter=all]", 3, 8, {0}},
    {"png", ".png[filter=avg]", 4, 8, {0}},
    {"png", ".png[filter=paeth]", 4, 16, {0}},
    {"png", ".png[filter=up]", 2, 16, {0}},
    {"png", ".png[filter=sub,palette,bitdepth=2]", 3, 8, {0}},
    {"webp", ".webp", 3, 8, {0}},
    {"webp", ".webp[lossless]", 4, 8, {0}},
    {"webp", ".webp[alpha-q=50]", 4, 8, {0}},
    {"webp", ".webp[page-height=15]", 3, 8, {0}}, /* moving */
    {"webp", ".webp[page-height=15,lossless,mixed]", 4, 8, {0}},
    {"tiff", ".tif[compression=lzw]", 3, 8, {0}},
    {"tiff", ".tif[tile,tile-width=16,tile-height=16]", 1, 8, {0}},
    {"tiff", ".tif[compression=deflate,predictor=horizontal]", 3, 16, {0}},
    {"tiff", ".tif[compression=jpeg,tile,tile-width=32,tile-height=32]", 3, 8, {0}},
    {"tiff", ".tif[compression=packbits]", 4, 8, {0}},
    {"tiff", ".tif[compression=ccittfax4,bitdepth=1,miniswhite]", 1, 8, {0}},
    {"tiff", ".tif[page-height=15,bigtiff]", 3, 8, {0}},
    {"gif", ".gif", 3, 8, {0}},
    {"gif", ".gif[interlace]", 4, 8, {0}},
    {"gif", ".gif[page-height=15]", 4, 8, {0}},
    {"gif", ".gif[page-height=9,bitdepth=2]", 1, 8, {0}},
    {"plain", ".ppm", 3, 8, {0}},
    {"plain", ".ppm", 3, 16, {0}},
    {"plain", ".pgm", 1, 8, {0}},
};

static const uint8_t bmp[] = {'B', 'M', 0,        0,        0, 0, 0, 0, 0, 0, 62, 0,        0,           0,
                              40,  0,   0,        0,        9, 0, 0, 0, 5, 0, 0,  0,        1,           0,
                              4,   0,   [46] = 2, [54] = 1, 2, 3, 0, 4, 5, 6, 0,  [62] = 1, [101] = 0x10};

static void put_in_planes(struct encoded *jpeg)
{
    struct encoded planes = {0};
    planes.data = jpeg_rewrite_in_planes(jpeg->data, jpeg->len_bytes, &planes.len_bytes);
    CHECK(planes.data);
    encoded_free(jpeg);
    *jpeg = planes;
}

static size_t encode(const struct seed *seed, uint8_t *buf, size_t cap)
{
    const uint32_t width = 70, height = 45;
    unsigned bands = seed->suffix ? seed->bands : (unsigned)seed->jpeg.components;
    uint8_t *pixels = picture(width, height, bands * (seed->bits == 16 ? 2 : 1), (uint64_t)(seed - seeds));
    struct encoded encoded = seed->suffix ? encode_vips_apart(pixels, width, height, bands, seed->bits, seed->suffix)
                                          : encode_jpeg(pixels, width, height, &seed->jpeg);
    if (strcmp(seed->format, "planes") == 0)
        put_in_planes(&encoded);
    CHECK(encoded.len_bytes <= cap);
    memcpy(buf, encoded.data, encoded.len_bytes);
    size_t len = encoded.len_bytes;
    encoded_free(&encoded);
    free(pixels);
    return len;
}

static uint32_t crc32_of(const uint8_t *data, size_t len)
{
    uint32_t crc = ~UINT32_C(0);
    for (size_t i = 0; i < len; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

static uint32_t be32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Mutations of a PNG's chunks would all die at their checksums: make these fit, as whoever forges a file would. */
static void seal_png(uint8_t *data, size_t size)
{
    size_t at = 8;
    while (size >= 12 && at <= size - 12) {
        size_t len = be32(data + at);
        if (len > size - 12 - at)
            return;
        uint32_t crc = crc32_of(data + at + 4, len + 4);
        for (int i = 0; i < 4; i++)
            data[at + 8 + len + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
        at += len + 12;
    }
}

static void make_with(struct prepare_scratch *with, const uint8_t *data, size_t size, uint64_t key,
                      uint8_t *dst[N_PIPELINES], enum bad_reason reasons[N_PIPELINES])
{
    struct prepare_output outputs[N_PIPELINES];
    struct error err = {0};
    enum bad_reason reason = BAD_NONE, first = BAD_NONE;
    for (size_t i = 0; i < N_PIPELINES; i++)
        outputs[i] = (struct prepare_output){.pipeline = pipelines[i], .key = {key, i, 0}, .dst = dst[i]};
    int rc = prepare_sample(with, data, size, outputs, N_PIPELINES, &reason, &err);
    for (size_t i = N_PIPELINES; i-- > 0;) {
        reasons[i] = outputs[i].reason;
        first = reasons[i] ? reasons[i] : first;
        CHECK(!reasons[i] || (outputs[i].err.code != 0 && outputs[i].err.text[0] != '\0'));
    }
    CHECK(reason == first && (rc == 0) == (first == BAD_NONE));
    CHECK(rc == 0 || (err.code == rc && err.text[0] != '\0'));
}

static void make(const uint8_t *data, size_t size, uint64_t key, uint8_t *dst[N_PIPELINES],
                 enum bad_reason reasons[N_PIPELINES])
{
    make_with(scratch, data, size, key, dst, reasons);
}

/* Frees what was made, which may be NULL. */
static void check_made(uint8_t *made, size_t made_bytes, uint64_t key, const enum bad_reason first[N_PIPELINES])
{
    enum bad_reason reasons[N_PIPELINES];
    if (!made)
        return;
    make(made, made_bytes, key, results[1], reasons);
    for (size_t i = 0; i < N_PIPELINES; i++) {
        CHECK(first[i] || !reasons[i]);
        CHECK(first[i] || memcmp(results[0][i], results[1][i], pipeline_layout(pipelines[i])->bytes) == 0);
    }
    free(made);
}

/* Planes of the bytes are those of the JPEG with restart rows. */
static void check_rewritten(const uint8_t *data, size_t size, uint64_t key, const enum bad_reason first[N_PIPELINES])
{
    size_t planes_bytes = 0, rows_bytes = 0, again_bytes = 0;
    uint8_t *planes = jpeg_rewrite_in_planes(data, size, &planes_bytes);
    uint8_t *rows = jpeg_rewrite(data, size, 2, &rows_bytes);
    uint8_t *again = rows ? jpeg_rewrite_in_planes(rows, rows_bytes, &again_bytes) : NULL;
    if (!jpeg_planes_is(data, size))
        CHECK(planes_bytes == again_bytes && (!planes || (again && memcmp(planes, again, again_bytes) == 0)));
    free(again);
    check_made(planes, planes_bytes, key, first);
    check_made(rows, rows_bytes, key, first);
}

static void check_shrunk(const uint8_t *data, size_t size, uint64_t key)
{
    static const struct shrinking how = {.max_side = 30, .quality = 60, .restart_mcus = 2};
    enum bad_reason reasons[N_PIPELINES];
    struct shrunk out;
    if (shrink(&limits, &how, data, size, &out, NULL))
        return;
    CHECK((out.outcome == SHRUNK_MADE) == (out.bytes != NULL));
    CHECK((out.outcome == SHRUNK_UNDECODED) == (out.why.text[0] != '\0'));
    if (!out.bytes)
        return;
    make(out.bytes, out.len_bytes, key, results[1], reasons);
    for (size_t i = 0; i < N_PIPELINES; i++)
        CHECK(!reasons[i]);
    free(out.bytes);
}

static void check_equal(const enum bad_reason first[N_PIPELINES], const enum bad_reason second[N_PIPELINES])
{
    for (size_t i = 0; i < N_PIPELINES; i++) {
        CHECK(first[i] == second[i]);
        CHECK(first[i] || memcmp(results[0][i], results[1][i], pipeline_layout(pipelines[i])->bytes) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    start();
    uint8_t *copy = xmalloc(size);
    memcpy(copy, data, size);
    if (size > 8 && memcmp(copy + 1, "PNG", 3) == 0)
        seal_png(copy, size);
    enum bad_reason first[N_PIPELINES], second[N_PIPELINES];
    uint64_t key = size ? crc32_of(copy, size < 64 ? size : 64) : 0;
    make(copy, size, key, results[0], first);
    make(copy, size, key, results[1], second);
    check_equal(first, second);
    for (uint64_t other = 2; other > 0; other--) { /* other rectangles come before */
        make_with(remembering, copy, size, key ^ other, results[1], second);
        make_with(remembering, copy, size, key, results[1], second);
        check_equal(first, second);
    }
    check_rewritten(copy, size, key, first);
    check_shrunk(copy, size, key);
    check_same(&limits, copy, size);
    free(copy);
    return 0;
}

/* valid checks that the seed is an image. It does so in a child, for libvips decodes some in threads, and these the
 * driver's own child would not have. */
static size_t valid(const uint8_t *seed, size_t len)
{
    enum bad_reason reasons[N_PIPELINES];
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        start();
        make(seed, len, 1, results[0], reasons);
        for (size_t i = 0; i < N_PIPELINES; i++)
            CHECK(reasons[i] == BAD_NONE);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return len;
}

size_t fuzz_seed(size_t index, uint8_t *buf, size_t cap)
{
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        if (strcmp(seeds[i].format, FUZZ_FORMAT) == 0 && index-- == 0)
            return valid(buf, encode(&seeds[i], buf, cap));
    }
    if (index > 0 || strcmp(FUZZ_FORMAT, "plain") != 0)
        return 0;
    CHECK(sizeof bmp <= cap);
    memcpy(buf, bmp, sizeof bmp);
    return valid(buf, sizeof bmp);
}
