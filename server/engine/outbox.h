/* outbox.h: what a step leads to: actions, and the outputs and entries that they name.
 *
 * Invariant: actions are in the order in which they were added; the outputs of all PREPAREs, and the entries of all
 * DELIVERs, lie one behind the other in the same order. So outbox_seal can give each action its pointers by counting.
 * Owner: outbox.c owns all three arrays. A pointer from outbox_add is valid until the next outbox_add; what outbox_seal
 * leaves is valid until the next step. Everybody else adds, and fills the action in at once. */
#ifndef LARDER_SERVER_ENGINE_OUTBOX_H
#define LARDER_SERVER_ENGINE_OUTBOX_H

#include "server/engine/engine.h"
#include "server/engine/env.h"
#include "server/engine/line.h"

/* What this step leads to; valid until the next. */
struct outbox {
    struct engine_action *actions;
    size_t n_actions, actions_cap;
    struct engine_output *outputs; /* The outputs of this step's PREPAREs, in their order. */
    size_t n_outputs, outputs_cap;
    struct engine_entry *delivered; /* The entries of this step's DELIVERs, in their order. */
    size_t n_delivered, delivered_cap;
};

void outbox_seal(struct outbox *outbox);
struct engine_action *outbox_add(struct outbox *outbox, enum engine_action_type type);

#endif
