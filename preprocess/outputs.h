/* outputs.h: makes a sample's images from its decoded pixels. Pure apart from scratch memory. */
#ifndef LARDER_PREPROCESS_OUTPUTS_H
#define LARDER_PREPROCESS_OUTPUTS_H

#include "common/sample_parts.h"
#include "preprocess/decode/decoded.h"
#include "preprocess/image.h"
#include "preprocess/ops/op.h"
#include "preprocess/prepare.h"
#include "preprocess/resample.h"
#include "preprocess/scratch.h"

/* The pixels that operators work on at some point. They are a rectangle, beginning at (x, y), of an image of width ×
 * height. If the decoder divided the image, they are a rectangle of the smaller one. */
struct pixels {
    struct image image;
    uint32_t x, y, width, height;
    uint32_t divisor;                 /* 1, except for decoded pixels whose first operator is a resize */
    bool own;                         /* these pixels may be changed */
    const struct resample_rows *rows; /* what was made of the image's rows, which is not there; NULL: it is */
};

#define RUN_IMAGES_MAX 64

/* An image to make: an output, or a view of one. */
struct run_image {
    const struct pipeline *pipeline; /* without views */
    struct prepare_output *output;
    uint32_t field; /* of the output's sample */
    void *dst;
};

/* One sample under way. It borrows all that it points to. */
struct run {
    struct scratch *memory;
    const void *encoded; /* NULL: there are no bytes but the form's */
    size_t len_bytes;
    const struct decoded *form; /* what the pixels are made of; NULL: the bytes are decoded */
    struct rect whole;          /* the image's size, once it was opened */
    struct prepare_keep *keep;  /* where a form is wanted; NULL: none is, or it could not be made */
    const void *sample;         /* all of its bytes; NULL with a form */
    const struct sample_parts *parts;
    bool timed;         /* There are several outputs, so each one's own time is counted. */
    bool masks;         /* the images are masks, which these bytes are one of */
    uint32_t mask_bits; /* and a number of it has this many bits */
    uint32_t count;     /* images that were taken, and are to be made */
    struct run_image images[RUN_IMAGES_MAX];
    struct op_plan *plans[RUN_IMAGES_MAX]; /* per image, one per operator */
};

/* A set of images has a bit for each. */
_Static_assert(RUN_IMAGES_MAX <= 64, "a set of images is 64 bits");

/* These functions need the plans of all members. `whole` is the image's size. */

/* outputs_scaling says by how much the decoder may divide the image for all members: 1, 2, 4 or 8. */
uint32_t outputs_scaling(const struct run *run, uint64_t members, struct rect whole);
/* outputs_needs returns the rectangle that holds all that members look at, of the image divided by `divisor`. */
struct rect outputs_needs(const struct run *run, uint64_t members, struct rect whole, uint32_t divisor);
/* outputs_first gives the geometry that all members begin with, and says whether its rows can be resampled as they are
 * decoded. The image is not divided. */
bool outputs_first(const struct run *run, uint64_t members, struct rect whole, struct geometry *geometry);
/* outputs_make makes the members from that rectangle's pixels. It returns the set of those for which memory did not
 * suffice. */
uint64_t outputs_make(struct run *run, uint64_t members, const struct pixels *pixels);

#endif
