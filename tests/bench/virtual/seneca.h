/* seneca.h: the rule of Seneca (FAST 2026), played on the machine of a scenario with costs, with as many bytes of
 * memory as the engine has there. It runs none of the daemon's code.
 *
 * The words are the paper's. Memory is split between encoded, decoded and augmented samples by a model of the machine
 * (MDP; seneca_split.c). Batches are drawn at random, and what a batch draws that is not cached is replaced by what is
 * cached and the job has not seen in this epoch (ODS; seneca.c). Encoded and decoded samples stay for ever. An
 * augmented one goes when it has been given as often as there are jobs, and another sample, drawn at random, is read
 * and augmented in its place in the background. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_SENECA_H
#define LARDER_TESTS_BENCH_VIRTUAL_SENECA_H

#include "tests/bench/virtual/sharing.h"

/* Hundredths of the memory. They come to 100. */
struct seneca_split {
    uint32_t encoded, decoded, augmented;
};

/* seneca_model returns the model's rate of all jobs together, in samples a second, with a split. seneca_best returns
 * the split with the highest one. */
double seneca_model(const struct sharing_scenario *scenario, const struct seneca_split *split);
struct seneca_split seneca_best(const struct sharing_scenario *scenario);

/* seneca_run plays a scenario with costs, and gives a report, which is the caller's. Every job gets every sample of the
 * dataset once in each epoch, or the program ends. */
void seneca_run(const struct sharing_scenario *scenario, const struct seneca_split *split, json_t **out);

#endif
