/* merge_act.c: slots, and the actions that are about them. */
#include "common/check.h"
#include "server/cluster/merge_priv.h"

void merge_put_slot(struct slots *slots, struct slot slot)
{
    slots->all = xgrow(slots->all, sizeof *slots->all, &slots->cap, slots->count + 1);
    slots->all[slots->count++] = slot;
}

void merge_put_slots(struct slots *slots, const struct request *request, uint32_t from)
{
    for (uint32_t i = from; i < request->n; i++)
        merge_put_slot(slots, (struct slot){request->tasks[i], request->ids[i], request->again || request->failed});
}

struct merge_action *merge_act(struct merge *merge, enum merge_action_type type, const struct part *part)
{
    merge->actions = xgrow(merge->actions, sizeof *merge->actions, &merge->actions_cap, merge->n_actions + 1);
    struct merge_action *action = &merge->actions[merge->n_actions++];
    *action = (struct merge_action){.type = type};
    if (part) {
        action->node = part->node;
        action->guest = part->guest;
        action->term = part->term;
    }
    return action;
}

void merge_arrive(struct merge *merge, struct part *part, struct slot slot, struct merge_sample sample)
{
    struct merge_action *action = merge_act(merge, MERGE_ARRIVE, NULL);
    action->arrive.task = slot.task;
    action->arrive.sample = sample;
    if (merge->first_arrival == merge->n_arrivals)
        merge->first_arrival = merge->n_arrivals = 0;
    merge->arrivals = xgrow(merge->arrivals, sizeof *merge->arrivals, &merge->arrivals_cap, merge->n_arrivals + 1);
    merge->arrivals[merge->n_arrivals++] = (struct arrival){part, slot, sample.id};
    part->arriving++;
}

void merge_arrive_none(struct merge *merge, struct part *part, struct slots *slots)
{
    for (size_t i = 0; i < slots->count; i++)
        merge_arrive(merge, part, slots->all[i], (struct merge_sample){.id = SAMPLE_NONE});
    slots->count = 0;
}

static void cancel(struct merge *merge, struct part *part, struct request *request, struct slots *to)
{
    if (!request->number)
        return;
    merge_act(merge, MERGE_CANCEL, part)->request = request->number;
    merge_put_slots(to, request, 0);
    *request = (struct request){0};
}

void merge_cancel_all(struct merge *merge, struct part *part, struct slots *to)
{
    cancel(merge, part, &part->attach, to);
    for (int i = 0; i < MERGE_ASKED_MAX; i++)
        cancel(merge, part, &part->asked[i], to);
}

void merge_detach(struct merge *merge, const struct part *part)
{
    if (part->guest)
        merge_act(merge, MERGE_DETACH, part);
}
