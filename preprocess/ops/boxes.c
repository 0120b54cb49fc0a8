/* boxes.c: operators about boxes: sanitize_bounding_boxes, clamp_bounding_boxes, random_iou_crop. */
#include <math.h>

#include "preprocess/ops/op.h"

/* ── those that leave the image ──────────────────────────────────────────────────────────────────────────────────── */

struct sanitize {
    double min_size, min_area;
};

static const struct arg sanitize_args[] = {
    {.name = "min_size",
     .type = ARG_NUMBER,
     .offset = offsetof(struct sanitize, min_size),
     .initial = "1",
     .min = 1,
     .max = OP_SIZE_MAX},
    {.name = "min_area",
     .type = ARG_NUMBER,
     .offset = offsetof(struct sanitize, min_area),
     .initial = "1",
     .min = 1,
     .max = (double)OP_SIZE_MAX * OP_SIZE_MAX},
    {0},
};

static bool is_good(const struct sanitize *v, const struct op_plan *p, const float box[4])
{
    float width = box[2] - box[0], height = box[3] - box[1];
    bool good = width >= (float)v->min_size && height >= (float)v->min_size && width * height >= (float)v->min_area;
    for (int i = 0; i < 4; i++)
        good = good && box[i] >= 0 && box[i] <= (float)(i % 2 ? p->in_height : p->in_width);
    return good;
}

static void sanitize(const void *values, const struct op_plan *p, struct rows *rows)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < rows->n_boxes; i++) {
        if (!is_good(values, p, rows->boxes[i]))
            continue;
        for (int j = 0; j < 4; j++)
            rows->boxes[kept][j] = rows->boxes[i][j];
        rows->from[kept++] = rows->from[i];
    }
    rows->n_boxes = kept;
}

static const struct arg none[] = {{0}};

static void clamp(const void *values, const struct op_plan *p, struct rows *rows)
{
    (void)values;
    rows_clamp(rows, p->in_width, p->in_height);
}

const struct op_kind op_sanitize_bounding_boxes = {
    .name = "sanitize_bounding_boxes",
    .python = "SanitizeBoundingBoxes",
    .text = "Drops boxes that have a side below `min_size` or an area below `min_area`, or that reach beyond the "
            "image, and their labels.",
    .flags = OP_BOXES | OP_FLOAT,
    .args = sanitize_args,
    .values_bytes = sizeof(struct sanitize),
    .rows = sanitize,
};

const struct op_kind op_clamp_bounding_boxes = {
    .name = "clamp_bounding_boxes",
    .python = "ClampBoundingBoxes",
    .text = "Cuts boxes off at the edges of the image.",
    .flags = OP_BOXES | OP_FLOAT,
    .args = none,
    .values_bytes = sizeof(struct sanitize),
    .rows = clamp,
};

/* ── a crop that boxes choose ────────────────────────────────────────────────────────────────────────────────────── */

/* torchvision goes on until it draws that the image stays as it is, or finds a crop; here that has an end. */
#define ROUNDS_MAX 100

struct iou_crop {
    double min_scale, max_scale, min_aspect_ratio, max_aspect_ratio;
    int32_t trials;
};

static const float options[] = {0.f, .1f, .3f, .5f, .7f, .9f, 1.f};
#define OPTIONS (sizeof options / sizeof *options)

static const struct arg iou_args[] = {
    {.name = "min_scale",
     .type = ARG_NUMBER,
     .offset = offsetof(struct iou_crop, min_scale),
     .initial = "0.3",
     .min = 1e-3,
     .max = 1},
    {.name = "max_scale",
     .type = ARG_NUMBER,
     .offset = offsetof(struct iou_crop, max_scale),
     .initial = "1.0",
     .min = 1e-3,
     .max = 1},
    {.name = "min_aspect_ratio",
     .type = ARG_NUMBER,
     .offset = offsetof(struct iou_crop, min_aspect_ratio),
     .initial = "0.5",
     .min = 1e-3,
     .max = 1e3},
    {.name = "max_aspect_ratio",
     .type = ARG_NUMBER,
     .offset = offsetof(struct iou_crop, max_aspect_ratio),
     .initial = "2.0",
     .min = 1e-3,
     .max = 1e3},
    {.name = "trials",
     .type = ARG_INTEGER,
     .offset = offsetof(struct iou_crop, trials),
     .initial = "40",
     .min = 1,
     .max = 1000},
    {0},
};

static int check_iou(void *values, struct error *err)
{
    const struct iou_crop *v = values;
    return v->min_scale <= v->max_scale && v->min_aspect_ratio <= v->max_aspect_ratio
               ? 0
               : error_set(err, LARDER_EINVAL, "a min is above its max");
}

