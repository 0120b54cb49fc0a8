/* rows.h: boxes and points of an image, while operators move them as torchvision.transforms.v2 moves its tv_tensors: in
 * single precision, operator by operator. Pure. */
#ifndef LARDER_PREPROCESS_ROWS_H
#define LARDER_PREPROCESS_ROWS_H

#include <stdint.h>

/* All arrays belong to whoever made the struct, which has none for what the sample has none of. */
struct rows {
    uint32_t n_boxes;
    float (*boxes)[4]; /* left, top, right, bottom */
    uint32_t *from;    /* of each box: its number among those of the sample, as labels have it */
    uint32_t n_points;
    float (*points)[2]; /* x, y */
};

/* A window of the present image, which may begin outside it. */
struct rows_window {
    int64_t x, y;
    uint32_t width, height;
};

/* rows_crop moves the rows into a window. Boxes are cut off at its edges, and empty ones stay; points are not. Padding
 * is a crop that begins before the image and ends behind it. */
void rows_crop(struct rows *rows, struct rows_window window);
/* rows_resize scales rows of an image of the first size for one of the second. */
void rows_resize(struct rows *rows, uint32_t in_width, uint32_t in_height, uint32_t out_width, uint32_t out_height);
/* These mirror rows of an image of this width, or height. A point lies on a pixel, a box on the lines between them. */
void rows_mirror_x(struct rows *rows, uint32_t width);
void rows_mirror_y(struct rows *rows, uint32_t height);
/* rows_clamp cuts boxes off at the edges of an image. */
void rows_clamp(struct rows *rows, uint32_t width, uint32_t height);

#endif
