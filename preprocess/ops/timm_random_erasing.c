/* timm_random_erasing: timm's RandomErasing: one rectangle or several, filled with 0, with a random colour each, or
 * with noise. */
#include <math.h>

#include "preprocess/chance.h"
#include "preprocess/ops/op.h"

#define TRIES 10
#define COUNT_MAX 8
enum { X, Y, WIDTH, HEIGHT, SIDES }; /* of a rectangle, in the plan; a width of 0: none fitted */
_Static_assert(COUNT_MAX *SIDES <= PLAN_CHOICES, "a plan has room for all rectangles");

struct values {
    double p;
    struct arg_range scale, ratio;
    int32_t mode, min_count, max_count;
};

static const char *const modes[] = {"const", "rand", "pixel", NULL};
enum { CONST, RAND, PIXEL };

static const struct arg args[] = {
    {.name = "p", .type = ARG_NUMBER, .offset = offsetof(struct values, p), .initial = "0.5", .min = 0, .max = 1},
    {.name = "scale",
     .type = ARG_RANGE,
     .offset = offsetof(struct values, scale),
     .initial = "[0.02, 0.3333333333333333]",
     .min = 0,
     .max = 1},
    {.name = "ratio",
     .type = ARG_RANGE,
     .offset = offsetof(struct values, ratio),
     .initial = "[0.3, 3.3333333333333335]",
     .min = 1e-3,
     .max = 1e3},
    {.name = "mode",
     .type = ARG_CHOICE,
     .offset = offsetof(struct values, mode),
     .initial = "\"const\"",
     .choices = modes},
    {.name = "min_count",
     .type = ARG_INTEGER,
     .offset = offsetof(struct values, min_count),
     .initial = "1",
     .min = 1,
     .max = COUNT_MAX},
    {.name = "max_count",
     .type = ARG_INTEGER,
     .offset = offsetof(struct values, max_count),
     .initial = "1",
     .min = 1,
     .max = COUNT_MAX},
    {0},
};

static int check(void *values, struct error *err)
{
    const struct values *v = values;
    if (v->max_count < v->min_count)
        return error_set(err, LARDER_EINVAL, "max_count must be at least min_count (%d), not %d", v->min_count,
                         v->max_count);
    return 0;
}

static int shape(const void *values, struct op_shape *shape, struct error *err)
{
    const struct values *v = values;
    if (shape->dtype == PIXEL_UINT8 && v->mode != CONST)
        return error_set(err, LARDER_EINVAL, "mode \"%s\" needs floating point: put it after to_dtype", modes[v->mode]);
    return 0;
}

/* One rectangle of a part of the area. */
static void draw(const struct values *v, struct rng *rng, const struct op_plan *p, double area, int32_t *rect)
{
    double log_low = log(v->ratio.low), log_high = log(v->ratio.high);
    for (int i = 0; i < TRIES; i++) {
        double target = op_uniform(rng, v->scale.low, v->scale.high) * area;
        double ratio = exp(op_uniform(rng, log_low, log_high));
        double height = rint(sqrt(target * ratio)), width = rint(sqrt(target / ratio));
        if (height >= p->in_height || width >= p->in_width)
            continue;
        rect[WIDTH] = (int32_t)width;
        rect[HEIGHT] = (int32_t)height;
        rect[Y] = (int32_t)random_below(rng, p->in_height - (uint32_t)height + 1);
        rect[X] = (int32_t)random_below(rng, p->in_width - (uint32_t)width + 1);
        return;
    }
}

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)err;
    const struct values *v = values;
    p->skip = random_unit(rng) > v->p;
    if (p->skip)
        return 0;
    int32_t count = v->min_count + (int32_t)random_below(rng, (uint64_t)(v->max_count - v->min_count) + 1);
    double area = (double)p->in_width * p->in_height / count;
    for (int32_t i = 0; i < count; i++)
        draw(v, rng, p, area, p->choice + (size_t)i * SIDES);
    p->seed = random_u64(rng);
    return 0;
}

static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    (void)values, (void)out, (void)scratch;
    for (const int32_t *rect = p->choice; rect < p->choice + COUNT_MAX * SIDES; rect += SIDES) {
        for (int32_t y = rect[Y]; y < rect[Y] + rect[HEIGHT]; y++) {
            uint8_t *to = image_row(in, (uint32_t)y) + (size_t)rect[X] * IMAGE_CHANNELS;
            for (size_t i = 0; i < (size_t)rect[WIDTH] * IMAGE_CHANNELS; i++)
                to[i] = 0;
        }
    }
    return 0;
}

static void change(const void *values, const struct op_plan *p, float *pixels)
{
    const struct values *v = values;
    struct rng rng;
    random_seed(&rng, p->seed);
    for (const int32_t *rect = p->choice; rect < p->choice + COUNT_MAX * SIDES; rect += SIDES) {
        float color[IMAGE_CHANNELS] = {0};
        for (int c = 0; c < IMAGE_CHANNELS && v->mode == RAND; c++)
            color[c] = (float)chance_normal(&rng);
        for (int32_t y = rect[Y]; y < rect[Y] + rect[HEIGHT]; y++) {
            float *to = pixels + ((size_t)y * p->in_width + (size_t)rect[X]) * IMAGE_CHANNELS;
            for (size_t i = 0; i < (size_t)rect[WIDTH] * IMAGE_CHANNELS; i++)
                to[i] = v->mode == PIXEL ? (float)chance_normal(&rng) : color[i % IMAGE_CHANNELS];
        }
    }
}

const struct op_kind op_timm_random_erasing = {
    .name = "timm_random_erasing",
    .python = "TimmRandomErasing",
    .text = "timm's RandomErasing: overwrites `min_count` to `max_count` random rectangles, with 0 (`const`), a random "
            "colour (`rand`) or noise (`pixel`; both after `to_dtype`), with probability `p`.",
    .flags = OP_RANDOM | OP_IN_PLACE | OP_FLOAT | OP_COLORS,
    .args = args,
    .values_bytes = sizeof(struct values),
    .check = check,
    .shape = shape,
    .plan = plan,
    .apply = apply,
    .change = change,
};
