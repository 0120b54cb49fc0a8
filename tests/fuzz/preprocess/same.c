#include "tests/fuzz/preprocess/same.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "preprocess/decode/decoder.h"
#include "preprocess/decode/form_tiff.h"
#include "preprocess/prepare.h"
#include "tests/fuzz/preprocess/by_libjpeg.h"
#include "tests/fuzz/preprocess/by_vips.h"

#define DIVISOR_MAX 8

/* What one may refuse that the other reads. libvips fills up what damaged JPEG and fax in a TIFF, and a GIF whose data
 * end early, do not say; we refuse them. It refuses a GIF whose later images are damaged; Pillow and we do not. */
static const struct {
    const struct decoder_kind *kind;
    bool we_may, they_may;
} ours[] = {{&decoder_png, false, false}, {&decoder_tiff, true, false}, {&decoder_gif, true, true}};

struct attempt {
    struct scratch scratch;
    uint32_t divisor;
    struct decode_fault fault;
    struct image image;
    struct rect rect; /* what was decoded */
    bool read;
};

static void by_us(const struct decoder_kind *kind, const struct prepare_limits *limits, const uint8_t *bytes,
                  size_t len_bytes, struct attempt *out)
{
    void *state = xcalloc(1, kind->state_bytes);
    struct decoding decoding = {.limits = limits, .bytes = bytes, .len_bytes = len_bytes, .scratch = &out->scratch};
    CHECK(!kind->create || kind->create(state, limits) == 0);
    out->read = kind->open(state, &decoding, &out->fault) == 0;
    if (out->read && out->divisor > 1)
        kind->scale(state, out->divisor);
    if (out->read && !out->rect.width)
        out->rect = (struct rect){.width = (decoding.whole.width + out->divisor - 1) / out->divisor,
                                  .height = (decoding.whole.height + out->divisor - 1) / out->divisor};
    out->read = out->read && kind->region(state, &decoding, out->rect, &out->image, &out->fault) == 0;
    if (kind->close)
        kind->close(state);
    if (kind->destroy)
        kind->destroy(state);
    free(state);
}

static bool same(const struct attempt *a, const struct attempt *b)
{
    if (a->image.width != b->image.width || a->image.height != b->image.height)
        return false;
    for (uint32_t y = 0; y < a->image.height; y++) {
        if (memcmp(image_row(&a->image, y), image_row(&b->image, y), (size_t)a->image.width * IMAGE_CHANNELS) != 0)
            return false;
    }
    return true;
}

/* PNGs without an end we refuse. Runs of damaged PackBits that go past the end of a row libvips cuts off in long
 * strips; libtiff, and so Pillow and we, do not. */
static bool may_differ(const struct attempt *mine, const uint8_t *bytes, size_t len_bytes)
{
    static const uint8_t pack_bits[] = {0x05, 0x80};
    if (mine->read)
        return form_is_tiff(bytes, len_bytes) && memmem(bytes, len_bytes, pack_bits, sizeof pack_bits);
    return strstr(mine->fault.error.text, "PNG: truncated, the last chunk is missing");
}

/* Compares both ways to a rectangle. Returns whether both read it; *whole: what we decoded. */
static bool compare(size_t i, const struct prepare_limits *limits, const uint8_t *bytes, size_t len_bytes,
                    struct rect rect, struct rect *whole)
{
    struct attempt mine = {.rect = rect, .divisor = 1}, theirs = {.rect = rect};
    scratch_init(&mine.scratch, prepare_memory(limits), NULL);
    scratch_init(&theirs.scratch, prepare_memory(limits), NULL);
    by_us(ours[i].kind, limits, bytes, len_bytes, &mine);
    bool comparable = mine.read || (mine.fault.reason != BAD_NO_MEMORY && mine.fault.reason != BAD_TOO_LARGE);
    if (comparable)
        theirs.read = by_vips(bytes, len_bytes, &theirs.scratch, &theirs.rect, &theirs.image);
    bool agree = mine.read == theirs.read ? !mine.read || same(&mine, &theirs)
                                          : (mine.read ? ours[i].they_may : ours[i].we_may);
    agree = agree || may_differ(&mine, bytes, len_bytes);
    if (comparable && !agree)
        fprintf(stderr, "%u × %u at %u, %u: we %s; libvips %s\n", mine.rect.width, mine.rect.height, mine.rect.x,
                mine.rect.y, mine.read ? "read it" : mine.fault.error.text, theirs.read ? "reads it" : "does not");
    CHECK(!comparable || agree);
    *whole = mine.rect;
    scratch_free(&mine.scratch);
    scratch_free(&theirs.scratch);
    return mine.read && theirs.read;
}

