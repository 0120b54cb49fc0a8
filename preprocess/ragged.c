#include "preprocess/ragged.h"

#include <string.h>

#include "preprocess/pipeline_priv.h"

void ragged_begin(struct prepare_output *output)
{
    output->room = output->room ? output->room : output->pipeline->layout.bytes;
    output->bytes = sample_head_bytes(output->pipeline->layout.n);
    memset(output->dst, 0, output->bytes);
}

/* fill puts the last of `values`, as many as dims differ, in their places, and returns how many bytes the field takes.
 */
static uint64_t fill(const struct sample_field *field, const uint32_t *values, struct field_place *place)
{
    uint64_t bytes = pixel_dtype_bytes(field->dtype);
    for (uint32_t i = 0; i < field->rank; i++) {
        place->dims[i] = field->dims[i] ? field->dims[i] : *values++;
        bytes *= place->dims[i];
    }
    return bytes;
}

static int find_room(struct prepare_output *output, uint32_t number, const uint32_t *values, void **dst,
                     struct error *err)
{
    const struct sample_layout *layout = &output->pipeline->layout;
    struct field_place place = sample_head_get(output->dst, number);
    if (place.offset == 0) { /* it may be made again, after it had to wait for memory */
        uint64_t bytes = fill(&layout->fields[number], values, &place);
        place.offset = (uint32_t)output->bytes;
        bytes = (bytes + FIELD_PLACE_ALIGN - 1) / FIELD_PLACE_ALIGN * FIELD_PLACE_ALIGN;
        if (bytes > output->room - output->bytes)
            return error_set(err, LARDER_EQUOTA,
                             "%s would be %u × %u, and samples have room for %llu pixels: give ragged=PIXELS, the most "
                             "that an image has in the end",
                             layout->fields[number].name, values[0], values[1],
                             (unsigned long long)output->pipeline->most_pixels);
        sample_head_put(output->dst, number, &place);
        output->bytes += bytes;
    }
    *dst = (char *)output->dst + place.offset;
    return 0;
}

int ragged_image(struct prepare_output *output, uint32_t field, struct image_size size, void **dst, struct error *err)
{
    const uint32_t values[] = {size.height, size.width};
    return find_room(output, field, values, dst, err);
}

int ragged_rows(struct prepare_output *output, uint32_t field, uint32_t count, struct image_size size, void **dst,
                struct error *err)
{
    const uint32_t values[] = {count, size.height, size.width};
    return find_room(output, field, values, dst, err);
}
