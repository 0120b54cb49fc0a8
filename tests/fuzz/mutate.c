/* mutate.c: the small changes to valid inputs that find most mistakes of decoders: bits, boundary numbers, cuts,
 * copies. */
#include <string.h>

#include "tests/fuzz/fuzz.h"

#define CHANGES_MAX 8
#define RANGE_MAX 64

static size_t below(struct rng *rng, size_t bound)
{
    return (size_t)random_below(rng, bound);
}

static void put_number(struct rng *rng, uint8_t *data, size_t len)
{
    static const uint64_t numbers[] = {0,          1,          2,         0x7f,       0x80,          0xff,
                                       0x100,      0x7fff,     0x8000,    0xffff,     0x10000,       0x7fffffff,
                                       0x80000000, 0xffffffff, INT64_MAX, UINT64_MAX, UINT64_MAX - 1};
    size_t width = (size_t)1 << below(rng, 4);
    if (len < width)
        return;
    uint64_t value = numbers[below(rng, sizeof numbers / sizeof *numbers)];
    size_t at = below(rng, len - width + 1);
    for (size_t i = 0; i < width; i++)
        data[at + i] = (uint8_t)(value >> (8 * i));
}

static void add_small(struct rng *rng, uint8_t *data, size_t len)
{
    data[below(rng, len)] += (uint8_t)(below(rng, 33)) - 16;
}

static size_t cut(struct rng *rng, uint8_t *data, size_t len)
{
    size_t from = below(rng, len), count = 1 + below(rng, RANGE_MAX);
    if (below(rng, 2) || count > len - from)
        return from; /* the end goes */
    memmove(data + from, data + from + count, len - from - count);
    return len - count;
}

static size_t insert(struct rng *rng, uint8_t *data, size_t len, size_t cap)
{
    size_t count = 1 + below(rng, RANGE_MAX), at = below(rng, len + 1);
    if (count > cap - len)
        return len;
    memmove(data + at + count, data + at, len - at);
    for (size_t i = 0; i < count; i++)
        data[at + i] = (uint8_t)random_u64(rng);
    return len + count;
}

static void copy_inside(struct rng *rng, uint8_t *data, size_t len)
{
    size_t from = below(rng, len), to = below(rng, len);
    size_t room = len - (from > to ? from : to), count = 1 + below(rng, RANGE_MAX);
    memmove(data + to, data + from, count < room ? count : room);
}

static size_t splice(struct rng *rng, uint8_t *data, size_t len, size_t cap, const uint8_t *other, size_t other_len)
{
    size_t keep = below(rng, len + 1), from = below(rng, other_len + 1), count = other_len - from;
    if (count > cap - keep)
        count = cap - keep;
    memcpy(data + keep, other + from, count);
    return keep + count;
}

size_t fuzz_mutate(struct rng *rng, uint8_t *data, size_t len, size_t cap, const uint8_t *other, size_t other_len)
{
    size_t changes = 1 + below(rng, CHANGES_MAX);
    for (size_t i = 0; i < changes; i++) {
        uint64_t kind = random_below(rng, 16);
        if (len == 0 || kind == 0)
            len = insert(rng, data, len, cap);
        else if (kind <= 4)
            data[below(rng, len)] ^= (uint8_t)(1u << below(rng, 8));
        else if (kind <= 6)
            data[below(rng, len)] = (uint8_t)random_u64(rng);
        else if (kind <= 10)
            put_number(rng, data, len);
        else if (kind <= 12)
            add_small(rng, data, len);
        else if (kind == 13)
            len = cut(rng, data, len);
        else if (kind == 14)
            copy_inside(rng, data, len);
        else
            len = splice(rng, data, len, cap, other, other_len);
    }
    return len;
}
