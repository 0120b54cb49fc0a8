/* commands.h: the table of what larderd can do besides serving. */
#ifndef LARDER_SERVER_COMMANDS_COMMANDS_H
#define LARDER_SERVER_COMMANDS_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/manual.h"

/* commands_rows fills what the manual says of the commands; there is room for COMMANDS_MAX. It returns their number. */
#define COMMANDS_MAX 32
size_t commands_rows(struct manual_row *rows);
/* commands_run runs the command that argv[0] names, with argv[1] for `bench` and `cluster`, and sets *status to its
 * exit status. False: there is no command of that name. */
bool commands_run(int argc, char **argv, int *status);

#endif
