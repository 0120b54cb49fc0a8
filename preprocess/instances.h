/* instances.h: makes the masks of a sample's instances, one for each box. */
#ifndef LARDER_PREPROCESS_INSTANCES_H
#define LARDER_PREPROCESS_INSTANCES_H

#include "common/sample_masks.h"
#include "preprocess/decode/fault.h"
#include "preprocess/ops/op.h"
#include "preprocess/pipeline_priv.h"

/* Masks to make, of an image of this size, by these plans. Borrowed. */
struct instances {
    const struct pipeline *pipeline;
    const struct sample_masks *stored;
    struct image_size size;
    struct op_plan *plans; /* the image's; what does nothing to masks is skipped in them then */
    const uint32_t *from;  /* of each mask to make its number among the stored ones, rising; NULL: all are made */
    uint32_t count;
};

/* instances_make writes `count` masks of the image's size in the end to dst: numbers of 8 bits, 1 in a mask. Its memory
 * is the scratch's. It returns 0, or the fault's code. */
int instances_make(const struct instances *wanted, void *dst, struct scratch *memory, struct decode_fault *fault);

#endif
