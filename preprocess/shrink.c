#include "preprocess/shrink.h"

#include <string.h>

#include "common/check.h"
#include "preprocess/decode/decode.h"
#include "preprocess/decode/exif.h"
#include "preprocess/decode/jpeg_write.h"
#include "preprocess/prepare.h"
#include "preprocess/resample.h"
#include "preprocess/scratch.h"

_Static_assert(SHRINK_SIDE_MAX <= JPEG_SIDE_MAX, "every smaller image can be written");

/* The memory and the decoder for one image. */
struct work {
    struct scratch memory;
    struct decoder *decoder;
};

static uint32_t scaled(uint32_t side, uint32_t longer, uint32_t max_side)
{
    uint64_t rounded = ((uint64_t)side * max_side * 2 + longer) / ((uint64_t)longer * 2);
    return rounded ? (uint32_t)rounded : 1;
}

static int resize(struct work *work, struct rect whole, const struct image *source, uint32_t max_side,
                  struct image *out)
{
    static const struct resizing how = {.filter = FILTER_LANCZOS, .antialias = true};
    uint32_t longer = whole.width > whole.height ? whole.width : whole.height;
    struct geometry geometry;
    geometry_start(&geometry, whole.width, whole.height);
    CHECK(
        geometry_resize(&geometry, scaled(whole.width, longer, max_side), scaled(whole.height, longer, max_side), how));
    int rc = scratch_image(&work->memory, geometry.window.width, geometry.window.height, out);
    return rc ? rc : resample(&geometry, source, 0, 0, out, &work->memory);
}

/* Gives 0, or the code of fault. */
static int make(struct work *work, const struct shrinking *how, const uint8_t *bytes, size_t len_bytes,
                struct shrunk *out, struct decode_fault *fault)
{
    struct rect whole;
    struct image source, smaller;
    int rc = decode_open(work->decoder, bytes, len_bytes, &work->memory, &whole, fault);
    if (rc)
        return rc;
    if (whole.width <= how->max_side && whole.height <= how->max_side) {
        out->outcome = SHRUNK_NOT;
        return 0;
    }
    rc = decode_reserve(work->decoder, whole, fault);
    if (!rc)
        rc = decode_region(work->decoder, whole, &source, fault);
    if (rc)
        return rc;
    const struct jpeg_writing writing = {
        .quality = how->quality, .restart_mcus = how->restart_mcus, .orientation = exif_orientation(bytes, len_bytes)};
    if (!resize(work, whole, &source, how->max_side, &smaller))
        out->bytes = jpeg_write(&smaller, &writing, &out->len_bytes);
    if (!out->bytes)
        return decode_fail(fault, BAD_NO_MEMORY, "out of memory while shrinking an image");
    out->outcome = SHRUNK_MADE;
    return 0;
}

int shrink(const struct prepare_limits *limits, const struct shrinking *how, const uint8_t *bytes, size_t len_bytes,
           struct shrunk *out, struct error *err)
{
    struct work work;
    struct decode_fault fault = {0};
    CHECK(how->max_side >= 1 && how->max_side <= SHRINK_SIDE_MAX && how->quality >= 1 && how->quality <= 100);
    *out = (struct shrunk){.outcome = SHRUNK_UNDECODED};
    if (decoder_create(limits, &work.decoder))
        return error_set(err, LARDER_ENOMEM, "out of memory");
    scratch_init(&work.memory, prepare_memory(limits), NULL);
    int rc = make(&work, how, bytes, len_bytes, out, &fault);
    decoder_destroy(work.decoder);
    scratch_free(&work.memory);
    if (rc && fault.reason == BAD_NO_MEMORY)
        return error_set(err, LARDER_ENOMEM, "%s", fault.error.text);
    if (rc)
        out->why = fault.error;
    return 0;
}
