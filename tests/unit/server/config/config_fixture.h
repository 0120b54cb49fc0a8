/* config_fixture.h: the machine and the environment in which the tests of the configuration read it. */
#ifndef LARDER_TESTS_UNIT_SERVER_CONFIG_CONFIG_FIXTURE_H
#define LARDER_TESTS_UNIT_SERVER_CONFIG_CONFIG_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/config/config_priv.h"

#define GIB (UINT64_C(1) << 30)

static const struct config_machine machine = {.memory_bytes = 16 * GIB, .available_bytes = 12 * GIB, .cores = 6};

static inline void set_environment(void)
{
    unsetenv("CACHE_DIRECTORY");
    unsetenv("SYSTEMD_EXEC_PID");
    setenv("LARDER_SOCKET", "/run/user/7/larder/larder.sock", 1);
    setenv("XDG_CACHE_HOME", "/home/x/.cache-there", 1);
}

static inline struct config *parse(const char *text)
{
    struct config *config = NULL;
    struct error err = {0};
    if (config_parse("f.yaml", text, text ? strlen(text) : 0, &machine, &config, &err) != 0)
        fail_msg("refused: %s", err.text);
    return config;
}

static inline void assert_refused(const char *text, size_t len, const char *expected)
{
    struct config *config = NULL;
    struct error err = {0};
    int rc = config_parse("f.yaml", text, len, &machine, &config, &err);
    if (rc == 0)
        fail_msg("accepted: %s", text);
    assert_int_equal(rc, err.code);
    assert_null(config);
    assert_string_equal(err.text, expected);
}

#endif
