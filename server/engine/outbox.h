/* outbox.h: the actions of the present step, until the step's end seals them.
 *
 * Outputs and delivered entries lie in arrays of their own, in the order of the actions that they belong to; actions get
 * pointers to them when nothing moves any more. Owner of all: outbox. */
#ifndef LARDER_SERVER_ENGINE_OUTBOX_H
#define LARDER_SERVER_ENGINE_OUTBOX_H

#include "server/engine/engine.h"
#include "server/engine/env.h"
#include "server/engine/line.h"

/* What this step leads to; valid until the next. */
struct outbox {
    struct engine_action *actions;
    size_t n_actions, actions_cap;
    struct engine_output *outputs; /* of these actions, which hold indices until the step's end */
    size_t n_outputs, outputs_cap;
    struct engine_entry *delivered;
    size_t n_delivered, delivered_cap;
};

void outbox_seal(struct outbox *outbox);
struct engine_action *outbox_add(struct outbox *outbox, enum engine_action_type type);

#endif
