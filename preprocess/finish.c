#include "preprocess/finish.h"

#include <string.h>

#include "preprocess/color_rows.h"
#include "preprocess/simd.h"

static const struct color_rows *const versions[] = SIMD_TABLES(color_rows);

/* Until an operator looks at more than one number, 256 levels a channel are all there are: they are computed once. */
typedef float levels[IMAGE_CHANNELS][256];

static void apply_level(const struct pipeline_op *op, enum pixel_dtype from, float *values)
{
    if (op->kind->level)
        op->kind->level(op->values, from, values);
}

/* The levels after operators [op, end). */
static void make_levels(const struct pipeline *pipeline, uint32_t op, uint32_t end, levels table)
{
    for (int i = 0; i < 256; i++) {
        float level[IMAGE_CHANNELS] = {(float)i, (float)i, (float)i};
        enum pixel_dtype from = PIXEL_UINT8;
        for (uint32_t j = op; j < end; j++, from = PIXEL_FLOAT32)
            apply_level(&pipeline->ops[j], from, level);
        for (int c = 0; c < IMAGE_CHANNELS; c++)
            table[c][i] = level[c];
    }
}

/* To IEEE half precision, rounded to nearest, ties to even. */
static uint16_t half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest >= 0x7f800000) /* infinite, or no number */
        return (uint16_t)(sign | 0x7c00 | (rest > 0x7f800000 ? 0x200 : 0));
    if (rest >= 0x477ff000) /* rounds to above the largest */
        return (uint16_t)(sign | 0x7c00);
    if (rest >= 0x38800000) {
        uint32_t rounded = rest + 0xfff + (rest >> 13 & 1);
        return (uint16_t)(sign | (rounded - 0x38000000) >> 13);
    }
    if (rest < 0x33000000) /* below half of the smallest */
        return (uint16_t)sign;
    uint32_t shift = 126 - (rest >> 23), mantissa = (rest & 0x7fffff) | 0x800000;
    uint32_t result = mantissa >> shift, lost = mantissa & ((1u << shift) - 1), middle = 1u << (shift - 1);
    return (uint16_t)(sign | (result + (lost > middle || (lost == middle && (result & 1)))));
}

/* The index, among the output's numbers, of channel c of pixel i. */
static inline size_t place(const struct op_shape *shape, size_t i, uint32_t c)
{
    if (shape->layout == LAYOUT_CHW)
        return (size_t)c * shape->width * shape->height + i;
    return i * shape->channels + c;
}

static void store_float(const struct op_shape *shape, void *dst, size_t at, float value)
{
    if (shape->dtype == PIXEL_FLOAT32)
        ((float *)dst)[at] = value;
    else
        ((uint16_t *)dst)[at] = half(value);
}

static void store_bytes(const struct op_shape *shape, const struct image *image, uint8_t *dst)
{
    const struct color_rows *rows = versions[simd_selected()];
    size_t plane = (size_t)shape->width * shape->height;
    for (uint32_t y = 0; y < shape->height; y++) {
        const uint8_t *row = image_row(image, y);
        uint8_t *to = dst + (size_t)y * shape->width * (shape->layout == LAYOUT_CHW ? 1 : shape->channels);
        if (shape->channels == 1) {
            for (uint32_t x = 0; x < shape->width; x++)
                to[x] = row[(size_t)x * IMAGE_CHANNELS];
        } else if (shape->layout == LAYOUT_CHW) {
            rows->split(row, shape->width, to, to + plane, to + 2 * plane);
        } else {
            memcpy(to, row, (size_t)shape->width * IMAGE_CHANNELS);
        }
    }
}

static void store_levels32(const struct op_shape *shape, const struct image *image, const levels table, float *dst)
{
    for (uint32_t y = 0; y < shape->height; y++) {
        const uint8_t *row = image_row(image, y);
        for (uint32_t c = 0; c < shape->channels; c++) {
            float *to = dst + place(shape, (size_t)y * shape->width, c);
            size_t step = shape->layout == LAYOUT_CHW ? 1 : shape->channels;
            for (uint32_t x = 0; x < shape->width; x++)
                to[x * step] = table[c][row[(size_t)x * IMAGE_CHANNELS + c]];
        }
    }
}

