#include "preprocess/decode/decode.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "preprocess/decode/decode_priv.h"
#include "preprocess/decode/jpeg_planes.h"
#include "preprocess/decode/plain.h"

enum source { SOURCE_NONE, SOURCE_JPEG, SOURCE_WEBP, SOURCE_PLAIN, SOURCE_VIPS };

struct decoder {
    struct prepare_limits limits;
    struct jpeg_reader *jpeg;
    struct vips_picture vips;
    struct plain_image plain;
    enum source source;
    const uint8_t *bytes; /* of the image at hand; borrowed, as is scratch */
    size_t len_bytes;
    struct scratch *scratch;
    uint64_t outside_bytes; /* that its library takes from malloc */
};

int decoder_create(const struct prepare_limits *limits, struct decoder **out)
{
    struct decoder *decoder = xcalloc(1, sizeof *decoder);
    decoder->limits = *limits;
    int rc = jpeg_reader_create(limits, &decoder->jpeg);
    if (rc)
        free(decoder);
    else
        *out = decoder;
    return rc;
}

void decoder_destroy(struct decoder *decoder)
{
    if (!decoder)
        return;
    decode_close(decoder);
    jpeg_reader_destroy(decoder->jpeg);
    free(decoder);
}

int decode_open(struct decoder *decoder, const void *bytes, size_t len_bytes, struct scratch *scratch,
                struct rect *whole, struct decode_fault *fault)
{
    static const uint8_t jpeg_start[] = {0xff, 0xd8, 0xff};
    CHECK(decoder->source == SOURCE_NONE);
    decoder->bytes = bytes;
    decoder->len_bytes = len_bytes;
    decoder->scratch = scratch;
    decoder->outside_bytes = 0;
    if (len_bytes == 0)
        return decode_fail(fault, BAD_NOT_AN_IMAGE, "it is empty");
    if ((len_bytes >= sizeof jpeg_start && memcmp(bytes, jpeg_start, sizeof jpeg_start) == 0) ||
        jpeg_planes_is(bytes, len_bytes)) {
        decoder->source = SOURCE_JPEG;
        return jpeg_reader_open(decoder->jpeg, bytes, len_bytes, scratch, whole, fault);
    }
    if (webp_is_still(bytes, len_bytes)) {
        decoder->source = SOURCE_WEBP;
        return webp_open(&decoder->limits, bytes, len_bytes, whole, &decoder->outside_bytes, fault);
    }
    int rc;
    if (plain_open(&decoder->limits, bytes, len_bytes, &decoder->plain, &rc, fault)) {
        decoder->source = SOURCE_PLAIN;
        *whole = decoder->plain.whole;
        return rc;
    }
    decoder->source = SOURCE_VIPS;
    return vips_reader_open(&decoder->limits, bytes, len_bytes, &decoder->vips, whole, &decoder->outside_bytes, fault);
}

uint32_t decode_scale(struct decoder *decoder, uint32_t divisor)
{
    if (decoder->source != SOURCE_JPEG)
        return 1;
    jpeg_reader_scale(decoder->jpeg, divisor);
    return divisor;
}

int decode_reserve(struct decoder *decoder, struct rect rect, struct decode_fault *fault)
{
    size_t inside = decoder->source == SOURCE_JPEG ? jpeg_reader_needs(decoder->jpeg, rect) : 0;
    uint64_t outside = decoder->outside_bytes;
    if (outside > SIZE_MAX / 2 || scratch_outside(decoder->scratch, (size_t)outside) ||
        scratch_expect(decoder->scratch, inside))
        return decode_fail(fault, BAD_NO_MEMORY, "decoding takes more memory than is allowed for one image");
    return 0;
}

int decode_region(struct decoder *decoder, struct rect rect, struct image *out, struct decode_fault *fault)
{
    CHECK(decoder->source != SOURCE_NONE);
    if (decoder->source == SOURCE_JPEG)
        return jpeg_reader_region(decoder->jpeg, rect, out, fault);
    if (decoder->source == SOURCE_WEBP)
        return webp_region(decoder->bytes, decoder->len_bytes, rect, decoder->scratch, out, fault);
    if (decoder->source == SOURCE_PLAIN)
        return plain_region(&decoder->plain, rect, decoder->scratch, out, fault);
    return vips_reader_region(&decoder->vips, rect, decoder->scratch, out, fault);
}

void decode_close(struct decoder *decoder)
{
    if (decoder->source == SOURCE_JPEG)
        jpeg_reader_close(decoder->jpeg);
    else if (decoder->source == SOURCE_VIPS)
        vips_reader_close(&decoder->vips);
    decoder->source = SOURCE_NONE;
}
