/* solo.h: an engine with one job, perfect samples and no delays: what a scenario and the model compare with. */
#ifndef LARDER_SIMULATION_SOLO_H
#define LARDER_SIMULATION_SOLO_H

#include "tests/simulation/scenario.h"

/* solo_quota: bytes of arena that the plan's job asks for where there is plenty; 0 when it is refused even so. */
uint64_t solo_quota(const struct scenario *scenario, const struct client_plan *plan);

/* solo_order: the ids of one epoch of a `strict` job in the order in which it gets them when it is alone, with another
 * batch size, pipeline and engine seed, and without the epochs before. n_view of them; the caller frees. */
sample_id *solo_order(const struct scenario *scenario, const struct client_plan *plan, uint32_t epoch);

#endif