static int iou_shape(const void *values, struct op_shape *shape, struct error *err)
{
    (void)values, (void)err;
    shape->width = shape->height = 0;
    return 0;
}

/* Whether the middle of a box lies within the crop. */
static bool is_within(const struct rect *crop, const float box[4])
{
    float x = .5f * (box[0] + box[2]), y = .5f * (box[1] + box[3]);
    return (float)crop->x < x && x < (float)(crop->x + crop->width) && (float)crop->y < y &&
           y < (float)(crop->y + crop->height);
}

/* The area that a box and the crop have in common, of the area that both have. */
static float overlap(const struct rect *crop, const float box[4])
{
    const float other[] = {(float)crop->x, (float)crop->y, (float)(crop->x + crop->width),
                           (float)(crop->y + crop->height)};
    float width = fminf(box[2], other[2]) - fmaxf(box[0], other[0]),
          height = fminf(box[3], other[3]) - fmaxf(box[1], other[1]);
    float common = width > 0 && height > 0 ? width * height : 0;
    float own = (box[2] - box[0]) * (box[3] - box[1]), crops = (other[2] - other[0]) * (other[3] - other[1]);
    return common / (own + crops - common);
}

/* draw_crop draws a crop, and says whether its shape is allowed. */
static bool draw_crop(const struct iou_crop *v, struct rng *rng, const struct op_plan *p, struct rect *crop)
{
    float low = (float)v->min_scale, span = (float)(v->max_scale - v->min_scale);
    float wide = low + span * (float)random_unit(rng), high = low + span * (float)random_unit(rng);
    crop->width = (uint32_t)((float)p->in_width * wide);
    crop->height = (uint32_t)((float)p->in_height * high);
    float x = (float)random_unit(rng), y = (float)random_unit(rng);
    if (!crop->width || !crop->height)
        return false;
    double ratio = (double)crop->width / crop->height;
    crop->x = (uint32_t)((float)(p->in_width - crop->width) * x);
    crop->y = (uint32_t)((float)(p->in_height - crop->height) * y);
    return ratio >= v->min_aspect_ratio && ratio <= v->max_aspect_ratio;
}

/* Whether a crop has the middle of a box, and one of those boxes in so large a part. */
static bool is_chosen(const struct rows *rows, const struct rect *crop, float least)
{
    bool chosen = false;
    for (uint32_t i = 0; i < rows->n_boxes && !chosen; i++)
        chosen = is_within(crop, rows->boxes[i]) && overlap(crop, rows->boxes[i]) >= least;
    return chosen;
}

static int plan_iou(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)err;
    const struct iou_crop *v = values;
    for (int round = 0; p->rows && p->rows->n_boxes && round < ROUNDS_MAX; round++) {
        float least = options[random_below(rng, OPTIONS)];
        if (least >= 1)
            break;
        for (int i = 0; i < v->trials; i++) {
            struct rect crop;
            if (!draw_crop(v, rng, p, &crop) || !is_chosen(p->rows, &crop, least))
                continue;
            p->rect = crop;
            p->out_width = crop.width;
            p->out_height = crop.height;
            return 0;
        }
    }
    p->skip = true;
    return 0;
}

static bool join_iou(const void *values, const struct op_plan *p, struct geometry *geometry)
{
    (void)values;
    geometry_crop(geometry, p->rect);
    return true;
}

/* As torchvision, it makes boxes whose middle is cut off empty, for sanitize_bounding_boxes. */
static void rows_iou(const void *values, const struct op_plan *p, struct rows *rows)
{
    (void)values;
    for (uint32_t i = 0; i < rows->n_boxes; i++) {
        float *box = rows->boxes[i];
        bool within = is_within(&p->rect, box);
        for (int j = 0; j < 4 && !within; j++)
            box[j] = (float)(j % 2 ? p->rect.y : p->rect.x);
    }
    rows_crop(rows, (struct rows_window){p->rect.x, p->rect.y, p->rect.width, p->rect.height});
}

const struct op_kind op_random_iou_crop = {
    .name = "random_iou_crop",
    .python = "RandomIoUCrop",
    .text =
        "Cuts out a piece that has the middle of a box, and a box in a drawn part, as SSD does; or leaves the image. "
        "Boxes whose middle is cut off become empty: `SanitizeBoundingBoxes` drops them. A crop or a resize to "
        "`[height, width]` follows.",
    .flags = OP_RANDOM | OP_BOXES,
    .args = iou_args,
    .values_bytes = sizeof(struct iou_crop),
    .check = check_iou,
    .shape = iou_shape,
    .plan = plan_iou,
    .join = join_iou,
    .rows = rows_iou,
};
