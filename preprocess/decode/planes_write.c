/* planes_write.c: blocks written in planes. A field at a time: it is gathered in a word first. */
#include "common/little_endian.h"
#include "preprocess/decode/planes_priv.h"

static void put_bits(struct planes_writer *writer, uint64_t bits, uint32_t count)
{
    uint8_t *to = writer->bytes + (writer->at >> 3);
    uint32_t shift = writer->at & 7;
    bits &= count < 64 ? (UINT64_C(1) << count) - 1 : UINT64_MAX;
    put_u64(to, get_u64(to) | bits << shift);
    to[8] |= (uint8_t)(bits >> 1 >> (63 - shift));
    writer->at += count;
}

/* Writes the bits of a plane that a mask names. */
static void put_plane(struct planes_writer *writer, uint64_t plane, uint64_t mask)
{
    uint64_t bits = 0;
    uint32_t count = 0;
    for (; mask; mask &= mask - 1)
        bits |= (plane >> __builtin_ctzll(mask) & 1) << count++;
    put_bits(writer, bits, count);
}

static void put_ones(struct planes_writer *writer, uint32_t count)
{
    put_bits(writer, (UINT64_C(1) << count) - 1, count + 1);
}

static void put_head(struct planes_writer *writer, const struct planes_class *kind, uint32_t c, uint32_t last,
                     int16_t dc)
{
    uint32_t magnitude = planes_magnitude(dc), above = magnitude >> kind->dc_shift, length = planes_length(above);
    put_bits(writer, c, PLANES_CLASS_BITS);
    put_ones(writer, length);
    put_ones(writer, last >> kind->last_shift);
    put_bits(writer, last, kind->last_shift);
    put_bits(writer, magnitude, kind->dc_shift);
    put_bits(writer, above, length > 0 ? length - 1 : 0);
    uint32_t sign = dc < 0 ? 1 : 0, sign_bits = magnitude > 0 ? 1 : 0;
    put_bits(writer, sign, sign_bits);
}

bool planes_write(struct planes_writer *writer, const struct planes_table *table, const int16_t *block)
{
    uint8_t lengths[PLANES_PLACES];
    uint32_t last = planes_measure(block, lengths), c = planes_best_class(table, lengths, last), longest = 0;
    const struct planes_class *kind = &table->classes[c];
    uint64_t within = (UINT64_C(2) << last) - 2, nonzero = 0, negative = 0;
    uint64_t low[PLANES_SHIFT_MAX] = {0}, high[PLANES_LENGTH_MAX] = {0}, longer[PLANES_LENGTH_MAX + 1] = {0};
    if (lengths[0] > PLANES_LENGTH_MAX)
        return false;
    for (uint32_t place = 1; place <= last; place++) {
        int16_t value = block[planes_natural[place]];
        uint32_t magnitude = planes_magnitude(value), above = magnitude >> kind->shifts[place];
        uint64_t bit = UINT64_C(1) << place;
        if (lengths[place] > PLANES_LENGTH_MAX)
            return false;
        nonzero |= value ? bit : 0;
        negative |= value < 0 ? bit : 0;
        for (uint32_t i = 0; i < kind->shifts[place]; i++)
            low[i] |= magnitude >> i & 1 ? bit : 0;
        for (uint32_t i = 0; i < planes_length(above); i++) {
            high[i] |= above >> i & 1 ? bit : 0;
            longer[i] |= bit;
        }
        if (planes_length(above) > longest)
            longest = planes_length(above);
    }
    put_head(writer, kind, c, last, block[0]);
    for (uint32_t i = 0; i < PLANES_SHIFT_MAX; i++)
        put_plane(writer, low[i], within & kind->low[i]);
    put_plane(writer, longer[0], within & ~planes_known(kind, within));
    for (uint32_t i = 0; longer[i]; i++)
        put_plane(writer, longer[i + 1], longer[i]);
    for (uint32_t i = 0; i < longest; i++)
        put_plane(writer, high[i], longer[i + 1]);
    put_plane(writer, negative, nonzero);
    return true;
}
