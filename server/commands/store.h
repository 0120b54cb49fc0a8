/* store.h: `larderd pack` and `larderd verify` make and check chunk stores (docs/reference/stores.md) from the
 * command line. */
#ifndef LARDER_SERVER_COMMANDS_STORE_H
#define LARDER_SERVER_COMMANDS_STORE_H

/* argv[0] is the command's name. Both return the exit status. 0: done. 1: failed (verify: something is wrong with the
 * store). 2: wrong usage. 130: stopped by a signal. Results, and verify's findings, go to standard output. Progress and
 * errors go to standard error. */
int pack_main(int argc, char **argv);
int verify_main(int argc, char **argv);

#endif
