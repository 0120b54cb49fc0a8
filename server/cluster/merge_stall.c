/* merge_stall.c: which part the job stands still for, and for how long: the evidence of pace.h. */
#include "server/cluster/merge_priv.h"

/* merge_stood notes that time has passed, in which the job stood still as merge_find_stall found last. */
void merge_stood(struct merge *merge, uint64_t passed_ns)
{
    for (size_t i = 0; merge->stalled && i < merge->n_parts; i++) {
        struct part *part = merge->parts[i];
        if (part->state == PART_OPEN || part->state == PART_ATTACHING)
            part->stood_ns += part == merge->stalls_alone ? (int64_t)passed_ns : -(int64_t)passed_ns;
    }
}

/* see_paces ends a time that the job stood still, for each part: what came meanwhile would have been prepared here. As
 * long as nobody knows how long that takes, no part is slow. */
static void see_paces(struct merge *merge)
{
    for (size_t i = 0; i < merge->n_parts; i++) {
        struct part *part = merge->parts[i];
        double signed_s = (double)part->stood_ns / 1e9 - part->held * merge->sample_s;
        if (part->stood_ns && part->pace && merge->sample_s > 0 && pace_saw(part->pace, signed_s))
            part->slow = true;
        part->stood_ns = 0;
        part->held = 0;
    }
}

/* merge_find_stall finds out what the job stands still for. It does so for one part alone if no other was asked for
 * anything, and all that the job lacks is to come from other nodes. Where none was asked, slots wait for company, and
 * no node is late. An answer ends a time, as does another cause of the stall. */
void merge_find_stall(struct merge *merge, bool answered)
{
    uint64_t slots = 0;
    uint32_t asked = 0;
    struct part *last = NULL;
    for (size_t i = 0; merge->lacks && i < merge->n_parts; i++) {
        struct part *part = merge->parts[i];
        size_t under_way = merge_under_way(part);
        slots += under_way + part->waiting.count;
        asked += under_way > 0;
        last = under_way ? part : last;
    }
    bool stalled = merge->lacks && (asked || slots < merge->lacks);
    struct part *alone = asked == 1 && slots >= merge->lacks ? last : NULL;
    if (answered || stalled != merge->stalled || alone != merge->stalls_alone)
        see_paces(merge);
    merge->stalled = stalled;
    merge->stalls_alone = alone;
}
