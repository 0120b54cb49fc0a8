/* sabotage_priv.h: shared by sabotage*.c. */
#ifndef LARDER_SIMULATION_SABOTAGE_PRIV_H
#define LARDER_SIMULATION_SABOTAGE_PRIV_H

#include "tests/simulation/sabotage.h"
#include "tests/simulation/table.h"

#define NO_BATCH (UINT64_C(1) << 32) /* past all numbers of batches */

struct sabotage {
    enum sabotage_kind kind;
    const struct model *model;
    const struct scenario *scenario;
    uint64_t arena_bytes;
    uint32_t wait; /* opportunities that are let pass */
    bool calm;     /* all sources answer: no job fails over them before the deed is seen */
    bool done;
    struct table prepared; /* (pipeline number, sample) → an instance that was made, plus one */
    struct engine_entry entries[ENGINE_BATCH_MAX];
    struct engine_output outputs[ENGINE_OUTPUTS_MAX];
    struct engine_job_desc desc; /* what the engine is told of a job that goes on */
    struct engine_resume resume;
    struct idset *turns;
    uint64_t client;                   /* that was told of as if it began */
    const struct client_plan *redrawn; /* whose draws the engine is told wrongly, whenever it comes */
    bool misled;                       /* its answer is still to come */
    bool lasting;                      /* no daemon dies any more */
};

/* An opportunity has come: gives true when it is the one to take. */
static inline bool sabotage_take(struct sabotage *sabotage)
{
    if (sabotage->wait > 0) {
        sabotage->wait--;
        return false;
    }
    sabotage->done = true;
    return true;
}

/* sabotage_ranks.c: sabotage_rank is sabotage_action for the kinds that are of jobs with several ranks. */
size_t sabotage_rank(struct sabotage *sabotage, const struct engine_action *action, struct engine_action *out);
/* sabotage_inside has the engine itself do wrong, until it is called with NULL. */
void sabotage_inside(struct sabotage *sabotage);

/* sabotage_states.c: sabotage_add may change a JOB_ADD that brings a state, and sabotage_answer the JOB_ADDED that
 * follows. */
void sabotage_add(struct sabotage *sabotage, const struct client_plan *plan, struct engine_event *event);
void sabotage_answer(struct sabotage *sabotage, struct engine_action *answer);

#endif
