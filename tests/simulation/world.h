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
    bool timed;           /* measure how long the engine's steps take, which costs as much as small ones */
    uint32_t check_every; /* engine_check after each so-many-th step; 0: as often as is cheap */
    enum sabotage_kind sabotage;
};

/* What came of restarts. */
struct world_restarts {
    uint32_t crashes, legs, states; /* daemons that died; legs that followed another; states that were saved */
    uint32_t resumed;               /* jobs that went on, all of whose ranks came back */
    uint32_t epochs;                /* whole ones */
    uint32_t runs, dead;            /* training runs, and those that a client was told not to go on with */
};

struct world_result {
    enum rule broken;
    char text[512];
    uint64_t hash; /* of all events and actions */
    uint64_t steps, virtual_ns;
    uint64_t longest_ns; /* of the engine's steps, in the thread's time; 0 unless timed */
    bool sabotaged;      /* an opportunity came */
    uint32_t no_rooms;   /* jobs that failed because others' batches lay in the way */
    struct engine_totals totals;
    struct world_restarts restarts;
};

void world_run(struct scenario *scenario, const struct world_options *options, struct world_result *result);

#endif
