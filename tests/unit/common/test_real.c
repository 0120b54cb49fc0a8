/* Real numbers as short texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/random.h"
#include "common/real.h"

/* A number has the fewest digits that read back as the same one: each double does, and decimals are as they were
 * written. */
static void reads_back(void **state)
{
    (void)state;
    static const char *const decimals[] = {"0", "0.1", "0.08", "-0.229", "1e-300", "1.7976931348623157e+308", "123456"};
    char buf[REAL_BYTES];
    for (size_t i = 0; i < sizeof decimals / sizeof *decimals; i++)
        assert_string_equal(real_text(strtod(decimals[i], NULL), buf), decimals[i]);
    assert_string_equal(real_text(0.1 + 0.2, buf), "0.30000000000000004");
    struct rng rng;
    random_seed_keys(&rng, 1, 2, 3, 4);
    for (int i = 0; i < 100000; i++) {
        double value = (double)(random_u64(&rng) >> (random_u64(&rng) % 60)) / (double)(1 + random_u64(&rng) % 100000);
        assert_true(strtod(real_text(value, buf), NULL) == value);
        assert_true(strlen(buf) < REAL_BYTES - 1);
    }
}

/* In JSON real numbers become short. All else stays, what is in quotes and what is broken off too. */
static void shortens(void **state)
{
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"", ""},
        {"[{\"a\":[0.080000000000000002,1.0]},true,null,-12]", "[{\"a\":[0.08,1.0]},true,null,-12]"},
        {"-0.22900000000000001", "-0.229"},
        {"1.0000000000000001e-05", "1e-05"},
        {"{\"0.080000000000000002\":\"\\\"0.080000000000000002\",\"b\":0.10000000000000001}",
         "{\"0.080000000000000002\":\"\\\"0.080000000000000002\",\"b\":0.1}"},
        {"\"0.080000000000000002", "\"0.080000000000000002"},
        {"\"\\", "\"\\"},
        {"0.3333333333333333", "0.3333333333333333"},
        {"0.30000000000000004", "0.30000000000000004"},
        {".", "."},
        {"é 0.10000000000000001 -", "é 0.1 -"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = strdup(cases[i].from);
        real_shorten(text);
        assert_string_equal(text, cases[i].to);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_back), cmocka_unit_test(shortens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
