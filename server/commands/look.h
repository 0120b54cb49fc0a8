/* look.h: `larder look SOURCE`: what a dataset is, before anything is trained on it. */
#ifndef LARDER_SERVER_COMMANDS_LOOK_H
#define LARDER_SERVER_COMMANDS_LOOK_H

/* look_main prints it, and returns the command's exit status. */
int look_main(int argc, char **argv);

#endif
