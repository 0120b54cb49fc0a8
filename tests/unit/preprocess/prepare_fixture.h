/* prepare_fixture.h: what the tests of prepare_sample share: limits, one scratch, and preparing with them. */
#ifndef LARDER_TESTS_UNIT_PREPROCESS_PREPARE_FIXTURE_H
#define LARDER_TESTS_UNIT_PREPROCESS_PREPARE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "images.h"
#include "preprocess/prepare.h"

extern const struct prepare_limits limits;
extern struct prepare_scratch *scratch; /* from prepare_begin to prepare_end, which are for a group's begin and end */

struct made {
    int rc;
    enum bad_reason reason;
    struct error err;
    uint8_t *pixels;
    uint64_t bytes;
};

int prepare_begin(void **state);
int prepare_end(void **state);

struct pipeline *parse(const char *json);
/* prepare makes one output; the caller frees its pixels. */
struct made prepare(const struct encoded *encoded, const char *json, uint64_t instance);
/* Fails unless the decoded form gives what `made` has, while it is made and afterwards. */
void check_decoded(const struct encoded *encoded, const char *json, uint64_t instance, const struct made *made);
const char *center_crop(uint32_t width, uint32_t height); /* in a static buffer */

/* What a regional decode and the fused geometry give equals what the same pipeline makes of the whole, decoded
 * image. */
void compare_regional(const struct encoded *image, const uint8_t *pixels, uint32_t width, uint32_t height,
                      const char *name);
/* The same for a JPEG, whose pixels libjpeg decodes. */
void check_regional(const struct encoded *jpeg, const char *name);

#endif
