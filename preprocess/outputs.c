/* outputs.c: outputs from decoded pixels, operator by operator.
 *
 * Outputs whose pipelines begin with the same operators, none of them random, share the work: outputs are followed
 * through their pipelines together for as long as they agree, and each goes on alone from where they part. */
#include "preprocess/outputs.h"

#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "preprocess/finish.h"
#include "preprocess/masks.h"
#include "preprocess/pipeline_priv.h"
#include "preprocess/resample.h"

static const struct pipeline_op *op_at(const struct run *run, size_t output, uint32_t op)
{
    return &run->images[output].pipeline->ops[op];
}

static uint32_t n_ops(const struct run *run, size_t output)
{
    return run->images[output].pipeline->n_pixel_ops;
}

/* ── operators, one after the other ──────────────────────────────────────────────────────────────────────────────── */

static uint32_t gather(const struct run *run, size_t output, uint32_t op, uint32_t end, struct geometry *geometry)
{
    return pipeline_gather(run->images[output].pipeline, run->plans[output], op, end, geometry);
}

/* Whether the output's last image can be made where it belongs: nothing from `op` on needs another one. */
static bool ends_here(const struct run *run, size_t output, uint32_t op)
{
    if (!run->images[output].pipeline->plain)
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
        out->image = (struct image){run->images[output].dst, (size_t)width * IMAGE_CHANNELS, width, height};
        return 0;
    }
    return scratch_image(run->memory, width, height, &out->image);
}

static int apply_geometry(struct run *run, const struct geometry *geometry, const struct pixels *pixels,
                          const struct image *out)
{
    if (!pixels->rows)
        return resample(geometry, &pixels->image, pixels->x, pixels->y, out, run->memory);
    resample_columns(pixels->rows, out);
    return 0;
}

static bool is_whole(const struct pixels *pixels)
{
    return !pixels->rows && pixels->image.width == pixels->width && pixels->image.height == pixels->height;
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
        bool settle = last && !item && run->images[output].pipeline->plain &&
                      pixels->image.data != run->images[output].dst;
        if (!geometry_is_idle(&geometry, pixels->width, pixels->height) || !is_whole(pixels) || settle ||
            (in_place && !pixels->own)) {
            struct pixels made;
            if (make_room(run, output, next, last, geometry.window.width, geometry.window.height, &made) ||
                apply_geometry(run, &geometry, pixels, &made.image))
                return LARDER_ENOMEM;
            *pixels = made;
        }
        CHECK(!item || item->kind->apply || next > op);
        op = next;
        settled = settled || !item;
        /* an operator that can only join did not fit the geometry before it, and begins a new one */
        if (!item || !item->kind->apply)
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
    return !pipeline_op_is_random(op);
}

static bool same_step(const struct run *run, size_t a, size_t b, uint32_t op)
{
    bool masks = run->images[a].pipeline->is_mask; /* whose operators may have other arguments than they say */
    return !masks && op < n_ops(run, a) && op < n_ops(run, b) && deterministic(op_at(run, a, op)) &&
           strcmp(op_at(run, a, op)->canonical, op_at(run, b, op)->canonical) == 0;
}

/* Returns those of `members` that take the same steps as the first one from `op` on. *end is where the shared steps
 * end. */
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

/* make_steps runs operators [op, end) for the first of the members that share them. alone: they are its last ones, and
 * its image is made. */
static int make_steps(struct run *run, size_t first, uint32_t op, uint32_t end, bool alone, struct pixels *mine)
{
    const struct run_image *output = &run->images[first];
    uint64_t began_ns = run->timed && alone ? clock_thread_ns() : 0;
    int rc = walk(run, first, op, end, alone, mine);
    if (rc == 0 && output->pipeline->is_mask)
        mask_store(output->pipeline, &mine->image, output->dst);
    else if (rc == 0 && alone && !output->pipeline->plain)
        rc = finish(output->pipeline, run->plans[first], &mine->image, output->dst, run->memory);
    if (run->timed && alone)
        output->output->own_ns += clock_thread_ns() - began_ns;
    return rc;
}

/* Makes the members from operator `op` on. Gives those for which there was not enough memory. */
static uint64_t make_from(struct run *run, uint64_t members, uint32_t op, const struct pixels *pixels)
{
    uint64_t failed = 0;
    while (members) {
        uint32_t end;
        uint64_t together = companions(run, members, op, &end);
        size_t first = (size_t)__builtin_ctzll(together);
        struct pixels mine = *pixels;
        mine.own = false;
        bool alone = !(together & (together - 1));
        int rc = make_steps(run, first, op, end, alone, &mine);
        if (rc)
            failed |= together;
        else if (!alone)
            failed |= make_from(run, together, end, &mine);
        members &= ~together;
    }
    return failed;
}

uint64_t outputs_make(struct run *run, uint64_t members, const struct pixels *pixels)
{
    return make_from(run, members, 0, pixels);
}

/* ── what they begin with ────────────────────────────────────────────────────────────────────────────────────────── */

static struct rect united(struct rect a, struct rect b)
{
    if (a.width == 0)
        return b;
    uint32_t x = a.x < b.x ? a.x : b.x, y = a.y < b.y ? a.y : b.y;
    uint32_t right = a.x + a.width > b.x + b.width ? a.x + a.width : b.x + b.width;
    uint32_t bottom = a.y + a.height > b.y + b.height ? a.y + a.height : b.y + b.height;
    return (struct rect){x, y, right - x, bottom - y};
}

/* Calls `each` with the first geometry of every group of outputs that start alike: it says which pixels they look
 * at. */
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

uint32_t outputs_scaling(const struct run *run, uint64_t members, struct rect whole)
{
    uint32_t least = GEOMETRY_SCALING_MAX;
    each_start(run, members, whole, least_scaling, &least);
    return least;
}

bool outputs_first(const struct run *run, uint64_t members, struct rect whole, struct geometry *geometry)
{
    uint32_t end;
    if (companions(run, members, 0, &end) != members)
        return false;
    geometry_start(geometry, whole.width, whole.height);
    gather(run, (size_t)__builtin_ctzll(members), 0, end, geometry);
    return resample_takes_rows(geometry);
}

struct demand {
    uint32_t divisor;
    struct rect rect; /* contains all pixels that some output looks at */
};

static void unite(struct geometry *geometry, void *context)
{
    struct demand *demand = context;
    if (demand->divisor > 1)
        geometry_scale(geometry, demand->divisor);
    demand->rect = united(demand->rect, resample_needs(geometry));
}

struct rect outputs_needs(const struct run *run, uint64_t members, struct rect whole, uint32_t divisor)
{
    struct demand demand = {.divisor = divisor};
    each_start(run, members, whole, unite, &demand);
    return demand.rect;
}
