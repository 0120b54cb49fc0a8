#include "preprocess/chance.h"

#include <math.h>

/* Box and Muller. */
double chance_normal(struct rng *rng)
{
    double radius = sqrt(-2 * log(1 - random_unit(rng)));
    return radius * cos(2 * M_PI * random_unit(rng));
}

/* Marsaglia and Tsang, for a shape of 1 or more. A try fails in one case of twenty. */
static double gamma_above_one(struct rng *rng, double shape)
{
    double d = shape - 1.0 / 3.0, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = chance_normal(rng), v = 1 + c * x;
        if (v <= 0)
            continue;
        v = v * v * v;
        if (log(1 - random_unit(rng)) < 0.5 * x * x + d - d * v + d * log(v))
            return d * v;
    }
}

/* The logarithm, since small shapes give numbers too small for a double. */
static double log_gamma_drawn(struct rng *rng, double shape)
{
    if (shape >= 1)
        return log(gamma_above_one(rng, shape));
    return log(gamma_above_one(rng, shape + 1)) + log(1 - random_unit(rng)) / shape;
}

void chance_dirichlet(struct rng *rng, double alpha, size_t count, double *parts)
{
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < count; i++) {
        parts[i] = log_gamma_drawn(rng, alpha);
        most = fmax(most, parts[i]);
    }
    for (size_t i = 0; i < count; i++)
        sum += parts[i] = exp(parts[i] - most);
    for (size_t i = 0; i < count; i++)
        parts[i] /= sum;
}