/* A part of the whole, which the bytes choose. */
static struct rect part_of(struct rect whole, const uint8_t *bytes, size_t len_bytes)
{
    uint32_t x = bytes[len_bytes / 2] % whole.width, y = bytes[len_bytes / 3] % whole.height;
    return (struct rect){x, y, 1 + bytes[len_bytes - 1] % (whole.width - x), 1 + bytes[0] % (whole.height - y)};
}

/* Takes over memory that was kept, the first time none. */
static void begin_with(struct scratch *scratch, const struct scratch *kept, const struct prepare_limits *limits)
{
    scratch_init(scratch, prepare_memory(limits), NULL);
    if (kept->max_bytes)
        *scratch = *kept;
    scratch_reset(scratch);
}

/* The same for a JPEG and libjpeg, divided. Scans of which a JPEG divided by 8 needs nothing are not read, so damage in
 * them is not seen. Returns whether parts can be compared too. */
static bool compare_jpeg(const struct prepare_limits *limits, const uint8_t *bytes, size_t len_bytes, uint32_t divisor,
                         struct rect rect, struct rect *whole)
{
    static struct scratch kept[2]; /* a sanitizer takes long for large blocks */
    struct attempt mine = {.rect = rect, .divisor = divisor}, theirs = {.rect = rect};
    begin_with(&mine.scratch, &kept[0], limits);
    begin_with(&theirs.scratch, &kept[1], limits);
    by_us(&decoder_jpeg, limits, bytes, len_bytes, &mine);
    enum by_libjpeg made = by_libjpeg(limits, bytes, len_bytes, divisor, &theirs.scratch, &theirs.rect, &theirs.image);
    theirs.read = made != BY_LIBJPEG_BAD;
    bool both = mine.read && theirs.read;
    bool agree = both ? same(&mine, &theirs) : mine.read == theirs.read || (mine.read && divisor == DIVISOR_MAX);
    if (!agree)
        fprintf(stderr, "%u × %u at %u, %u, divided by %u: we %s; libjpeg %s\n", mine.rect.width, mine.rect.height,
                mine.rect.x, mine.rect.y, divisor, mine.read ? "read it" : mine.fault.error.text,
                theirs.read ? "reads it" : "does not");
    CHECK(agree);
    *whole = mine.rect;
    kept[0] = mine.scratch, kept[1] = theirs.scratch;
    return both && made == BY_LIBJPEG_READ;
}

static void check_jpeg(const struct prepare_limits *limits, const uint8_t *bytes, size_t len_bytes)
{
    for (uint32_t divisor = 1; divisor <= DIVISOR_MAX; divisor *= 2) {
        struct rect whole;
        if (compare_jpeg(limits, bytes, len_bytes, divisor, (struct rect){0}, &whole))
            compare_jpeg(limits, bytes, len_bytes, divisor, part_of(whole, bytes, len_bytes), &whole);
    }
}

void check_same(const struct prepare_limits *limits, const uint8_t *bytes, size_t len_bytes)
{
    if (by_libjpeg_is(bytes, len_bytes))
        check_jpeg(limits, bytes, len_bytes);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        struct rect whole;
        if (ours[i].kind->is(bytes, len_bytes) && compare(i, limits, bytes, len_bytes, (struct rect){0}, &whole))
            compare(i, limits, bytes, len_bytes, part_of(whole, bytes, len_bytes), &whole);
    }
}
