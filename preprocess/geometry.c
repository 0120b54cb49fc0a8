#include "preprocess/geometry.h"

#include <stddef.h>

#include "common/check.h"

const char *const filter_names[] = {"nearest", "bilinear", "bicubic", "box", "hamming", "lanczos", "nearest-exact=nearest", NULL};

void geometry_start(struct geometry *geometry, uint32_t width, uint32_t height)
{
    struct rect all = {.width = width, .height = height};
    *geometry = (struct geometry){.box = all, .full_width = width, .full_height = height, .window = all};
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
}

bool geometry_resize(struct geometry *geometry, uint32_t width, uint32_t height, enum filter filter, bool antialias)
{
    if (width == geometry->window.width && height == geometry->window.height)
        return true;
    if (geometry->resized || geometry->mirror_x || geometry->mirror_y)
        return false;
    geometry->resized = true;
    geometry->filter = filter;
    geometry->antialias = antialias;
    geometry->full_width = width;
    geometry->full_height = height;
    geometry->window = (struct rect){.width = width, .height = height};
    return true;
}
