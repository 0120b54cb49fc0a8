/* walls.h: `larder_bench scale --walls`: what grows with samples, jobs and nodes, and where it ends. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_WALLS_H
#define LARDER_TESTS_BENCH_VIRTUAL_WALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* walls_bench prints a JSON array of rows for datasets of these sizes. False: a job was refused or failed, which was
 * said on stderr. */
bool walls_bench(const uint32_t *sizes, size_t n_sizes);

#endif
