/* outbox.c: what a step leads to. */
#include <stddef.h>
#include <string.h>

#include "common/check.h"
#include "server/engine/outbox.h"

/* Only errors have a text, which is far longer than all else. So of other actions no more than this is set. */
#define SHORT_BYTES 128
#define END_OF(member) (offsetof(struct engine_action, member) + sizeof(((struct engine_action *)0)->member))
#define IS_SHORT(member) _Static_assert(END_OF(member) <= SHORT_BYTES, #member)

IS_SHORT(job_added);
IS_SHORT(load);
IS_SHORT(prepare);
IS_SHORT(expect);
IS_SHORT(drop);
IS_SHORT(deliver);
IS_SHORT(ahead);
IS_SHORT(source);
IS_SHORT(reserve);
IS_SHORT(give_back);
IS_SHORT(job_ended);

static bool has_text(enum engine_action_type type)
{
    return type == ENGINE_JOB_REFUSED || type == ENGINE_JOB_ERROR;
}

struct engine_action *outbox_add(struct outbox *outbox, enum engine_action_type type)
{
    outbox->actions = xgrow(outbox->actions, sizeof *outbox->actions, &outbox->actions_cap, outbox->n_actions + 1);
    struct engine_action *action = &outbox->actions[outbox->n_actions++];
    memset(action, 0, has_text(type) ? sizeof *action : SHORT_BYTES);
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
