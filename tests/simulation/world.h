/* world.h: everything around the engine, in virtual time: loaders, preparers, clients and the wire between.
 *
 * One event heap drives it all; events at the same time come in the order in which they were made. A run depends on the
 * scenario alone. */
#ifndef LARDER_SIMULATION_WORLD_H
#define LARDER_SIMULATION_WORLD_H

#include "server/engine/engine.h"
#include "tests/simulation/model.h"
#include "tests/simulation/sabotage.h"
#include "tests/simulation/scenario.h"

struct world;

struct world_options {
    bool verbose;         /* print every event and action */
    uint32_t check_every; /* engine_check after each so-many-th step; 0: as often as is cheap */
    enum sabotage_kind sabotage;
};

struct world_result {
    enum rule broken;
    char text[512];
    uint64_t hash; /* of all events and actions */
    uint64_t steps, virtual_ns;
    bool sabotaged;    /* an opportunity came */
    uint32_t no_rooms; /* jobs that failed because others' batches lay in the way */
    struct engine_totals totals;
};

void world_run(struct scenario *scenario, const struct world_options *options, struct world_result *result);

#endif
