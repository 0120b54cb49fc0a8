/* rows_parts.c: reads rows of numbers from a sample and writes them to fields. See rows_parts.h. */
#include "preprocess/rows_parts.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "common/check.h"
#include "common/sample_rows.h"
#include "preprocess/instances.h"
#include "preprocess/ragged.h"

static int no_memory(struct decode_fault *fault)
{
    return decode_fail(fault, BAD_NO_MEMORY, "preparing it takes more memory than is allowed for one sample");
}

/* Whether a field of this type can have all the numbers. */
static bool are_fit(const struct sample_rows *stored, enum pixel_dtype dtype)
{
    bool fit = true;
    for (uint32_t i = 0; i < stored->count && fit; i++) {
        for (uint32_t j = 0; j < stored->width && fit; j++) {
            double number = sample_rows_at(stored, i, j);
            fit = dtype == PIXEL_INT64 ? fabs(number) <= SAMPLE_ROW_WHOLE_MAX && number == rint(number)
                                       : fabs(number) <= (double)FLT_MAX;
        }
    }
    return fit;
}

/* What a part has stored: of rows of numbers `rows`, of masks these. `rows.count` is how many there are. */
struct stored {
    struct sample_rows rows;
    struct sample_masks masks;
};

/* read_part finds the rows of a part, as many and as wide as its field has room for. */
static int read_part(const struct pipeline *view, const struct rows_sample *sample, struct stored *out,
                     struct decode_fault *fault)
{
    const struct rows_form *form = &view->rows;
    const struct sample_part *part = sample->parts->parts;
    while (strcmp(part->name, view->part) != 0)
        part++;
    const char *bytes = (const char *)sample->bytes + part->offset;
    struct error why;
    *out = (struct stored){0};
    int rc = form->kind == ROWS_MASKS ? sample_masks_read(bytes, part->bytes, &out->masks, &why)
                                      : sample_rows_read(bytes, part->bytes, &out->rows, &why);
    if (rc)
        return decode_fail(fault, BAD_CORRUPT, "part %s: %s", view->part, why.text);
    if (form->kind == ROWS_MASKS)
        out->rows.count = out->masks.count;
    if (out->rows.count > form->most)
        return decode_fail(fault, BAD_OTHER_SIZE, "part %s: it has %u rows, and most says %u", view->part,
                           out->rows.count, form->most);
    if (form->kind == ROWS_MASKS)
        return 0;
    if (out->rows.count && out->rows.width != form->width)
        return decode_fail(fault, BAD_OTHER_SIZE, "part %s: its rows have %u numbers, and should have %u", view->part,
                           out->rows.width, form->width);
    if (!are_fit(&out->rows, form->dtype))
        return decode_fail(fault, BAD_CORRUPT, "part %s: it has a number that %s does not have", view->part,
                           form->dtype == PIXEL_INT64 ? "int64" : "float32");
    return 0;
}

static int read_boxes(const struct sample_rows *stored, enum box_format format, struct scratch *memory,
                      struct rows *out, struct decode_fault *fault)
{
    out->boxes = scratch_take(memory, (stored->count + 1) * sizeof *out->boxes);
    out->from = scratch_take(memory, (stored->count + 1) * sizeof *out->from);
    if (!out->boxes || !out->from)
        return no_memory(fault);
    out->n_boxes = stored->count;
    for (uint32_t i = 0; i < stored->count; i++) {
        float *box = out->boxes[i];
        out->from[i] = i;
        for (uint32_t j = 0; j < 4; j++)
            box[j] = (float)sample_rows_at(stored, i, j);
        for (int j = 0; j < 2 && format != BOX_XYXY; j++) {
            if (format == BOX_CXCYWH)
                box[j] -= box[j + 2] / 2;
            box[j + 2] += box[j];
        }
    }
    return 0;
}

static int read_points(const struct sample_rows *stored, struct scratch *memory, struct rows *out,
                       struct decode_fault *fault)
{
    uint32_t each = stored->width / 2;
    out->n_points = stored->count * each;
    out->points = scratch_take(memory, ((size_t)out->n_points + 1) * sizeof *out->points);
    if (!out->points)
        return no_memory(fault);
    for (uint32_t i = 0; i < out->n_points; i++) {
        for (uint32_t j = 0; j < 2; j++)
            out->points[i][j] = (float)sample_rows_at(stored, i / each, i % each * 2 + j);
    }
    return 0;
}

/* Each box has a row, of each part of labels and of masks. */
static int check_count(const struct pipeline *view, const struct sample_rows *stored, const struct rows *rows,
                       struct decode_fault *fault)
{
    if (!rows->boxes || stored->count == rows->n_boxes)
        return 0;
    return decode_fail(fault, BAD_OTHER_SIZE, "part %s: it has %u rows, and there are %u boxes", view->part,
                       stored->count, rows->n_boxes);
}

