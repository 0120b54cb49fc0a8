/* prepare.c: the order of things for one sample: header, plans, decode what they need, then each output.
 *
 * Outputs whose pipelines begin with the same operators, none of them random, share the work: outputs are followed
 * through their pipelines together for as long as they agree, and each goes on alone from where they part.
 *
 * What they share makes none of them fail that could be made by itself: where the rectangle that all need together
 * cannot be decoded, or the memory for all does not suffice, each is made again with a decode of its own. */
#include "preprocess/prepare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vips/vips.h>

#include "common/check.h"
#include "common/clock.h"
#include "preprocess/decode.h"
#include "preprocess/finish.h"
#include "preprocess/pipeline_priv.h"
#include "preprocess/pixels.h"
#include "preprocess/resample.h"
#include "preprocess/scratch.h"

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

/* The pixels that operators work on at some point: a rectangle, beginning at (x, y), of an image of width × height; or,
 * where the decoder divided that, of the smaller one. */
struct pixels {
    struct image image;
    uint32_t x, y, width, height;
    uint32_t divisor; /* 1, but for decoded pixels that a resize comes first to */
    bool own;         /* may be changed */
};

struct run {
    struct scratch *memory;
    const void *encoded;
    size_t len_bytes;
    struct prepare_output *outputs;
    struct op_plan *plans[PREPARE_OUTPUTS_MAX]; /* per output, one per operator */
};

/* Sets of outputs are bits: how many there may be. */
_Static_assert(PREPARE_OUTPUTS_MAX <= 64, "a set of outputs is 64 bits");

const char *bad_reason_name(enum bad_reason reason)
{
    static const char *const names[BAD_REASONS] = {"none",      "unreadable", "not_an_image", "corrupt",
                                                   "too_large", "no_memory",  "too_small"};
    return reason < BAD_REASONS ? names[reason] : "unknown";
}

/* A damaged file is reported as a bad sample, by name; libvips' own lines would say it again, without one. */
static void drop_log(const char *domain, GLogLevelFlags level, const char *text, void *data)
{
    (void)domain, (void)level, (void)text, (void)data;
}

int prepare_init(struct error *err)
{
    if (VIPS_INIT("larder"))
        return error_set(err, LARDER_EIO, "libvips cannot be initialised: %s", vips_error_buffer());
    vips_cache_set_max(0);
    vips_concurrency_set(1);
    vips_block_untrusted_set(TRUE);
    g_log_set_handler("VIPS", G_LOG_LEVEL_WARNING | G_LOG_LEVEL_MESSAGE | G_LOG_LEVEL_INFO | G_LOG_LEVEL_DEBUG,
                      drop_log, NULL);
    resample_select();
    return 0;
}

void prepare_shutdown(void)
{
    vips_shutdown();
}

