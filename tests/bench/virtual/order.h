/* order.h: `larder_bench order SCENARIO.yaml`: the order of one job against a full shuffle. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_ORDER_H
#define LARDER_TESTS_BENCH_VIRTUAL_ORDER_H

#include "tests/bench/virtual/sharing.h"

/* The orders of a run's jobs. They can be measured when each job is on all of enough samples (orders_fit). orders_begin
 * makes them, orders_got is a sharing_got that takes them as its context, and orders_report adds to `rows` one row for
 * each job, once; `run` is the run's report. Of a training with ranks the order is that of its steps, each of which has
 * a batch of each rank, and the row that of its first rank's job. */
struct order;
bool orders_fit(const struct sharing_scenario *scenario);
struct order *orders_begin(const struct sharing_scenario *scenario);
void orders_got(void *orders, const struct sharing_given *given);
void orders_report(struct order *orders, const struct sharing_scenario *scenario, const char *name, const json_t *run,
                   json_t *rows);
void orders_end(struct order *orders, const struct sharing_scenario *scenario);

/* order_bench_main is the command. argv[0] is its own name. */
int order_bench_main(int argc, char **argv);

#endif
