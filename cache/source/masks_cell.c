/* masks_cell.c: masks of a sample, of JSON. See masks_cell.h. */
#include "cache/source/masks_cell.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/little_endian.h"
#include "common/sample_masks.h"

#define CORNERS_LEAST 2 /* of which pycocotools makes no pixel */
#define SIDE_MAX 65535

/* The shapes so far, and the numbers of the one that is being read, which begin behind its head. */
struct made {
    uint8_t *bytes;
    size_t len, cap;
    uint32_t mask, shapes;
    size_t head;    /* where that shape's head is */
    uint32_t count; /* numbers that it has */
};

static int out_of_memory(struct error *err)
{
    return error_set(err, LARDER_ENOMEM, "out of memory while indexing");
}

static int make_room(struct made *made, size_t more, struct error *err)
{
    if (made->cap - made->len >= more)
        return 0;
    size_t cap = made->cap * 2 + more;
    uint8_t *grown = realloc(made->bytes, cap);
    if (!grown)
        return out_of_memory(err);
    made->bytes = grown;
    made->cap = cap;
    return 0;
}

static int begin_shape(struct made *made, struct error *err)
{
    if (made->shapes == SAMPLE_SHAPES_MAX)
        return error_set(err, LARDER_ELIMIT, "a sample may have %u polygons in all", SAMPLE_SHAPES_MAX);
    int code = make_room(made, MASK_SHAPE_HEAD_BYTES, err);
    if (code)
        return code;
    made->shapes++;
    made->head = made->len;
    made->len += MASK_SHAPE_HEAD_BYTES;
    made->count = 0;
    return 0;
}

static int add_number(struct made *made, int32_t number, struct error *err)
{
    int code = make_room(made, sizeof(uint32_t), err);
    if (code)
        return code;
    put_u32(made->bytes + made->len, (uint32_t)number);
    made->len += sizeof(uint32_t);
    made->count++;
    return 0;
}

static void end_shape(const struct made *made, uint32_t height, uint32_t width)
{
    const struct mask_shape shape = {.mask = made->mask, .height = height, .width = width, .count = made->count};
    mask_shape_write(&shape, made->bytes + made->head);
}

/* ── polygons ── */

static int take_polygon(struct made *made, const json_t *polygon, struct error *err)
{
    size_t count = json_array_size(polygon);
    int code = count < 2 * CORNERS_LEAST || count % 2
                   ? error_set(err, LARDER_EFORMAT,
                               "a polygon is a list of x, y, x, y and so on, of two corners or more")
                   : begin_shape(made, err);
    for (size_t i = 0; i < count && !code; i++) {
        const json_t *value = json_array_get(polygon, i);
        double fifths = 5 * json_number_value(value) + .5;
        if (!json_is_number(value))
            return error_set(err, LARDER_EFORMAT, "a polygon has something that is no number");
        if (fabs(fifths) > SAMPLE_FIFTHS_MAX)
            return error_set(err, LARDER_EFORMAT, "a polygon's corner is at %g, and may be up to %d", fifths / 5,
                             SAMPLE_FIFTHS_MAX / 5);
        code = add_number(made, (int32_t)fifths, err);
    }
    if (!code)
        end_shape(made, 0, 0);
    return code;
}

/* ── runs ── */

/* read_run reads a number of pycocotools' text: groups of five bits, the lowest first, each a character from '0' on,
 * whose sixth bit says that more follow; the fifth bit of the last one is the sign. It moves *at on; false: it is none.
 */
static bool read_run(const char **at, int64_t *out)
{
    uint64_t number = 0;
    for (unsigned shift = 0; shift <= 30; shift += 5) {
        unsigned bits = (unsigned)(unsigned char)**at - '0';
        if (bits > 63)
            return false;
        (*at)++;
        number |= (uint64_t)(bits & 31) << shift;
        if (bits & 32)
            continue;
        *out = bits & 16 ? (int64_t)number - (INT64_C(1) << (shift + 5)) : (int64_t)number;
        return true;
    }
    return false;
}

