/* scratch.h: a worker's memory for the image at hand. It is taken piece by piece and given back all at once.
 *
 * Blocks that did not suffice are replaced, between images, by one that would have sufficed. So in steady state an
 * image allocates nothing. With a budget, blocks and memory that decoders take elsewhere (scratch_outside) count
 * against it. If the budget has no room at the moment, scratch_take fails, and the image is begun again after
 * scratch_wait. One thread owns a scratch. Memory comes uncleared, aligned to 64 bytes. */
#ifndef LARDER_PREPROCESS_SCRATCH_H
#define LARDER_PREPROCESS_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

#include "preprocess/image.h"
#include "preprocess/scratch_budget.h"

#define SCRATCH_ALIGN 64
/* The most that is kept between images: the memory of one giant must not stay with the thread for ever. */
#define SCRATCH_KEEP_BYTES ((size_t)48 << 20)

struct scratch_block;

struct scratch {
    struct scratch_block *blocks; /* the newest first; memory is taken from it */
    size_t used_bytes;            /* taken from the newest block */
    size_t taken_bytes;           /* taken since the last reset */
    size_t expected_bytes;        /* the most that was expected to be taken since the last reset */
    size_t max_bytes;             /* the most that one image may take */

    struct scratch_budget *budget; /* borrowed; NULL: none */
    size_t held_bytes;             /* memory in blocks, and memory taken elsewhere */
    size_t reserved_bytes;         /* taken of the budget's common part */
    size_t refused_bytes;          /* the held_bytes that the budget refused; 0: it refused none */
    bool clean;                    /* the image began without a block that others had left */
};

void scratch_init(struct scratch *scratch, size_t max_bytes, struct scratch_budget *budget);
void scratch_free(struct scratch *scratch);
/* scratch_take returns bytes that are valid until the next reset. NULL when the limit is reached, the budget has no
 * room, or memory runs out. */
void *scratch_take(struct scratch *scratch, size_t bytes);
/* scratch_image takes the pixels of an image, slack included. It returns 0, or LARDER_ENOMEM where scratch_take returns
 * NULL. */
int scratch_image(struct scratch *scratch, uint32_t width, uint32_t height, struct image *out);
/* scratch_expect makes room for bytes that will be taken in pieces. scratch_outside counts bytes that a library is
 * about to take from malloc, until the next reset. LARDER_ENOMEM where scratch_take returns NULL. */
int scratch_expect(struct scratch *scratch, size_t bytes);
int scratch_outside(struct scratch *scratch, size_t bytes);
void scratch_reset(struct scratch *scratch);

/* scratch_wait is called after scratch_reset. SCRATCH_FINE: the budget refused nothing. SCRATCH_AGAIN: it did, for
 * want of room. The thread has waited until there is room, and the image is to be begun again. SCRATCH_NEVER: the
 * whole budget is too small for the image. */
enum scratch_verdict { SCRATCH_FINE, SCRATCH_AGAIN, SCRATCH_NEVER };
enum scratch_verdict scratch_wait(struct scratch *scratch);

#endif
