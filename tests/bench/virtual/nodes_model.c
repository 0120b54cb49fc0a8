/* nodes_model.c: the performance model's speeds and costs. HDMLP (ETH Zürich 2020) §3.1, equations 3.4 to 3.7 and 4.1.
 */
#include <math.h>
#include <string.h>

#include "common/check.h"
#include "common/random.h"
#include "tests/bench/virtual/nodes_priv.h"

enum { KEY_SIZES = 21 };

double nodes_speed(const struct nodes_curve *curve, double at)
{
    CHECK(curve->count > 0);
    uint32_t next = 0;
    while (next < curve->count && curve->points[next].at < at)
        next++;
    if (next == 0)
        return curve->points[0].speed;
    double before = curve->points[next - 1].speed;
    if (next == curve->count)
        return before;
    double part = (at - curve->points[next - 1].at) / (curve->points[next].at - curve->points[next - 1].at);
    return before + part * (curve->points[next].speed - before);
}

double *nodes_sizes(const struct nodes_scenario *scenario)
{
    const double pi = 3.14159265358979323846;
    double *sizes = xcalloc(scenario->samples, sizeof *sizes);
    struct rng rng;
    random_seed_keys(&rng, scenario->seed, KEY_SIZES, 0, 0);
    for (uint64_t id = 0; id < scenario->samples; id++) {
        double radius = sqrt(-2 * log(1 - random_unit(&rng))), angle = 2 * pi * random_unit(&rng);
        sizes[id] = fmax(0, scenario->mean + scenario->deviation * radius * cos(angle));
    }
    return sizes;
}

void nodes_costs(const struct nodes_scenario *scenario, struct nodes_costs *out)
{
    memset(out, 0, sizeof *out);
    out->compute = 1 / scenario->compute;
    out->preprocess = 1 / scenario->preprocess;
    out->network = 1 / scenario->network;
    for (uint32_t reading = 1; reading <= scenario->nodes; reading++)
        out->pfs[reading] = 1 / fmin(scenario->pfs_network, nodes_speed(&scenario->pfs, reading) / reading);
    for (uint32_t i = 0; i < scenario->n_classes; i++) {
        const struct nodes_class *class = &scenario->classes[i];
        double threads = (double)class->threads, speed = nodes_speed(&class->read, threads) / threads;
        out->threads[i] = threads;
        out->own[i] = 1 / speed;
        out->others[i] = 1 / fmin(scenario->network, speed);
        out->write[i] = class->write.count ? threads / nodes_speed(&class->write, threads) : 0;
    }
}

/* A class's own writes go on beside the next fetches, so they count only where they are what takes longest. */
double nodes_read_cost(const struct nodes_costs *costs, uint32_t class, double fetch)
{
    return fmax(fetch + costs->preprocess, costs->write[class]) / costs->threads[class];
}
