/* sample_masks.h: the encoded bytes of a part of a sample that is masks, one for each instance in an image, as COCO has
 * them: polygons, or runs of pixels.
 *
 * They are two u32, how many masks and how many shapes there are, and then the shapes one behind the other, those of a
 * mask together and in the order of the masks. A mask is all pixels of its shapes; it may have none. A shape is four
 * u32, the number of its mask, a height and a width, and how many numbers follow, and these as i32. All is
 * little-endian.
 *
 * A polygon has height and width 0, and of each corner x and y in fifths of a pixel, ⌊5 x + 1/2⌋ cut off towards 0:
 * pycocotools looks at nothing else. Runs are of an image of that height and width, column by column: their lengths, of
 * pixels outside the mask and inside it by turns, the first outside. Pure. */
#ifndef LARDER_COMMON_SAMPLE_MASKS_H
#define LARDER_COMMON_SAMPLE_MASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define SAMPLE_MASKS_HEAD_BYTES 8
#define MASK_SHAPE_HEAD_BYTES 16
#define SAMPLE_SHAPES_MAX 4096u     /* shapes of a sample */
#define SAMPLE_FIFTHS_MAX (1 << 20) /* the most that a polygon's number may be, on either side of 0 */

struct mask_shape {
    uint32_t mask;          /* number of its mask, from 0 */
    uint32_t height, width; /* 0: it is a polygon; else it is runs, of an image of this size */
    uint32_t count;         /* numbers that it has */
    const void *numbers;    /* borrowed, at no certain alignment */
};

/* Masks that lie in a sample's bytes, which are borrowed. */
struct sample_masks {
    uint32_t count, shapes;
    const uint8_t *next; /* where the next shape begins */
};

/* sample_masks_read finds the masks, and checks all of them. LARDER_EFORMAT: the bytes are none. */
int sample_masks_read(const void *bytes, size_t len_bytes, struct sample_masks *out, struct error *err);
/* sample_masks_next takes the next shape of masks that were read. Call it `shapes` times. */
struct mask_shape sample_masks_next(struct sample_masks *masks);
int32_t mask_shape_at(const struct mask_shape *shape, uint32_t i);
/* sample_masks_write writes the head of masks, and mask_shape_write that of a shape; behind it its numbers follow.
 * Both return where what follows begins. */
uint8_t *sample_masks_write(uint32_t count, uint32_t shapes, uint8_t *to);
uint8_t *mask_shape_write(const struct mask_shape *shape, uint8_t *to);

#endif
