#include "preprocess/decode/look.h"

#include <string.h>

#include "preprocess/decode/cmyk.h"

#define INKS 4
#define INKS_AT_ONCE 64

void look_greys(struct look *look, bool white_first)
{
    unsigned most = (1u << look->bits) - 1;
    for (unsigned i = 0; i <= most; i++) {
        unsigned level = i * 255 / most;
        memset(look->colors[i], (int)(white_first ? 255 - level : level), IMAGE_CHANNELS);
    }
}

static void numbers(const struct look *look, const uint8_t *row, size_t x, uint32_t width, uint8_t *out)
{
    unsigned bits = look->bits, mask = (1u << bits) - 1;
    for (size_t end = x + width; x < end; x++, out += IMAGE_CHANNELS) {
        size_t bit = x * bits;
        memcpy(out, look->colors[row[bit / 8] >> (8 - bits - bit % 8) & mask], IMAGE_CHANNELS);
    }
}

/* numbers_of_bytes is numbers, where each of them is a byte. */
static void numbers_of_bytes(const struct look *look, const uint8_t *in, uint32_t width, uint8_t *out)
{
    for (uint32_t i = 0; i < width; i++, out += IMAGE_CHANNELS)
        memcpy(out, look->colors[in[i]], IMAGE_CHANNELS);
}

static void bytes(const struct look *look, const uint8_t *in, uint32_t width, uint8_t *out)
{
    for (uint32_t i = 0; i < width; i++, in += look->step, out += IMAGE_CHANNELS) {
        out[0] = in[look->red];
        out[1] = in[look->green];
        out[2] = in[look->blue];
    }
}

static double number_at(enum look_number number, const uint8_t *at)
{
    union {
        uint16_t u16;
        int16_t s16;
        int32_t s32;
        float real;
    } value;
    memcpy(&value, at, number <= LOOK_S16 ? sizeof value.u16 : sizeof value.s32);
    switch (number) {
    case LOOK_U16: return value.u16;
    case LOOK_S16: return value.s16;
    case LOOK_S32: return value.s32;
    default: return (double)value.real;
    }
}

static void cut(const struct look *look, const uint8_t *in, uint32_t width, uint8_t *out)
{
    for (uint32_t i = 0; i < width; i++, in += look->step, out += IMAGE_CHANNELS) {
        double value = number_at(look->number, in);
        memset(out, value >= 255 ? 255 : value > 0 ? (int)value : 0, IMAGE_CHANNELS); /* not a number: black */
    }
}

static void inks(const struct look *look, const uint8_t *in, uint32_t width, uint8_t *out)
{
    uint8_t narrow[INKS_AT_ONCE * INKS];
    while (width) {
        uint32_t count = width < INKS_AT_ONCE ? width : INKS_AT_ONCE;
        for (uint32_t i = 0; i < count; i++, in += look->step) {
            for (size_t c = 0; c < INKS; c++)
                narrow[i * INKS + c] = in[c * look->wide + look->red];
        }
        decode_cmyk(narrow, INKS, false, out, count);
        out += (size_t)count * IMAGE_CHANNELS;
        width -= count;
    }
}

void look_row(const struct look *look, const uint8_t *row, size_t x, uint32_t width, uint8_t *out)
{
    const uint8_t *in = row + x * look->step;
    switch (look->kind) {
    case LOOK_NUMBERS:
        if (look->bits == 8)
            numbers_of_bytes(look, row + x, width, out);
        else
            numbers(look, row, x, width, out);
        return;
    case LOOK_CUT: cut(look, in, width, out); return;
    case LOOK_INKS: inks(look, in, width, out); return;
    case LOOK_BYTES: break;
    }
    if (look->step == IMAGE_CHANNELS && look->green == 1)
        memcpy(out, in, (size_t)width * IMAGE_CHANNELS);
    else
        bytes(look, in, width, out);
}
