/* outputs.h: makes what is asked for of one sample from its decoded pixels. Pure apart from scratch memory. */
#ifndef LARDER_PREPROCESS_OUTPUTS_H
#define LARDER_PREPROCESS_OUTPUTS_H

#include "preprocess/image.h"
#include "preprocess/ops/op.h"
#include "preprocess/prepare.h"
#include "preprocess/scratch.h"

/* The pixels that operators work on at some point: a rectangle, beginning at (x, y), of an image of width × height; or,
 * where the decoder divided that, of the smaller one. */
struct pixels {
    struct image image;
    uint32_t x, y, width, height;
    uint32_t divisor; /* 1, but for decoded pixels that a resize comes first to */
    bool own;         /* may be changed */
};

/* One sample under way. */
struct run {
    struct scratch *memory;
    const void *encoded;
    size_t len_bytes;
    struct prepare_output *outputs;
    struct op_plan *plans[PREPARE_OUTPUTS_MAX]; /* per output, one per operator */
};

/* Sets of outputs are bits: how many there may be. */
_Static_assert(PREPARE_OUTPUTS_MAX <= 64, "a set of outputs is 64 bits");

/* What follows wants the members' plans made. `whole` is the image's size. */

/* outputs_scaling says by how much the decoder may divide the image for all members: 1, 2, 4 or 8. */
uint32_t outputs_scaling(const struct run *run, uint64_t members, struct rect whole);
/* outputs_needs gives the rectangle that any of them looks at, of the image divided by `divisor`. */
struct rect outputs_needs(const struct run *run, uint64_t members, struct rect whole, uint32_t divisor);
/* outputs_make makes them of that rectangle's pixels. Gives those for which there was not enough memory. */
uint64_t outputs_make(struct run *run, uint64_t members, const struct pixels *pixels);

#endif
