/* seneca_split.c: Seneca's model-driven partitioning (MDP).
 *
 * The model says for each form, and for samples that are in storage, at which rate all jobs together would be served
 * if all samples were there: the least of the rates of what they pass. Samples are then counted into forms, augmented
 * ones first, and the rate of a split is the mean of the forms' rates, weighted by their samples. All splits by
 * hundredths are tried. The paper's model also has the cache's own bandwidth, which is a remote one there, the network
 * and PCIe. Memory is the node's own here, so these are no limits, which favours Seneca. */
#include <math.h>

#include "tests/bench/virtual/seneca_priv.h"
#include "tests/bench/virtual/sharing_priv.h"

static double memory_bytes(const struct sharing_scenario *scenario)
{
    const struct costs *costs = &scenario->costs;
    return ((double)sharing_encoded(scenario) + (double)sharing_slots(scenario) * costs->prepared) *
           costs->encoded_bytes;
}

void seneca_counts(const struct sharing_scenario *scenario, const struct seneca_split *split,
                   uint32_t out[SENECA_FORMS])
{
    const struct costs *costs = &scenario->costs;
    double part = memory_bytes(scenario) / 100 / costs->encoded_bytes;
    double augmented = floor(split->augmented * part / costs->prepared + 1e-9);
    double decoded = floor(split->decoded * part / costs->decoded + 1e-9);
    out[SENECA_AUGMENTED] = (uint32_t)fmin(scenario->samples, augmented);
    out[SENECA_DECODED] = (uint32_t)fmin(scenario->samples - out[SENECA_AUGMENTED], decoded);
    out[SENECA_ENCODED] = (uint32_t)fmin(scenario->samples - out[SENECA_AUGMENTED] - out[SENECA_DECODED],
                                         floor(split->encoded * part + 1e-9));
    out[SENECA_NONE] = scenario->samples - out[SENECA_AUGMENTED] - out[SENECA_DECODED] - out[SENECA_ENCODED];
}

/* training_rate returns at how many samples a second the jobs train that run at once, the fastest ones. */
static double training_rate(const struct sharing_scenario *scenario)
{
    double rate = 0, fastest = 0;
    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        rate += 1 / scenario->jobs[i].train_s;
        fastest = fmax(fastest, 1 / scenario->jobs[i].train_s);
    }
    uint32_t at_once = scenario->costs.at_once;
    return at_once ? fmin(rate, fastest * at_once) : rate;
}

double seneca_model(const struct sharing_scenario *scenario, const struct seneca_split *split)
{
    const struct costs *costs = &scenario->costs;
    double training = training_rate(scenario);
    double whole = fmin(training, costs->cores / fmax(1e-12, costs->decode_s + costs->prepare_s));
    double rates[SENECA_FORMS] = {
        [SENECA_NONE] = fmin(whole, 1 / fmax(1e-12, costs_read_s(costs))),
        [SENECA_ENCODED] = whole,
        [SENECA_DECODED] = fmin(training, costs->cores / fmax(1e-12, costs->prepare_s)),
        [SENECA_AUGMENTED] = training,
    };
    uint32_t in[SENECA_FORMS];
    double rate = 0;
    seneca_counts(scenario, split, in);
    for (int form = 0; form < SENECA_FORMS; form++)
        rate += rates[form] * in[form] / scenario->samples;
    return rate;
}

struct seneca_split seneca_best(const struct sharing_scenario *scenario)
{
    struct seneca_split best = {.encoded = 100};
    double most = seneca_model(scenario, &best);
    for (uint32_t augmented = 0; augmented <= 100; augmented++) {
        for (uint32_t decoded = 0; augmented + decoded <= 100; decoded++) {
            struct seneca_split split = {100 - augmented - decoded, decoded, augmented};
            double rate = seneca_model(scenario, &split);
            if (rate > most * (1 + 1e-9)) {
                most = rate;
                best = split;
            }
        }
    }
    return best;
}