int prepare_scratch_create(const struct prepare_limits *limits, struct prepare_scratch **out)
{
    struct prepare_scratch *scratch = xcalloc(1, sizeof *scratch);
    scratch->magic = SCRATCH_MAGIC;
    uint64_t max = limits->memory_max;
    if (max == 0)
        max = limits->pixels_max < UINT64_MAX / MEMORY_PER_PIXEL ? limits->pixels_max * MEMORY_PER_PIXEL : UINT64_MAX;
    if (limits->memory_max == 0 && max < MEMORY_AT_LEAST)
        max = MEMORY_AT_LEAST;
    scratch_init(&scratch->memory, max < SIZE_MAX / 2 ? (size_t)max : SIZE_MAX / 2, limits->budget);
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
    vips_thread_shutdown();
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

/* ── plans ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static const struct pipeline_op *op_at(const struct run *run, size_t output, uint32_t op)
{
    return &run->outputs[output].pipeline->ops[op];
}

static uint32_t n_ops(const struct run *run, size_t output)
{
    return run->outputs[output].pipeline->n_pixel_ops;
}

static void fail_outputs(struct run *run, uint64_t members, const struct decode_fault *fault)
{
    for (; members; members &= members - 1) {
        struct prepare_output *output = &run->outputs[__builtin_ctzll(members)];
        output->reason = fault->reason ? fault->reason : BAD_CORRUPT;
        output->err = fault->error;
    }
}

/* Plans the members; those that cannot be made of an image of this size fail, and are members no more. */
static int plan_all(struct run *run, uint32_t width, uint32_t height, uint64_t *members, struct decode_fault *fault)
{
    for (uint64_t left = *members; left; left &= left - 1) {
        int i = __builtin_ctzll(left);
        const struct prepare_output *output = &run->outputs[i];
        struct decode_fault too_small = {.reason = BAD_TOO_SMALL};
        run->plans[i] = scratch_take(run->memory, output->pipeline->n_ops * sizeof *run->plans[i]);
        if (!run->plans[i])
            return decode_fail(fault, BAD_NO_MEMORY, "out of memory");
        if (pipeline_plan(output->pipeline, output->key, width, height, run->plans[i], &too_small.error)) {
            fail_outputs(run, UINT64_C(1) << i, &too_small);
            *members &= ~(UINT64_C(1) << i);
        }
    }
    return 0;
}

/* ── operators, one after the other ──────────────────────────────────────────────────────────────────────────────── */

static uint32_t gather(const struct run *run, size_t output, uint32_t op, uint32_t end, struct geometry *geometry)
{
    return pipeline_gather(run->outputs[output].pipeline, run->plans[output], op, end, geometry);
}

/* Whether the output's last image can be made where it belongs: nothing from `op` on needs another one. */
static bool ends_here(const struct run *run, size_t output, uint32_t op)
{
    if (!run->outputs[output].pipeline->plain)
        return false;
    for (; op < n_ops(run, output); op++) {
        if (!run->plans[output][op].skip && !(op_at(run, output, op)->kind->flags & OP_IN_PLACE))
            return false;
    }
    return true;
}

/* Memory for an image that operators before `op` made: the output's own if it is the last one. */
static int make_room(struct run *run, size_t output, uint32_t op, bool last, uint32_t width, uint32_t height,
                     struct pixels *out)
{
    *out = (struct pixels){.width = width, .height = height, .divisor = 1, .own = true};
    if (last && ends_here(run, output, op)) {
        out->image = (struct image){run->outputs[output].dst, (size_t)width * IMAGE_CHANNELS, width, height};
        return 0;
    }
    return scratch_image(run->memory, width, height, &out->image);
}

static bool is_whole(const struct pixels *pixels)
{
    return pixels->image.width == pixels->width && pixels->image.height == pixels->height;
}

/* Runs operators [op, end) of an output on its pixels. last: they are the last ones, and the result, whole, is the
 * output's. */
static int walk(struct run *run, size_t output, uint32_t op, uint32_t end, bool last, struct pixels *pixels)
{
    bool settled = !last;
    while (op < end || !settled) {
        struct geometry geometry;
        geometry_start(&geometry, pixels->width, pixels->height);
        uint32_t next = gather(run, output, op, end, &geometry);
        if (pixels->divisor > 1)
            geometry_scale(&geometry, pixels->divisor);
        const struct pipeline_op *item = next < end ? op_at(run, output, next) : NULL;
        bool in_place = item && item->kind->flags & OP_IN_PLACE;
        bool settle = last && !item && run->outputs[output].pipeline->plain &&
                      pixels->image.data != run->outputs[output].dst;
        if (!geometry_is_idle(&geometry, pixels->width, pixels->height) || !is_whole(pixels) || settle ||
            (in_place && !pixels->own)) {
            struct pixels made;
            if (make_room(run, output, next, last, geometry.window.width, geometry.window.height, &made) ||
                resample(&geometry, &pixels->image, pixels->x, pixels->y, &made.image, run->memory))
                return LARDER_ENOMEM;
            *pixels = made;
        }
        CHECK(!item || item->kind->apply || next > op);
        op = next;
        settled = settled || !item;
        if (!item || !item->kind->apply) /* what can only join did not go with those before it, and begins a geometry */
            continue;
        const struct op_plan *plan = &run->plans[output][op];
        struct pixels made = *pixels;
        if (!in_place && make_room(run, output, op + 1, last, plan->out_width, plan->out_height, &made))
            return LARDER_ENOMEM;
        if (item->kind->apply(item->values, plan, &pixels->image, &made.image, run->memory))
            return LARDER_ENOMEM;
        *pixels = made;
        op++;
    }
    return 0;
}

/* ── outputs that go together ────────────────────────────────────────────────────────────────────────────────────── */

static bool deterministic(const struct pipeline_op *op)
{
    return !(op->kind->flags & OP_RANDOM);
}

static bool same_step(const struct run *run, size_t a, size_t b, uint32_t op)
{
    return op < n_ops(run, a) && op < n_ops(run, b) && deterministic(op_at(run, a, op)) &&
           strcmp(op_at(run, a, op)->canonical, op_at(run, b, op)->canonical) == 0;
}

/* Of the outputs in `members`, those that take the same steps as the first from `op` on; *end: how far together. */
static uint64_t companions(const struct run *run, uint64_t members, uint32_t op, uint32_t *end)
{
    size_t first = (size_t)__builtin_ctzll(members);
    uint64_t together = 0;
    for (uint64_t left = members; left; left &= left - 1) {
        size_t other = (size_t)__builtin_ctzll(left);
        if (other == first || same_step(run, first, other, op))
            together |= UINT64_C(1) << other;
    }
    *end = n_ops(run, first);
    if (!(together & (together - 1)))
        return together;
    uint32_t steps = op;
    for (bool all = true; all;) {
        steps++;
        for (uint64_t left = together; left; left &= left - 1)
            all = all && same_step(run, first, (size_t)__builtin_ctzll(left), steps);
    }
    *end = steps;
    return together;
}

/* Gives those for which there was not enough memory. */
static uint64_t run_outputs(struct run *run, uint64_t members, uint32_t op, const struct pixels *pixels)
{
    uint64_t failed = 0;
    while (members) {
        uint32_t end;
        uint64_t together = companions(run, members, op, &end);
        size_t first = (size_t)__builtin_ctzll(together);
        struct pixels mine = *pixels;
        mine.own = false;
        bool alone = !(together & (together - 1));
        const struct prepare_output *output = &run->outputs[first];
        int rc = walk(run, first, op, end, alone, &mine);
        if (rc == 0 && alone && !output->pipeline->plain)
            rc = finish(output->pipeline, run->plans[first], &mine.image, output->dst, run->memory);
        if (rc)
            failed |= together;
        else if (!alone)
            failed |= run_outputs(run, together, end, &mine);
        members &= ~together;
    }
    return failed;
}

static struct rect united(struct rect a, struct rect b)
{
    if (a.width == 0)
        return b;
    uint32_t x = a.x < b.x ? a.x : b.x, y = a.y < b.y ? a.y : b.y;
    uint32_t right = a.x + a.width > b.x + b.width ? a.x + a.width : b.x + b.width;
    uint32_t bottom = a.y + a.height > b.y + b.height ? a.y + a.height : b.y + b.height;
    return (struct rect){x, y, right - x, bottom - y};
}

/* What the outputs begin with, as far as it says what they look at. Calls `each` for every group that starts alike. */
static void each_start(const struct run *run, uint64_t members, struct rect whole,
                       void (*each)(struct geometry *geometry, void *context), void *context)
{
    while (members) {
        uint32_t end;
        uint64_t together = companions(run, members, 0, &end);
        struct geometry geometry;
        geometry_start(&geometry, whole.width, whole.height);
        gather(run, (size_t)__builtin_ctzll(together), 0, end, &geometry);
        each(&geometry, context);
        members &= ~together;
    }
}

static void least_scaling(struct geometry *geometry, void *context)
{
    uint32_t *least = context, scaling = geometry_scaling(geometry);
    *least = scaling < *least ? scaling : *least;
}

struct demand {
    uint32_t divisor;
    struct rect rect; /* that any output looks at */
};

static void unite(struct geometry *geometry, void *context)
{
    struct demand *demand = context;
    if (demand->divisor > 1)
        geometry_scale(geometry, demand->divisor);
    demand->rect = united(demand->rect, resample_needs(geometry));
}

/* ── a sample ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* lap adds the time since *from to a stage, and begins the next one. */
static void lap(uint64_t *stage, uint64_t *from)
{
    uint64_t now = clock_now_ns();
    *stage += now - *from;
    *from = now;
}

/* Makes the members with one decode; those that cannot be planned fail. Gives the others that were not made, and
 * why. */
static uint64_t make_together(struct prepare_scratch *scratch, struct run *run, struct rect whole, uint64_t members,
                              struct decode_fault *fault)
{
    struct prepare_times *times = scratch->times;
    uint64_t clock = times ? clock_now_ns() : 0;
    if (plan_all(run, whole.width, whole.height, &members, fault) || !members)
        return members;
    struct demand demand = {.divisor = 8};
    each_start(run, members, whole, least_scaling, &demand.divisor);
    if (demand.divisor > 1)
        demand.divisor = decode_scale(scratch->decoder, demand.divisor);
    each_start(run, members, whole, unite, &demand);
    struct pixels pixels = {.x = demand.rect.x, .y = demand.rect.y, .width = whole.width, .height = whole.height,
                            .divisor = demand.divisor};
    if (times)
        lap(&times->plan_ns, &clock);
    int rc = decode_reserve(scratch->decoder, demand.rect, fault);
    if (rc == 0)
        rc = decode_region(scratch->decoder, demand.rect, &pixels.image, fault);
    scratch->counts.decodes++;
    if (times)
        lap(&times->decode_ns, &clock);
    if (rc)
        return members;
    uint64_t failed = run_outputs(run, members, 0, &pixels);
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
    struct rect whole;
    uint64_t clock = scratch->times ? clock_now_ns() : 0, failed = members;
    *fault = (struct decode_fault){0};
    *opened = decode_open(scratch->decoder, run->encoded, run->len_bytes, run->memory, &whole, fault) == 0;
    if (scratch->times)
        lap(&scratch->times->open_ns, &clock);
    if (*opened)
        failed = make_together(scratch, run, whole, members, fault);
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
    do { /* what the budget refused for want of room is begun again when there is some */
        failed = try_members(scratch, run, members, &opened, &fault);
        verdict = scratch_wait(run->memory);
    } while (failed && verdict == SCRATCH_AGAIN);
    if (verdict == SCRATCH_NEVER)
        decode_fail(&fault, BAD_TOO_LARGE,
                    "decoding and preparing it takes more than the %zu MiB that one image can have of memory.scratch: raise "
                    "memory.scratch, or leave the file out",
                    scratch_budget_most(run->memory->budget) >> 20);
    if (!opened || !(members & (members - 1))) {
        fail_outputs(run, failed, &fault);
        return;
    }
    for (; failed; failed &= failed - 1) /* by what it shared with others: once more without them, and no further */
        make(scratch, run, failed & -failed);
}

int prepare_sample(struct prepare_scratch *scratch, const void *encoded, size_t len_bytes,
                   struct prepare_output *outputs, size_t n_outputs, enum bad_reason *reason, struct error *err)
{
    CHECK_MAGIC(scratch, SCRATCH_MAGIC);
    CHECK(n_outputs <= PREPARE_OUTPUTS_MAX);
    struct run run = {.memory = &scratch->memory, .encoded = encoded, .len_bytes = len_bytes, .outputs = outputs};
    const struct prepare_output *bad = NULL;
    uint64_t members = 0;
    for (size_t i = 0; i < n_outputs; i++) {
        outputs[i].reason = BAD_NONE;
        if (outputs[i].pipeline->n_ops)
            members |= UINT64_C(1) << i;
        else
            memcpy(outputs[i].dst, encoded, len_bytes);
    }
    if (members)
        make(scratch, &run, members);
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
