/* test_view_glob.c: patterns of class names match as fnmatch does, and quickly. */
#include <fnmatch.h>

#include "sampler/view_priv.h"
#include "tests/unit/sampler/helpers.h"

/* Patterns match as the C library's fnmatch does, on random patterns and names of the characters that matter; a bracket
 * that is not closed, which POSIX leaves open, stands for itself. */
static void test_glob_is_fnmatch(void **state)
{
    (void)state;
    struct rng rng;
    random_seed(&rng, test_seed(31));
    static const char *const pieces[] = {"a",      "b",      "c",    "*",    "*",     "?",   "[ab]",
                                         "[!ab]",  "[a-c]",  "[]a]", "[a-]", "[!]-]", "\\*", "\\[",
                                         "[\\]a]", "[^a-b]", "]",    "-",    "!"};
    static const char in_names[] = "aabbc-]![*";
    unsigned matches = 0;
    for (int i = 0; i < 300000; i++) {
        char pattern[64] = "", name[8] = "";
        for (uint64_t n = random_below(&rng, 7); n; n--)
            strcat(pattern, pieces[random_below(&rng, sizeof pieces / sizeof *pieces)]);
        for (uint64_t at = 0, n = random_below(&rng, sizeof name); at < n; at++)
            name[at] = in_names[random_below(&rng, sizeof in_names - 1)];
        bool theirs = fnmatch(pattern, name, 0) == 0;
        if (glob_match(pattern, name) != theirs)
            fail_msg("pattern %s, name %s: fnmatch says %d", pattern, name, theirs);
        matches += theirs;
    }
    assert_true(matches > 3000);
    assert_true(glob_match("[b*", "[bcd") && glob_match("a\\", "a\\"));
    assert_false(glob_match("[b*", "b"));
}

/* A pattern of many stars takes no time to speak of. */
static void test_glob_is_quick(void **state)
{
    (void)state;
    char pattern[256] = "", name[256];
    for (unsigned i = 0; i < 120; i++)
        memcpy(pattern + 2 * i, "*a", 2);
    strcat(pattern, "b");
    memset(name, 'a', 255);
    name[255] = '\0';
    for (int i = 0; i < 1000; i++)
        assert_false(glob_match(pattern, name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_glob_is_fnmatch),
        cmocka_unit_test(test_glob_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
