/* fuzz_decode.c: proves that no bytes make a decoder read or write outside its memory, hang, or leave anything behind:
 * the same bytes give the same outcome before and after other images, and what is refused has a reason. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "preprocess/prepare.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/preprocess/images.h"

#define N_PIPELINES 4

static struct prepare_scratch *scratch;
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
    static const struct prepare_limits limits = {.pixels_max = 1 << 18, .scans_max = 30, .memory_max = 64 << 20};
    if (scratch)
        return;
    CHECK(prepare_init(NULL) == 0);
    CHECK(prepare_scratch_create(&limits, &scratch) == 0);
    for (size_t i = 0; i < N_PIPELINES; i++) {
        CHECK(pipeline_parse(json[i], strlen(json[i]), &pipelines[i], NULL) == 0);
        for (size_t r = 0; r < 2; r++)
            results[r][i] = xmalloc(pipeline_shape(pipelines[i]).bytes);
    }
}

size_t fuzz_seed(size_t index, uint8_t *buf, size_t cap)
{
    static const struct jpeg_form forms[] = {
        {3, 1, 1, false, 80, 0, 0}, {3, 2, 2, false, 80, 0, 6}, {3, 2, 1, true, 70, 0, 0},  {1, 1, 1, false, 80, 0, 0},
        {4, 1, 1, false, 80, 0, 0}, {3, 2, 2, true, 60, 0, 0},  {3, 1, 2, false, 70, 2, 0}, {3, 4, 1, false, 70, 1, 0},
    };
    static const struct {
        const char *suffix;
        unsigned bands;
    } others[] = {{".png", 3},
                  {".png[interlace]", 4},
                  {".png[palette]", 3},
                  {".png", 1},
                  {".webp", 3},
                  {".webp[lossless]", 4},
                  {".tif[compression=lzw]", 3},
                  {".tif[tile,tile-width=16,tile-height=16]", 1},
                  {".gif", 3},
                  {".ppm", 3},
                  {".pgm", 1}};
    const size_t n_forms = sizeof forms / sizeof *forms, n_others = sizeof others / sizeof *others;
    const uint32_t width = 70, height = 45;
    static const uint8_t bmp[] = {'B', 'M', 0,        0,        0, 0, 0, 0, 0, 0, 62, 0,        0,           0,
                                  40,  0,   0,        0,        9, 0, 0, 0, 5, 0, 0,  0,        1,           0,
                                  4,   0,   [46] = 2, [54] = 1, 2, 3, 0, 4, 5, 6, 0,  [62] = 1, [101] = 0x10};
    if (index == n_forms + n_others) {
        CHECK(sizeof bmp <= cap);
        memcpy(buf, bmp, sizeof bmp);
        return sizeof bmp;
    }
    if (index > n_forms + n_others)
        return 0;
    bool jpeg = index < n_forms;
    unsigned bands = jpeg ? (unsigned)forms[index].components : others[index - n_forms].bands;
    uint8_t *pixels = picture(width, height, bands, index);
    struct encoded encoded = jpeg ? encode_jpeg(pixels, width, height, &forms[index])
                                  : encode_vips_apart(pixels, width, height, bands, 8, others[index - n_forms].suffix);
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

static void make(const uint8_t *data, size_t size, uint64_t key, uint8_t *dst[N_PIPELINES],
                 enum bad_reason reasons[N_PIPELINES])
{
    struct prepare_output outputs[N_PIPELINES];
    struct error err = {0};
    enum bad_reason reason = BAD_NONE, first = BAD_NONE;
    for (size_t i = 0; i < N_PIPELINES; i++)
        outputs[i] = (struct prepare_output){.pipeline = pipelines[i], .key = {key, i, 0}, .dst = dst[i]};
    int rc = prepare_sample(scratch, data, size, outputs, N_PIPELINES, &reason, &err);
    for (size_t i = N_PIPELINES; i-- > 0;) {
        reasons[i] = outputs[i].reason;
        first = reasons[i] ? reasons[i] : first;
        CHECK(!reasons[i] || (outputs[i].err.code != 0 && outputs[i].err.text[0] != '\0'));
    }
    CHECK(reason == first && (rc == 0) == (first == BAD_NONE));
    CHECK(rc == 0 || (err.code == rc && err.text[0] != '\0'));
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
    for (size_t i = 0; i < N_PIPELINES; i++) {
        CHECK(first[i] == second[i]);
        CHECK(first[i] || memcmp(results[0][i], results[1][i], pipeline_shape(pipelines[i]).bytes) == 0);
    }
    free(copy);
    return 0;
}
