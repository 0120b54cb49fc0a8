#include "preprocess/decode/decoded.h"

#include "common/blocks.h"
#include "common/check.h"
#include "preprocess/decode/jpeg_color.h"

#define MAGIC UINT32_C(0x64636f64)
#define BLOCK 8 /* rows and columns of a block of a JPEG */
/* Vector code may read this many bytes behind the last plane of a JPEG. */
#define BEHIND 64

static size_t round_up(size_t value, size_t to)
{
    return (value + to - 1) / to * to;
}

static void lay_out(struct decoded *form)
{
    size_t at = round_up(sizeof *form, SCRATCH_ALIGN);
    form->offset[0] = at;
    switch (form->kind) {
    case DECODED_RGB:
        form->stride[0] = (size_t)form->width * IMAGE_CHANNELS;
        at += form->stride[0] * (form->height + (size_t)IMAGE_SLACK_ROWS) + IMAGE_SLACK_BYTES;
        break;
    case DECODED_GREY:
        form->stride[0] = round_up(form->width, BLOCK);
        at += form->stride[0] * round_up(form->height, BLOCK) + BEHIND;
        break;
    case DECODED_HALVED:
        form->stride[0] = round_up(form->width, (size_t)2 * BLOCK);
        at += form->stride[0] * round_up(form->height, (size_t)2 * BLOCK);
        for (int i = 1; i < DECODED_PLANES_MAX; i++) {
            form->offset[i] = at;
            form->stride[i] = form->stride[0] / 2 + JPEG_COLOR_BEHIND;
            at += form->stride[i] * (round_up(form->height, (size_t)2 * BLOCK) / 2);
        }
        at += BEHIND;
        break;
    }
    form->bytes = at;
}

size_t decoded_bytes(enum decoded_kind kind, uint32_t width, uint32_t height)
{
    struct decoded form = {.kind = kind, .width = width, .height = height};
    lay_out(&form);
    return form.bytes;
}

struct decoded *decoded_create(enum decoded_kind kind, uint32_t width, uint32_t height)
{
    struct decoded *form = blocks_take(decoded_bytes(kind, width, height));
    if (!form)
        return NULL;
    *form = (struct decoded){.magic = MAGIC, .kind = kind, .width = width, .height = height};
    lay_out(form);
    return form;
}

static const uint8_t *row_of(const struct decoded *form, int plane, uint32_t y)
{
    return decoded_plane(form, plane) + form->stride[plane] * y;
}

static int grey_region(const struct decoded *form, struct rect rect, struct scratch *scratch, struct image *out)
{
    int rc = scratch_image(scratch, rect.width, rect.height, out);
    for (uint32_t y = 0; !rc && y < rect.height; y++) {
        const uint8_t *from = row_of(form, 0, rect.y + y) + rect.x;
        uint8_t *to = image_row(out, y);
        for (uint32_t x = 0; x < rect.width; x++)
            to[3 * x] = to[3 * x + 1] = to[3 * x + 2] = from[x];
    }
    return rc;
}

static int halved_region(const struct decoded *form, struct rect rect, struct scratch *scratch, struct image *out)
{
    uint32_t left = jpeg_color_left(rect.x), width = rect.x + rect.width - left;
    int rc = scratch_image(scratch, (uint32_t)round_up(width, JPEG_COLOR_COLUMNS), rect.height, out);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < rect.height; i++) {
        uint32_t y = rect.y + i, near = y / 2, other = jpeg_color_other(y, form->height);
        struct jpeg_color_row row = {
            .luma = row_of(form, 0, y) + left,
            .blue = {row_of(form, 1, near) + left / 2, row_of(form, 1, other) + left / 2},
            .red = {row_of(form, 2, near) + left / 2, row_of(form, 2, other) + left / 2},
        };
        jpeg_color_row(&row, width, image_row(out, i));
    }
    out->data += (size_t)(rect.x - left) * IMAGE_CHANNELS;
    out->width = rect.width;
    return 0;
}

int decoded_region(const struct decoded *form, struct rect rect, struct scratch *scratch, struct image *out)
{
    CHECK_MAGIC(form, MAGIC);
    if (form->kind == DECODED_GREY)
        return grey_region(form, rect, scratch, out);
    if (form->kind == DECODED_HALVED)
        return halved_region(form, rect, scratch, out);
    *out = (struct image){.data = decoded_plane(form, 0) + form->stride[0] * rect.y + (size_t)rect.x * IMAGE_CHANNELS,
                          .stride = form->stride[0],
                          .width = rect.width,
                          .height = rect.height};
    return 0;
}
