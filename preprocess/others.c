#include "preprocess/others.h"

#include <stdio.h>
#include <string.h>

#include "preprocess/pipeline_priv.h"
#include "preprocess/sound/sound.h"

#define NPY_MAGIC "\x93NUMPY"
#define NPY_LEAD 10 /* the magic, two bytes of version, and the header's length in version 1 */

/* has_text says whether a header that is not terminated has a text. */
static bool has_text(const uint8_t *header, size_t len, const char *text)
{
    return memmem(header, len, text, strlen(text)) != NULL;
}

/* npy_header finds the header of a .npy file and returns its end; 0: it is none, or cut short. */
static size_t npy_header(const uint8_t *bytes, size_t len, size_t *start)
{
    if (len < NPY_LEAD || memcmp(bytes, NPY_MAGIC, 6) != 0 || bytes[6] < 1 || bytes[6] > 3)
        return 0;
    size_t lead = bytes[6] == 1 ? NPY_LEAD : NPY_LEAD + 2;
    if (len < lead)
        return 0;
    size_t size = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] > 1)
        size |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    *start = lead;
    return size <= len - lead ? lead + size : 0;
}

/* A header is what Python prints of a dictionary, so its words are searched for as they are printed. */
static bool npy_is(const struct sample_field *field, const uint8_t *header, size_t len)
{
    static const char *const types[] = {
        [PIXEL_UINT8] = "|u1",  [PIXEL_FLOAT16] = "<f2", [PIXEL_FLOAT32] = "<f4", [PIXEL_INT16] = "<i2",
        [PIXEL_UINT16] = "<u2", [PIXEL_INT32] = "<i4",   [PIXEL_INT64] = "<i8",   [PIXEL_FLOAT64] = "<f8"};
    char type[32], shape[96] = "'shape': (";
    snprintf(type, sizeof type, "'descr': '%s'", types[field->dtype]);
    for (uint32_t i = 0; i < field->rank; i++) {
        size_t used = strlen(shape);
        snprintf(shape + used, sizeof shape - used, "%s%u", i ? ", " : "", field->dims[i]);
    }
    strcat(shape, field->rank == 1 ? ",)" : ")");
    return has_text(header, len, type) && has_text(header, len, shape) &&
           has_text(header, len, "'fortran_order': False");
}

/* find_array finds the numbers of an array of the field's type and dims in a sample's bytes, which are these numbers
 * alone, or a .npy file. It returns where they begin, or NULL and fills the fault. */
static const void *find_array(const struct sample_field *field, const uint8_t *bytes, size_t len_bytes,
                              struct decode_fault *fault)
{
    struct sample_layout alone = {.n = 1, .fields = {*field}};
    char text[SAMPLE_LAYOUT_TEXT_MAX];
    uint64_t wanted = pixel_dtype_bytes(field->dtype);
    size_t start = 0, end = npy_header(bytes, len_bytes, &start);
    sample_layout_text(&alone, text);
    for (uint32_t i = 0; i < field->rank; i++)
        wanted *= field->dims[i];
    if (end && len_bytes - end == wanted && npy_is(field, bytes + start, end - start))
        return bytes + end;
    if (end)
        decode_fail(fault, BAD_OTHER_SIZE, "a .npy file with another array than %s, which all samples must have", text);
    else if (len_bytes != wanted)
        decode_fail(fault, BAD_OTHER_SIZE, "%zu bytes, and an array as all samples must have (%s) takes %llu",
                    len_bytes, text, (unsigned long long)wanted);
    return end || len_bytes != wanted ? NULL : bytes;
}

int others_make(struct scratch *memory, const struct pipeline *pipeline, const uint64_t key[3], const void *encoded,
                size_t len_bytes, void *dst, struct decode_fault *fault)
{
    if (pipeline->subject == OP_SOUND) {
        const struct sound_wish wish = {encoded, len_bytes, &pipeline->sound, key, pipeline->stream, dst};
        return sound_make(memory, &wish, fault);
    }
    const void *numbers = find_array(&pipeline->layout.fields[0], encoded, len_bytes, fault);
    if (!numbers)
        return fault->error.code;
    memcpy(dst, numbers, pipeline->layout.bytes);
    return 0;
}
