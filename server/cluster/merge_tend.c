/* merge_tend.c: what a part is asked for, and when it is attached again or given up. */
#include "server/cluster/merge_priv.h"

/* enough tells whether as many slots wait as a request is worth: three of four that the look-ahead has for the part. So
 * requests are large where the look-ahead is long, and the others are there while they are under way. When nothing else
 * is to come, or slots have waited for long because there are fewer, nobody waits. */
static bool enough(const struct merge *merge, const struct part *part)
{
    uint64_t window = merge->left ? merge->ahead * bag_count(part->left) / merge->left : 0;
    uint64_t least = 3 * window / 4;
    return part->waiting.count >= (least < part->most ? least : part->most) || merge->closing ||
           merge->now_ns >= part->since_ns + MERGE_GATHER_NS;
}

void merge_send_next(struct merge *merge, struct part *part, struct request *request)
{
    request->number = ++merge->requests;
    request->asked_ns = merge->now_ns;
    struct merge_action *action = merge_act(merge, MERGE_NEXT, part);
    action->request = request->number;
    action->next.seq = request->seq;
    action->next.acked = part->acked;
    action->next.more = part->more;
    action->next.n = request->n;
    action->next.wait_ms = request->again ? 0 : MERGE_WAIT_MS;
    action->next.again = request->again;
    action->next.tasks = request->tasks;
}

/* ask sends requests for the slots that wait, in bundles. Only a request tells a node what has come, so that it has
 * room for more. So no more are under way than a node keeps, and one with little room is asked once at a time. */
static void ask(struct merge *merge, struct part *part)
{
    for (uint32_t at = 0; at < MERGE_ASKED_MAX && part->waiting.count; at++) {
        struct request *request = &part->asked[at];
        if (request->number)
            continue;
        bool tight = part->tight && merge_under_way(part);
        if (tight || !enough(merge, part) || !merge_seq_has(part))
            return;
        size_t n = part->waiting.count < part->most ? part->waiting.count : part->most;
        if (merge_under_way(part) + n > MERGE_UNDER_WAY_MOST)
            return;
        *request = (struct request){.seq = merge_seq_next(part), .alone = merge_under_way(part) == 0, .n = (uint32_t)n};
        for (size_t i = 0; i < n; i++) {
            request->tasks[i] = part->waiting.all[i].task;
            request->ids[i] = part->waiting.all[i].id;
            request->failed = request->failed || part->waiting.all[i].failed;
        }
        part->waiting.count -= n;
        for (size_t i = 0; i < part->waiting.count; i++)
            part->waiting.all[i] = part->waiting.all[i + n];
        merge_send_next(merge, part, request);
        part->since_ns = part->since_ns ? part->since_ns : merge->now_ns; /* those that came back are asked for */
    }
}

/* merge_tend does what the part's state asks for now. */
void merge_tend(struct merge *merge, struct part *part)
{
    if (part->state == PART_OPEN && !part->arriving && bag_count(part->left) == 0) {
        merge_cancel_all(merge, part, &part->waiting); /* its guest stays: that of the next epoch takes its place */
        part->state = PART_DONE;
    }
    if (part->state == PART_OPEN && part->dry && !part->arriving && !merge_under_way(part))
        merge_attach(merge, part);
    bool asked = part->waiting.count || merge_under_way(part);
    bool starves = asked && merge->now_ns >= part->starved_ns;
    if ((part->state == PART_OPEN || part->state == PART_ATTACHING) && (starves || part->slow) && !part->arriving) {
        merge_give_up(merge, part);
        return;
    }
    if (!part->waiting.count)
        part->since_ns = UINT64_MAX - MERGE_GATHER_NS;
    else if (part->since_ns > merge->now_ns)
        part->since_ns = merge->now_ns;
    if (part->state == PART_OPEN && !part->dry && merge->now_ns >= part->again_ns && part->waiting.count)
        ask(merge, part);
    if (part->state == PART_DONE && part->waiting.count)
        merge_place_all(merge, &part->waiting);
}
