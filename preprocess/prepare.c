/* prepare.c: the steps for one sample: read the header, make the plans, decode the pixels that they need, make each
 * output.
 *
 * No output fails because of another one. If the rectangle that all need together cannot be decoded, or the memory does
 * not suffice for all, each is made again with a decode of its own. */
#include "preprocess/prepare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/sample_parts.h"
#include "preprocess/decode/decode.h"
#include "preprocess/decode/jpeg_progressive.h"
#include "preprocess/decode/planes.h"
#include "preprocess/others.h"
#include "preprocess/outputs.h"
#include "preprocess/pipeline_priv.h"
#include "preprocess/ragged.h"
#include "preprocess/rows_parts.h"
#include "preprocess/scratch.h"
#include "preprocess/simd.h"

#define SCRATCH_MAGIC UINT32_C(0x73637274)
/* Worst case of scratch for an image of pixels_max pixels: decoded, as wide coefficients of a progressive JPEG, and the
 * steps of its pipelines. */
#define MEMORY_PER_PIXEL 24
#define MEMORY_AT_LEAST ((uint64_t)256 << 20)

struct prepare_scratch {
    uint32_t magic;
    struct scratch memory;
    struct decoder *decoder;
    struct prepare_counts counts;
    struct prepare_times *times; /* NULL: not asked for */
};

const char *bad_reason_name(enum bad_reason reason)
{
    static const char *const names[BAD_REASONS] = {"none",      "unreadable", "not_an_image", "corrupt",   "too_large",
                                                   "no_memory", "too_small",  "poisonous",    "other_size"};
    return reason < BAD_REASONS ? names[reason] : "unknown";
}

void prepare_init(void)
{
    simd_select();
    planes_select();
    progressive_select();
}

size_t prepare_memory(const struct prepare_limits *limits)
{
    uint64_t max = limits->memory_max;
    if (max == 0)
        max = limits->pixels_max < UINT64_MAX / MEMORY_PER_PIXEL ? limits->pixels_max * MEMORY_PER_PIXEL : UINT64_MAX;
    if (limits->memory_max == 0 && max < MEMORY_AT_LEAST)
        max = MEMORY_AT_LEAST;
    return max < SIZE_MAX / 2 ? (size_t)max : SIZE_MAX / 2;
}

int prepare_scratch_create(const struct prepare_limits *limits, struct prepare_scratch **out)
{
    struct prepare_scratch *scratch = xcalloc(1, sizeof *scratch);
    scratch->magic = SCRATCH_MAGIC;
    scratch_init(&scratch->memory, prepare_memory(limits), limits->budget);
    int rc = decoder_create(limits, &scratch->decoder);
    if (rc)
        free(scratch);
    else
        *out = scratch;
    return rc;
}

void prepare_scratch_destroy(struct prepare_scratch *scratch)
{
    if (!scratch)
        return;
    CHECK_MAGIC(scratch, SCRATCH_MAGIC);
    decoder_destroy(scratch->decoder);
    scratch_free(&scratch->memory);
    scratch->magic = 0;
    free(scratch);
}

struct prepare_counts prepare_scratch_counts(const struct prepare_scratch *scratch)
{
    CHECK_MAGIC(scratch, SCRATCH_MAGIC);
    return scratch->counts;
}

void prepare_scratch_time(struct prepare_scratch *scratch, struct prepare_times *times)
{
    CHECK_MAGIC(scratch, SCRATCH_MAGIC);
    scratch->times = times;
}

/* fail_images says why the members' outputs cannot be made. Of several views, it is the first one's reason. */
static void fail_images(struct run *run, uint64_t members, const struct decode_fault *fault)
{
    for (; members; members &= members - 1) {
        const struct run_image *image = &run->images[__builtin_ctzll(members)];
        struct prepare_output *output = image->output;
        if (output->reason)
            continue;
        output->reason = fault->reason ? fault->reason : BAD_CORRUPT;
        output->err = fault->error;
    }
}

