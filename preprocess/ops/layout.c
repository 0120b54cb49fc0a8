/* layout: the order of the finished sample's numbers: channels last (HWC) or first (CHW). It changes nothing in
 * between. */
#include "preprocess/ops/op.h"

struct values {
    int32_t layout;
};

static const char *const layouts[] = {"HWC", "CHW", "hwc=HWC", "chw=CHW", NULL};

_Static_assert(LAYOUT_HWC == 0 && LAYOUT_CHW == 1, "choices are in enum pixel_layout's order");

static const struct arg args[] = {
    {.name = "layout", .type = ARG_CHOICE, .offset = offsetof(struct values, layout), .choices = layouts},
    {0},
};

static int shape(const void *values, struct op_shape *shape, struct error *err)
{
    (void)err;
    shape->layout = (enum pixel_layout)((const struct values *)values)->layout;
    return 0;
}

const struct op_kind op_layout = {
    .name = "layout",
    .python = "Layout",
    .text = "Orders a sample's numbers as `HWC` (as they are without it) or as `CHW`.",
    .flags = OP_FLOAT,
    .args = args,
    .values_bytes = sizeof(struct values),
    .shape = shape,
};
