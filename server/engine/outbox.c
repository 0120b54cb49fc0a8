/* outbox.c: what a step leads to. */
#include <string.h>

#include "common/check.h"
#include "server/engine/outbox.h"

struct engine_action *outbox_add(struct outbox *outbox, enum engine_action_type type)
{
    outbox->actions = xgrow(outbox->actions, sizeof *outbox->actions, &outbox->actions_cap, outbox->n_actions + 1);
    struct engine_action *action = &outbox->actions[outbox->n_actions++];
    memset(action, 0, sizeof *action);
    action->type = type;
    action->job = ENGINE_NONE;
    return action;
}

/* While the arrays could still move, actions had only numbers of outputs and entries. Here they get pointers. */
void outbox_seal(struct outbox *outbox)
{
    size_t outputs = 0, delivered = 0;
    for (size_t i = 0; i < outbox->n_actions; i++) {
        struct engine_action *action = &outbox->actions[i];
        if (action->type == ENGINE_PREPARE) {
            action->prepare.outputs = outbox->outputs + outputs;
            outputs += action->prepare.n_outputs;
        } else if (action->type == ENGINE_DELIVER) {
            action->deliver.entries = action->deliver.count ? outbox->delivered + delivered : NULL;
            delivered += action->deliver.count;
        }
    }
    CHECK(outputs == outbox->n_outputs && delivered == outbox->n_delivered);
}
