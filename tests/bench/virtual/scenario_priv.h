/* scenario_priv.h: the readers of scenario files of `larder_bench sharing` (scenario*.c only). */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_SCENARIO_PRIV_H
#define LARDER_TESTS_BENCH_VIRTUAL_SCENARIO_PRIV_H

#include "tests/bench/virtual/read.h"
#include "tests/bench/virtual/sharing.h"

#define SHARING_START_MAX 1e6

/* scenario_costs reads the key `costs`. scenario_check_costs refuses a job that says what only scenarios with costs, or
 * without, have. Both return 0 or an error's code. */
int scenario_costs(struct bench_reader *reader, const struct doc_node *node, struct costs *out);
int scenario_check_costs(struct bench_reader *reader, const struct doc_node *root,
                         const struct sharing_scenario *scenario, const struct sharing_job *job);

#endif
