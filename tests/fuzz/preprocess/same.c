#include "tests/fuzz/preprocess/same.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "preprocess/decode/decoder.h"
#include "preprocess/prepare.h"

static const struct decoder_kind *const ours[] = {
#ifdef LARDER_PNG
    &decoder_png,
#endif
    NULL,
};

struct attempt {
    struct scratch scratch;
    struct decoding decoding;
    struct decode_fault fault;
    struct image image;
    struct rect rect;
    int rc;
};

/* Decodes the rectangle, or all of it where it is empty. */
static void attempt(const struct decoder_kind *kind, const struct prepare_limits *limits, const uint8_t *bytes,
                    size_t len_bytes, struct rect rect, struct attempt *out)
{
    void *state = xcalloc(1, kind->state_bytes);
    *out = (struct attempt){.rect = rect};
    scratch_init(&out->scratch, prepare_memory(limits), NULL);
    out->decoding =
        (struct decoding){.limits = limits, .bytes = bytes, .len_bytes = len_bytes, .scratch = &out->scratch};
    CHECK(!kind->create || kind->create(state, limits) == 0);
    out->rc = kind->open(state, &out->decoding, &out->fault);
    if (!out->rc && !rect.width)
        out->rect = out->decoding.whole;
    if (!out->rc)
        out->rc = kind->region(state, &out->decoding, out->rect, &out->image, &out->fault);
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

static void compare(const struct attempt *mine, const struct attempt *theirs)
{
    if (mine->fault.reason == BAD_NO_MEMORY || theirs->fault.reason == BAD_NO_MEMORY)
        return;
    bool agree = mine->rc ? theirs->rc != 0 : theirs->rc == 0 && same(mine, theirs);
    if (!agree)
        fprintf(stderr, "%u × %u at %u, %u: ours %s; libvips %s\n", theirs->rect.width, theirs->rect.height,
                theirs->rect.x, theirs->rect.y, mine->rc ? mine->fault.error.text : "reads it",
                theirs->rc ? theirs->fault.error.text : "reads it");
    CHECK(agree);
}

/* A part of the whole, which the bytes choose. */
static struct rect part_of(struct rect whole, const uint8_t *bytes, size_t len_bytes)
{
    uint32_t x = bytes[len_bytes / 2] % whole.width, y = bytes[len_bytes / 3] % whole.height;
    return (struct rect){x, y, 1 + bytes[len_bytes - 1] % (whole.width - x), 1 + bytes[0] % (whole.height - y)};
}

void check_same(const char *name, const struct prepare_limits *limits, const uint8_t *bytes, size_t len_bytes)
{
    const struct decoder_kind *kind = NULL;
    struct attempt mine, theirs;
    for (size_t i = 0; ours[i]; i++)
        kind = strcasecmp(ours[i]->name, name) == 0 ? ours[i] : kind;
    if (!kind || !kind->is(bytes, len_bytes))
        return;
    attempt(kind, limits, bytes, len_bytes, (struct rect){0}, &mine);
    attempt(&decoder_vips, limits, bytes, len_bytes, (struct rect){0}, &theirs);
    compare(&mine, &theirs);
    bool read = !mine.rc && !theirs.rc;
    struct rect part = read ? part_of(mine.rect, bytes, len_bytes) : (struct rect){0};
    scratch_free(&mine.scratch);
    scratch_free(&theirs.scratch);
    if (!read)
        return;
    attempt(kind, limits, bytes, len_bytes, part, &mine);
    attempt(&decoder_vips, limits, bytes, len_bytes, part, &theirs);
    compare(&mine, &theirs);
    scratch_free(&mine.scratch);
    scratch_free(&theirs.scratch);
}
