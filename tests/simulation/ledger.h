/* ledger.h: what a training run was given, over all daemons that it had and all its legs, cut back to the state that it
 * went on from each time. It is the truth about the run: over a whole epoch each sample of the view has exactly one
 * turn, bad ones aside, and all ranks have had the same number of steps; in a fixed order each rank gets its part in
 * order, as without restarts.
 *
 * It knows deliveries as they are, with the turn that each sample has, and nothing of states but what they say. */
#ifndef LARDER_SIMULATION_LEDGER_H
#define LARDER_SIMULATION_LEDGER_H

#include "tests/simulation/model.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/state.h"

struct ledger;

/* The plan is one of the first leg's. Breaches are told to the model, which also knows what failed. */
struct ledger *ledger_create(const struct scenario *scenario, const struct client_plan *plan, struct model *model);
void ledger_destroy(struct ledger *ledger);

/* A rank is sent a batch; it takes the first that it has not taken. */
void ledger_deliver(struct ledger *ledger, const struct engine_action *action);
void ledger_take(struct ledger *ledger, uint32_t rank, uint32_t epoch);
/* The rank gives up the running epoch. */
void ledger_break(struct ledger *ledger, uint32_t epoch);
/* What the rank has not taken is lost on the way. */
void ledger_lose(struct ledger *ledger, uint32_t rank);
void ledger_crash(struct ledger *ledger); /* for all ranks */
/* A leg begins, from a state or from the start (NULL). The plan is one of the leg's. */
void ledger_cut(struct ledger *ledger, const struct client_plan *plan, const struct record *token);
/* A rank comes to a new job without a word of what the run has had: if it has had something, nothing more can be said
 * of it until the next leg. */
void ledger_anew(struct ledger *ledger);
/* All ranks have gone through all epochs. */
void ledger_finish(struct ledger *ledger);
/* ledger_check_token: the token says what each rank's first n batches of the running epoch and its base are. */
void ledger_check_token(struct ledger *ledger, const struct record *token, uint32_t n);
bool ledger_is_known(const struct ledger *ledger); /* not after ledger_anew with something had */
uint32_t ledger_epoch(const struct ledger *ledger);
uint32_t ledger_whole_epochs(const struct ledger *ledger); /* that were found to be complete */

#endif