/* fail_plan is fail_images for an image that its plan refuses. */
static void fail_plan(struct run *run, int number, struct decode_fault *unfit, int rc)
{
    const struct run_image *image = &run->images[number];
    unfit->reason = rc == LARDER_EFORMAT ? BAD_OTHER_SIZE : rc == LARDER_EQUOTA ? BAD_TOO_LARGE : BAD_TOO_SMALL;
    if (image->output->pipeline->n_views)
        error_prefix(&unfit->error, rc, "%s %s", image->pipeline->part[0] ? "part" : "view",
                     image->output->pipeline->layout.fields[image->field].name);
    fail_images(run, UINT64_C(1) << number, unfit);
}

/* check_image refuses an image that cannot go with the other parts of its sample, or that its field has no room for. */
static int check_image(const struct run *run, const struct run_image *image, uint32_t width, uint32_t height,
                       struct error *err)
{
    struct image_size *size = &image->output->size;
    uint32_t bits = 8 * pixel_dtype_bytes(image->pipeline->mask.dtype);
    if (run->masks && run->mask_bits > bits)
        return error_set(err, LARDER_EFORMAT, "it has %u bits a pixel, which do not fit: give it dtype \"int32\"",
                         run->mask_bits);
    if (size->width && (size->width != width || size->height != height))
        return error_set(err, LARDER_EFORMAT, "it has %u × %u pixels, and the parts before it %u × %u", width, height,
                         size->width, size->height);
    if (image->pipeline->part[0])
        *size = (struct image_size){width, height};
    return 0;
}

/* Whether an operator draws by the boxes. */
static bool draws_by_boxes(const struct pipeline *pipeline)
{
    bool does = false;
    for (uint32_t i = 0; i < pipeline->n_ops; i++)
        does = does || (pipeline->ops[i].kind->flags & OP_BOXES && pipeline->ops[i].kind->flags & OP_RANDOM);
    return does;
}

/* Plans an image, and finds its place in a ragged sample. */
static int plan_one(struct run *run, struct run_image *image, uint32_t width, uint32_t height, struct op_plan *plans,
                    struct decode_fault *unfit)
{
    struct rows rows;
    bool by_boxes = image->output->pipeline->n_rows && draws_by_boxes(image->pipeline);
    int rc = check_image(run, image, width, height, &unfit->error);
    if (rc == 0 && by_boxes) {
        const struct rows_sample sample = {run->sample, run->parts};
        rc = rows_open(image->output->pipeline, &sample, run->memory, &rows, unfit);
    }
    if (rc == 0)
        rc = pipeline_plan(image->pipeline, image->output->key, width, height, plans, by_boxes ? &rows : NULL,
                           &unfit->error);
    if (rc == 0 && image->output->pipeline->ragged)
        rc = ragged_image(image->output, image->field,
                          pipeline_size(image->pipeline, plans, (struct image_size){width, height}), &image->dst,
                          &unfit->error);
    return rc;
}

/* Plans the members; those that cannot be made of an image of this size fail, and are members no more. */
static int plan_all(struct run *run, uint32_t width, uint32_t height, uint64_t *members, struct decode_fault *fault)
{
    for (uint64_t left = *members; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        struct run_image *image = &run->images[i];
        struct decode_fault unfit;
        run->plans[i] = scratch_take(run->memory, image->pipeline->n_ops * sizeof *run->plans[i]);
        if (!run->plans[i])
            return decode_fail(fault, BAD_NO_MEMORY, "out of memory");
        int rc = plan_one(run, image, width, height, run->plans[i], &unfit);
        if (rc == LARDER_ENOMEM)
            return decode_fail(fault, BAD_NO_MEMORY, "out of memory");
        if (rc) {
            fail_plan(run, i, &unfit, rc);
            *members &= ~(UINT64_C(1) << i);
        }
    }
    return 0;
}

/* lap adds the time since *from to a stage, and begins the next one. */
static void lap(uint64_t *stage, uint64_t *from)
{
    uint64_t now = clock_thread_ns();
    *stage += now - *from;
    *from = now;
}

