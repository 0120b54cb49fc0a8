/* chance.h: random numbers of other kinds than uniform, from a stream of uniform ones. Pure. */
#ifndef LARDER_PREPROCESS_CHANCE_H
#define LARDER_PREPROCESS_CHANCE_H

#include <stddef.h>

#include "common/random.h"

/* chance_normal returns a standard normal number. */
double chance_normal(struct rng *rng);
/* chance_dirichlet draws `count` parts of one whole, from Dirichlet's distribution with alpha, above 0, for each. */
void chance_dirichlet(struct rng *rng, double alpha, size_t count, double *parts);

#endif
