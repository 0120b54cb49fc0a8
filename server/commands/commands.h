/* commands.h: what larderd can do besides serving: one table. */
#ifndef LARDER_SERVER_COMMANDS_COMMANDS_H
#define LARDER_SERVER_COMMANDS_COMMANDS_H

#include <stdbool.h>
#include <stdio.h>

void commands_list(FILE *out);
/* commands_run runs the command that argv[0] (and, for `bench`, argv[1]) names; false when there is
 * none of that name. */
bool commands_run(int argc, char **argv, int *status);

#endif
