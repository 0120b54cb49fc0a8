/* random_horizontal_flip, random_vertical_flip. */
#include "preprocess/ops/op.h"

struct values {
    double p;
};

static const struct arg args[] = {
    {.name = "p", .type = ARG_NUMBER, .offset = offsetof(struct values, p), .initial = "0.5", .min = 0, .max = 1},
    {0},
};

static bool is_fixed(const void *values)
{
    double p = ((const struct values *)values)->p;
    return p <= 0 || p >= 1;
}

static int plan_flip(const void *values, struct rng *rng, struct op_plan *plan, struct error *err)
{
    (void)err;
    plan->skip = !op_chance(rng, ((const struct values *)values)->p);
    return 0;
}

static bool join_horizontal(const void *values, const struct op_plan *plan, struct geometry *geometry)
{
    (void)values;
    (void)plan;
    geometry->mirror_x = !geometry->mirror_x;
    return true;
}

static bool join_vertical(const void *values, const struct op_plan *plan, struct geometry *geometry)
{
    (void)values;
    (void)plan;
    geometry->mirror_y = !geometry->mirror_y;
    return true;
}

static void rows_horizontal(const void *values, const struct op_plan *plan, struct rows *rows)
{
    (void)values;
    rows_mirror_x(rows, plan->in_width);
}

static void rows_vertical(const void *values, const struct op_plan *plan, struct rows *rows)
{
    (void)values;
    rows_mirror_y(rows, plan->in_height);
}

const struct op_kind op_random_horizontal_flip = {
    .name = "random_horizontal_flip",
    .python = "RandomHorizontalFlip",
    .text = "Exchanges left and right, with probability `p`.",
    .flags = OP_RANDOM,
    .args = args,
    .values_bytes = sizeof(struct values),
    .is_fixed = is_fixed,
    .plan = plan_flip,
    .join = join_horizontal,
    .rows = rows_horizontal,
};

const struct op_kind op_random_vertical_flip = {
    .name = "random_vertical_flip",
    .python = "RandomVerticalFlip",
    .text = "Exchanges top and bottom, with probability `p`.",
    .flags = OP_RANDOM,
    .args = args,
    .values_bytes = sizeof(struct values),
    .is_fixed = is_fixed,
    .plan = plan_flip,
    .join = join_vertical,
    .rows = rows_vertical,
};
