/* commands.h: the table of what larderd can do besides serving. */
#ifndef LARDER_SERVER_COMMANDS_COMMANDS_H
#define LARDER_SERVER_COMMANDS_COMMANDS_H

#include <stdbool.h>
#include <stdio.h>

/* commands_list writes what --help says of the commands. */
void commands_list(FILE *out);
/* commands_run runs the command that argv[0] (and, for `bench`, argv[1]) names, and sets *status to its exit status.
 * False: there is no command of that name. */
bool commands_run(int argc, char **argv, int *status);

#endif
