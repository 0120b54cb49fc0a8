/* wire_fixture.h: what the tests of the wire share: a REGISTERED of any version, and the comparison of bytes. */
#ifndef LARDER_TESTS_UNIT_COMMON_WIRE_FIXTURE_H
#define LARDER_TESTS_UNIT_COMMON_WIRE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire.h"

static const struct image_shape photo = {
    .height = 2, .width = 4, .channels = 3, .dtype = PIXEL_FLOAT16, .layout = LAYOUT_CHW};

/* registered returns a message with no two numbers alike. */
static inline struct wire_message registered(uint16_t version, struct sample_layout layout)
{
    return (struct wire_message){.type = WIRE_REGISTERED,
                                 .version = version,
                                 .seq = 2,
                                 .registered = {.job = 1,
                                                .n_samples = 20,
                                                .n_batches = 4,
                                                .n_classes = 3,
                                                .held_max = 5,
                                                .epoch = 6,
                                                .batch = 7,
                                                .sample_bytes = layout.n ? layout.bytes : 77,
                                                .fingerprint = {8, 9},
                                                .view = {10, 11},
                                                .dataset_samples = 25,
                                                .version = {{12, 13}, {14, 15}},
                                                .layout = layout,
                                                .name = {.data = "me", .len_bytes = 2}}};
}

static inline void assert_bytes(const struct wire_message *msg, const uint8_t *expected, size_t len_bytes)
{
    uint8_t buf[256];
    size_t len = 0;
    assert_int_equal(wire_encode(msg, buf, sizeof buf, &len), 0);
    assert_int_equal(len, len_bytes);
    assert_memory_equal(buf, expected, len);
}

#endif
