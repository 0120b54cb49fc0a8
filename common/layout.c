/* layout.c: makes and checks layouts of samples. */
#include "common/layout.h"

#include <stdio.h>
#include <string.h>

#include "common/little_endian.h"

static const char *const kind_names[] = {
    [FIELD_IMAGE_HWC] = "HWC", [FIELD_IMAGE_CHW] = "CHW", [FIELD_ARRAY] = "array", [FIELD_MASK] = "HW"};
static const char *const dtype_names[] = {
    [PIXEL_UINT8] = "uint8",   [PIXEL_FLOAT16] = "float16", [PIXEL_FLOAT32] = "float32", [PIXEL_INT16] = "int16",
    [PIXEL_UINT16] = "uint16", [PIXEL_INT32] = "int32",     [PIXEL_INT64] = "int64",     [PIXEL_FLOAT64] = "float64"};
static const uint32_t kind_ranks[] = {
    [FIELD_IMAGE_HWC] = 3, [FIELD_IMAGE_CHW] = 3, [FIELD_ARRAY] = 0, [FIELD_MASK] = 2}; /* 0: any */

#define KINDS (sizeof kind_names / sizeof *kind_names)
#define DTYPES (sizeof dtype_names / sizeof *dtype_names)
#define IMAGE_RANK 3

uint32_t pixel_dtype_bytes(enum pixel_dtype dtype)
{
    static const uint32_t bytes[DTYPES] = {
        [PIXEL_UINT8] = 1,  [PIXEL_FLOAT16] = 2, [PIXEL_FLOAT32] = 4, [PIXEL_INT16] = 2,
        [PIXEL_UINT16] = 2, [PIXEL_INT32] = 4,   [PIXEL_INT64] = 8,   [PIXEL_FLOAT64] = 8};
    return (size_t)dtype < DTYPES ? bytes[dtype] : 0;
}

bool sample_layout_is_ragged(const struct sample_layout *layout)
{
    for (uint32_t i = 0; i < layout->n; i++) {
        for (uint32_t j = 0; j < layout->fields[i].rank && j < SAMPLE_DIMS_MAX; j++) {
            if (layout->fields[i].dims[j] == 0)
                return true;
        }
    }
    return false;
}

/* ── heads of slots ──────────────────────────────────────────────────────────────────────────────────────────────── */

uint64_t sample_head_bytes(uint32_t n)
{
    uint64_t bytes = (uint64_t)n * FIELD_PLACE_BYTES;
    return (bytes + FIELD_PLACE_ALIGN - 1) / FIELD_PLACE_ALIGN * FIELD_PLACE_ALIGN;
}

void sample_head_put(void *slot, uint32_t field, const struct field_place *place)
{
    uint8_t *at = (uint8_t *)slot + (size_t)field * FIELD_PLACE_BYTES;
    memset(at, 0, FIELD_PLACE_BYTES);
    at = put_u32(at, place->offset);
    for (uint32_t i = 0; i < SAMPLE_DIMS_MAX; i++)
        at = put_u32(at, place->dims[i]);
}

struct field_place sample_head_get(const void *slot, uint32_t field)
{
    const uint8_t *at = (const uint8_t *)slot + (size_t)field * FIELD_PLACE_BYTES;
    struct field_place place = {.offset = get_u32(at)};
    for (uint32_t i = 0; i < SAMPLE_DIMS_MAX; i++)
        place.dims[i] = get_u32(at + (i + 1) * sizeof(uint32_t));
    return place;
}

bool sample_head_check(const struct sample_layout *layout, uint32_t number, const struct field_place *place,
                       uint64_t bytes)
{
    const struct sample_field *field = &layout->fields[number];
    uint64_t length = pixel_dtype_bytes(field->dtype);
    for (uint32_t i = 0; i < SAMPLE_DIMS_MAX; i++) {
        bool differs = i < field->rank && field->dims[i] == 0;
        if (!differs && place->dims[i] != field->dims[i])
            return false;
        if (i < field->rank && place->dims[i] && length > bytes / place->dims[i])
            return false;
        length *= i < field->rank ? place->dims[i] : 1;
    }
    return place->offset >= sample_head_bytes(layout->n) && place->offset % FIELD_PLACE_ALIGN == 0 &&
           place->offset <= bytes && length <= bytes - place->offset;
}

