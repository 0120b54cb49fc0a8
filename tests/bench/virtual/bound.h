/* bound.h: the least makespan that any policy can reach in a scenario with costs. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_BOUND_H
#define LARDER_TESTS_BENCH_VIRTUAL_BOUND_H

#include "tests/bench/virtual/sharing.h"

/* bound_job returns the least seconds for one job alone that begins with empty memory. bound_scenario returns that of
 * all jobs together, which nothing beats whatever they share; *in_step says that all jobs run in step, so that
 * sharing may come near it. */
double bound_job(const struct sharing_scenario *scenario, const struct sharing_job *job);
double bound_scenario(const struct sharing_scenario *scenario, bool *in_step);

/* bound_report returns costs_report of a run of the scenario, with the bound beside it. */
json_t *bound_report(const struct sharing_scenario *scenario, const struct costs_machine *machine);

#endif
