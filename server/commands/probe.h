/* probe.h: `larder cluster probe`: asks whether a node of the cluster answers at an address. */
#ifndef LARDER_SERVER_COMMANDS_PROBE_H
#define LARDER_SERVER_COMMANDS_PROBE_H

int probe_main(int argc, char **argv); /* gives the exit status */

#endif
