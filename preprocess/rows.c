/* rows.c: moves boxes and points. See rows.h. */
#include "preprocess/rows.h"

static float clamped(float value, float most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

void rows_clamp(struct rows *rows, uint32_t width, uint32_t height)
{
    for (uint32_t i = 0; i < rows->n_boxes; i++) {
        float *box = rows->boxes[i];
        for (int j = 0; j < 4; j++)
            box[j] = clamped(box[j], (float)(j % 2 ? height : width));
    }
}

void rows_crop(struct rows *rows, struct rows_window window)
{
    const float begin[] = {(float)window.x, (float)window.y};
    for (uint32_t i = 0; i < rows->n_boxes; i++) {
        for (int j = 0; j < 4; j++)
            rows->boxes[i][j] -= begin[j % 2];
    }
    for (uint32_t i = 0; i < rows->n_points; i++) {
        for (int j = 0; j < 2; j++)
            rows->points[i][j] -= begin[j];
    }
    rows_clamp(rows, window.width, window.height);
}

void rows_resize(struct rows *rows, uint32_t in_width, uint32_t in_height, uint32_t out_width, uint32_t out_height)
{
    const float times[] = {(float)((double)out_width / in_width), (float)((double)out_height / in_height)};
    for (uint32_t i = 0; i < rows->n_boxes; i++) {
        for (int j = 0; j < 4; j++)
            rows->boxes[i][j] *= times[j % 2];
    }
    for (uint32_t i = 0; i < rows->n_points; i++) {
        for (int j = 0; j < 2; j++)
            rows->points[i][j] *= times[j];
    }
}

/* Mirrors one coordinate of all, 0 of x and 1 of y. */
static void mirror(struct rows *rows, int which, uint32_t length)
{
    for (uint32_t i = 0; i < rows->n_boxes; i++) {
        float *box = rows->boxes[i], low = box[which];
        box[which] = -(box[which + 2] - (float)length);
        box[which + 2] = -(low - (float)length);
    }
    for (uint32_t i = 0; i < rows->n_points; i++)
        rows->points[i][which] = -(rows->points[i][which] - (float)(length - 1));
}

void rows_mirror_x(struct rows *rows, uint32_t width)
{
    mirror(rows, 0, width);
}

void rows_mirror_y(struct rows *rows, uint32_t height)
{
    mirror(rows, 1, height);
}
