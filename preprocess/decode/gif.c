/* gif.c: the first image of a GIF, which has to fill the whole. It is decoded down to the last row that is needed, all
 * of it if it is interlaced. One whose data end early or mean nothing is refused. */
#include <string.h>

#include "preprocess/decode/decoder.h"
#include "preprocess/decode/look.h"

#define HEADER_BYTES 13
#define HAS_COLORS 0x80
#define INTERLACED 0x40
#define EXTENSION 0x21
#define CONTROL 0xf9
#define IMAGE 0x2c
#define IMAGE_BYTES 10
#define CODE_BITS_MAX 12
#define CODES (1 << CODE_BITS_MAX)

struct gif {
    const uint8_t *bytes;
    size_t len_bytes, at;  /* after opening: where the pixels' codes begin */
    const uint8_t *colors; /* the image's color table; NULL: none so far */
    uint32_t n_colors, width, height;
    bool interlaced, has_clear;
    uint8_t clear; /* the transparent color's number */
};

static uint32_t le16(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8;
}

static int damaged(struct decode_fault *fault)
{
    return decode_fail(fault, BAD_CORRUPT, "GIF: its header is damaged");
}

/* ── the header ──────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Passes a table of colors if `flags` say that there is one. False: the file ends before. */
static bool pass_colors(struct gif *gif, uint8_t flags)
{
    if (!(flags & HAS_COLORS))
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
static bool pass_extension(struct gif *gif)
{
    if (gif->len_bytes - gif->at < 2)
        return false;
    bool control = gif->bytes[gif->at + 1] == CONTROL;
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

static int read_header(struct gif *gif, struct decode_fault *fault)
{
    const uint8_t *bytes = gif->bytes;
    gif->at = HEADER_BYTES;
    if (gif->len_bytes < HEADER_BYTES || (bytes[4] != '7' && bytes[4] != '9') || bytes[5] != 'a' ||
        !pass_colors(gif, bytes[10]))
        return damaged(fault);
    while (gif->at < gif->len_bytes && bytes[gif->at] == EXTENSION) {
        if (!pass_extension(gif))
            return damaged(fault);
    }
    if (gif->len_bytes - gif->at < IMAGE_BYTES || bytes[gif->at] != IMAGE)
        return damaged(fault);
    const uint8_t *image = bytes + gif->at;
    gif->width = le16(image + 5);
    gif->height = le16(image + 7);
    gif->interlaced = image[9] & INTERLACED;
    if (le16(image + 1) || le16(image + 3) || gif->width != le16(bytes + 6) || gif->height != le16(bytes + 8))
        return decode_fail(fault, BAD_NOT_AN_IMAGE,
                           "GIF: its first image does not fill the whole, which is not supported: save it as PNG");
    gif->at += IMAGE_BYTES;
    if (!pass_colors(gif, image[9]))
        return damaged(fault);
    if (!gif->colors)
        return decode_fail(fault, BAD_NOT_AN_IMAGE, "GIF: without colors, which is not supported: save it as PNG");
    if (gif->has_clear && gif->clear >= gif->n_colors)
        return decode_fail(fault, BAD_NOT_AN_IMAGE,
                           "GIF: its transparent color is none of its colors, which is not supported: save it as PNG");
    return 0;
}

static bool is_gif(const uint8_t *bytes, size_t len_bytes)
{
    return len_bytes >= 4 && memcmp(bytes, "GIF8", 4) == 0;
}

static int gif_open(void *state, struct decoding *image, struct decode_fault *fault)
{
    struct gif *gif = state;
    *gif = (struct gif){.bytes = image->bytes, .len_bytes = image->len_bytes};
    int rc = read_header(gif, fault);
    if (!rc)
        rc = decode_limits(image->limits, gif->width, gif->height, fault);
    image->whole = (struct rect){.width = gif->width, .height = gif->height};
    return rc;
}

/* ── the codes ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The blocks of codes, read bit by bit from the lowest. */
struct bits {
    const uint8_t *at, *end;
    size_t block; /* bytes left of the block */
    uint32_t held;
    unsigned n_held;
};

/* False: the data end. */
static bool next_code(struct bits *bits, unsigned width, uint32_t *out)
{
    while (bits->n_held < width) {
        if (bits->block == 0) {
            if (bits->at == bits->end || *bits->at == 0)
                return false;
            bits->block = *bits->at++;
        }
        if (bits->at == bits->end)
            return false;
        bits->held |= (uint32_t)*bits->at++ << bits->n_held;
        bits->n_held += 8;
        bits->block--;
    }
    *out = bits->held & ((1u << width) - 1);
    bits->held >>= width;
    bits->n_held -= width;
    return true;
}

/* A code stands for the string of an earlier one and one more number. */
struct strings {
    uint16_t before[CODES];
    uint16_t len[CODES];
    uint8_t first[CODES], last[CODES];
    uint32_t clear, next, old; /* old: the code before; CODES: none since the table was cleared */
    unsigned width;
};

static void clear_strings(struct strings *strings, unsigned bits)
{
    strings->clear = 1u << bits;
    strings->next = strings->clear + 2;
    strings->old = CODES;
    strings->width = bits + 1;
}

static void start_strings(struct strings *strings, unsigned bits)
{
    for (uint32_t i = 0; i < 1u << bits; i++) {
        strings->len[i] = 1;
        strings->first[i] = strings->last[i] = (uint8_t)i;
    }
    clear_strings(strings, bits);
}

/* Adds the string that `code` implies. False: no file can have that code here. */
static bool learn(struct strings *strings, uint32_t code)
{
    uint32_t old = strings->old, next = strings->next;
    if (code >= next + (old != CODES && next < CODES))
        return false;
    if (old != CODES && next < CODES) {
        strings->before[next] = (uint16_t)old;
        strings->len[next] = (uint16_t)(strings->len[old] + 1);
        strings->first[next] = strings->first[old];
        strings->last[next] = code == next ? strings->first[old] : strings->first[code];
        strings->next++;
        if (strings->next == 1u << strings->width && strings->width < CODE_BITS_MAX)
            strings->width++;
    }
    strings->old = code;
    return true;
}

/* Writes a code's string from its end, as much of it as there is room for. Returns how much. */
static size_t spell(const struct strings *strings, uint32_t code, uint8_t *to, size_t room)
{
    size_t len = strings->len[code];
    for (size_t i = len; i-- > 0; code = strings->before[code]) {
        if (i < room)
            to[i] = strings->last[code];
    }
    return len < room ? len : room;
}

/* Makes `count` numbers. False: the codes end before, or mean nothing. */
static bool make_numbers(const struct gif *gif, struct strings *strings, uint8_t *numbers, size_t count)
{
    struct bits bits = {.at = gif->bytes + gif->at, .end = gif->bytes + gif->len_bytes};
    if (bits.at == bits.end)
        return false;
    unsigned first_bits = *bits.at++;
    if (first_bits < 1 || first_bits > 8)
        return false;
    start_strings(strings, first_bits);
    for (size_t made = 0; made < count;) {
        uint32_t code;
        if (!next_code(&bits, strings->width, &code) || code == strings->clear + 1)
            return false;
        if (code == strings->clear) {
            clear_strings(strings, first_bits);
            continue;
        }
        if (!learn(strings, code))
            return false;
        made += spell(strings, code, numbers + made, count - made);
    }
    return true;
}

/* ── pixels ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* How many rows of the data come before a row that is seen. */
static uint32_t stored_at(const struct gif *gif, uint32_t y)
{
    static const struct {
        uint32_t first, step;
    } passes[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
    uint32_t before = 0;
    if (!gif->interlaced)
        return y;
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        if (y >= passes[i].first && (y - passes[i].first) % passes[i].step == 0)
            return before + (y - passes[i].first) / passes[i].step;
        if (gif->height > passes[i].first)
            before += (gif->height - passes[i].first + passes[i].step - 1) / passes[i].step;
    }
    return before;
}

static size_t numbers_needed(const struct gif *gif, struct rect rect)
{
    return (size_t)gif->width * (gif->interlaced ? gif->height : rect.y + rect.height);
}

static size_t gif_needs(void *state, struct rect rect)
{
    return ((size_t)rect.width * IMAGE_CHANNELS + SCRATCH_ALIGN) * ((size_t)rect.height + IMAGE_SLACK_ROWS + 1) +
           numbers_needed(state, rect) + sizeof(struct strings) + (size_t)2 * SCRATCH_ALIGN;
}

static int gif_region(void *state, const struct decoding *image, struct rect rect, struct image *out,
                      struct decode_fault *fault)
{
    const struct gif *gif = state;
    size_t count = numbers_needed(gif, rect);
    uint8_t *numbers = scratch_take(image->scratch, count);
    struct strings *strings = scratch_take(image->scratch, sizeof *strings);
    if (!numbers || !strings || scratch_image(image->scratch, rect.width, rect.height, out))
        return decode_fail(fault, BAD_NO_MEMORY, "GIF: decoding takes more memory than is allowed for one image");
    if (!make_numbers(gif, strings, numbers, count))
        return decode_fail(fault, BAD_CORRUPT, "GIF: its pixels are damaged, or end early");
    struct look look = {.kind = LOOK_NUMBERS, .bits = 8, .step = 1}; /* a color that there is not is black */
    memcpy(look.colors, gif->colors, (size_t)gif->n_colors * IMAGE_CHANNELS);
    for (uint32_t y = 0; y < rect.height; y++)
        look_row(&look, numbers + (size_t)gif->width * stored_at(gif, rect.y + y), rect.x, rect.width,
                 image_row(out, y));
    return 0;
}

const struct decoder_kind decoder_gif = {.name = "GIF",
                                         .is = is_gif,
                                         .state_bytes = sizeof(struct gif),
                                         .open = gif_open,
                                         .needs = gif_needs,
                                         .region = gif_region};
