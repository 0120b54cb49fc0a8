/* fuzz.h: what a fuzz target implements, and what the driver offers it. One target a program. */
#ifndef LARDER_TESTS_FUZZ_H
#define LARDER_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "common/random.h"

/* LLVMFuzzerTestOneInput feeds data to the code under test; whatever the bytes are it must come back. What must hold
 * is a CHECK. Returns 0. data is exactly size bytes on the heap, so that a sanitizer sees every step beyond. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* fuzz_seed writes valid input number `index` into buf (cap bytes) and gives its length; 0 when there is no such
 * one. */
size_t fuzz_seed(size_t index, uint8_t *buf, size_t cap);

/* fuzz_mutate changes data (len of cap bytes) in one to eight small ways and gives the new length. `other` is a second
 * valid input to splice from. */
size_t fuzz_mutate(struct rng *rng, uint8_t *data, size_t len, size_t cap, const uint8_t *other, size_t other_len);

#endif
