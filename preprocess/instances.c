/* instances.c: masks of instances. See instances.h. Shapes are drawn in images, as many as go together in one. These
 * are moved by the pipeline as the image is, and then taken apart again. */
#include "preprocess/instances.h"

#include <string.h>

#include "preprocess/mask_shapes.h"
#include "preprocess/outputs.h"

/* The masks under way, and the shapes that are drawn together. */
struct drawn {
    const struct instances *wanted;
    struct mask_canvas canvas;
    struct image_size size; /* in the end */
    uint8_t *moved;         /* the canvas in the end */
    uint8_t *line;          /* room for a row of one color */
    uint8_t *masks;
    uint32_t of[MASK_SHAPES_TOGETHER]; /* which mask each shape is of */
    uint32_t count;
    struct run run;
};

static int no_memory(struct decode_fault *fault)
{
    return decode_fail(fault, BAD_NO_MEMORY, "preparing it takes more memory than is allowed for one sample");
}

/* pick_color copies one color of a row of pixels, and returns which bits its values have. */
static uint8_t pick_color(const uint8_t *row, size_t width, uint8_t *line)
{
    uint8_t bits = 0;
    for (size_t x = 0; x < width; x++) {
        line[x] = row[x * IMAGE_CHANNELS];
        bits |= line[x];
    }
    return bits;
}

/* take_apart adds the shapes to their masks. Most shapes are in few of the rows. */
static void take_apart(struct drawn *drawn)
{
    size_t width = drawn->size.width, pixels = width * drawn->size.height;
    const uint8_t *line = drawn->line;
    for (uint32_t y = 0; y < drawn->size.height; y++) {
        const uint8_t *row = drawn->moved + y * width * IMAGE_CHANNELS;
        uint8_t bits = 0;
        for (uint32_t i = 0; i < drawn->count; i++) {
            if (i % 8 == 0)
                bits = pick_color(row + i / 8, width, drawn->line);
            if (!(bits >> i % 8 & 1))
                continue;
            uint8_t *mask = drawn->masks + drawn->of[i] * pixels + y * width;
            for (size_t x = 0; x < width; x++)
                mask[x] |= line[x] >> i % 8 & 1;
        }
    }
}

/* finish makes what was drawn the masks', and begins anew. */
static int finish_drawn(struct drawn *drawn, struct decode_fault *fault)
{
    const struct rect *rect = &drawn->canvas.rect;
    const struct pixels pixels = {.image = drawn->canvas.image,
                                  .x = rect->x,
                                  .y = rect->y,
                                  .width = drawn->wanted->size.width,
                                  .height = drawn->wanted->size.height,
                                  .divisor = 1};
    mask_canvas_fill(&drawn->canvas);
    if (outputs_make(&drawn->run, 1, &pixels))
        return no_memory(fault);
    take_apart(drawn);
    drawn->count = 0;
    mask_canvas_clear(&drawn->canvas);
    return 0;
}

static int draw(struct drawn *drawn, const struct mask_shape *shape, uint32_t mask, struct decode_fault *fault)
{
    const struct image_size *size = &drawn->wanted->size;
    if (shape->height && (shape->height != size->height || shape->width != size->width))
        return decode_fail(fault, BAD_OTHER_SIZE, "mask %u is of an image of %u × %u pixels, and it has %u × %u",
                           shape->mask, shape->width, shape->height, size->width, size->height);
    if (mask_canvas_outline(&drawn->canvas, shape, drawn->count))
        return decode_fail(fault, BAD_TOO_LARGE, "the outlines of its masks are too long");
    drawn->of[drawn->count++] = mask;
    return drawn->count == MASK_SHAPES_TOGETHER ? finish_drawn(drawn, fault) : 0;
}

static int draw_all(struct drawn *drawn, struct decode_fault *fault)
{
    const struct instances *wanted = drawn->wanted;
    struct sample_masks left = *wanted->stored;
    uint32_t mask = 0;
    int rc = 0;
    for (uint32_t i = 0; i < left.shapes && rc == 0; i++) {
        struct mask_shape shape = sample_masks_next(&left);
        while (mask < wanted->count && (wanted->from ? wanted->from[mask] : mask) < shape.mask)
            mask++;
        if (mask < wanted->count && (wanted->from ? wanted->from[mask] : mask) == shape.mask)
            rc = draw(drawn, &shape, mask, fault);
    }
    return rc == 0 && drawn->count ? finish_drawn(drawn, fault) : rc;
}

int instances_make(const struct instances *wanted, void *dst, struct scratch *memory, struct decode_fault *fault)
{
    struct drawn *drawn = scratch_take(memory, sizeof *drawn);
    struct rect whole = {.width = wanted->size.width, .height = wanted->size.height};
    struct prepare_output output = {.pipeline = wanted->pipeline};
    if (!drawn)
        return no_memory(fault);
    *drawn = (struct drawn){.wanted = wanted,
                            .size = pipeline_size(wanted->pipeline, wanted->plans, wanted->size),
                            .masks = dst,
                            .run = {.memory = memory, .masks = true, .count = 1}};
    drawn->moved = scratch_take(memory,
                                (size_t)drawn->size.width * drawn->size.height * IMAGE_CHANNELS + IMAGE_SLACK_BYTES);
    drawn->line = scratch_take(memory, drawn->size.width);
    drawn->run.images[0] = (struct run_image){.pipeline = wanted->pipeline, .output = &output, .dst = drawn->moved};
    drawn->run.plans[0] = wanted->plans;
    for (uint32_t i = 0; i < wanted->pipeline->n_ops; i++) /* the plans are the image's */
        wanted->plans[i].skip = wanted->plans[i].skip || wanted->pipeline->ops[i].idle;
    struct rect needed = outputs_needs(&drawn->run, 1, whole, 1);
    drawn->canvas = (struct mask_canvas){.rect = needed, .height = whole.height};
    if (!drawn->moved || !drawn->line || scratch_image(memory, needed.width, needed.height, &drawn->canvas.image))
        return no_memory(fault);
    memset(dst, 0, (size_t)wanted->count * drawn->size.width * drawn->size.height);
    mask_canvas_clear(&drawn->canvas);
    return draw_all(drawn, fault);
}
