/* random_perspective: as if seen from aside, by chance. Each corner moves inwards by a random piece, as torchvision
 * draws it. */
#include "preprocess/affine.h"
#include "preprocess/ops/op.h"
#include "preprocess/pixels.h"
#include "preprocess/warp.h"

struct values {
    double distortion, p;
    int32_t interpolation;
    struct arg_color fill;
};

static const struct arg args[] = {
    {.name = "distortion_scale",
     .type = ARG_NUMBER,
     .offset = offsetof(struct values, distortion),
     .initial = "0.5",
     .min = 0,
     .max = 1},
    {.name = "p", .type = ARG_NUMBER, .offset = offsetof(struct values, p), .initial = "0.5", .min = 0, .max = 1},
    {.name = "interpolation",
     .type = ARG_CHOICE,
     .offset = offsetof(struct values, interpolation),
     .initial = "\"bilinear\"",
     .choices = affine_filter_names},
    {.name = "fill", .type = ARG_COLOR, .offset = offsetof(struct values, fill), .initial = "0", .min = 0, .max = 255},
    {0},
};

#define MAP 8 /* the plan's first numbers are the map's, the next ones where the corners go */

/* A place at the beginning of a side, or at its end, within a piece of it. */
static double place(struct rng *rng, double distortion, uint32_t side, bool at_end)
{
    int64_t piece = (int64_t)(distortion * (side / 2));
    int64_t low = at_end ? (int64_t)side - piece - 1 : 0, end = at_end ? side : piece + 1;
    return (double)(low + (int64_t)random_below(rng, (uint64_t)(end - low)));
}

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)err;
    const struct values *v = values;
    p->skip = !op_chance(rng, v->p);
    if (p->skip)
        return 0;
    double right = p->in_width - 1.0, bottom = p->in_height - 1.0;
    const struct point from[4] = {{0, 0}, {right, 0}, {right, bottom}, {0, bottom}};
    struct point to[4];
    struct perspective map;
    for (int i = 0; i < 4; i++) { /* from the upper left corner clockwise */
        to[i].x = place(rng, v->distortion, p->in_width, i == 1 || i == 2);
        to[i].y = place(rng, v->distortion, p->in_height, i >= 2);
        p->real[MAP + 2 * i] = to[i].x;
        p->real[MAP + 2 * i + 1] = to[i].y;
    }
    /* There is none where corners meet: on a side of one pixel, or all in the middle. */
    p->skip = !warp_perspective_of(from, to, &map);
    for (int i = 0; i < MAP && !p->skip; i++)
        p->real[i] = map.m[i];
    return 0;
}

static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    (void)scratch;
    const struct values *v = values;
    struct perspective map;
    uint8_t fill[IMAGE_CHANNELS];
    pixels_color(&v->fill, fill);
    for (int i = 0; i < MAP; i++)
        map.m[i] = p->real[i];
    warp_perspective(&map, (enum filter)v->interpolation, fill, in, out);
    return 0;
}

const struct op_kind op_random_perspective = {
    .name = "random_perspective",
    .python = "RandomPerspective",
    .text = "Moves each corner inwards by up to `distortion_scale` of half a side, with probability `p`.",
    .flags = OP_RANDOM,
    .args = args,
    .values_bytes = sizeof(struct values),
    .plan = plan,
    .apply = apply,
};
