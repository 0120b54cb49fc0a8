/* order.h: `larder bench order SCENARIO.yaml`: the order of one job against a full shuffle. */
#ifndef LARDER_SERVER_BENCH_ORDER_H
#define LARDER_SERVER_BENCH_ORDER_H

/* order_bench_main is the command. argv[0] is its own name. */
int order_bench_main(int argc, char **argv);

#endif