int rows_open(const struct pipeline *pipeline, const struct rows_sample *sample, struct scratch *memory,
              struct rows *out, struct decode_fault *fault)
{
    int rc = 0;
    *out = (struct rows){0};
    for (enum rows_kind kind = ROWS_BOXES; kind <= ROWS_MASKS; kind++) { /* the boxes before what each of them has */
        for (uint32_t i = 0; i < pipeline->n_views && rc == 0; i++) {
            const struct pipeline *view = pipeline->views[i];
            struct stored stored;
            if (view->rows.kind != kind)
                continue;
            rc = read_part(view, sample, &stored, fault);
            if (rc == 0 && kind == ROWS_BOXES)
                rc = read_boxes(&stored.rows, view->rows.format, memory, out, fault);
            else if (rc == 0 && kind == ROWS_POINTS)
                rc = read_points(&stored.rows, memory, out, fault);
            else if (rc == 0)
                rc = check_count(view, &stored.rows, out, fault);
        }
    }
    return rc;
}

/* store_labels writes the labels of those boxes that are left. */
static void store_labels(const struct pipeline *view, const struct sample_rows *stored, const struct rows *rows,
                         void *dst)
{
    uint32_t count = rows->boxes ? rows->n_boxes : stored->count;
    int64_t *whole = dst;
    float *real = dst;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = rows->boxes ? rows->from[i] : i;
        for (uint32_t j = 0; j < stored->width; j++) {
            double number = sample_rows_at(stored, row, j);
            if (view->rows.dtype == PIXEL_INT64)
                *whole++ = (int64_t)number;
            else
                *real++ = (float)number;
        }
    }
}

/* count_rows returns how many rows are left of a part. */
static uint32_t count_rows(const struct pipeline *view, const struct sample_rows *stored, const struct rows *rows)
{
    bool by_boxes = view->rows.kind != ROWS_POINTS && rows->boxes;
    return by_boxes ? rows->n_boxes : stored->count;
}

/* What rows are made of, once the operators have moved them. */
struct making {
    struct prepare_output *output;
    struct op_plan *plans;
    struct scratch *memory;
    const struct rows *rows;
};

static int store_masks(const struct making *making, const struct pipeline *view, const struct stored *stored, void *dst,
                       struct decode_fault *fault)
{
    const struct rows *rows = making->rows;
    const struct instances masks = {.pipeline = view,
                                    .stored = &stored->masks,
                                    .size = making->output->size,
                                    .plans = making->plans,
                                    .from = rows->boxes ? rows->from : NULL,
                                    .count = count_rows(view, &stored->rows, rows)};
    int rc = instances_make(&masks, dst, making->memory, fault);
    return rc ? error_prefix(&fault->error, rc, "part %s", view->part) : 0;
}

/* store writes a part's rows. */
static int store(const struct making *making, const struct pipeline *view, const struct stored *stored, void *dst,
                 struct decode_fault *fault)
{
    const struct rows *rows = making->rows;
    switch (view->rows.kind) {
    case ROWS_BOXES:
        if (rows->n_boxes)
            memcpy(dst, rows->boxes, rows->n_boxes * sizeof *rows->boxes);
        return 0;
    case ROWS_POINTS:
        if (rows->n_points)
            memcpy(dst, rows->points, rows->n_points * sizeof *rows->points);
        return 0;
    case ROWS_MASKS: return store_masks(making, view, stored, dst, fault);
    default: store_labels(view, &stored->rows, rows, dst); return 0;
    }
}

/* find_field finds where the rows of a part go. Where all samples have one layout the rows beyond the last one are 0,
 * and their number is noted. */
static int find_field(struct prepare_output *output, uint32_t field, uint32_t count, struct image_size size, void **dst,
                      struct decode_fault *fault)
{
    const struct pipeline *pipeline = output->pipeline;
    const struct sample_layout *layout = &pipeline->layout;
    if (pipeline->ragged)
        return ragged_rows(output, field, count, size, dst, &fault->error) ? LARDER_EQUOTA : 0;
    uint32_t before = 0;
    for (uint32_t i = 0; i < field; i++)
        before += pipeline->views[i]->rows.kind != ROWS_NONE;
    *dst = (char *)output->dst + layout->fields[field].offset;
    memset(*dst, 0, pipeline->views[field]->layout.bytes);
    int64_t *counts = (int64_t *)((char *)output->dst + layout->fields[pipeline->n_views].offset);
    counts[before] = count;
    return 0;
}

int rows_make(struct prepare_output *output, const struct rows_sample *sample, struct scratch *memory,
              struct decode_fault *fault)
{
    const struct pipeline *pipeline = output->pipeline;
    struct rows rows;
    struct error why;
    const struct pipeline *steps = pipeline->views[0]; /* all views have the same operators */
    struct op_plan *plans = scratch_take(memory, steps->n_ops * sizeof *plans);
    int rc = plans ? rows_open(pipeline, sample, memory, &rows, fault) : no_memory(fault);
    if (rc == 0 && pipeline_plan(steps, output->key, output->size.width, output->size.height, plans, &rows, &why))
        rc = decode_fail(fault, BAD_TOO_SMALL, "%s", why.text);
    const struct making making = {.output = output, .plans = plans, .memory = memory, .rows = &rows};
    for (uint32_t i = 0; i < pipeline->n_views && rc == 0; i++) {
        const struct pipeline *view = pipeline->views[i];
        struct stored stored;
        if (view->rows.kind == ROWS_NONE)
            continue;
        rc = read_part(view, sample, &stored, fault);
        void *dst;
        if (rc == 0)
            rc = find_field(output, i, count_rows(view, &stored.rows, &rows), pipeline_size(steps, plans, output->size),
                            &dst, fault);
        if (rc == 0)
            rc = store(&making, view, &stored, dst, fault);
    }
    return rc;
}
