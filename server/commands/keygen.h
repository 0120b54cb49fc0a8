/* keygen.h: `larder cluster keygen`: a cluster's authority and its nodes' bundles (docs/reference/cluster.md). */
#ifndef LARDER_SERVER_COMMANDS_KEYGEN_H
#define LARDER_SERVER_COMMANDS_KEYGEN_H

/* keygen_main returns the exit status. 0: done. 1: failed. 2: wrong usage. */
int keygen_main(int argc, char **argv);

#endif
