/* plain.c: formats whose pixels lie in the file as they are: BMP, and binary PBM, PGM and PPM. */
#include "preprocess/decode/decoder.h"

#include <math.h>
#include <string.h>

#define PNM_VALUE_MAX 65535
#define BMP_FILE_HEADER 14
#define BMP_RAW 0
#define BMP_MASKS 3

/* ── PBM, PGM, PPM ───────────────────────────────────────────────────────────────────────────────────────────────── */

struct text {
    const uint8_t *at, *end;
};

/* An image as its header describes it. Every row lies within the file, whose bytes are borrowed. */
struct plain_image {
    struct rect whole;
    const uint8_t *pixels; /* the row that comes first in the file */
    size_t stride;
    bool upwards; /* the first row is the lowest */
    enum {
        PLAIN_BITS1,
        PLAIN_BITS4,
        PLAIN_BITS8,
        PLAIN_GREY8,
        PLAIN_GREY16,
        PLAIN_RGB8,
        PLAIN_RGB16,
        PLAIN_BGR8,
        PLAIN_BGRX8
    } form;
    uint32_t most;     /* PNM: the value that means white */
    uint32_t n_colors; /* BMP: colors of the palette */
    uint8_t palette[256][IMAGE_CHANNELS];
};

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The next number of a header, comments skipped. */
static bool next_number(struct text *text, uint32_t *out)
{
    while (text->at < text->end && (is_space(*text->at) || *text->at == '#')) {
        if (*text->at == '#') {
            while (text->at < text->end && *text->at != '\n' && *text->at != '\r')
                text->at++;
        } else {
            text->at++;
        }
    }
    uint64_t value = 0;
    const uint8_t *from = text->at;
    for (; text->at < text->end && *text->at >= '0' && *text->at <= '9' && value <= UINT32_MAX; text->at++)
        value = value * 10 + (*text->at - '0');
    *out = (uint32_t)value;
    return text->at > from && value <= UINT32_MAX;
}

static int truncated(const char *format, struct decode_fault *fault)
{
    return decode_fail(fault, BAD_CORRUPT, "%s: truncated", format);
}

/* Checks that the rows lie within the file. */
static int check_rows(const struct plain_image *plain, const uint8_t *end, const char *format,
                      struct decode_fault *fault)
{
    if (plain->pixels > end || plain->stride > (size_t)(end - plain->pixels) / plain->whole.height)
        return truncated(format, fault);
    return 0;
}

static int pnm_open(const struct prepare_limits *limits, const uint8_t *bytes, size_t len_bytes,
                    struct plain_image *out, struct decode_fault *fault)
{
    struct text text = {bytes + 2, bytes + len_bytes};
    struct plain_image plain = {.most = 1};
    bool bits = bytes[1] == '4', grey = bytes[1] == '5';
    if (!next_number(&text, &plain.whole.width) || !next_number(&text, &plain.whole.height) ||
        (!bits && !next_number(&text, &plain.most)) || text.at == text.end || !is_space(*text.at) || plain.most == 0 ||
        plain.most > PNM_VALUE_MAX)
        return decode_fail(fault, BAD_CORRUPT, "PNM: its header is damaged");
    int rc = decode_limits(limits, plain.whole.width, plain.whole.height, fault);
    if (rc)
        return rc;
    bool wide = plain.most > 255;
    plain.pixels = text.at + 1;
    plain.form = bits ? PLAIN_BITS1 : grey ? (wide ? PLAIN_GREY16 : PLAIN_GREY8) : (wide ? PLAIN_RGB16 : PLAIN_RGB8);
    plain.stride = bits ? ((size_t)plain.whole.width + 7) / 8
                        : (size_t)plain.whole.width * (grey ? 1 : 3) * (wide ? 2 : 1);
    memset(plain.palette[0], 255, IMAGE_CHANNELS); /* a set bit is black */
    *out = plain;
    return check_rows(&plain, text.end, "PNM", fault);
}

/* ── BMP ─────────────────────────────────────────────────────────────────────────────────────────────────────────── */

static uint32_t le16(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8;
}

static uint32_t le32(const uint8_t *at)
{
    return le16(at) | le16(at + 2) << 16;
}

struct bmp_header {
    uint32_t offset, info_bytes, width, height, bits, compression, colors, color_bytes;
    bool upwards;
};

static bool bmp_header(const uint8_t *bytes, size_t len_bytes, struct bmp_header *out)
{
    if (len_bytes < BMP_FILE_HEADER + 12)
        return false;
    const uint8_t *info = bytes + BMP_FILE_HEADER;
    struct bmp_header h = {.offset = le32(bytes + 10), .info_bytes = le32(info), .upwards = true};
    if (h.info_bytes > len_bytes - BMP_FILE_HEADER)
        return false;
    if (h.info_bytes == 12) { /* OS/2's */
        h.width = le16(info + 4);
        h.height = le16(info + 6);
        h.bits = le16(info + 10);
        h.color_bytes = 3;
    } else if (h.info_bytes == 40 || h.info_bytes == 64 || h.info_bytes == 108 || h.info_bytes == 124) {
        uint32_t height = le32(info + 8);
        h.width = le32(info + 4);
        h.upwards = height < UINT32_C(0x80000000);
        h.height = h.upwards ? height : 0 - height;
        h.bits = le16(info + 14);
        h.compression = le32(info + 16);
        h.colors = le32(info + 32);
        h.color_bytes = 4;
    } else {
        return false;
    }
    *out = h;
    return true;
}

