/* scale.h: `larder_bench scale`: what jobs of one dataset wait for because of its size, or because of each other. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_SCALE_H
#define LARDER_TESTS_BENCH_VIRTUAL_SCALE_H

/* scale_bench_main is the command. argv[0] is its own name. */
int scale_bench_main(int argc, char **argv);

#endif