/* ── images ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

struct sample_layout sample_layout_of_image(const struct image_shape *image)
{
    bool planar = image->layout == LAYOUT_CHW;
    const uint32_t dims[IMAGE_RANK] = {planar ? image->channels : image->height, planar ? image->height : image->width,
                                       planar ? image->width : image->channels};
    struct sample_layout layout = {
        .n = 1,
        .fields = {{.name = "image",
                    .kind = planar ? FIELD_IMAGE_CHW : FIELD_IMAGE_HWC,
                    .dtype = image->dtype,
                    .rank = IMAGE_RANK,
                    .dims = {dims[0], dims[1], dims[2]}}},
        .bytes = (uint64_t)dims[0] * dims[1] * dims[2] * pixel_dtype_bytes(image->dtype),
    };
    return layout;
}

struct sample_layout sample_layout_of_array(const char *name, enum pixel_dtype dtype, uint32_t rank,
                                            const uint32_t *dims)
{
    struct sample_layout layout = {.n = 1, .bytes = pixel_dtype_bytes(dtype)};
    struct sample_field *field = &layout.fields[0];
    memcpy(field->name, name, strnlen(name, SAMPLE_NAME_BYTES - 1));
    field->kind = FIELD_ARRAY;
    field->dtype = dtype;
    field->rank = rank;
    for (uint32_t i = 0; i < rank; i++) {
        field->dims[i] = dims[i];
        layout.bytes *= dims[i];
    }
    return layout;
}

bool sample_layout_image(const struct sample_layout *layout, struct image_shape *out)
{
    const struct sample_field *field = &layout->fields[0];
    if (layout->n != 1 || field->offset != 0 || sample_layout_is_ragged(layout) ||
        (field->kind != FIELD_IMAGE_HWC && field->kind != FIELD_IMAGE_CHW))
        return false;
    bool planar = field->kind == FIELD_IMAGE_CHW;
    *out = (struct image_shape){.height = field->dims[planar ? 1 : 0],
                                .width = field->dims[planar ? 2 : 1],
                                .channels = field->dims[planar ? 0 : 2],
                                .dtype = field->dtype,
                                .layout = planar ? LAYOUT_CHW : LAYOUT_HWC};
    return true;
}

/* ── checks ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool is_name(const char *name)
{
    size_t len = strnlen(name, SAMPLE_NAME_BYTES);
    if (len == SAMPLE_NAME_BYTES || name[0] < 'a' || name[0] > 'z')
        return false;
    for (size_t i = 1; i < SAMPLE_NAME_BYTES; i++) {
        bool word = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= '0' && name[i] <= '9') || name[i] == '_';
        if (i < len ? !word : name[i] != 0)
            return false;
    }
    return true;
}

/* find_bytes finds how long a field is. False: that does not fit in a slot. */
static bool find_bytes(const struct sample_field *field, uint64_t *out)
{
    uint64_t bytes = pixel_dtype_bytes(field->dtype);
    for (uint32_t i = 0; i < field->rank; i++) {
        if (field->dims[i] > UINT32_MAX / bytes)
            return false;
        bytes *= field->dims[i];
    }
    *out = bytes;
    return true;
}

/* fits_kind says whether numbers of this type can be those of a field: images have no whole numbers but those of 8
 * bits, and masks some of the whole ones alone. */
static bool fits_kind(const struct sample_field *field)
{
    if (field->kind == FIELD_ARRAY)
        return (size_t)field->dtype < DTYPES;
    if (field->kind == FIELD_MASK)
        return field->dtype == PIXEL_UINT8 || field->dtype == PIXEL_INT32 || field->dtype == PIXEL_INT64;
    return (size_t)field->dtype <= PIXEL_FLOAT32;
}

/* is_channels says whether a dim of a field is an image's channels. */
static bool is_channels(const struct sample_field *field, uint32_t dim)
{
    return field_is_image(field) && dim == (field->kind == FIELD_IMAGE_CHW ? 0 : 2);
}

/* check_array says whether a field is an array that can be. Its name is sound. Of a ragged layout dims may be 0. */
static int check_array(const struct sample_field *field, bool ragged, struct error *err)
{
    if ((size_t)field->kind >= KINDS)
        return error_set(err, LARDER_EINVAL, "field %s is of kind %u, which is unknown", field->name, field->kind);
    if (!fits_kind(field))
        return error_set(err, LARDER_EINVAL, "field %s has dtype %u, which is unknown or not for its kind", field->name,
                         field->dtype);
    uint32_t rank = kind_ranks[field->kind];
    if (rank && field->rank != rank)
        return error_set(err, LARDER_EINVAL, "field %s is %s with %u dims, not %u", field->name,
                         field->kind == FIELD_MASK ? "a mask" : "an image", field->rank, rank);
    if (field->rank == 0 || field->rank > SAMPLE_DIMS_MAX)
        return error_set(err, LARDER_EINVAL, "field %s has %u dims, not 1 to %d", field->name, field->rank,
                         SAMPLE_DIMS_MAX);
    for (uint32_t i = 0; i < SAMPLE_DIMS_MAX; i++) {
        bool may_differ = ragged && i < field->rank && !is_channels(field, i);
        if ((field->dims[i] != 0) != (i < field->rank) && !may_differ)
            return error_set(err, LARDER_EINVAL, "field %s has %u dims, and dim %u is %u", field->name, field->rank, i,
                             field->dims[i]);
    }
    return 0;
}