/* keep_form decodes the whole image into a form, unless it takes too much. */
static int keep_form(struct prepare_scratch *scratch, struct run *run, struct decode_fault *fault)
{
    struct prepare_keep *keep = run->keep;
    struct decoded *form;
    struct rect whole = {.width = run->whole.width, .height = run->whole.height};
    keep->bytes = decode_form_bytes(scratch->decoder);
    if (keep->bytes > keep->most_bytes)
        return 0;
    int rc = decode_reserve(scratch->decoder, whole, fault);
    if (rc == 0)
        rc = decode_form(scratch->decoder, &form, fault);
    if (rc)
        return rc;
    keep->form = form;
    run->form = form;
    scratch->counts.decodes++;
    return 0;
}

/* read_pixels reads a rectangle's pixels, of the form if there is one or can be made, or has the sink take them. A form
 * that cannot be made is not wanted any more. */
static int read_pixels(struct prepare_scratch *scratch, struct run *run, struct rect needed, uint32_t divisor,
                       const struct decode_sink *sink, struct image *out, struct decode_fault *fault)
{
    int rc = 0;
    if (run->keep && !run->form && divisor == 1)
        rc = keep_form(scratch, run, fault);
    if (rc) {
        run->keep = NULL;
        return rc;
    }
    if (run->form)
        return decoded_region(run->form, needed, run->memory, out)
                   ? decode_fail(fault, BAD_NO_MEMORY, "preparing it takes more memory than is allowed for one image")
                   : 0;
    rc = decode_reserve(scratch->decoder, needed, fault);
    if (rc == 0)
        rc = decode_rows(scratch->decoder, needed, sink, out, fault);
    scratch->counts.decodes++;
    return rc;
}

static int take_rows(void *context, uint32_t y, const uint8_t *from, size_t stride, uint32_t count)
{
    return resample_take_rows(context, y, from, stride, count);
}

/* Makes the members with one decode; those that cannot be planned fail. Gives the others that were not made, and
 * why. */
static uint64_t make_together(struct prepare_scratch *scratch, struct run *run, struct rect whole, uint64_t members,
                              struct decode_fault *fault)
{
    struct prepare_times *times = scratch->times;
    uint64_t clock = times ? clock_thread_ns() : 0;
    if (plan_all(run, whole.width, whole.height, &members, fault) || !members)
        return members;
    uint32_t divisor = run->form ? 1 : outputs_scaling(run, members, whole);
    if (divisor > 1)
        divisor = decode_scale(scratch->decoder, divisor);
    struct rect needed = outputs_needs(run, members, whole, divisor);
    struct pixels pixels = {
        .x = needed.x, .y = needed.y, .width = whole.width, .height = whole.height, .divisor = divisor};
    struct geometry geometry;
    struct resample_rows rows = {.geometry = &geometry, .scratch = run->memory};
    struct decode_sink sink = {take_rows, &rows};
    bool as_they_come = divisor == 1 && outputs_first(run, members, whole, &geometry);
    if (times)
        lap(&times->plan_ns, &clock);
    int rc = read_pixels(scratch, run, needed, divisor, as_they_come ? &sink : NULL, &pixels.image, fault);
    pixels.rows = rc == 0 && !pixels.image.data ? &rows : NULL;
    if (times)
        lap(&times->decode_ns, &clock);
    if (rc)
        return members;
    uint64_t failed = outputs_make(run, members, &pixels);
    if (failed)
        decode_fail(fault, BAD_NO_MEMORY, "the pipeline takes more memory than allowed for one image");
    if (times)
        lap(&times->transform_ns, &clock);
    return failed;
}