/* add_run appends the next of the runs, which together may be as long as the image. */
static int add_run(struct made *made, int64_t run, uint64_t *left, struct error *err)
{
    if (run < 0 || (uint64_t)run > *left)
        return error_set(err, LARDER_EFORMAT, "its counts are not as long together as its size says");
    *left -= (uint64_t)run;
    return add_number(made, (int32_t)run, err);
}

/* Each number from the fourth on is what it is more than the one before the last. */
static int take_text(struct made *made, const char *text, uint64_t *left, struct error *err)
{
    int64_t before[2] = {0, 0}, run;
    int code = 0;
    while (*text && !code) {
        if (!read_run(&text, &run))
            return error_set(err, LARDER_EFORMAT, "its counts are a text that pycocotools does not write");
        run += made->count > 2 ? before[made->count % 2] : 0;
        before[made->count % 2] = run;
        code = add_run(made, run, left, err);
    }
    return code;
}

static int take_counts(struct made *made, const json_t *counts, uint64_t *left, struct error *err)
{
    int code = 0;
    for (size_t i = 0; i < json_array_size(counts) && !code; i++) {
        const json_t *value = json_array_get(counts, i);
        code = json_is_integer(value) ? add_run(made, json_integer_value(value), left, err)
                                      : error_set(err, LARDER_EFORMAT,
                                                  "its counts have something that is no whole "
                                                  "number");
    }
    return code;
}

static int take_runs(struct made *made, const json_t *value, struct error *err)
{
    const json_t *size = json_object_get(value, "size"), *counts = json_object_get(value, "counts");
    json_int_t height = json_integer_value(json_array_get(size, 0));
    json_int_t width = json_integer_value(json_array_get(size, 1));
    if (json_array_size(size) != 2 || height < 1 || height > SIDE_MAX || width < 1 || width > SIDE_MAX ||
        height * width > INT32_MAX)
        return error_set(err, LARDER_EFORMAT, "its size is not [height, width] of an image");
    if (!json_is_array(counts) && !json_is_string(counts))
        return error_set(err, LARDER_EFORMAT, "its counts are no list and no text");
    uint64_t left = (uint64_t)height * (uint64_t)width;
    int code = begin_shape(made, err);
    if (!code)
        code = json_is_array(counts) ? take_counts(made, counts, &left, err)
                                     : take_text(made, json_string_value(counts), &left, err);
    if (!code && left)
        code = error_set(err, LARDER_EFORMAT, "its counts are not as long together as its size says");
    if (!code)
        end_shape(made, (uint32_t)height, (uint32_t)width);
    return code;
}

/* ── all ── */

static int take_mask(struct made *made, const json_t *value, struct error *err)
{
    if (json_is_object(value))
        return take_runs(made, value, err);
    if (!json_is_array(value))
        return error_set(err, LARDER_EFORMAT, "it is no list of polygons, and no {\"size\": …, \"counts\": …}");
    int code = 0;
    for (size_t i = 0; i < json_array_size(value) && !code; i++)
        code = take_polygon(made, json_array_get(value, i), err);
    return code;
}

int masks_cell_read(const json_t *list, uint8_t **out, size_t *len_bytes, struct error *err)
{
    struct made made = {0};
    size_t count = json_array_size(list);
    int code = make_room(&made, SAMPLE_MASKS_HEAD_BYTES, err);
    made.len = SAMPLE_MASKS_HEAD_BYTES;
    for (size_t i = 0; i < count && !code; i++) {
        made.mask = (uint32_t)i;
        code = take_mask(&made, json_array_get(list, i), err);
        if (code)
            error_prefix(err, code, "its mask %zu", i);
    }
    if (code) {
        free(made.bytes);
        return code;
    }
    sample_masks_write((uint32_t)count, made.shapes, made.bytes);
    *out = made.bytes;
    *len_bytes = made.len;
    return 0;
}
