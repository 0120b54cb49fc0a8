/* sample_masks.c: masks of instances as bytes. See sample_masks.h. */
#include "common/sample_masks.h"

#include "common/little_endian.h"
#include "common/sample_rows.h"

static struct mask_shape read_shape(const uint8_t *at)
{
    return (struct mask_shape){.mask = get_u32(at),
                               .height = get_u32(at + 4),
                               .width = get_u32(at + 8),
                               .count = get_u32(at + 12),
                               .numbers = at + MASK_SHAPE_HEAD_BYTES};
}

int32_t mask_shape_at(const struct mask_shape *shape, uint32_t i)
{
    return (int32_t)get_u32((const uint8_t *)shape->numbers + (size_t)i * sizeof(uint32_t));
}

/* Whether runs are as long together as their image, or a polygon has corners that may be. */
static bool is_sound(const struct mask_shape *shape)
{
    uint64_t together = 0, pixels = (uint64_t)shape->height * shape->width;
    if (pixels == 0 && (shape->height || shape->width || shape->count % 2 || shape->count == 0))
        return false;
    for (uint32_t i = 0; i < shape->count; i++) {
        int32_t number = mask_shape_at(shape, i);
        together += (uint32_t)number;
        if (pixels ? number < 0 : number < -SAMPLE_FIFTHS_MAX || number > SAMPLE_FIFTHS_MAX)
            return false;
    }
    return pixels == 0 || together == pixels;
}

int sample_masks_read(const void *bytes, size_t len_bytes, struct sample_masks *out, struct error *err)
{
    const uint8_t *at = bytes, *end = at + len_bytes;
    if (len_bytes < SAMPLE_MASKS_HEAD_BYTES)
        return error_set(err, LARDER_EFORMAT, "it is no masks");
    struct sample_masks masks = {.count = get_u32(at), .shapes = get_u32(at + 4), .next = at + SAMPLE_MASKS_HEAD_BYTES};
    bool sound = masks.count <= SAMPLE_ROWS_MAX && masks.shapes <= SAMPLE_SHAPES_MAX;
    uint32_t before = 0;
    at = masks.next;
    for (uint32_t i = 0; i < masks.shapes && sound; i++) {
        sound = end - at >= MASK_SHAPE_HEAD_BYTES;
        if (!sound)
            break;
        struct mask_shape shape = read_shape(at);
        at += MASK_SHAPE_HEAD_BYTES;
        sound = shape.mask < masks.count && shape.mask >= before &&
                shape.count <= (size_t)(end - at) / sizeof(uint32_t) && is_sound(&shape);
        before = shape.mask;
        at += sound ? (size_t)shape.count * sizeof(uint32_t) : 0;
    }
    if (!sound || at != end)
        return error_set(err, LARDER_EFORMAT, "it is no masks, or is damaged");
    *out = masks;
    return 0;
}

struct mask_shape sample_masks_next(struct sample_masks *masks)
{
    struct mask_shape shape = read_shape(masks->next);
    masks->next += MASK_SHAPE_HEAD_BYTES + (size_t)shape.count * sizeof(uint32_t);
    return shape;
}

uint8_t *sample_masks_write(uint32_t count, uint32_t shapes, uint8_t *to)
{
    return put_u32(put_u32(to, count), shapes);
}

uint8_t *mask_shape_write(const struct mask_shape *shape, uint8_t *to)
{
    return put_u32(put_u32(put_u32(put_u32(to, shape->mask), shape->height), shape->width), shape->count);
}