/* check_place says whether field i lies behind the one before it, which ends at *end, and moves *end on. */
static int check_place(const struct sample_layout *layout, uint32_t i, uint64_t *end, struct error *err)
{
    const struct sample_field *field = &layout->fields[i];
    uint32_t number_bytes = pixel_dtype_bytes(field->dtype);
    uint64_t bytes = 0;
    if (!find_bytes(field, &bytes) || bytes > UINT32_MAX - field->offset)
        return error_set(err, LARDER_EINVAL, "field %s ends beyond 4 GiB", field->name);
    if (field->offset % number_bytes)
        return error_set(err, LARDER_EINVAL, "field %s begins at byte %u, which is no multiple of %u", field->name,
                         field->offset, number_bytes);
    if (field->offset < *end)
        return error_set(err, LARDER_EINVAL, "field %s begins at byte %u, and field %s before it ends at %llu",
                         field->name, field->offset, layout->fields[i - 1].name, (unsigned long long)*end);
    *end = field->offset + bytes;
    return 0;
}

/* check_ragged is check_place for all fields of a ragged layout. */
static int check_ragged(const struct sample_layout *layout, struct error *err)
{
    for (uint32_t i = 0; i < layout->n; i++) {
        if (layout->fields[i].offset)
            return error_set(err, LARDER_EINVAL, "field %s has an offset, and samples differ in size",
                             layout->fields[i].name);
    }
    if (layout->bytes < sample_head_bytes(layout->n) || layout->bytes > UINT32_MAX)
        return error_set(err, LARDER_EINVAL, "samples that differ in size take at most %llu bytes: not %llu to 4 GiB",
                         (unsigned long long)layout->bytes, (unsigned long long)sample_head_bytes(layout->n));
    return 0;
}

int sample_layout_check(const struct sample_layout *layout, struct error *err)
{
    uint64_t end = 0;
    bool ragged = layout->n <= SAMPLE_FIELDS_MAX && layout->bytes && sample_layout_is_ragged(layout);
    if (layout->n > SAMPLE_FIELDS_MAX)
        return error_set(err, LARDER_EINVAL, "a sample has %u fields, more than the %d allowed", layout->n,
                         SAMPLE_FIELDS_MAX);
    for (uint32_t i = 0; i < layout->n; i++) {
        const char *name = layout->fields[i].name;
        if (!is_name(name))
            return error_set(err, LARDER_EINVAL, "field %u has no name of 1 to %d lower-case letters, digits and _", i,
                             SAMPLE_NAME_BYTES - 1);
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(name, layout->fields[j].name) == 0)
                return error_set(err, LARDER_EINVAL, "two fields are called %s", name);
        }
        int rc = check_array(&layout->fields[i], ragged, err);
        if (rc == 0 && !ragged)
            rc = check_place(layout, i, &end, err);
        if (rc)
            return rc;
    }
    if (ragged)
        return check_ragged(layout, err);
    if (end != layout->bytes)
        return error_set(err, LARDER_EINVAL, "the fields of a sample of %llu bytes end at byte %llu",
                         (unsigned long long)layout->bytes, (unsigned long long)end);
    return 0;
}

/* ── what else is asked of one ───────────────────────────────────────────────────────────────────────────────────── */

bool sample_layout_same(const struct sample_layout *a, const struct sample_layout *b)
{
    if (a->n != b->n || a->bytes != b->bytes)
        return false;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct sample_field *of_a = &a->fields[i], *of_b = &b->fields[i];
        if (memcmp(of_a->name, of_b->name, sizeof of_a->name) != 0 || of_a->kind != of_b->kind ||
            of_a->dtype != of_b->dtype || of_a->rank != of_b->rank || of_a->offset != of_b->offset ||
            memcmp(of_a->dims, of_b->dims, sizeof of_a->dims) != 0)
            return false;
    }
    return true;
}

void sample_layout_text(const struct sample_layout *layout, char out[SAMPLE_LAYOUT_TEXT_MAX])
{
    size_t used = (size_t)snprintf(out, SAMPLE_LAYOUT_TEXT_MAX, "%s", layout->n ? "" : "encoded bytes");
    for (uint32_t i = 0; i < layout->n && used < SAMPLE_LAYOUT_TEXT_MAX; i++) {
        const struct sample_field *field = &layout->fields[i];
        used += (size_t)snprintf(out + used, SAMPLE_LAYOUT_TEXT_MAX - used, "%s%s %s %s of", i ? ", " : "", field->name,
                                 dtype_names[field->dtype], kind_names[field->kind]);
        for (uint32_t j = 0; j < field->rank && used < SAMPLE_LAYOUT_TEXT_MAX; j++)
            used += (size_t)(field->dims[j] ? snprintf(out + used, SAMPLE_LAYOUT_TEXT_MAX - used, "%s%u", j ? "x" : " ",
                                                       field->dims[j])
                                            : snprintf(out + used, SAMPLE_LAYOUT_TEXT_MAX - used, j ? "xN" : " N"));
    }
}
