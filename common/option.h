/* option.h: the options of programs and commands, read one by one with getopt_long. */
#ifndef LARDER_COMMON_OPTION_H
#define LARDER_COMMON_OPTION_H

#include <getopt.h>

/* option_begin begins anew with a command's own arguments, the first of which becomes its name. */
void option_begin(char **argv, const char *name);

/* option_next returns what getopt_long returns for the next of the known long options: optarg and optind are set, and
 * *at, if at is not NULL. For an unknown option, or one that lacks its value, it returns '?' and writes a line to
 * stderr. The line begins with argv[0], without folders, and names the option that was probably meant. Not for two
 * threads at once. */
int option_next(int argc, char **argv, const struct option *known, int *at);

#endif
