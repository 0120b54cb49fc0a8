/* program.h: a training program for the tests of the client library: one loader on one fake daemon. */
#ifndef LARDER_TESTS_UNIT_CLIENT_PROGRAM_H
#define LARDER_TESTS_UNIT_CLIENT_PROGRAM_H

#include <larder/larder.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake_daemon.h"

static struct fake_daemon fake;
static struct larder_loader *loader;

static inline struct larder_options fake_options(void)
{
    struct larder_options options;
    larder_options_init(&options);
    options.socket = fake.path;
    options.dataset = "set";
    options.batch_size = FAKE_BATCH_SIZE;
    options.open_timeout_ms = 60000;
    return options;
}

static inline void close_both(void)
{
    larder_close(&loader);
    fake_stop(&fake);
}

static inline void assert_text(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in '%s'", part, text);
}

/* assert_code fails with the loader's own words. */
static inline void assert_code(int rc, int code)
{
    if (rc != code)
        fail_msg("%s, not %s: %s", larder_err_name(rc), larder_err_name(code), larder_last_error(loader));
}

static inline void assert_batch(const struct larder_batch *batch, uint32_t epoch, uint32_t index)
{
    uint8_t copy[FAKE_BATCH_SIZE * FAKE_SAMPLE_BYTES + 1] = {0};
    assert_int_equal(larder_batch_epoch(batch), epoch);
    assert_int_equal(larder_batch_index(batch), index);
    assert_int_equal(larder_batch_count(batch), FAKE_BATCH_SIZE);
    assert_int_equal(larder_batch_bytes(batch), sizeof copy - 1);
    copy[sizeof copy - 1] = 0xa5;
    assert_int_equal(larder_batch_copy(batch, copy, sizeof copy - 1), 0);
    assert_int_equal(copy[sizeof copy - 1], 0xa5);
    for (uint32_t i = 0; i < FAKE_BATCH_SIZE; i++) {
        struct larder_sample sample;
        uint32_t id = index * FAKE_BATCH_SIZE + i;
        assert_int_equal(larder_batch_sample(batch, i, &sample), 0);
        assert_int_equal(sample.id, id);
        assert_int_equal(sample.index, id + 1000);
        assert_int_equal(sample.label, id % 5);
        assert_int_equal(sample.len_bytes, FAKE_SAMPLE_BYTES);
        for (uint32_t b = 0; b < FAKE_SAMPLE_BYTES; b++) {
            assert_int_equal(((const uint8_t *)sample.data)[b], id);
            assert_int_equal(copy[i * FAKE_SAMPLE_BYTES + b], id);
        }
    }
}

static inline bool readable_within(int timeout_ms)
{
    struct pollfd readable = {.fd = larder_fd(loader), .events = POLLIN};
    return poll(&readable, 1, timeout_ms) == 1;
}

/* take_one takes and releases the batch that is due. */
static inline void take_one(uint32_t epoch, uint32_t index)
{
    struct larder_batch *batch = NULL;
    assert_code(larder_next(loader, 60000, &batch), 0);
    assert_batch(batch, epoch, index);
    assert_code(larder_batch_release(&batch), 0);
}

static inline void take(uint32_t epoch, uint32_t first, uint32_t end)
{
    for (uint32_t index = first; index < end; index++)
        take_one(epoch, index);
}

static inline void take_end(void)
{
    struct larder_batch *batch = NULL;
    assert_code(larder_next(loader, 60000, &batch), LARDER_EEND);
}

#endif
