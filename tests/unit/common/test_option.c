/* test_option.c: options of programs: what is known comes as getopt_long returns it, what is wrong is named with what
 * was probably meant. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/nearest.h"
#include "common/option.h"

#define WORDS_MAX 8

static const struct option known[] = {{"max-side", required_argument, NULL, 'x'},
                                      {"quiet", no_argument, NULL, 'q'},
                                      {"json", no_argument, NULL, 'j'},
                                      {NULL, 0, NULL, 0}};

/* read_all reads the options of "/bin/larder WORDS…" up to the first that is wrong: (their values, what was said). */
static void read_all(const char *const *words, char *values, char *said, size_t size)
{
    char *argv[WORDS_MAX + 2] = {(char *)"/bin/larder"}, text[WORDS_MAX][64];
    int argc = 1, option;
    for (; words[argc - 1]; argc++) {
        snprintf(text[argc - 1], sizeof text[0], "%s", words[argc - 1]);
        argv[argc] = text[argc - 1];
    }
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    assert_non_null(file);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    optind = 0; /* begins anew, with glibc */
    do {
        option = option_next(argc, argv, known, NULL);
        *values++ = (char)(option < 0 ? '.' : option);
    } while (option >= 0 && option != '?');
    *values = '\0';
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    said[fread(said, 1, size - 1, file)] = '\0';
    fclose(file);
}

/* Each kind of wrong option is said in one line, which names the nearest known one where there is one. */
static void names_what_was_meant(void **state)
{
    (void)state;
    static const struct {
        const char *words[WORDS_MAX];
        const char *values, *said;
    } cases[] = {
        {{"--max-side", "3", "--quiet", "--json"}, "xqj.", ""},
        {{"--max-side=3", "more"}, "x.", ""},
        {{"--qui"}, "q.", ""},
        {{"--quite"}, "?", "larder: no such option: --quite (did you mean \"--quiet\"?)\n"},
        {{"--jsno"}, "?", "larder: no such option: --jsno (did you mean \"--json\"?)\n"},
        {{"--quiet", "--maxside=4"}, "q?", "larder: no such option: --maxside (did you mean \"--max-side\"?)\n"},
        {{"--nothing-like-it"}, "?", "larder: no such option: --nothing-like-it\n"},
        {{"--max-side"}, "?", "larder: --max-side needs a value\n"},
        {{"--json=yes"}, "?", "larder: --json takes no value\n"},
        {{"-x", "3"}, "?", "larder: no such option: -x\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char values[WORDS_MAX + 2], said[256];
        read_all(cases[i].words, values, said, sizeof said);
        assert_string_equal(values, cases[i].values);
        assert_string_equal(said, cases[i].said);
    }
}

/* Two neighbours that were exchanged are one slip; words of another length or another kind are no slips. */
static void finds_the_nearest(void **state)
{
    (void)state;
    static const char *const words[] = {"top", "ping", "status", "explain"};
    static const struct {
        const char *given, *best;
    } cases[] = {
        {"tpo", "top"},          {"pign", "ping"}, {"statsu", "status"}, {"sttaus", "status"}, {"explian", "explain"},
        {"explains", "explain"}, {"to", "top"},    {"pot", NULL},        {"", NULL},           {"completely", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct nearest search = {.given = cases[i].given};
        for (size_t word = 0; word < sizeof words / sizeof *words; word++)
            nearest_consider(&search, words[word], words[word]);
        if (cases[i].best)
            assert_string_equal(search.best ? search.best : "nothing", cases[i].best);
        else
            assert_null(search.best);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_what_was_meant), cmocka_unit_test(finds_the_nearest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
