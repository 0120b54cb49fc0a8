/* cluster.h: `larder_bench cluster SCENARIO.yaml`: the nodes of a cluster in virtual time, with the real engine,
 * guests, merges and map, without decoding.
 *
 * In each step of virtual time every running job consumes `rate` samples, on its node. Loads and preparations take no
 * time, messages CLUSTER_MESSAGE_NS. The bench counts what the engines asked for, and what went from node to node.
 * `larder_bench cluster --paper` is paper.h's. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_CLUSTER_H
#define LARDER_TESTS_BENCH_VIRTUAL_CLUSTER_H

#include "tests/bench/virtual/sharing.h"

#define CLUSTER_STEP_NS UINT64_C(1000000)
#define CLUSTER_MESSAGE_NS UINT64_C(100000)

/* cluster_run runs a scenario and gives a report, which is the caller's. It returns 0, or 1 after it has said on stderr
 * why it cannot. */
int cluster_run(const struct sharing_scenario *scenario, json_t **out);
/* cluster_least_slots returns the samples for which a node's arena has room at least, whatever the scenario says. */
uint64_t cluster_least_slots(const struct sharing_scenario *scenario);
int cluster_bench_main(int argc, char **argv); /* the command. argv[0] is its own name. */

#endif
