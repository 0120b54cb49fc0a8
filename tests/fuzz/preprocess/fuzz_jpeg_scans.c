/* fuzz_jpeg_scans.c: proves that whatever is wrong with a progressive JPEG, we make libjpeg's pixels of it, or both
 * refuse it; and that no bytes make us read or write outside our memory. Its seeds have scans of all kinds. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/preprocess/same.h"
#include "tests/unit/preprocess/scans.h"

#define N_SEEDS 60
#define CUT 6 /* one seed of so many lacks its last scan */

static const struct prepare_limits limits = {.pixels_max = 1 << 14, .scans_max = 40, .memory_max = 64 << 20};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0)
        check_same(&limits, data, size);
    return 0;
}

/* Puts the end of the image in place of its last scan. */
static void cut(struct encoded *jpeg)
{
    size_t at = jpeg->len_bytes - 2;
    while (jpeg->data[at] != 0xff || jpeg->data[at + 1] != 0xda)
        at--;
    memcpy(jpeg->data + at, jpeg->data + jpeg->len_bytes - 2, 2);
    jpeg->len_bytes = at + 2;
}

size_t fuzz_seed(size_t index, uint8_t *buf, size_t cap)
{
    static const struct jpeg_form forms[] = {
        {3, 1, 1, false, 90, 0, 0}, {3, 2, 2, false, 80, 0, 0}, {3, 2, 1, false, 60, 0, 0}, {3, 1, 2, false, 40, 0, 0},
        {3, 4, 1, false, 80, 0, 0}, {1, 1, 1, false, 90, 0, 0}, {4, 1, 1, false, 70, 0, 0}, {1, 2, 1, false, 70, 0, 0},
    };
    static const unsigned intervals[] = {0, 0, 1, 3, 5};
    struct rng rng;
    if (index >= N_SEEDS)
        return 0;
    random_seed(&rng, index);
    const struct jpeg_form *form = &forms[index % (sizeof forms / sizeof *forms)];
    uint32_t width = 1 + (uint32_t)random_below(&rng, 60), height = 1 + (uint32_t)random_below(&rng, 40);
    uint8_t *pixels = picture(width, height, (unsigned)form->components, index);
    struct encoded plain = encode_jpeg(pixels, width, height, form);
    struct encoded jpeg = scan_jpeg(&plain, intervals[index % (sizeof intervals / sizeof *intervals)], &rng);
    if (index % CUT == CUT - 1)
        cut(&jpeg);
    CHECK(jpeg.len_bytes <= cap);
    memcpy(buf, jpeg.data, jpeg.len_bytes);
    size_t len = jpeg.len_bytes;
    encoded_free(&plain);
    encoded_free(&jpeg);
    free(pixels);
    return len;
}
