/* layers.c: see layers_priv.h. */
#include "sampler/layers_priv.h"

#include "common/check.h"

/* bits_of returns the layers, a bit each, of a sample with so many draws left. count_of is its inverse. */
static uint64_t bits_of(uint64_t count)
{
    uint64_t single = count < LAYERS_SINGLE ? count : LAYERS_SINGLE;
    return ((UINT64_C(1) << single) - 1) | (count - single) << LAYERS_SINGLE;
}

static uint64_t count_of(uint64_t bits)
{
    uint64_t single = bits & ((UINT64_C(1) << LAYERS_SINGLE) - 1);
    return (uint64_t)__builtin_popcountll(single) + (bits >> LAYERS_SINGLE);
}

/* draws_of returns the draws that one sample of a layer stands for. */
static uint64_t draws_of(unsigned layer)
{
    return layer < LAYERS_SINGLE ? 1 : UINT64_C(1) << (layer - LAYERS_SINGLE);
}

static uint64_t bits_at(const struct layers *layers, sample_id id)
{
    uint64_t bits = 0;
    for (unsigned i = 0; i < layers->n; i++)
        bits |= (uint64_t)remaining_has(layers->sets[i], id) << i;
    return bits;
}

static void change(struct layers *layers, sample_id id, uint64_t from, uint64_t to)
{
    for (uint64_t differ = from ^ to; differ; differ &= differ - 1) {
        unsigned layer = (unsigned)__builtin_ctzll(differ);
        CHECK(layer < layers->n);
        if (to >> layer & 1)
            remaining_add(layers->sets[layer], id);
        else
            remaining_remove(layers->sets[layer], id);
    }
}

void layers_begin(struct layers *layers, const struct multiset *multiset, struct remaining *first)
{
    *layers = (struct layers){.multiset = multiset, .sets = {first}, .n = 1};
}

void layers_end(struct layers *layers)
{
    while (layers->n > 1)
        remaining_destroy(layers->sets[--layers->n]);
    layers->n = 0;
}

void layers_clear(struct layers *layers)
{
    for (unsigned i = 0; i < layers->n; i++)
        remaining_clear(layers->sets[i]);
    layers->count = 0;
}

/* grow makes the layers that a sample with so many draws needs. */
static int grow(struct layers *layers, uint64_t most)
{
    while (bits_of(most) >> layers->n) {
        int rc = remaining_like(layers->sets[0], &layers->sets[layers->n]);
        if (rc)
            return rc;
        layers->n++;
    }
    return 0;
}

int layers_fill(struct layers *layers, const uint32_t *counts, uint32_t most)
{
    uint32_t count;
    const sample_id *ids = multiset_ids(layers->multiset, &count);
    layers_clear(layers);
    for (uint32_t i = 0; i < count; i++)
        most = counts[i] > most ? counts[i] : most;
    int rc = grow(layers, most);
    for (uint32_t i = 0; !rc && i < count; i++) {
        change(layers, ids[i], 0, bits_of(counts[i]));
        layers->count += counts[i];
    }
    return rc;
}

uint64_t layers_bytes(const struct layers *layers)
{
    uint64_t bytes = 0;
    for (unsigned i = 1; i < layers->n; i++)
        bytes += remaining_bytes(layers->sets[i]);
    return bytes;
}

/* The part of 2^64 that a draw gets is off by less than count / 2^64. */
struct remaining *layers_choose(const struct layers *layers, uint64_t number)
{
    CHECK(layers->count > 0);
    uint64_t at = (uint64_t)((unsigned __int128)number * layers->count >> 64);
    for (unsigned i = 0; i < layers->n; i++) {
        uint64_t here = layers->sets[i]->count * draws_of(i);
        if (at < here)
            return layers->sets[i];
        at -= here;
    }
    CHECK(false);
}

uint64_t layers_times(const struct layers *layers, sample_id id)
{
    return count_of(bits_at(layers, id));
}

void layers_change(struct layers *layers, sample_id id, uint64_t times)
{
    uint64_t bits = bits_at(layers, id);
    change(layers, id, bits, bits_of(times));
    layers->count += times - count_of(bits);
}