static bool bmp_palette(const uint8_t *bytes, size_t len_bytes, const struct bmp_header *h, struct plain_image *plain)
{
    size_t count = h->colors ? h->colors : (size_t)1 << h->bits, at = BMP_FILE_HEADER + (size_t)h->info_bytes;
    if (count > 256 || count * h->color_bytes > len_bytes - at || h->offset < at + count * h->color_bytes)
        return false;
    plain->n_colors = (uint32_t)count;
    for (size_t i = 0; i < count; i++, at += h->color_bytes) {
        for (int c = 0; c < IMAGE_CHANNELS; c++)
            plain->palette[i][c] = bytes[at + 2 - (size_t)c];
    }
    return true;
}

/* Some palettes of grey Pillow takes for no palette, whatever the bits of a pixel. */
static bool bmp_palette_is_odd(const struct bmp_header *h, const struct plain_image *plain)
{
    if (h->bits == 1)
        return false;
    for (uint32_t i = 0; i < plain->n_colors; i++) {
        uint8_t level = plain->n_colors == 2 && i ? 255 : (uint8_t)i;
        for (int c = 0; c < IMAGE_CHANNELS; c++) {
            if (plain->palette[i][c] != level)
                return false;
        }
    }
    return h->bits == 4 || plain->n_colors == 2;
}

/* Are the masks blue, green, red from the lowest byte up, as everybody writes them? Longer headers have one for alpha
 * too. */
static bool bmp_usual_masks(const uint8_t *bytes, size_t len_bytes, const struct bmp_header *h)
{
    const uint8_t *masks = bytes + BMP_FILE_HEADER + 40;
    if (len_bytes < BMP_FILE_HEADER + 56)
        return false;
    if (h->info_bytes > 40 && le32(masks + 12) != 0 && le32(masks + 12) != 0xff000000)
        return false;
    return le32(masks) == 0xff0000 && le32(masks + 4) == 0xff00 && le32(masks + 8) == 0xff;
}

static int bmp_open(const struct prepare_limits *limits, const uint8_t *bytes, size_t len_bytes,
                    struct plain_image *out, struct decode_fault *fault)
{
    struct bmp_header h;
    if (!bmp_header(bytes, len_bytes, &h))
        return decode_fail(fault, BAD_CORRUPT, "BMP: its header is damaged");
    int rc = decode_limits(limits, h.width, h.height, fault);
    if (rc)
        return rc;
    struct plain_image plain = {.whole = {.width = h.width, .height = h.height}, .upwards = h.upwards};
    bool masks = h.compression == BMP_MASKS && h.bits == 32 && bmp_usual_masks(bytes, len_bytes, &h);
    bool known = h.bits == 1 || h.bits == 4 || h.bits == 8 || h.bits == 24 || h.bits == 32;
    if (!known || (h.compression != BMP_RAW && !masks))
        return decode_fail(fault, BAD_NOT_AN_IMAGE,
                           "BMP: %u bits a pixel with compression %u are not supported: save it as PNG", h.bits,
                           h.compression);
    if (h.bits <= 8 && !bmp_palette(bytes, len_bytes, &h, &plain))
        return decode_fail(fault, BAD_CORRUPT, "BMP: its palette is damaged");
    if (h.bits <= 8 && bmp_palette_is_odd(&h, &plain))
        return decode_fail(fault, BAD_NOT_AN_IMAGE, "BMP: a palette of greys that is not supported: save it as PNG");
    plain.form = h.bits == 1    ? PLAIN_BITS1
                 : h.bits == 4  ? PLAIN_BITS4
                 : h.bits == 8  ? PLAIN_BITS8
                 : h.bits == 24 ? PLAIN_BGR8
                                : PLAIN_BGRX8;
    plain.stride = ((size_t)h.width * h.bits + 31) / 32 * 4;
    if (h.offset > len_bytes)
        return truncated("BMP", fault);
    plain.pixels = bytes + h.offset;
    *out = plain;
    return check_rows(&plain, bytes + len_bytes, "BMP", fault);
}

