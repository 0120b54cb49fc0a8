/* webp.c: WebP, by libwebp. Of a moving one the first picture is made, on a canvas of the whole size. */
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#include "preprocess/decode/decoder.h"

/* Upsampling of chroma looks one sample, two pixels, to each side; cropping begins at even places. */
#define MARGIN 2u
/* The memory that libwebp takes: some rows, and for lossless and transparent images each pixel and a byte of alpha. */
#define OUTSIDE_BYTES ((uint64_t)512 << 10)
#define OUTSIDE_ROWS 96
#define OUTSIDE_PER_PIXEL 5
#define OUTSIDE_PER_PIXEL_MOVING 16 /* two canvases, and the frame that is decoded */
#define FORMAT_LOSSY 1
#define CANVAS_CHANNELS 4

static const char *status_text(VP8StatusCode status)
{
    switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY: return "out of memory";
    case VP8_STATUS_UNSUPPORTED_FEATURE: return "a feature that is not supported";
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA: return "truncated";
    default: return "damaged";
    }
}

static int webp_fault(struct decode_fault *fault, VP8StatusCode status)
{
    return decode_fail(fault, status == VP8_STATUS_OUT_OF_MEMORY ? BAD_NO_MEMORY : BAD_CORRUPT, "WebP: %s",
                       status_text(status));
}

/* The container says how long it is; decoding stops below the needed rows and would not notice. */
static bool is_cut(const uint8_t *bytes, size_t len_bytes)
{
    if (len_bytes < 12 || memcmp(bytes, "RIFF", 4) != 0)
        return false;
    uint64_t payload = bytes[4] | (uint32_t)bytes[5] << 8 | (uint32_t)bytes[6] << 16 | (uint64_t)bytes[7] << 24;
    return payload + 8 > len_bytes;
}

static bool is_webp(const uint8_t *bytes, size_t len_bytes)
{
    WebPBitstreamFeatures features;
    return WebPGetFeatures(bytes, len_bytes, &features) == VP8_STATUS_OK;
}

static int open_image(void *state, struct decoding *image, struct decode_fault *fault)
{
    (void)state;
    WebPBitstreamFeatures features;
    VP8StatusCode status = WebPGetFeatures(image->bytes, image->len_bytes, &features);
    if (status != VP8_STATUS_OK)
        return webp_fault(fault, status);
    if (is_cut(image->bytes, image->len_bytes))
        return webp_fault(fault, VP8_STATUS_NOT_ENOUGH_DATA);
    int rc = decode_limits(image->limits, (uint64_t)features.width, (uint64_t)features.height, fault);
    if (rc)
        return rc;
    image->whole = (struct rect){.width = (uint32_t)features.width, .height = (uint32_t)features.height};
    bool plain = features.format == FORMAT_LOSSY && !features.has_alpha;
    uint64_t width = image->whole.width, per_pixel = plain ? 0 : OUTSIDE_PER_PIXEL;
    if (features.has_animation)
        per_pixel = OUTSIDE_PER_PIXEL_MOVING;
    image->outside_bytes = OUTSIDE_BYTES + width * OUTSIDE_ROWS + width * image->whole.height * per_pixel;
    return 0;
}

static uint32_t before(uint32_t at)
{
    return (at > MARGIN ? at - MARGIN : 0) & ~1u;
}

static uint32_t after(uint32_t end, uint32_t size)
{
    return size - end > MARGIN ? end + MARGIN : size;
}

/* Makes the first picture of a moving image. */
static int decode_first(const struct decoding *webp, struct rect rect, struct image *out, struct decode_fault *fault)
{
    WebPAnimDecoderOptions options;
    const WebPData data = {webp->bytes, webp->len_bytes};
    uint8_t *canvas;
    int time_ms;
    if (scratch_image(webp->scratch, rect.width, rect.height, out))
        return webp_fault(fault, VP8_STATUS_OUT_OF_MEMORY);
    if (!WebPAnimDecoderOptionsInit(&options))
        return decode_fail(fault, BAD_CORRUPT, "WebP: libwebpdemux is of another version than its header");
    options.color_mode = MODE_RGBA;
    options.use_threads = 0;
    WebPAnimDecoder *decoder = WebPAnimDecoderNew(&data, &options);
    bool made = decoder && WebPAnimDecoderGetNext(decoder, &canvas, &time_ms);
    for (uint32_t y = 0; made && y < rect.height; y++) {
        const uint8_t *in = canvas + ((size_t)webp->whole.width * (rect.y + y) + rect.x) * CANVAS_CHANNELS;
        uint8_t *to = image_row(out, y);
        for (uint32_t x = 0; x < rect.width; x++, in += CANVAS_CHANNELS, to += IMAGE_CHANNELS)
            memcpy(to, in, IMAGE_CHANNELS);
    }
    WebPAnimDecoderDelete(decoder);
    return made ? 0 : webp_fault(fault, VP8_STATUS_BITSTREAM_ERROR);
}

static int decode_rect(void *state, const struct decoding *webp, struct rect rect, struct image *out,
                       struct decode_fault *fault)
{
    WebPDecoderConfig config;
    (void)state;
    if (!WebPInitDecoderConfig(&config))
        return decode_fail(fault, BAD_CORRUPT, "WebP: libwebp is of another version than its header");
    VP8StatusCode status = WebPGetFeatures(webp->bytes, webp->len_bytes, &config.input);
    if (status != VP8_STATUS_OK)
        return webp_fault(fault, status);
    if (config.input.has_animation)
        return decode_first(webp, rect, out, fault);
    uint32_t left = before(rect.x), top = before(rect.y);
    uint32_t width = after(rect.x + rect.width, (uint32_t)config.input.width) - left;
    uint32_t height = after(rect.y + rect.height, (uint32_t)config.input.height) - top;
    struct image image;
    if (scratch_image(webp->scratch, width, height, &image))
        return decode_fail(fault, BAD_NO_MEMORY, "WebP: decoding takes more memory than is allowed for one image");
    config.options.use_cropping = 1;
    config.options.crop_left = (int)left;
    config.options.crop_top = (int)top;
    config.options.crop_width = (int)width;
    config.options.crop_height = (int)height;
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = (WebPRGBABuffer){image.data, (int)image.stride, image.stride * height};
    status = WebPDecode(webp->bytes, webp->len_bytes, &config);
    WebPFreeDecBuffer(&config.output);
    if (status != VP8_STATUS_OK)
        return webp_fault(fault, status);
    image.data += image.stride * (rect.y - top) + (size_t)(rect.x - left) * IMAGE_CHANNELS;
    image.width = rect.width;
    image.height = rect.height;
    *out = image;
    return 0;
}

const struct decoder_kind decoder_webp = {.name = "WebP", .is = is_webp, .open = open_image, .region = decode_rect};
