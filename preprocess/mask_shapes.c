/* mask_shapes.c: outlines and what is within them. See mask_shapes.h.
 *
 * An outline marks in each column the pixels from which on the column changes between outside and inside, downwards. So
 * filling is the exclusive or of each row with the one above it, for all shapes at once.
 *
 * pycocotools walks along a polygon in steps of a fifth of a pixel. Where a step goes from the third fifth of a column
 * to the fourth, or back, the column changes at the upper one of the step's two ends, rounded. A closed way does that
 * an even number of times in each column. The places are found here without the walk, by the same arithmetic. */
#include "preprocess/mask_shapes.h"

#include <string.h>

#define FIFTHS 5

/* One shape under way. */
struct outline {
    struct mask_canvas *canvas;
    uint32_t byte; /* of a pixel */
    uint8_t bit;
};

void mask_canvas_clear(struct mask_canvas *canvas)
{
    const struct image *image = &canvas->image;
    for (uint32_t y = 0; y < image->height; y++)
        memset(image_row(image, y), 0, (size_t)image->width * IMAGE_CHANNELS);
}

void mask_canvas_fill(struct mask_canvas *canvas)
{
    const struct image *image = &canvas->image;
    size_t bytes = (size_t)image->width * IMAGE_CHANNELS;
    for (uint32_t y = 1; y < image->height; y++) {
        const uint8_t *above = image_row(image, y - 1);
        uint8_t *row = image_row(image, y);
        for (size_t i = 0; i < bytes; i++)
            row[i] ^= above[i];
    }
}

/* change marks a change of a column from a row on, which may lie behind the last one. */
static void change(const struct outline *outline, uint32_t column, uint32_t row)
{
    const struct mask_canvas *canvas = outline->canvas;
    uint32_t x = column - canvas->rect.x, y = row > canvas->rect.y ? row - canvas->rect.y : 0;
    if (column >= canvas->rect.x && x < canvas->rect.width && y < canvas->rect.height)
        image_row(&canvas->image, y)[(size_t)x * IMAGE_CHANNELS + outline->byte] ^= outline->bit;
}

/* ── polygons ── */

/* A side of a polygon, in fifths. It has points for x from x[0] to x[1], or for y likewise, whichever is longer: along
 * that, in rising order. */
struct edge {
    int32_t x[2], y[2];
    double slope; /* of the other coordinate */
    bool steep;   /* it is along y */
};

/* The other coordinate of the point that is `along` steps from the edge's beginning. */
static int32_t across(const struct edge *edge, int32_t along)
{
    return (int32_t)((edge->steep ? edge->x[0] : edge->y[0]) + edge->slope * along + .5);
}

/* The y of the upper end of a flat edge's step in a column. */
static int32_t flat_step(const struct edge *edge, int32_t column)
{
    int32_t along = FIFTHS * column + 2 - edge->x[0];
    int32_t one = across(edge, along), other = across(edge, along + 1);
    return one < other ? one : other;
}

/* The same of a steep edge: its first point beyond the column's middle is found by halving. */
static int32_t steep_step(const struct edge *edge, int32_t column)
{
    int32_t before = 0, beyond = edge->y[1] - edge->y[0], middle = FIFTHS * column + 2;
    bool rises = edge->slope > 0;
    while (beyond - before > 1) {
        int32_t along = before + (beyond - before) / 2;
        if ((across(edge, along) > middle) == rises)
            beyond = along;
        else
            before = along;
    }
    return edge->y[0] + before;
}

/* The first row that is not above a place, rounded as pycocotools does it. */
static uint32_t row_of(int32_t fifths)
{
    return fifths > 2 ? (uint32_t)(fifths + 2) / FIFTHS : 0;
}

