/* merge_part.c: a part: it is attached and given up, and slots are placed in it. */
#include <stdlib.h>

#include "common/check.h"
#include "server/cluster/merge_priv.h"

/* merge_part_of returns the part that has the sample to give; NULL when there is none. */
struct part *merge_part_of(const struct merge *merge, sample_id id, bool given_up)
{
    for (size_t i = 0; i < merge->n_parts; i++) {
        struct part *part = merge->parts[i];
        if (part->left && (part->state == PART_GIVEN_UP) == given_up && bag_has(part->left, id))
            return part;
    }
    return NULL;
}

/* merge_each_slot calls for the sample of each slot. */
void merge_each_slot(struct merge *merge, void (*each)(void *ctx, sample_id *id), void *ctx)
{
    for (size_t i = 0; i < merge->n_parts; i++) {
        struct part *part = merge->parts[i];
        for (size_t at = 0; at < part->waiting.count; at++)
            each(ctx, &part->waiting.all[at].id);
        for (int request = 0; request < MERGE_ASKED_MAX; request++)
            for (uint32_t at = 0; at < part->asked[request].n; at++)
                each(ctx, &part->asked[request].ids[at]);
    }
    for (size_t i = 0; i < merge->homeless.count; i++)
        each(ctx, &merge->homeless.all[i].id);
    for (size_t i = merge->first_arrival; i < merge->n_arrivals; i++)
        each(ctx, &merge->arrivals[i].slot.id);
}

static void add_soon(void *ctx, sample_id *id)
{
    struct part *part = ctx;
    if (bag_has(part->left, *id))
        idset_add(part->soon, *id);
}

void merge_give_up(struct merge *merge, struct part *part)
{
    CHECK(idset_create(&part->soon) == 0);
    merge_each_slot(merge, add_soon, part);
    merge_cancel_all(merge, part, &part->waiting);
    for (size_t i = 0; i < part->waiting.count; i++)
        merge_put_slot(&merge->homeless, part->waiting.all[i]);
    part->waiting.count = 0;
    merge_detach(merge, part);
    part->state = PART_GIVEN_UP;
    part->move = ++merge->requests;
    struct merge_action *action = merge_act(merge, MERGE_MOVE, part);
    action->request = part->move;
    action->move.ids = part->left;
    action->move.soon = part->soon;
    action->move.slow = part->slow;
}

void merge_send_attach(struct merge *merge, struct part *part, bool again)
{
    part->attach = (struct request){.number = ++merge->requests, .again = again};
    struct merge_action *action = merge_act(merge, MERGE_ATTACH, part);
    action->request = part->attach.number;
    action->attach.ids = part->left;
    action->attach.again = part->attached_before;
}

/* merge_attach begins another attachment. It does not wait for requests of the one before. */
void merge_attach(struct merge *merge, struct part *part)
{
    merge_cancel_all(merge, part, &part->waiting);
    if (part->tries++ == MERGE_TRIES) {
        merge_give_up(merge, part);
        return;
    }
    part->state = PART_ATTACHING;
    part->dry = false;
    part->guest = part->seq = 0;
    part->acked = part->more = 0;
    for (int i = 0; i < MERGE_ASKED_MAX; i++)
        part->unused[i] = 0;
    part->term = ++merge->term;
    merge_send_attach(merge, part, false);
    part->attached_before = true;
}

static void put_waiting(const struct merge *merge, struct part *part, struct slot slot)
{
    if (!part->waiting.count && !merge_under_way(part))
        part->starved_ns = merge->now_ns + MERGE_STARVED_NS;
    merge_put_slot(&part->waiting, slot);
}

/* merge_place puts a slot where it is asked for. When no part has the sample, the engine has it back by now, and hears
 * that nothing comes there. */
void merge_place(struct merge *merge, struct slot slot)
{
    bool moves = merge_part_of(merge, slot.id, true) != NULL;

    merge->placed = true;
    struct part *part = moves ? NULL : merge_part_of(merge, slot.id, false);
    if (moves)
        merge_put_slot(&merge->homeless, slot);
    else if (part)
        put_waiting(merge, part, slot);
    else
        merge_arrive(merge, merge->parts[0], slot, (struct merge_sample){.id = SAMPLE_NONE});
}

/* merge_place_all places slots that a part has no samples for. */
void merge_place_all(struct merge *merge, struct slots *slots)
{
    struct slots all = *slots;
    *slots = (struct slots){0};
    for (size_t i = 0; i < all.count; i++)
        merge_place(merge, all.all[i]);
    free(all.all);
}

/* merge_under_way returns the samples that are asked for. */
size_t merge_under_way(const struct part *part)
{
    size_t count = 0;
    for (int i = 0; i < MERGE_ASKED_MAX; i++)
        count += part->asked[i].n;
    return count;
}

/* merge_under_way_all tells whether there is no room for another request. */
bool merge_under_way_all(const struct part *part)
{
    for (int i = 0; i < MERGE_ASKED_MAX; i++) {
        if (!part->asked[i].number)
            return false;
    }
    return true;
}
