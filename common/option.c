#include "common/option.h"

#include <stdio.h>
#include <string.h>

#include "common/nearest.h"

#define NAME_BYTES 64

/* say_wrong says what is wrong with --NAME or --NAME=VALUE: it is not known, or takes no value. */
static void say_wrong(const char *program, const struct option *known, const char *word)
{
    char given[NAME_BYTES];
    snprintf(given, sizeof given, "%.*s", (int)strcspn(word, "="), word);
    struct nearest search = {.given = given};
    for (; known->name; known++)
        nearest_consider(&search, known->name, known->name);
    if (search.best && search.edits == 0)
        fprintf(stderr, "%s: --%s takes no value\n", program, given);
    else if (search.best)
        fprintf(stderr, "%s: no such option: --%s (did you mean \"--%s\"?)\n", program, given, search.best);
    else
        fprintf(stderr, "%s: no such option: --%s\n", program, given);
}

void option_begin(char **argv, const char *name)
{
    argv[0] = (char *)name; /* getopt_long takes it for no option, and changes none */
    optind = 1;
}

int option_next(int argc, char **argv, const struct option *known, int *at)
{
    int answer = getopt_long(argc, argv, ":", known, at);
    if (answer != ':' && answer != '?')
        return answer;
    const char *slash = strrchr(argv[0], '/'), *program = slash ? slash + 1 : argv[0], *word = argv[optind - 1];
    if (answer == ':')
        fprintf(stderr, "%s: %s needs a value\n", program, word);
    else if (strncmp(word, "--", 2) == 0)
        say_wrong(program, known, word + 2);
    else
        fprintf(stderr, "%s: no such option: -%c\n", program, optopt);
    return '?';
}
