#include "preprocess/decode/form.h"

#include <string.h>

#define PNG_BITS 24 /* offset of a PNG's bit depth; the color type follows */
#define GIF_HEADER_BYTES 13
#define GIF_HAS_COLORS 0x80
#define GIF_EXTENSION 0x21
#define GIF_CONTROL 0xf9
#define GIF_IMAGE 0x2c
#define GIF_IMAGE_BYTES 10

struct gif {
    const uint8_t *bytes;
    size_t len_bytes, at;
    const uint8_t *colors; /* the image's color table; NULL: none so far */
    uint32_t n_colors;
    bool has_clear;
    uint8_t clear; /* the transparent color's number */
};

static uint32_t le16(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8;
}

/* Passes a table of colors if `flags` say that there is one. False: the file ends before. */
static bool gif_colors(struct gif *gif, uint8_t flags)
{
    if (!(flags & GIF_HAS_COLORS))
        return true;
    uint32_t count = 2u << (flags & 7);
    if (gif->len_bytes - gif->at < (size_t)count * IMAGE_CHANNELS)
        return false;
    gif->colors = gif->bytes + gif->at;
    gif->n_colors = count;
    gif->at += (size_t)count * IMAGE_CHANNELS;
    return true;
}

/* Passes an extension, and notes what a graphic control says. */
static bool gif_extension(struct gif *gif)
{
    if (gif->len_bytes - gif->at < 2)
        return false;
    bool control = gif->bytes[gif->at + 1] == GIF_CONTROL;
    gif->at += 2;
    while (gif->at < gif->len_bytes) {
        size_t block = gif->bytes[gif->at++];
        if (block == 0)
            return true;
        if (gif->len_bytes - gif->at < block)
            return false;
        if (control && block >= 4) {
            gif->has_clear = gif->bytes[gif->at] & 1;
            gif->clear = gif->bytes[gif->at + 3];
        }
        gif->at += block;
    }
    return false;
}

static int gif_damaged(struct decode_fault *fault)
{
    return decode_fail(fault, BAD_CORRUPT, "GIF: its header is damaged");
}

static int read_gif(const uint8_t *bytes, size_t len_bytes, struct form *out, struct decode_fault *fault)
{
    struct gif gif = {.bytes = bytes, .len_bytes = len_bytes, .at = GIF_HEADER_BYTES};
    if (len_bytes < GIF_HEADER_BYTES || (bytes[4] != '7' && bytes[4] != '9') || bytes[5] != 'a' ||
        !gif_colors(&gif, bytes[10]))
        return gif_damaged(fault);
    while (gif.at < len_bytes && bytes[gif.at] == GIF_EXTENSION) {
        if (!gif_extension(&gif))
            return gif_damaged(fault);
    }
    if (len_bytes - gif.at < GIF_IMAGE_BYTES || bytes[gif.at] != GIF_IMAGE)
        return gif_damaged(fault);
    const uint8_t *image = bytes + gif.at;
    if (le16(image + 1) || le16(image + 3) || le16(image + 5) != le16(bytes + 6) || le16(image + 7) != le16(bytes + 8))
        return decode_fail(fault, BAD_NOT_AN_IMAGE,
                           "GIF: its first image does not fill the whole, which is not supported: save it as PNG");
    gif.at += GIF_IMAGE_BYTES;
    if (!gif_colors(&gif, image[9]))
        return gif_damaged(fault);
    if (!gif.colors)
        return decode_fail(fault, BAD_NOT_AN_IMAGE, "GIF: without colors, which is not supported: save it as PNG");
    if (!gif.has_clear)
        return 0;
    if (gif.clear >= gif.n_colors)
        return decode_fail(fault, BAD_NOT_AN_IMAGE,
                           "GIF: its transparent color is none of its colors, which is not supported: save it as PNG");
    out->has_clear = true;
    memcpy(out->clear, gif.colors + (size_t)gif.clear * IMAGE_CHANNELS, IMAGE_CHANNELS);
    return 0;
}

int form_read(const uint8_t *bytes, size_t len_bytes, struct form *out, struct decode_fault *fault)
{
    static const uint8_t png[] = {0x89, 'P', 'N', 'G'}, gif[] = {'G', 'I', 'F', '8'};
    *out = (struct form){.orientation = FORM_UPRIGHT};
    if (len_bytes > PNG_BITS + 1 && memcmp(bytes, png, sizeof png) == 0)
        out->clips = bytes[PNG_BITS] == 16 && bytes[PNG_BITS + 1] == 0;
    if (len_bytes >= sizeof gif && memcmp(bytes, gif, sizeof gif) == 0)
        return read_gif(bytes, len_bytes, out, fault);
    return form_is_tiff(bytes, len_bytes) ? form_read_tiff(bytes, len_bytes, out, fault) : 0;
}
