/* paper.h: `larder_bench cluster --paper`: the rule of Redox and Brand against Redox's table 6, and Larder's rule
 * beside it. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_PAPER_H
#define LARDER_TESTS_BENCH_VIRTUAL_PAPER_H

#include <stdbool.h>

/* paper_bench prints a table, or JSON, and returns an exit status. A brief one is without Larder's dearest row. */
int paper_bench(bool json, bool brief);

#endif
