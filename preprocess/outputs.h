/* outputs.h: makes a sample's outputs from its decoded pixels. Pure apart from scratch memory. */
#ifndef LARDER_PREPROCESS_OUTPUTS_H
#define LARDER_PREPROCESS_OUTPUTS_H

#include "preprocess/image.h"
#include "preprocess/ops/op.h"
#include "preprocess/prepare.h"
#include "preprocess/scratch.h"

/* The pixels that operators work on at some point. They are a rectangle, beginning at (x, y), of an image of width ×
 * height. If the decoder divided the image, they are a rectangle of the smaller one. */
struct pixels {
    struct image image;
    uint32_t x, y, width, height;
    uint32_t divisor; /* 1, except for decoded pixels whose first operator is a resize */
    bool own;         /* these pixels may be changed */
};

/* One sample under way. It borrows all that it points to. */
struct run {
    struct scratch *memory;
    const void *encoded;
    size_t len_bytes;
    struct prepare_output *outputs;
    struct op_plan *plans[PREPARE_OUTPUTS_MAX]; /* per output, one per operator */
};

/* A set of outputs has a bit for each. */
_Static_assert(PREPARE_OUTPUTS_MAX <= 64, "a set of outputs is 64 bits");

/* These functions need the plans of all members. `whole` is the image's size. */

/* outputs_scaling says by how much the decoder may divide the image for all members: 1, 2, 4 or 8. */
uint32_t outputs_scaling(const struct run *run, uint64_t members, struct rect whole);
/* outputs_needs returns the rectangle that holds all that members look at, of the image divided by `divisor`. */
struct rect outputs_needs(const struct run *run, uint64_t members, struct rect whole, uint32_t divisor);
/* outputs_make makes the members from that rectangle's pixels. It returns the set of those for which memory did not
 * suffice. */
uint64_t outputs_make(struct run *run, uint64_t members, const struct pixels *pixels);

#endif
