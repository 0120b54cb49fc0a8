#include "preprocess/geometry.h"

#include <stddef.h>

#include "common/check.h"

/* How much must be left to shrink after scaling the source: with 2, the mean error stays below half a level. */
#define SCALING_LEFT 2u

const char *const filter_names[] = {
    "nearest", "bilinear", "bicubic", "box", "hamming", "lanczos", "nearest-exact=nearest", NULL};

void geometry_start(struct geometry *geometry, uint32_t width, uint32_t height)
{
    struct rect all = {.width = width, .height = height};
    *geometry = (struct geometry){
        .box = all, .span_x = width, .span_y = height, .full_width = width, .full_height = height, .window = all};
}

bool geometry_is_idle(const struct geometry *g, uint32_t width, uint32_t height)
{
    return !g->resized && !g->mirror_x && !g->mirror_y && g->box.width == width && g->box.height == height;
}

void geometry_crop(struct geometry *geometry, struct rect rect)
{
    struct rect *window = &geometry->window;
    CHECK(rect.x + rect.width <= window->width && rect.y + rect.height <= window->height);
    if (geometry->mirror_x)
        rect.x = window->width - rect.x - rect.width;
    if (geometry->mirror_y)
        rect.y = window->height - rect.y - rect.height;
    if (geometry->resized) {
        *window = (struct rect){window->x + rect.x, window->y + rect.y, rect.width, rect.height};
        return;
    }
    struct rect *box = &geometry->box;
    *box = (struct rect){box->x + rect.x, box->y + rect.y, rect.width, rect.height};
    *window = (struct rect){.width = rect.width, .height = rect.height};
    geometry->full_width = rect.width;
    geometry->full_height = rect.height;
    geometry->span_x = rect.width;
    geometry->span_y = rect.height;
}

bool geometry_resize(struct geometry *geometry, uint32_t width, uint32_t height, struct resizing how)
{
    if (width == geometry->window.width && height == geometry->window.height)
        return true;
    if (geometry->resized || geometry->mirror_x || geometry->mirror_y)
        return false;
    geometry->resized = true;
    geometry->how = how;
    geometry->full_width = width;
    geometry->full_height = height;
    geometry->window = (struct rect){.width = width, .height = height};
    return true;
}

uint32_t geometry_scaling(const struct geometry *geometry)
{
    if (!geometry->resized || !geometry->how.dct_scaling || !geometry->how.antialias ||
        geometry->how.filter == FILTER_NEAREST || geometry->how.filter == FILTER_MASK)
        return 1;
    for (uint32_t divisor = GEOMETRY_SCALING_MAX; divisor > 1; divisor /= 2) {
        uint64_t least = (uint64_t)divisor * SCALING_LEFT;
        if (geometry->box.width >= geometry->full_width * least &&
            geometry->box.height >= geometry->full_height * least)
            return divisor;
    }
    return 1;
}

static void scale_side(uint32_t *from, uint32_t *count, uint32_t divisor, double *inset, double *span)
{
    uint32_t first = *from / divisor, end = (*from + *count + divisor - 1) / divisor;
    *inset = (double)*from / divisor - first;
    *span = (double)*count / divisor;
    *from = first;
    *count = end - first;
}

void geometry_scale(struct geometry *geometry, uint32_t divisor)
{
    CHECK(geometry->resized);
    struct rect *box = &geometry->box;
    scale_side(&box->x, &box->width, divisor, &geometry->inset_x, &geometry->span_x);
    scale_side(&box->y, &box->height, divisor, &geometry->inset_y, &geometry->span_y);
}