/* Opens the image and makes the members. Gives those that were not made, and why; *opened: the image could be. */
static uint64_t try_members(struct prepare_scratch *scratch, struct run *run, uint64_t members, bool *opened,
                            struct decode_fault *fault)
{
    uint64_t clock = scratch->times ? clock_thread_ns() : 0, failed = members;
    *fault = (struct decode_fault){0};
    int rc = 0;
    if (run->masks)
        rc = decode_open_mask(scratch->decoder, run->encoded, run->len_bytes, run->memory, &run->whole, &run->mask_bits,
                              fault);
    else if (!run->form)
        rc = decode_open(scratch->decoder, run->encoded, run->len_bytes, run->memory, &run->whole, fault);
    *opened = rc == 0;
    if (scratch->times)
        lap(&scratch->times->open_ns, &clock);
    if (*opened)
        failed = make_together(scratch, run, run->whole, members, fault);
    decode_close(scratch->decoder);
    scratch_reset(run->memory);
    return failed;
}

static int fail_budget(const struct scratch *memory, struct decode_fault *fault)
{
    return decode_fail(fault, BAD_TOO_LARGE,
                       "decoding and preparing it takes more than the %zu MiB that one sample can have of "
                       "memory.scratch: raise memory.scratch, or leave the file out",
                       scratch_budget_most(memory->budget) >> 20);
}

static void make(struct prepare_scratch *scratch, struct run *run, uint64_t members)
{
    struct decode_fault fault;
    bool opened;
    uint64_t failed;
    enum scratch_verdict verdict;
    bool kept; /* a form was to be made */
    do {       /* if the budget had no room, or no form could be made, this is begun again */
        kept = run->keep;
        failed = try_members(scratch, run, members, &opened, &fault);
        verdict = scratch_wait(run->memory);
    } while (failed && (verdict == SCRATCH_AGAIN || (kept && !run->keep)));
    if (verdict == SCRATCH_NEVER)
        fail_budget(run->memory, &fault);
    if (!opened || !(members & (members - 1))) {
        fail_images(run, failed, &fault);
        return;
    }
    for (; failed; failed &= failed - 1) /* perhaps because of another one: made once more, alone */
        make(scratch, run, failed & -failed);
}

/* make_taken makes the images that the run has taken. */
static void make_taken(struct prepare_scratch *scratch, struct run *run)
{
    if (run->count)
        make(scratch, run, UINT64_MAX >> (RUN_IMAGES_MAX - run->count));
    run->count = 0;
}

/* find_parts finds the parts of a sample, which is one without a name if it has none. */
static int find_parts(const void *encoded, size_t len_bytes, struct sample_parts *out, struct error *err)
{
    if (sample_parts_are(encoded, len_bytes))
        return sample_parts_read(encoded, len_bytes, out, err);
    *out = (struct sample_parts){.n = 1, .parts = {{.bytes = len_bytes}}};
    return 0;
}

int prepare_size(struct prepare_scratch *scratch, const void *encoded, size_t len_bytes, struct image_size *out,
                 struct error *err)
{
    CHECK_MAGIC(scratch, SCRATCH_MAGIC);
    struct decode_fault fault;
    struct rect whole;
    struct sample_parts parts;
    int rc = find_parts(encoded, len_bytes, &parts, err);
    if (rc)
        return rc;
    rc = decode_open(scratch->decoder, (const char *)encoded + parts.parts[0].offset, parts.parts[0].bytes,
                     &scratch->memory, &whole, &fault);
    decode_close(scratch->decoder);
    scratch_reset(&scratch->memory);
    if (rc)
        return error_set(err, rc, "%s", fault.error.text);
    *out = (struct image_size){.width = whole.width, .height = whole.height};
    return 0;
}

