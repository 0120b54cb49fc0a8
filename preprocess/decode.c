#include "preprocess/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "preprocess/decode_plain.h"
#include "preprocess/decode_priv.h"

/* A side's length whatever the limits: strides and offsets stay far from their ends. */
#define SIDE_MAX ((uint64_t)1 << 20)

enum source { SOURCE_NONE, SOURCE_JPEG, SOURCE_WEBP, SOURCE_PLAIN, SOURCE_VIPS };

struct decoder {
    struct prepare_limits limits;
    struct jpeg_reader *jpeg;
    void *vips;
    struct plain_image plain;
    enum source source;
    const uint8_t *bytes; /* of the image at hand; borrowed, as is scratch */
    size_t len_bytes;
    struct scratch *scratch;
    uint64_t outside_bytes; /* that its library takes from malloc */
};

int decode_fail(struct decode_fault *fault, enum bad_reason reason, const char *fmt, ...)
{
    static const int codes[BAD_REASONS] = {
        [BAD_UNREADABLE] = LARDER_EIO,    [BAD_NOT_AN_IMAGE] = LARDER_EFORMAT, [BAD_CORRUPT] = LARDER_EFORMAT,
        [BAD_TOO_LARGE] = LARDER_ELIMIT, [BAD_NO_MEMORY] = LARDER_ENOMEM,     [BAD_TOO_SMALL] = LARDER_ELIMIT,
    };
    va_list args;
    va_start(args, fmt);
    char text[ERROR_TEXT_MAX];
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fault->reason = reason;
    return error_set(&fault->error, codes[reason], "%s", text);
}

int decode_limits(const struct prepare_limits *limits, uint64_t width, uint64_t height, struct decode_fault *fault)
{
    if (width == 0 || height == 0)
        return decode_fail(fault, BAD_CORRUPT, "an image of %llu × %llu pixels", (unsigned long long)width,
                           (unsigned long long)height);
    if (width > SIDE_MAX || height > SIDE_MAX || width > limits->pixels_max / height)
        return decode_fail(fault, BAD_TOO_LARGE, "%llu × %llu pixels are above the limit of %llu pixels",
                           (unsigned long long)width, (unsigned long long)height,
                           (unsigned long long)limits->pixels_max);
    return 0;
}

/* a × b / 255, rounded as Pillow's MULDIV255. */
static inline unsigned muldiv255(unsigned a, unsigned b)
{
    unsigned t = a * b + 128;
    return ((t >> 8) + t) >> 8;
}

void decode_cmyk(const uint8_t *in, size_t step, bool inverted, uint8_t *out, uint32_t width)
{
    unsigned flip = inverted ? 255 : 0;
    for (uint32_t x = 0; x < width; x++, in += step, out += IMAGE_CHANNELS) {
        unsigned white = 255 - (in[3] ^ flip);
        for (int c = 0; c < IMAGE_CHANNELS; c++)
            out[c] = (uint8_t)(white - muldiv255(in[c] ^ flip, white));
    }
}

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
    if (len_bytes >= sizeof jpeg_start && memcmp(bytes, jpeg_start, sizeof jpeg_start) == 0) {
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
    return vips_reader_open(&decoder->limits, bytes, len_bytes, &decoder->vips, whole, &decoder->outside_bytes,
                            fault);
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
    return vips_reader_region(decoder->vips, rect, decoder->scratch, out, fault);
}

void decode_close(struct decoder *decoder)
{
    if (decoder->source == SOURCE_JPEG)
        jpeg_reader_close(decoder->jpeg);
    else if (decoder->source == SOURCE_VIPS)
        vips_reader_close(&decoder->vips);
    decoder->source = SOURCE_NONE;
}