static int draw_edge(const struct outline *outline, struct edge edge)
{
    const struct rect *rect = &outline->canvas->rect;
    int32_t wide = edge.x[1] > edge.x[0] ? edge.x[1] - edge.x[0] : edge.x[0] - edge.x[1];
    int32_t high = edge.y[1] > edge.y[0] ? edge.y[1] - edge.y[0] : edge.y[0] - edge.y[1];
    edge.steep = wide < high;
    if (edge.steep ? edge.y[0] > edge.y[1] : edge.x[0] > edge.x[1])
        edge = (struct edge){{edge.x[1], edge.x[0]}, {edge.y[1], edge.y[0]}, 0, edge.steep};
    if (wide == 0)
        return 0;
    edge.slope = edge.steep ? (double)(edge.x[1] - edge.x[0]) / high : (double)(edge.y[1] - edge.y[0]) / wide;
    int32_t low = edge.x[0] < edge.x[1] ? edge.x[0] : edge.x[1], most = low + wide;
    int64_t first = low > 2 ? (low + FIFTHS - 3) / FIFTHS : 0, end = most > 2 ? (most - 3) / FIFTHS + 1 : 0;
    first = first > rect->x ? first : rect->x;
    end = end < (int64_t)rect->x + rect->width ? end : (int64_t)rect->x + rect->width;
    if (end <= first)
        return 0;
    outline->canvas->crossings += (uint64_t)(end - first);
    if (outline->canvas->crossings > MASK_CROSSINGS_MAX)
        return LARDER_ELIMIT;
    for (int32_t column = (int32_t)first; column < end; column++)
        change(outline, (uint32_t)column, row_of(edge.steep ? steep_step(&edge, column) : flat_step(&edge, column)));
    return 0;
}

static int draw_polygon(const struct outline *outline, const struct mask_shape *shape)
{
    uint32_t corners = shape->count / 2;
    int rc = 0;
    for (uint32_t i = 0; i < corners && rc == 0; i++) {
        uint32_t next = i + 1 < corners ? i + 1 : 0;
        rc = draw_edge(outline, (struct edge){{mask_shape_at(shape, 2 * i), mask_shape_at(shape, 2 * next)},
                                              {mask_shape_at(shape, 2 * i + 1), mask_shape_at(shape, 2 * next + 1)},
                                              0,
                                              false});
    }
    return rc;
}

/* ── runs ── */

/* draw_run marks the pixels from `begin` to before `end`, counted column by column. */
static void draw_run(const struct outline *outline, uint32_t height, uint64_t begin, uint64_t end)
{
    const struct rect *rect = &outline->canvas->rect;
    uint64_t least = (uint64_t)rect->x * height, most = (uint64_t)(rect->x + rect->width) * height;
    begin = begin > least ? begin : least;
    end = end < most ? end : most;
    while (begin < end) {
        uint32_t column = (uint32_t)(begin / height);
        uint64_t below = (uint64_t)(column + 1) * height, stop = end < below ? end : below;
        change(outline, column, (uint32_t)(begin % height));
        change(outline, column, (uint32_t)(stop - (uint64_t)column * height));
        begin = stop;
    }
}

static int draw_runs(const struct outline *outline, const struct mask_shape *shape)
{
    uint64_t at = 0;
    outline->canvas->crossings += shape->count + (uint64_t)outline->canvas->rect.width;
    if (outline->canvas->crossings > MASK_CROSSINGS_MAX)
        return LARDER_ELIMIT;
    for (uint32_t i = 0; i < shape->count; i++) {
        uint64_t end = at + (uint32_t)mask_shape_at(shape, i);
        if (i % 2)
            draw_run(outline, shape->height, at, end);
        at = end;
    }
    return 0;
}

int mask_canvas_outline(struct mask_canvas *canvas, const struct mask_shape *shape, uint32_t bit)
{
    const struct outline outline = {.canvas = canvas, .byte = bit / 8, .bit = (uint8_t)(1 << bit % 8)};
    return shape->height ? draw_runs(&outline, shape) : draw_polygon(&outline, shape);
}
