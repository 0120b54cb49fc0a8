#include "tests/unit/server/control/advice.h"

#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "server/config/config.h"

void advice_follow(const char *change)
{
    regex_t advice;
    regmatch_t found[6];
    struct error err = {0};
    struct config *config;
    assert_int_equal(config_load(NULL, &config, &err), 0);
    assert_int_equal(
        regcomp(&advice, "([a-z]+\\.[a-z]+) from ([0-9.]+( [KMGT]iB|%)?) to ([0-9.]+( [KMGT]iB|%)?)", REG_EXTENDED), 0);
    for (; regexec(&advice, change, 6, found, 0) == 0; change += found[0].rm_eo) {
        char part[3][64];
        for (int i = 0; i < 3; i++) {
            regmatch_t at = found[i == 0 ? 1 : 2 * i];
            snprintf(part[i], sizeof part[i], "%.*s", (int)(at.rm_eo - at.rm_so), change + at.rm_so);
        }
        assert_string_not_equal(part[1], part[2]);
        if (config_set(config, part[0], part[1], &err) || config_set(config, part[0], part[2], &err))
            fail_msg("%s: %s", change, err.text);
    }
    regfree(&advice);
    config_destroy(config);
}