/* ── pixels ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool is_pnm(const uint8_t *bytes, size_t len_bytes)
{
    return len_bytes >= 3 && bytes[0] == 'P' && bytes[1] >= '4' && bytes[1] <= '6' && is_space(bytes[2]);
}

static bool is_plain(const uint8_t *bytes, size_t len_bytes)
{
    return is_pnm(bytes, len_bytes) || (len_bytes >= 3 && bytes[0] == 'B' && bytes[1] == 'M');
}

static int plain_open(void *state, struct decoding *image, struct decode_fault *fault)
{
    struct plain_image *plain = state;
    int rc = is_pnm(image->bytes, image->len_bytes)
                 ? pnm_open(image->limits, image->bytes, image->len_bytes, plain, fault)
                 : bmp_open(image->limits, image->bytes, image->len_bytes, plain, fault);
    image->whole = plain->whole;
    return rc;
}

/* Values from 0 to `most` as 0 to 255, as Pillow does. */
static void make_levels(uint32_t most, uint8_t levels[256])
{
    for (uint32_t i = 0; i < 256; i++)
        levels[i] = i >= most ? 255 : (uint8_t)lrint((double)i / most * 255);
}

static uint8_t wide_level(const uint8_t *at, uint32_t most)
{
    uint32_t value = (uint32_t)at[0] << 8 | at[1];
    return value >= most ? 255 : (uint8_t)lrint((double)value / most * 255);
}

/* Pillow makes grey of 16 bits numbers up to 65535, and of those above 255 white. */
static uint8_t clipped_level(const uint8_t *at, uint32_t most)
{
    uint32_t value = (uint32_t)at[0] << 8 | at[1];
    long level = value >= most ? PNM_VALUE_MAX : lrint((double)value / most * PNM_VALUE_MAX);
    return level > 255 ? 255 : (uint8_t)level;
}

/* Pixel x of a row; levels: what 8-bit values mean. */
static inline void pixel(const struct plain_image *plain, const uint8_t *row, size_t x, const uint8_t levels[256],
                         uint8_t *to)
{
    switch (plain->form) {
    case PLAIN_BITS1: memcpy(to, plain->palette[row[x / 8] >> (7 - x % 8) & 1], IMAGE_CHANNELS); return;
    case PLAIN_BITS4: memcpy(to, plain->palette[row[x / 2] >> (x % 2 ? 0 : 4) & 15], IMAGE_CHANNELS); return;
    case PLAIN_BITS8: memcpy(to, plain->palette[row[x]], IMAGE_CHANNELS); return;
    case PLAIN_GREY8: memset(to, levels[row[x]], IMAGE_CHANNELS); return;
    case PLAIN_GREY16: memset(to, clipped_level(row + x * 2, plain->most), IMAGE_CHANNELS); return;
    case PLAIN_RGB8:
    case PLAIN_RGB16:
        for (size_t c = 0; c < IMAGE_CHANNELS; c++)
            to[c] = plain->form == PLAIN_RGB8 ? levels[row[x * 3 + c]] : wide_level(row + (x * 3 + c) * 2, plain->most);
        return;
    case PLAIN_BGR8:
    case PLAIN_BGRX8:
        row += x * (plain->form == PLAIN_BGR8 ? 3 : 4);
        for (size_t c = 0; c < IMAGE_CHANNELS; c++)
            to[c] = row[2 - c];
        return;
    }
}

/* Whether all pixels of the rectangle have a color of the palette. */
static bool colors_exist(const struct plain_image *plain, const uint8_t *row, struct rect rect)
{
    if (plain->form != PLAIN_BITS4 && plain->form != PLAIN_BITS8)
        return true;
    for (size_t x = rect.x; x < (size_t)rect.x + rect.width; x++) {
        uint32_t color = plain->form == PLAIN_BITS8 ? row[x] : row[x / 2] >> (x % 2 ? 0 : 4) & 15;
        if (color >= plain->n_colors)
            return false;
    }
    return true;
}

static int plain_region(void *state, const struct decoding *image, struct rect rect, struct image *out,
                        struct decode_fault *fault)
{
    const struct plain_image *plain = state;
    uint8_t levels[256];
    if (scratch_image(image->scratch, rect.width, rect.height, out))
        return decode_fail(fault, BAD_NO_MEMORY, "decoding takes more memory than is allowed for one image");
    make_levels(plain->most ? plain->most : 255, levels);
    for (uint32_t y = 0; y < rect.height; y++) {
        uint32_t row = plain->upwards ? plain->whole.height - 1 - rect.y - y : rect.y + y;
        uint8_t *to = image_row(out, y);
        if (!colors_exist(plain, plain->pixels + plain->stride * row, rect))
            return decode_fail(fault, BAD_CORRUPT, "BMP: a pixel has a color that the palette does not have");
        const uint8_t *from = plain->pixels + plain->stride * row;
        if (plain->form == PLAIN_RGB8 && plain->most == 255) { /* as pixels of lists of places come */
            memcpy(to, from + (size_t)rect.x * IMAGE_CHANNELS, (size_t)rect.width * IMAGE_CHANNELS);
            continue;
        }
        for (uint32_t x = 0; x < rect.width; x++, to += IMAGE_CHANNELS)
            pixel(plain, from, (size_t)rect.x + x, levels, to);
    }
    return 0;
}

const struct decoder_kind decoder_plain = {.name = "BMP, PNM",
                                           .is = is_plain,
                                           .state_bytes = sizeof(struct plain_image),
                                           .open = plain_open,
                                           .region = plain_region};
