/* hostile.h: what the tests of hostile daemons share. */
#ifndef LARDER_TESTS_UNIT_CLIENT_HOSTILE_H
#define LARDER_TESTS_UNIT_CLIENT_HOSTILE_H

#include <larder/larder.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "fake_daemon.h"

static struct fake_daemon fake;

static inline int open_fake(struct larder_loader **out)
{
    struct larder_options options;
    larder_options_init(&options);
    options.socket = fake.path;
    options.dataset = "set";
    options.batch_size = FAKE_BATCH_SIZE;
    options.open_timeout_ms = 60000;
    options.reconnect_ms = 0;
    return larder_open(&options, out);
}

static inline void assert_text(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in '%s'", part, text);
}

static inline void garbage(struct fake_daemon *daemon)
{
    fake_send_bytes(daemon, "garbage in a datagram", 21, -1, 0);
    fake_until_closed(daemon);
}

static inline void newer_version(struct fake_daemon *daemon)
{
    uint8_t bytes[WIRE_HEADER_BYTES] = {'L', 'D', 'R', '1', WIRE_VERSION + 1, 0, 99, 0, 1, 0, 0, 0, 16, 0, 0, 0};
    fake_send_bytes(daemon, bytes, sizeof bytes, -1, 0);
    fake_until_closed(daemon);
}

#endif
