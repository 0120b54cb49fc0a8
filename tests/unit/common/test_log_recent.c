/* The last lines of the log are kept, in their order and without their newlines, and no more of them than there is room
 * for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/log_format.h"
#include "common/log_recent.h"

struct seen {
    size_t count, first;
    size_t longest;
};

static void take(void *ctx, const char *line, size_t len_bytes)
{
    struct seen *seen = ctx;
    char wanted[32];
    if (len_bytes < sizeof wanted) {
        snprintf(wanted, sizeof wanted, "line %zu", seen->first + seen->count);
        assert_int_equal(len_bytes, strlen(wanted));
        assert_memory_equal(line, wanted, len_bytes);
    }
    seen->count++;
    seen->longest = len_bytes > seen->longest ? len_bytes : seen->longest;
}

static void count(void *ctx, const char *line, size_t len_bytes)
{
    (void)line, (void)len_bytes;
    ++*(size_t *)ctx;
}

static void keeps_the_last(void **state)
{
    (void)state;
    char line[LOG_LINE_MAX + 10];
    for (size_t n = 0; n < 3 * LOG_RECENT_MAX; n++) {
        struct seen seen = {.first = n < LOG_RECENT_MAX ? 0 : n - LOG_RECENT_MAX};
        log_recent_read(LOG_RECENT_ALL, take, &seen);
        assert_int_equal(seen.count, n < LOG_RECENT_MAX ? n : LOG_RECENT_MAX);
        log_recent_keep(false, line, (size_t)snprintf(line, sizeof line, "line %zu\n", n));
    }
    struct seen seen = {.first = 2 * LOG_RECENT_MAX + 1};
    memset(line, 'x', sizeof line);
    log_recent_keep(false, line, sizeof line);
    log_recent_read(LOG_RECENT_ALL, take, &seen);
    assert_int_equal(seen.longest, LOG_LINE_MAX);
}

/* Warnings stay, however many other lines come after them, and stand among all lines too. */
static void keeps_warnings(void **state)
{
    (void)state;
    char line[32];
    size_t before = 0;
    log_recent_read(LOG_RECENT_WARNINGS, count, &before);
    assert_int_equal(before, 0);
    for (size_t n = 0; n < 3; n++)
        log_recent_keep(true, line, (size_t)snprintf(line, sizeof line, "line %zu\n", n));
    struct seen seen = {0};
    log_recent_read(LOG_RECENT_WARNINGS, take, &seen);
    assert_int_equal(seen.count, 3);
    for (size_t n = 0; n < LOG_RECENT_MAX; n++)
        log_recent_keep(false, line, (size_t)snprintf(line, sizeof line, "line %zu\n", 3 + n));
    seen = (struct seen){0};
    log_recent_read(LOG_RECENT_WARNINGS, take, &seen);
    assert_int_equal(seen.count, 3);
    seen = (struct seen){.first = 3};
    log_recent_read(LOG_RECENT_ALL, take, &seen);
    assert_int_equal(seen.count, LOG_RECENT_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keeps_the_last), cmocka_unit_test(keeps_warnings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
