/* outbox.c: what a step leads to, and the numbered places of what the engine holds. */
#include <string.h>

#include "server/engine/outbox.h"

struct engine_action *outbox_add(struct engine *engine, enum engine_action_type type)
{
    if (engine->outbox.n_actions == engine->outbox.actions_cap) {
        engine->outbox.actions_cap = engine->outbox.actions_cap ? engine->outbox.actions_cap * 2 : 64;
        engine->outbox.actions = xrealloc(engine->outbox.actions, engine->outbox.actions_cap, sizeof *engine->outbox.actions);
    }
    struct engine_action *action = &engine->outbox.actions[engine->outbox.n_actions++];
    memset(action, 0, sizeof *action);
    action->type = type;
    action->job = ENGINE_NONE;
    return action;
}

struct engine_action *outbox_add_job(struct engine *engine, enum engine_action_type type, uint32_t job)
{
    struct engine_action *action = outbox_add(engine, type);
    action->job = job;
    action->client = engine->jobs.all[job].terms.client;
    return action;
}

/* Actions took numbers of outputs and entries while the arrays could still move; now they get pointers. */
void outbox_seal(struct engine *engine)
{
    size_t outputs = 0, delivered = 0;
    for (size_t i = 0; i < engine->outbox.n_actions; i++) {
        struct engine_action *action = &engine->outbox.actions[i];
        if (action->type == ENGINE_PREPARE) {
            action->prepare.outputs = engine->outbox.outputs + outputs;
            outputs += action->prepare.n_outputs;
        } else if (action->type == ENGINE_DELIVER) {
            action->deliver.entries = action->deliver.count ? engine->outbox.delivered + delivered : NULL;
            delivered += action->deliver.count;
        }
    }
    CHECK(outputs == engine->outbox.n_outputs && delivered == engine->outbox.n_delivered);
}
