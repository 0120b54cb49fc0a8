#include "server/commands/store_rewrite.h"

#include <stdlib.h>

#include "preprocess/decode/jpeg_planes.h"
#include "preprocess/decode/jpeg_rewrite.h"
#include "preprocess/shrink.h"

_Static_assert(STORE_SIDE_MAX <= SHRINK_SIDE_MAX, "whatever a store allows can be made");

/* Larger images than a daemon's default allows: once they are shrunk it takes them. */
static const struct prepare_limits limits = {.pixels_max = 200000000, .scans_max = 100};

/* Gives a JPEG restart rows, or writes it in planes. If that is impossible, nothing is made of it. */
static void make_rows(const struct store_options *options, const uint8_t *bytes, size_t len_bytes,
                      struct store_made *made)
{
    made->bytes = options->planes ? jpeg_rewrite_in_planes(bytes, len_bytes, &made->len_bytes) : NULL;
    made->form |= made->bytes ? STORE_FORM_PLANES : STORE_FORM_RESTART_ROWS;
    if (!made->bytes)
        made->bytes = jpeg_rewrite(bytes, len_bytes, JPEG_REWRITE_MCUS, &made->len_bytes);
    if (!made->bytes)
        made->form = 0;
}

/* What was shrunk has restart rows. */
static void make_planes(struct store_made *made)
{
    size_t len_bytes;
    uint8_t *planes = jpeg_rewrite_in_planes(made->bytes, made->len_bytes, &len_bytes);
    if (!planes)
        return;
    free(made->bytes);
    made->bytes = planes;
    made->len_bytes = len_bytes;
    made->form ^= STORE_FORM_RESTART_ROWS | STORE_FORM_PLANES;
}

/* A sample that comes in planes is restored, or stays in planes if these are wanted. */
static void take_planes(const struct store_options *options, const uint8_t *bytes, size_t len_bytes,
                        struct store_made *made)
{
    size_t jpeg_bytes;
    uint8_t *jpeg = jpeg_rewrite(bytes, len_bytes, JPEG_REWRITE_MCUS, &jpeg_bytes);
    made->broken = !jpeg;
    if (options->planes) {
        made->form |= jpeg && !(made->form & STORE_FORM_UNDECODED) ? STORE_FORM_PLANES : 0;
        free(jpeg);
    } else if (jpeg) {
        made->bytes = jpeg;
        made->len_bytes = jpeg_bytes;
    } else {
        made->form = STORE_FORM_UNDECODED;
        error_set(&made->why, LARDER_EFORMAT, "its planes are damaged");
    }
}

static int rewrite(const struct store_options *options, const uint8_t *bytes, size_t len_bytes, struct store_made *made,
                   struct error *err)
{
    const struct shrinking how = {.max_side = options->max_side,
                                  .quality = options->quality,
                                  .restart_mcus = options->restart_rows ? JPEG_REWRITE_MCUS : 0};
    struct shrunk shrunk = {.outcome = SHRUNK_NOT};
    int code = options->max_side ? shrink(&limits, &how, bytes, len_bytes, &shrunk, err) : 0;
    if (code)
        return code;
    if (shrunk.outcome == SHRUNK_UNDECODED) {
        made->form = STORE_FORM_UNDECODED;
        made->why = shrunk.why;
        return 0;
    }
    made->bytes = shrunk.bytes;
    made->len_bytes = shrunk.len_bytes;
    if (shrunk.outcome == SHRUNK_MADE) {
        made->form = STORE_FORM_SHRUNK | (options->restart_rows ? STORE_FORM_RESTART_ROWS : 0);
        if (options->restart_rows && options->planes)
            make_planes(made);
    } else if (options->restart_rows && !(options->planes && jpeg_planes_is(bytes, len_bytes))) {
        make_rows(options, bytes, len_bytes, made);
    }
    return 0;
}

int store_rewrite(const struct store_options *options, const uint8_t *bytes, size_t len_bytes, struct store_made *made,
                  struct error *err)
{
    int code = rewrite(options, bytes, len_bytes, made, err);
    if (!code && !made->bytes && jpeg_planes_is(bytes, len_bytes))
        take_planes(options, bytes, len_bytes, made);
    return code;
}