/* make_others makes an output that is made of no image, or its views, each with a decode of its own. */
static void make_others(struct prepare_scratch *scratch, const struct run *run, struct prepare_output *output)
{
    const struct pipeline *pipeline = output->pipeline;
    uint64_t clock = scratch->times || run->timed ? clock_thread_ns() : 0, began_ns = clock;
    for (uint32_t i = 0; i < pipeline->layout.n && !output->reason; i++) {
        const struct pipeline *one = pipeline->n_views ? pipeline->views[i] : pipeline;
        void *dst = (char *)output->dst + pipeline->layout.fields[i].offset;
        struct decode_fault fault;
        enum scratch_verdict verdict;
        int rc;
        do { /* if the budget had no room, this is begun again when it has some */
            fault = (struct decode_fault){0};
            rc = others_make(run->memory, one, output->key, run->encoded, run->len_bytes, dst, &fault);
            scratch_reset(run->memory);
            verdict = scratch_wait(run->memory);
        } while (rc && verdict == SCRATCH_AGAIN);
        scratch->counts.decodes += pipeline->subject == OP_SOUND;
        if (verdict == SCRATCH_NEVER)
            rc = fail_budget(run->memory, &fault);
        if (rc) {
            output->reason = fault.reason;
            output->err = fault.error;
        }
    }
    if (scratch->times)
        lap(&scratch->times->decode_ns, &clock);
    if (run->timed)
        output->own_ns += clock_thread_ns() - began_ns;
}

/* ── the parts of a sample ───────────────────────────────────────────────────────────────────────────────────────── */

/* take adds an image to the run, which makes those that it has before it would have too many. */
static void take(struct prepare_scratch *scratch, struct run *run, const struct run_image *image)
{
    if (run->count == RUN_IMAGES_MAX)
        make_taken(scratch, run);
    run->images[run->count++] = *image;
}

/* Whether a pipeline without views, or a view, is made of this part, as what it is read now. */
static bool is_of(const struct pipeline *pipeline, const struct run *run, const struct sample_part *part, bool first)
{
    return pipeline->rows.kind == ROWS_NONE && pipeline->is_mask == run->masks &&
           (pipeline->part[0] ? strcmp(pipeline->part, part->name) == 0 : first);
}

/* take_images adds the images of an output that are made of a part. Once one of its images failed it needs no more. */
static void take_images(struct prepare_scratch *scratch, struct run *run, const struct sample_part *part, bool first,
                        struct prepare_output *output)
{
    const struct pipeline *pipeline = output->pipeline;
    struct run_image image = {.pipeline = pipeline, .output = output, .dst = output->dst};
    if (pipeline->n_views == 0 && is_of(pipeline, run, part, first))
        take(scratch, run, &image);
    for (uint32_t i = 0; i < pipeline->n_views && !output->reason; i++) {
        image = (struct run_image){.pipeline = pipeline->views[i],
                                   .output = output,
                                   .field = i,
                                   .dst = (char *)output->dst + pipeline->layout.fields[i].offset};
        if (is_of(image.pipeline, run, part, first))
            take(scratch, run, &image);
    }
}

/* find_absent fails an output that wants a part which the sample does not have. */
static void find_absent(const struct sample_parts *parts, struct prepare_output *output)
{
    const struct pipeline *pipeline = output->pipeline;
    for (uint32_t i = 0; i < pipeline->n_views; i++) {
        const char *name = pipeline->views[i]->part;
        bool has = !name[0];
        for (uint32_t j = 0; j < parts->n; j++)
            has = has || strcmp(parts->parts[j].name, name) == 0;
        if (has)
            continue;
        output->reason = BAD_NOT_AN_IMAGE;
        error_set(&output->err, LARDER_EFORMAT, "it has no part called %s: leave it out of the Loader's parts", name);
        return;
    }
}

/* make_parts makes what the outputs have of each part, with one decode of it as an image, and one as a mask. */
static void make_parts(struct prepare_scratch *scratch, struct run *run, const void *encoded,
                       const struct sample_parts *parts, struct prepare_output *outputs, size_t n_outputs)
{
    for (uint32_t i = 0; i < 2 * parts->n; i++) {
        const struct sample_part *part = &parts->parts[i / 2];
        run->masks = i % 2;
        if (i > 0) { /* what stays in memory is the first part, as an image */
            run->form = NULL;
            run->keep = NULL;
        }
        if (encoded) {
            run->encoded = (const char *)encoded + part->offset;
            run->len_bytes = part->bytes;
        }
        for (size_t j = 0; j < n_outputs; j++) {
            const struct pipeline *pipeline = outputs[j].pipeline;
            if (outputs[j].reason || pipeline->layout.n == 0)
                continue;
            if (!pipeline->subject)
                take_images(scratch, run, part, i / 2 == 0, &outputs[j]);
            else if (i == 0)
                make_others(scratch, run, &outputs[j]);
        }
        make_taken(scratch, run);
    }
}

