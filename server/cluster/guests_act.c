/* guests_act.c: actions, and what of the engine's batches is held. */
#include "common/check.h"
#include "server/cluster/guests_priv.h"

struct guests_action *guests_act(struct guests *guests, enum guests_action_type type, const struct guest *guest)
{
    guests->actions = xgrow(guests->actions, sizeof *guests->actions, &guests->actions_cap, guests->n_actions + 1);
    struct guests_action *action = &guests->actions[guests->n_actions++];
    *action = (struct guests_action){.type = type};
    if (guest) {
        action->guest = guest->number;
        action->job = guest->job;
    }
    return action;
}

struct guests_action *guests_reply(struct guests *guests, const struct guest *guest, uint64_t request,
                                   enum guests_answer kind)
{
    struct guests_action *action = guests_act(guests, GUESTS_ANSWER, guest);
    action->request = request;
    action->answer.kind = kind;
    return action;
}

void guests_refuse(struct guests *guests, uint64_t request, int code)
{
    guests_reply(guests, NULL, request, GUESTS_IS_REFUSED)->answer.code = code;
}

void guests_put_held(struct held_list *list, struct held held)
{
    list->all = xgrow(list->all, sizeof *list->all, &list->cap, list->count + 1);
    list->all[list->count++] = held;
}

/* let_go counts a sample out of its batch. The engine has the batch back when none of it is held. */
static void let_go(struct guests *guests, struct guest *guest, uint64_t batch)
{
    for (size_t i = 0; i < guest->n_batches; i++) {
        struct open_batch *open = &guest->batches[i];
        if (open->batch != batch || --open->held > 0)
            continue;
        guests_act(guests, GUESTS_RELEASE, guest)->batch = batch;
        *open = guest->batches[--guest->n_batches];
        return;
    }
}

void guests_let_all_go(struct guests *guests, struct guest *guest, struct kept *kept)
{
    for (size_t i = 0; i < kept->samples.count; i++) {
        if (kept->samples.all[i].batch != NO_BATCH)
            let_go(guests, guest, kept->samples.all[i].batch);
    }
    kept->samples.count = 0;
    kept->seq = 0;
}
