/* scratch.h: a worker's memory for the image at hand: taken piece by piece, given back all at once.
 *
 * Blocks that did not suffice are replaced, between images, by one that would have: in steady state an image allocates
 * nothing. One thread. Memory comes uncleared, aligned to 64 bytes. */
#ifndef LARDER_PREPROCESS_SCRATCH_H
#define LARDER_PREPROCESS_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

#include "preprocess/image.h"

#define SCRATCH_ALIGN 64
/* Between images no more than this is kept: one giant must not stay with the thread for ever. */
#define SCRATCH_KEEP_BYTES ((size_t)48 << 20)

struct scratch_block;

struct scratch {
    struct scratch_block *blocks; /* the newest first; memory is taken from it */
    size_t used_bytes;            /* of the newest block */
    size_t taken_bytes;           /* since the last reset */
    size_t max_bytes;             /* what one image may take */
};

void scratch_init(struct scratch *scratch, size_t max_bytes);
void scratch_free(struct scratch *scratch);
/* scratch_take gives bytes valid until the next reset; NULL when the limit is reached or memory is out. */
void *scratch_take(struct scratch *scratch, size_t bytes);
/* scratch_image takes the pixels of an image, slack included; false as above. */
int scratch_image(struct scratch *scratch, uint32_t width, uint32_t height, struct image *out);
void scratch_reset(struct scratch *scratch);

#endif