/* make_rows makes what an output has of boxes, points and labels, once its images are made. */
static void make_rows(struct run *run, struct prepare_output *output)
{
    const struct rows_sample sample = {run->sample, run->parts};
    struct decode_fault fault;
    enum scratch_verdict verdict;
    uint64_t began_ns = run->timed ? clock_thread_ns() : 0;
    int rc;
    do { /* if the budget had no room, this is begun again when it has some */
        fault = (struct decode_fault){0};
        rc = rows_make(output, &sample, run->memory, &fault);
        scratch_reset(run->memory);
        verdict = scratch_wait(run->memory);
    } while (rc && verdict == SCRATCH_AGAIN);
    if (verdict == SCRATCH_NEVER)
        rc = fail_budget(run->memory, &fault);
    if (rc) {
        output->reason = fault.reason;
        output->err = fault.error;
    }
    if (run->timed)
        output->own_ns += clock_thread_ns() - began_ns;
}

static void make_all(struct prepare_scratch *scratch, struct run *run, struct prepare_output *outputs, size_t n_outputs)
{
    struct sample_parts parts = {.n = 1}; /* a form is of the first part alone */
    struct error err;
    const void *encoded = run->encoded;
    size_t len_bytes = run->len_bytes;
    int rc = encoded ? find_parts(encoded, len_bytes, &parts, &err) : 0;
    for (size_t i = 0; i < n_outputs; i++) {
        struct prepare_output *output = &outputs[i];
        output->reason = BAD_NONE;
        output->size = (struct image_size){0};
        output->own_ns = 0;
        if (output->pipeline->ragged)
            ragged_begin(output);
        if (output->pipeline->layout.n == 0) {
            CHECK(encoded);
            memcpy(output->dst, encoded, len_bytes);
        } else if (rc) {
            output->reason = BAD_CORRUPT;
            output->err = err;
        } else {
            find_absent(&parts, output);
        }
    }
    if (rc)
        return;
    run->sample = encoded;
    run->parts = &parts;
    make_parts(scratch, run, encoded, &parts, outputs, n_outputs);
    for (size_t i = 0; i < n_outputs; i++) {
        if (!outputs[i].reason && outputs[i].pipeline->n_rows)
            make_rows(run, &outputs[i]);
    }
}

int prepare_sample(struct prepare_scratch *scratch, const void *encoded, size_t len_bytes,
                   struct prepare_output *outputs, size_t n_outputs, enum bad_reason *reason, struct error *err)
{
    const struct prepare_source source = {.bytes = encoded, .len_bytes = len_bytes};
    return prepare_image(scratch, &source, outputs, n_outputs, reason, err);
}

int prepare_image(struct prepare_scratch *scratch, const struct prepare_source *source, struct prepare_output *outputs,
                  size_t n_outputs, enum bad_reason *reason, struct error *err)
{
    CHECK_MAGIC(scratch, SCRATCH_MAGIC);
    struct run run = {.memory = &scratch->memory, .timed = n_outputs > 1};
    if (source->decoded) {
        run.form = source->bytes;
        run.whole = (struct rect){.width = run.form->width, .height = run.form->height};
    } else {
        run.encoded = source->bytes;
        run.len_bytes = source->len_bytes;
        run.keep = source->keep;
    }
    if (source->keep)
        source->keep->bytes = 0, source->keep->form = NULL;
    const struct prepare_output *bad = NULL;
    make_all(scratch, &run, outputs, n_outputs);
    for (size_t i = n_outputs; i-- > 0;) {
        if (outputs[i].reason)
            bad = &outputs[i];
        else
            scratch->counts.outputs++;
    }
    if (!bad)
        return 0;
    *reason = bad->reason;
    return error_set(err, bad->err.code, "%s", bad->err.text);
}
