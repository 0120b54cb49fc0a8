/* storage.h: `larder cache` and `larder bench storage` (docs/reference/storage.md). */
#ifndef LARDER_SERVER_COMMANDS_STORAGE_H
#define LARDER_SERVER_COMMANDS_STORAGE_H

/* Both give the exit status. 0: done. 1: failed (cache: something is wrong with the class). 2: wrong usage. 130:
 * stopped by a signal. */
int cache_main(int argc, char **argv);
int storage_bench_main(int argc, char **argv);

#endif