static void store_levels16(const struct op_shape *shape, const struct image *image, const levels table, uint16_t *dst)
{
    uint16_t halves[IMAGE_CHANNELS][256];
    for (int c = 0; c < IMAGE_CHANNELS; c++) {
        for (int i = 0; i < 256; i++)
            halves[c][i] = half(table[c][i]);
    }
    for (uint32_t y = 0; y < shape->height; y++) {
        const uint8_t *row = image_row(image, y);
        for (uint32_t c = 0; c < shape->channels; c++) {
            uint16_t *to = dst + place(shape, (size_t)y * shape->width, c);
            size_t step = shape->layout == LAYOUT_CHW ? 1 : shape->channels;
            for (uint32_t x = 0; x < shape->width; x++)
                to[x * step] = halves[c][row[(size_t)x * IMAGE_CHANNELS + c]];
        }
    }
}

/* shape_of returns the shape of a sample's image. The pipeline may leave the size to the sample. */
static struct op_shape shape_of(const struct pipeline *pipeline, const struct image *image)
{
    struct op_shape shape = pipeline->shape;
    shape.width = image->width;
    shape.height = image->height;
    return shape;
}

/* The first operator, from `op` on, that does more than change levels; n_ops when none does. */
static uint32_t next_change(const struct pipeline *pipeline, const struct op_plan *plans, uint32_t op)
{
    while (op < pipeline->n_ops && (!pipeline->ops[op].kind->change || plans[op].skip))
        op++;
    return op;
}

/* Operators that look at more than levels: on numbers, pixel by pixel. */
static int finish_slowly(const struct pipeline *pipeline, const struct op_plan *plans, const struct image *image,
                         levels table, uint32_t op, void *dst, struct scratch *scratch)
{
    const struct op_shape whole = shape_of(pipeline, image), *shape = &whole;
    size_t n_pixels = (size_t)shape->width * shape->height;
    float *pixels = scratch_take(scratch, n_pixels * IMAGE_CHANNELS * sizeof *pixels);
    if (!pixels)
        return LARDER_ENOMEM;
    const struct op_shape within = {.width = shape->width,
                                    .height = shape->height,
                                    .channels = IMAGE_CHANNELS,
                                    .dtype = PIXEL_FLOAT32,
                                    .layout = LAYOUT_HWC};
    store_levels32(&within, image, (const float(*)[256])table, pixels);
    for (; op < pipeline->n_ops; op++) {
        const struct pipeline_op *item = &pipeline->ops[op];
        if (item->kind->change && !plans[op].skip)
            item->kind->change(item->values, &plans[op], pixels);
        for (size_t i = 0; i < n_pixels && item->kind->level; i++)
            apply_level(item, PIXEL_FLOAT32, pixels + i * IMAGE_CHANNELS);
    }
    for (size_t i = 0; i < n_pixels; i++) {
        for (uint32_t c = 0; c < shape->channels; c++)
            store_float(shape, dst, place(shape, i, c), pixels[i * IMAGE_CHANNELS + c]);
    }
    return 0;
}

int finish(const struct pipeline *pipeline, const struct op_plan *plans, const struct image *image, void *dst,
           struct scratch *scratch)
{
    const struct op_shape whole = shape_of(pipeline, image), *shape = &whole;
    if (shape->dtype == PIXEL_UINT8) {
        store_bytes(shape, image, dst);
        return 0;
    }
    levels table;
    uint32_t change = next_change(pipeline, plans, pipeline->n_pixel_ops);
    make_levels(pipeline, pipeline->n_pixel_ops, change, table);
    if (change < pipeline->n_ops)
        return finish_slowly(pipeline, plans, image, table, change, dst, scratch);
    if (shape->dtype == PIXEL_FLOAT32)
        store_levels32(shape, image, (const float(*)[256])table, dst);
    else
        store_levels16(shape, image, (const float(*)[256])table, dst);
    return 0;
}
