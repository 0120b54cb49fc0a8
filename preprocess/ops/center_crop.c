/* center_crop: the middle of the image; where it is too small, black around it, as torchvision pads. */
#include <math.h>

#include "preprocess/ops/op.h"
#include "preprocess/pixels.h"

struct values {
    struct arg_size size;
};

static const struct arg args[] = {
    {.name = "size", .type = ARG_SQUARE, .offset = offsetof(struct values, size), .min = 1, .max = OP_SIZE_MAX},
    {0},
};

static int shape(const void *values, struct op_shape *shape, struct error *err)
{
    (void)err;
    const struct values *v = values;
    shape->width = v->size.width;
    shape->height = v->size.height;
    return 0;
}

/* Returns the crop's begin along one side, in the image's own coordinates: negative when the image is padded there. */
static int32_t begin(uint32_t in, uint32_t wanted)
{
    if (wanted > in)
        return -(int32_t)((wanted - in) / 2);
    return (int32_t)lrint((in - wanted) / 2.0);
}

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)rng;
    (void)err;
    const struct values *v = values;
    p->out_width = v->size.width;
    p->out_height = v->size.height;
    p->choice[0] = begin(p->in_width, p->out_width);
    p->choice[1] = begin(p->in_height, p->out_height);
    return 0;
}

static bool join(const void *values, const struct op_plan *p, struct geometry *geometry)
{
    (void)values;
    if (p->out_width > p->in_width || p->out_height > p->in_height)
        return false;
    geometry_crop(geometry, (struct rect){(uint32_t)p->choice[0], (uint32_t)p->choice[1], p->out_width, p->out_height});
    return true;
}

/* torchvision has boxes begin where a crop without padding would: where the difference is odd and the image is padded,
 * that may be one pixel off the image. */
static void move_rows(const void *values, const struct op_plan *p, struct rows *rows)
{
    (void)values;
    rows_crop(rows,
              (struct rows_window){lrint(((double)p->in_width - p->out_width) / 2),
                                   lrint(((double)p->in_height - p->out_height) / 2), p->out_width, p->out_height});
}

static int32_t *indices(int32_t from, uint32_t in, uint32_t out, struct scratch *scratch)
{
    int32_t *list = scratch_take(scratch, out * sizeof *list);
    for (uint32_t i = 0; list && i < out; i++)
        list[i] = (int32_t)pixels_pad_index((int64_t)from + i, in, PAD_CONSTANT);
    return list;
}

static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    (void)values;
    static const uint8_t black[IMAGE_CHANNELS];
    const int32_t *columns = indices(p->choice[0], in->width, out->width, scratch);
    const int32_t *rows = indices(p->choice[1], in->height, out->height, scratch);
    if (!columns || !rows)
        return LARDER_ENOMEM;
    pixels_gather(in, columns, rows, black, out);
    return 0;
}

const struct op_kind op_center_crop = {
    .name = "center_crop",
    .python = "CenterCrop",
    .text = "Cuts out the middle. A smaller image is padded with black.",
    .flags = OP_MASKS,
    .args = args,
    .values_bytes = sizeof(struct values),
    .shape = shape,
    .plan = plan,
    .join = join,
    .rows = move_rows,
    .apply = apply,
};
