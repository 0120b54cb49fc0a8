/* redox_home.c: a home's virtual chunks: algorithms 2 and 3 of Redox. */
#include "common/check.h"
#include "tests/bench/virtual/redox_priv.h"

static uint32_t virtual_of(const struct redox *redox, uint32_t slot)
{
    return slot / redox->settings.chunk;
}

static uint64_t bit_of(const struct redox *redox, uint32_t slot)
{
    return UINT64_C(1) << slot % redox->settings.chunk;
}

uint32_t redox_home(const struct redox *redox, uint32_t slot)
{
    return virtual_of(redox, slot) / (redox->n_virtual / redox->settings.nodes);
}

bool redox_is_valid(const struct redox *redox, uint32_t slot)
{
    return redox->valid[virtual_of(redox, slot)] & bit_of(redox, slot);
}

/* find_replace returns a chunk that has a sample for the slot: algorithm 3. Of equals each is as likely. */
static uint32_t find_replace(struct redox *redox, uint32_t slot)
{
    uint32_t of = virtual_of(redox, slot), first = of * redox->settings.chunks_a_virtual;
    uint32_t found = REDOX_NONE, equals = 0;
    int most = -1;
    for (uint32_t chunk = first; chunk < first + redox->settings.chunks_a_virtual; chunk++) {
        uint64_t left = redox->left[chunk];
        int fills = redox->settings.fills_most ? __builtin_popcountll(left & ~redox->valid[of]) : 0;
        if (!(left & bit_of(redox, slot)) || fills < most)
            continue;
        equals = fills > most ? 1 : equals + 1;
        most = fills;
        if (random_below(&redox->rng, equals) == 0)
            found = chunk;
    }
    CHECK(found != REDOX_NONE); /* a slot is asked for as often as the group has samples for it */
    return found;
}

static void read_chunk(struct redox *redox, uint32_t slot)
{
    uint32_t of = virtual_of(redox, slot), chunk = find_replace(redox, slot);
    uint64_t fills = redox->left[chunk] & ~redox->valid[of];
    redox->left[chunk] &= ~fills;
    redox->valid[of] |= fills;
    redox->loads++;
    for (; fills; fills &= fills - 1) {
        redox->lies[of * redox->settings.chunk + (uint32_t)__builtin_ctzll(fills)] = chunk;
        redox->held++;
    }
    redox->peak = redox->held > redox->peak ? redox->held : redox->peak;
}

uint32_t redox_take(struct redox *redox, uint32_t slot)
{
    CHECK(redox_is_valid(redox, slot));
    redox->valid[virtual_of(redox, slot)] &= ~bit_of(redox, slot);
    redox->held--;
    return redox->lies[slot];
}

uint32_t redox_read_local(struct redox *redox, uint32_t slot)
{
    if (!redox_is_valid(redox, slot))
        read_chunk(redox, slot);
    return redox_take(redox, slot);
}
