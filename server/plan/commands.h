/* commands.h: `larder plan` (docs/reference/plan.md). */
#ifndef LARDER_SERVER_PLAN_COMMANDS_H
#define LARDER_SERVER_PLAN_COMMANDS_H

/* plan_main returns the exit status. 0: done. 1: failed. 2: wrong usage. */
int plan_main(int argc, char **argv);

#endif
