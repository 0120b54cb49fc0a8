/* random.h: seeded pseudo-random numbers (xoshiro256**, seeded through splitmix64). Not for secrets.
 *
 * A stream belongs to whoever holds the struct; there are no locks. Keyed streams: random_seed_keys mixes up to four
 * keys (pipeline, sample, instance, …), so that a draw depends on its keys alone, not on threads or timing. */
#ifndef LARDER_COMMON_RANDOM_H
#define LARDER_COMMON_RANDOM_H

#include <stdint.h>

struct rng {
    uint64_t s[4];
};

uint64_t random_mix64(uint64_t value); /* splitmix64's finaliser: a bijection that scatters every bit */
void random_seed(struct rng *rng, uint64_t seed);
void random_seed_keys(struct rng *rng, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
uint64_t random_u64(struct rng *rng);
/* random_below returns an exactly uniform number in [0, bound), bound ≥ 1 (rejection, no modulo bias). */
uint64_t random_below(struct rng *rng, uint64_t bound);
/* random_unit returns a double in [0, 1) with 53 random bits. */
double random_unit(struct rng *rng);

#endif
