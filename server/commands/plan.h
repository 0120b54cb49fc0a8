/* plan.h: `larder plan` (docs/plan.md). */
#ifndef LARDER_SERVER_COMMANDS_PLAN_H
#define LARDER_SERVER_COMMANDS_PLAN_H

/* plan_main gives the exit status. 0: done. 1: failed. 2: wrong usage. */
int plan_main(int argc, char **argv);

#endif
