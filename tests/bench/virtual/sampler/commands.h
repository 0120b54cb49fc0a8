/* commands.h: the command of this folder. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_SAMPLER_COMMANDS_H
#define LARDER_TESTS_BENCH_VIRTUAL_SAMPLER_COMMANDS_H

/* tree_bench_main measures the sampler and prints JSON: `larder_bench tree [--datasets N --min A --max B --universe U
 * --seed S --rounds R --materialised]`. argv[0] is the command's own name. Returns an exit status:
 * 0, 1 (failed), 2 (usage). */
int tree_bench_main(int argc, char **argv);

#endif
