#include "common/random.h"

uint64_t random_mix64(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

void random_seed(struct rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        seed += UINT64_C(0x9e3779b97f4a7c15);
        rng->s[i] = random_mix64(seed);
    }
}

void random_seed_keys(struct rng *rng, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    const uint64_t gamma = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t seed = random_mix64(a + gamma);
    seed = random_mix64(seed ^ (b + gamma * 2));
    seed = random_mix64(seed + (c ^ gamma * 3));
    random_seed(rng, random_mix64(seed ^ (d + gamma * 4)));
}

static inline uint64_t rotl(uint64_t value, int bits)
{
    return (value << bits) | (value >> (64 - bits));
}

uint64_t random_u64(struct rng *rng)
{
    uint64_t *s = rng->s;
    uint64_t result = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint64_t random_below(struct rng *rng, uint64_t bound)
{
    /* Lemire's multiply-shift with rejection of the short remainder. */
    __extension__ typedef unsigned __int128 u128;
    u128 product = (u128)random_u64(rng) * bound;
    if ((uint64_t)product < bound) {
        uint64_t threshold = (0 - bound) % bound;
        while ((uint64_t)product < threshold)
            product = (u128)random_u64(rng) * bound;
    }
    return (uint64_t)(product >> 64);
}

double random_unit(struct rng *rng)
{
    return (double)(random_u64(rng) >> 11) * 0x1.0p-53;
}
