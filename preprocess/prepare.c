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
#include "preprocess/decode/decode.h"
#include "preprocess/decode/jpeg_progressive.h"
#include "preprocess/decode/planes.h"
#include "preprocess/outputs.h"
#include "preprocess/pipeline_priv.h"
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
    unfit->reason = rc == LARDER_EFORMAT ? BAD_OTHER_SIZE : BAD_TOO_SMALL;
    if (image->output->pipeline->n_views)
        error_prefix(&unfit->error, rc, "view %s", image->output->pipeline->layout.fields[image->field].name);
    fail_images(run, UINT64_C(1) << number, unfit);
}

/* Plans the members; those that cannot be made of an image of this size fail, and are members no more. */
static int plan_all(struct run *run, uint32_t width, uint32_t height, uint64_t *members, struct decode_fault *fault)
{
    for (uint64_t left = *members; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        const struct run_image *image = &run->images[i];
        struct decode_fault unfit;
        run->plans[i] = scratch_take(run->memory, image->pipeline->n_ops * sizeof *run->plans[i]);
        if (!run->plans[i])
            return decode_fail(fault, BAD_NO_MEMORY, "out of memory");
        int rc = pipeline_plan(image->pipeline, image->output->key, width, height, run->plans[i], &unfit.error);
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

/* read_pixels reads a rectangle's pixels, of the form if there is one or can be made. A form that cannot be made is not
 * wanted any more. */
static int read_pixels(struct prepare_scratch *scratch, struct run *run, struct rect needed, uint32_t divisor,
                       struct image *out, struct decode_fault *fault)
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
        rc = decode_region(scratch->decoder, needed, out, fault);
    scratch->counts.decodes++;
    return rc;
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
    if (times)
        lap(&times->plan_ns, &clock);
    int rc = read_pixels(scratch, run, needed, divisor, &pixels.image, fault);
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
    *opened = run->form ||
              decode_open(scratch->decoder, run->encoded, run->len_bytes, run->memory, &run->whole, fault) == 0;
    if (scratch->times)
        lap(&scratch->times->open_ns, &clock);
    if (*opened)
        failed = make_together(scratch, run, run->whole, members, fault);
    decode_close(scratch->decoder);
    scratch_reset(run->memory);
    return failed;
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
        decode_fail(&fault, BAD_TOO_LARGE,
                    "decoding and preparing it takes more than the %zu MiB that one image can have of memory.scratch: "
                    "raise memory.scratch, or leave the file out",
                    scratch_budget_most(run->memory->budget) >> 20);
    if (!opened || !(members & (members - 1))) {
        fail_images(run, failed, &fault);
        return;
    }
    for (; failed; failed &= failed - 1) /* perhaps because of another one: made once more, alone */
        make(scratch, run, failed & -failed);
}

int prepare_size(struct prepare_scratch *scratch, const void *encoded, size_t len_bytes, struct image_size *out,
                 struct error *err)
{
    CHECK_MAGIC(scratch, SCRATCH_MAGIC);
    struct decode_fault fault;
    struct rect whole;
    int rc = decode_open(scratch->decoder, encoded, len_bytes, &scratch->memory, &whole, &fault);
    decode_close(scratch->decoder);
    scratch_reset(&scratch->memory);
    if (rc)
        return error_set(err, rc, "%s", fault.error.text);
    *out = (struct image_size){.width = whole.width, .height = whole.height};
    return 0;
}

/* take_images adds the images of an output to the run, which has `count` so far, and returns how many it has then. */
static size_t take_images(struct run *run, size_t count, struct prepare_output *output)
{
    const struct pipeline *pipeline = output->pipeline;
    if (pipeline->n_views == 0)
        run->images[count++] = (struct run_image){.pipeline = pipeline, .output = output, .dst = output->dst};
    for (uint32_t i = 0; i < pipeline->n_views; i++)
        run->images[count++] = (struct run_image){.pipeline = pipeline->views[i],
                                                  .output = output,
                                                  .field = i,
                                                  .dst = (char *)output->dst + pipeline->layout.fields[i].offset};
    return count;
}

/* make_all makes the outputs, as many at once as a set of images holds. */
static void make_all(struct prepare_scratch *scratch, struct run *run, struct prepare_output *outputs, size_t n_outputs)
{
    size_t count = 0;
    for (size_t i = 0; i < n_outputs; i++) {
        const struct pipeline *pipeline = outputs[i].pipeline;
        outputs[i].reason = BAD_NONE;
        if (pipeline->layout.n == 0) {
            CHECK(run->encoded);
            memcpy(outputs[i].dst, run->encoded, run->len_bytes);
            continue;
        }
        if (count + pipeline->layout.n > RUN_IMAGES_MAX) {
            make(scratch, run, UINT64_MAX >> (RUN_IMAGES_MAX - count));
            count = 0;
        }
        count = take_images(run, count, &outputs[i]);
    }
    if (count)
        make(scratch, run, UINT64_MAX >> (RUN_IMAGES_MAX - count));
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
    struct run run = {.memory = &scratch->memory};
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
