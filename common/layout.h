/* layout.h: what a made sample looks like: the fields of its slot in the arena, by name.
 *
 * A field is an array of one type at a place that is the same in every slot. A pipeline of images makes one field,
 * the image; one of sounds, the sound. Fields lie one behind the other, and the slot ends where the last one ends.
 *
 * In a ragged layout, one that has a dim of 0, samples differ in size. Each slot begins with a head then, which says of
 * each field where it lies in this slot and which dims it has. The layout has no offsets, and its bytes are the most
 * that a slot takes.
 * Clients are told the layout when they register (wire.h). Pure; any thread. */
#ifndef LARDER_COMMON_LAYOUT_H
#define LARDER_COMMON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/types.h"

#define SAMPLE_FIELDS_MAX 16
#define SAMPLE_DIMS_MAX 4
#define SAMPLE_NAME_BYTES 24 /* bytes of a field's name: up to 23 characters, and bytes of 0 up to the end */
#define SAMPLE_LAYOUT_TEXT_MAX 128

/* What the numbers of a field are. An image has three dims, in the order that its kind says, and numbers of one of the
 * first three types. An array has any dims and numbers of any type; a sound is one of (channels, frames). A mask has
 * height and width. */
enum field_kind { FIELD_IMAGE_HWC, FIELD_IMAGE_CHW, FIELD_ARRAY, FIELD_MASK };

struct sample_field {
    char name[SAMPLE_NAME_BYTES]; /* a lower-case letter, then lower-case letters, digits and '_' */
    enum field_kind kind;
    enum pixel_dtype dtype;
    uint32_t rank;                  /* dims that it has, 1 … SAMPLE_DIMS_MAX */
    uint32_t dims[SAMPLE_DIMS_MAX]; /* 0: it differs from sample to sample; those beyond rank are 0, too */
    uint32_t offset; /* byte in the slot at which it begins; a multiple of the size of its numbers; 0 if ragged */
};

/* A layout without fields is that of encoded bytes of any length, as they are stored. */
struct sample_layout {
    uint32_t n;
    struct sample_field fields[SAMPLE_FIELDS_MAX]; /* in the order in which they lie */
    /* size of a slot, ≤ UINT32_MAX; if ragged the most that one takes; 0 without fields */
    uint64_t bytes;
};

/* What the head of a slot says of a field: 32 bytes, the offset, the dims, and bytes of 0; each as 32 bits,
 * little-endian. The fields that follow the head begin at multiples of FIELD_PLACE_ALIGN. */
struct field_place {
    uint32_t offset; /* byte in the slot; 0: the head does not say yet */
    uint32_t dims[SAMPLE_DIMS_MAX];
};
#define FIELD_PLACE_BYTES 32
#define FIELD_PLACE_ALIGN 64

/* An image as a field has it. */
struct image_shape {
    uint32_t height, width, channels;
    enum pixel_dtype dtype;
    enum pixel_layout layout;
};

static inline bool field_is_image(const struct sample_field *field)
{
    return field->kind == FIELD_IMAGE_HWC || field->kind == FIELD_IMAGE_CHW;
}

/* pixel_dtype_bytes returns the size of one number; 0 for a dtype that is unknown. */
uint32_t pixel_dtype_bytes(enum pixel_dtype dtype);

/* sample_layout_is_ragged says whether samples of a layout differ in size. */
bool sample_layout_is_ragged(const struct sample_layout *layout);

/* sample_head_bytes returns the length of the head of a slot with n fields. */
uint64_t sample_head_bytes(uint32_t n);

/* sample_head_put writes what the head of a slot says of a field; sample_head_get reads it. sample_head_check says
 * whether a slot of `bytes` has room for it, and it is of the dims that the layout has. */
void sample_head_put(void *slot, uint32_t field, const struct field_place *place);
struct field_place sample_head_get(const void *slot, uint32_t field);
bool sample_head_check(const struct sample_layout *layout, uint32_t field, const struct field_place *place,
                       uint64_t bytes);

/* sample_layout_of_image returns the layout of samples that are one image, the field "image". It checks nothing. */
struct sample_layout sample_layout_of_image(const struct image_shape *image);

/* sample_layout_of_array returns the layout of samples that are one array, a field of this name with `rank` dims. It
 * checks nothing. */
struct sample_layout sample_layout_of_array(const char *name, enum pixel_dtype dtype, uint32_t rank,
                                            const uint32_t *dims);

/* sample_layout_image finds the image that samples of this layout are. False: they are something else, or differ in
 * size, or something lies beside it. */
bool sample_layout_image(const struct sample_layout *layout, struct image_shape *out);

/* sample_layout_check says whether a layout is sound: LARDER_EINVAL with a text that names the field. Whoever checks a
 * layout of another process can then read its slots without looking at it again. */
int sample_layout_check(const struct sample_layout *layout, struct error *err);

bool sample_layout_same(const struct sample_layout *a, const struct sample_layout *b);

/* sample_layout_text writes a sound layout for a person to read, and cuts it off where it is too long. */
void sample_layout_text(const struct sample_layout *layout, char out[SAMPLE_LAYOUT_TEXT_MAX]);

#endif
