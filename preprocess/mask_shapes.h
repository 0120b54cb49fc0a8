/* mask_shapes.h: draws the shapes of instances' masks (sample_masks.h) as pycocotools' decode draws them, to the last
 * pixel. Each shape has a bit of a pixel's colors for itself, so one image has MASK_SHAPES_TOGETHER of them, and
 * whatever moves pixels moves them all. Pure. */
#ifndef LARDER_PREPROCESS_MASK_SHAPES_H
#define LARDER_PREPROCESS_MASK_SHAPES_H

#include "common/sample_masks.h"
#include "preprocess/image.h"

#define MASK_SHAPES_TOGETHER (8 * IMAGE_CHANNELS)
/* The most that outlines of a sample's shapes may cross columns of pixels. Those of a photograph do it some thousands
 * of times. */
#define MASK_CROSSINGS_MAX (UINT64_C(1) << 26)

/* A rectangle of an image of `height` rows, in which shapes are drawn. */
struct mask_canvas {
    struct image image; /* of the rectangle's size; its pixels are the owner's */
    struct rect rect;
    uint32_t height;
    uint64_t crossings; /* that there have been; begins with 0 */
};

/* mask_canvas_clear makes all pixels 0. Then mask_canvas_outline draws the outline of up to MASK_SHAPES_TOGETHER
 * shapes, each as another bit, and mask_canvas_fill makes shapes of all outlines. LARDER_ELIMIT, without a text: the
 * shapes cross more than MASK_CROSSINGS_MAX columns. */
void mask_canvas_clear(struct mask_canvas *canvas);
int mask_canvas_outline(struct mask_canvas *canvas, const struct mask_shape *shape, uint32_t bit);
void mask_canvas_fill(struct mask_canvas *canvas);

#endif
