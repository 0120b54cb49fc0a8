/* engine.h: `larder_bench engine`: what the engine takes to deliver a sample, for one job and for many. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_ENGINE_H
#define LARDER_TESTS_BENCH_VIRTUAL_ENGINE_H

/* engine_bench_main is the command. argv[0] is its own name. */
int engine_bench_main(int argc, char **argv);

#endif
