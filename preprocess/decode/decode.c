#include "preprocess/decode/decode.h"

#include <stdlib.h>
#include <string.h>

#include "common/blocks.h"
#include "common/check.h"
#include "preprocess/decode/decoder.h"

/* The first of these that an image is for decodes it. */
static const struct decoder_kind *const kinds[] = {&decoder_jpeg, &decoder_png, &decoder_webp,
                                                   &decoder_tiff, &decoder_gif, &decoder_plain};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct decoder {
    struct prepare_limits limits;
    void *states[KINDS];
    struct decoding image;
    const struct decoder_kind *kind; /* decodes the image at hand; NULL: there is none */
    void *state;                     /* the kind's */
};

int decoder_create(const struct prepare_limits *limits, struct decoder **out)
{
    struct decoder *decoder = xcalloc(1, sizeof *decoder);
    int rc = 0;
    decoder->limits = *limits;
    for (int i = 0; i < KINDS && !rc; i++) {
        void *state = xcalloc(1, kinds[i]->state_bytes + 1);
        rc = kinds[i]->create ? kinds[i]->create(state, limits) : 0;
        if (rc)
            free(state);
        else
            decoder->states[i] = state;
    }
    if (rc)
        decoder_destroy(decoder);
    else
        *out = decoder;
    return rc;
}

void decoder_destroy(struct decoder *decoder)
{
    if (!decoder)
        return;
    decode_close(decoder);
    for (int i = 0; i < KINDS; i++) {
        if (decoder->states[i] && kinds[i]->destroy)
            kinds[i]->destroy(decoder->states[i]);
        free(decoder->states[i]);
    }
    free(decoder);
}

/* open_any opens what the decoder's image says. */
static int open_any(struct decoder *decoder, struct rect *whole, struct decode_fault *fault)
{
    const uint8_t *bytes = decoder->image.bytes;
    size_t len_bytes = decoder->image.len_bytes;
    int i = 0;
    if (len_bytes == 0)
        return decode_fail(fault, BAD_NOT_AN_IMAGE, "it is empty");
    while (i < KINDS && !kinds[i]->is(bytes, len_bytes))
        i++;
    if (i == KINDS)
        return decode_fail(fault, BAD_NOT_AN_IMAGE,
                           "not an image of a supported format (JPEG, PNG, WebP, TIFF, GIF, BMP, binary PNM)");
    if (decoder->image.values && !kinds[i]->values)
        return decode_fail(fault, BAD_NOT_AN_IMAGE, "a mask as %s: save it as PNG, which keeps its numbers",
                           kinds[i]->name);
    decoder->kind = kinds[i];
    decoder->state = decoder->states[i];
    int rc = decoder->kind->open(decoder->state, &decoder->image, fault);
    if (!rc)
        *whole = decoder->image.whole;
    return rc;
}

int decode_open(struct decoder *decoder, const void *bytes, size_t len_bytes, struct scratch *scratch,
                struct rect *whole, struct decode_fault *fault)
{
    CHECK(!decoder->kind);
    decoder->image = (struct decoding){
        .limits = &decoder->limits, .bytes = bytes, .len_bytes = len_bytes, .scratch = scratch};
    return open_any(decoder, whole, fault);
}

int decode_open_mask(struct decoder *decoder, const void *bytes, size_t len_bytes, struct scratch *scratch,
                     struct rect *whole, uint32_t *bits, struct decode_fault *fault)
{
    CHECK(!decoder->kind);
    decoder->image = (struct decoding){
        .limits = &decoder->limits, .bytes = bytes, .len_bytes = len_bytes, .scratch = scratch, .values = true};
    int rc = open_any(decoder, whole, fault);
    if (!rc)
        *bits = decoder->image.value_bits;
    return rc;
}

uint32_t decode_scale(struct decoder *decoder, uint32_t divisor)
{
    if (!decoder->kind || !decoder->kind->scale)
        return 1;
    decoder->kind->scale(decoder->state, divisor);
    return divisor;
}

int decode_reserve(struct decoder *decoder, struct rect rect, struct decode_fault *fault)
{
    CHECK(decoder->kind);
    size_t inside = decoder->kind->needs ? decoder->kind->needs(decoder->state, rect) : 0;
    uint64_t outside = decoder->image.outside_bytes;
    if (outside > SIZE_MAX / 2 || scratch_outside(decoder->image.scratch, (size_t)outside) ||
        scratch_expect(decoder->image.scratch, inside))
        return decode_fail(fault, BAD_NO_MEMORY, "decoding takes more memory than is allowed for one image");
    return 0;
}

int decode_rows(struct decoder *decoder, struct rect rect, const struct decode_sink *sink, struct image *out,
                struct decode_fault *fault)
{
    CHECK(decoder->kind);
    decoder->image.sink = sink;
    return decoder->kind->region(decoder->state, &decoder->image, rect, out, fault);
}

int decode_region(struct decoder *decoder, struct rect rect, struct image *out, struct decode_fault *fault)
{
    return decode_rows(decoder, rect, NULL, out, fault);
}

static enum decoded_kind form_of(const struct decoder *decoder)
{
    CHECK(decoder->kind);
    return decoder->kind->form ? decoder->kind->form(decoder->state) : DECODED_RGB;
}

size_t decode_form_bytes(const struct decoder *decoder)
{
    return decoded_bytes(form_of(decoder), decoder->image.whole.width, decoder->image.whole.height);
}

/* fill_pixels decodes the image into a form that keeps its pixels. */
static int fill_pixels(struct decoder *decoder, struct decoded *form, struct decode_fault *fault)
{
    struct image image;
    int rc = decode_region(decoder, decoder->image.whole, &image, fault);
    for (uint32_t y = 0; !rc && y < form->height; y++)
        memcpy(decoded_plane(form, 0) + form->stride[0] * y, image_row(&image, y), form->stride[0]);
    return rc;
}

int decode_form(struct decoder *decoder, struct decoded **out, struct decode_fault *fault)
{
    enum decoded_kind kind = form_of(decoder);
    struct decoded *form = decoded_create(kind, decoder->image.whole.width, decoder->image.whole.height);
    if (!form)
        return decode_fail(fault, BAD_NO_MEMORY, "out of memory");
    int rc = kind == DECODED_RGB ? fill_pixels(decoder, form, fault)
                                 : decoder->kind->planes(decoder->state, form, fault);
    if (rc)
        blocks_give(form);
    else
        *out = form;
    return rc;
}

void decode_close(struct decoder *decoder)
{
    if (decoder->kind && decoder->kind->close)
        decoder->kind->close(decoder->state);
    decoder->kind = NULL;
}
