/* test_client_missing.c: a machine without libcurl. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/net/client.h"

static int asked;

/* Stand before the C library's. */
void *dlopen(const char *name, int flags);
void *dlopen(const char *name, int flags)
{
    (void)flags;
    asked += strstr(name, "libcurl") != NULL;
    return NULL;
}

char *dlerror(void);
char *dlerror(void)
{
    static char text[] = "no such file";
    return text;
}

/* Proves: no client is started, every time, and the error says what to install. */
static void test_missing(void **state)
{
    (void)state;
    struct net_client *client = NULL;
    for (int i = 0; i < 2; i++) {
        struct error err = {0};
        int rc = net_client_start(1, &client, &err);
        if (!asked) { /* it is linked */
            net_client_stop(client);
            skip();
        }
        assert_int_equal(rc, LARDER_ENOENT);
        assert_non_null(strstr(err.text, "install it (no such file)"));
        assert_non_null(strstr(err.text, "libcurl"));
        assert_null(client);
    }
    assert_int_equal(asked, 2); /* it may have been installed meanwhile */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
