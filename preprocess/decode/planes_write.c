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
    put_bits(writer, planes_extract(plane, mask), (uint32_t)planes_count(mask));
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

/* A block's magnitudes in zigzag order, which are gathered in planes. Places 1 and up. */
struct spread {
    uint8_t low[PLANES_PLACES];                           /* the lowest bits of a magnitude */
    uint8_t lengths[PLANES_PLACES];                       /* of u */
    uint8_t above[PLANES_PLACES], further[PLANES_PLACES]; /* the lowest 8 bits of u, and those above them */
    uint64_t nonzero, negative;
    uint32_t longest;
};

/* False: a coefficient is too large. */
static bool spread_block(const struct planes_class *kind, const int16_t *block, struct spread *spread)
{
    memset(spread, 0, sizeof *spread);
    for (uint64_t left = planes_nonzero(block) & ~UINT64_C(1); left; left &= left - 1) {
        uint32_t at = (uint32_t)__builtin_ctzll(left), place = planes_zigzag[at];
        uint32_t magnitude = planes_magnitude(block[at]), above = magnitude >> kind->shifts[place];
        uint32_t length = planes_length(above);
        if (magnitude >> PLANES_LENGTH_MAX)
            return false;
        spread->low[place] = (uint8_t)magnitude;
        spread->above[place] = (uint8_t)above;
        spread->further[place] = (uint8_t)(above >> 8);
        spread->lengths[place] = (uint8_t)length;
        spread->longest = length > spread->longest ? length : spread->longest;
        spread->nonzero |= UINT64_C(1) << place;
        spread->negative |= (uint64_t)(block[at] < 0) << place;
    }
    return true;
}

/* The places whose u is longer than each number of bits. The last mask has none. */
static void find_longer(const struct spread *spread, uint64_t longer[PLANES_LENGTH_MAX + 1])
{
    for (uint32_t i = 0; i < spread->longest; i++) {
        uint8_t is_longer[PLANES_PLACES];
        for (uint32_t place = 0; place < PLANES_PLACES; place++)
            is_longer[place] = spread->lengths[place] > i;
        longer[i] = planes_gather(is_longer, 0);
    }
    longer[spread->longest] = 0;
}

bool planes_write(struct planes_writer *writer, const struct planes_table *table, const int16_t *block)
{
    uint8_t lengths[PLANES_PLACES];
    uint32_t last = planes_measure(block, lengths), c = planes_best_class(table, lengths, last);
    const struct planes_class *kind = &table->classes[c];
    uint64_t within = (UINT64_C(2) << last) - 2, longer[PLANES_LENGTH_MAX + 1];
    struct spread spread;
    if (lengths[0] > PLANES_LENGTH_MAX || !spread_block(kind, block, &spread))
        return false;
    find_longer(&spread, longer);
    put_head(writer, kind, c, last, block[0]);
    for (uint32_t i = 0; i < PLANES_SHIFT_MAX; i++)
        put_plane(writer, planes_gather(spread.low, i), within & kind->low[i]);
    put_plane(writer, longer[0], within & ~planes_known(kind, within));
    for (uint32_t i = 0; i < spread.longest; i++)
        put_plane(writer, longer[i + 1], longer[i]);
    for (uint32_t i = 0; i < spread.longest; i++)
        put_plane(writer, planes_gather(i < 8 ? spread.above : spread.further, i % 8), longer[i + 1]);
    put_plane(writer, spread.negative, spread.nonzero);
    return true;
}
