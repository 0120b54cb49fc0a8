/* outbox.h: what a step leads to: actions, and the outputs and entries that they name.
 *
 * Invariant: actions are in the order in which they were added. The outputs of all PREPAREs lie one behind the other in
 * the same order, and so do the entries of all DELIVERs. So outbox_seal can give each action its pointers by counting.
 * Owner: outbox.c owns all three arrays. A pointer from outbox_add is valid until the next outbox_add. After
 * outbox_seal, actions, outputs and entries are valid until the next step. Other modules add an action and fill it in
 * at once. */
#ifndef LARDER_SERVER_ENGINE_OUTBOX_H
#define LARDER_SERVER_ENGINE_OUTBOX_H

#include "server/engine/engine.h"
#include "server/engine/env.h"
#include "server/engine/line.h"

/* The actions, outputs and entries of this step; valid until the next step. */
struct outbox {
    struct engine_action *actions;
    size_t n_actions, actions_cap;
    struct engine_output *outputs; /* The outputs of this step's PREPAREs, in their order. */
    size_t n_outputs, outputs_cap;
    struct engine_entry *delivered; /* The entries of this step's DELIVERs, in their order. */
    size_t n_delivered, delivered_cap;
};

/* outbox_seal ends the step: it gives each PREPARE and DELIVER the pointer to its outputs or entries. */
void outbox_seal(struct outbox *outbox);
/* outbox_add adds an action of no job (ENGINE_NONE). All that actions of its type have is 0. */
struct engine_action *outbox_add(struct outbox *outbox, enum engine_action_type type);

#endif
