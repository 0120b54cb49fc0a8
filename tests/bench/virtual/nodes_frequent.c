/* nodes_frequent.c: what HDMLP keeps in a node's classes. HDMLP (ETH Zürich 2020) §3.2.2. */
#include <stdlib.h>

#include "common/check.h"
#include "tests/bench/virtual/nodes_priv.h"

struct use {
    uint32_t id, times;
    uint64_t first;
};

static int by_first(const void *left, const void *right)
{
    const struct use *a = left, *b = right;
    return a->first < b->first ? -1 : a->first > b->first;
}

static int by_times(const void *left, const void *right)
{
    const struct use *a = left, *b = right;
    return a->times != b->times ? (a->times < b->times ? 1 : -1) : by_first(left, right);
}

/* This gives how many samples the node uses, and puts them first. */
static uint32_t count_uses(const struct nodes_deal *deal, uint32_t node, struct use *uses, uint32_t samples)
{
    uint32_t used = 0;
    for (uint32_t id = 0; id < samples; id++)
        uses[id] = (struct use){.id = id};
    for (uint64_t at = 0; at < nodes_picks(deal, node); at++) {
        struct use *use = &uses[nodes_pick(deal, node, at)];
        if (use->times++ == 0)
            use->first = at;
    }
    for (uint32_t id = 0; id < samples; id++) {
        if (uses[id].times)
            uses[used++] = uses[id];
    }
    return used;
}

void nodes_frequent(const struct nodes_scenario *scenario, const double *sizes, const struct nodes_deal *deal,
                    uint32_t node, struct nodes_list lists[NODES_CLASSES_MAX])
{
    struct use *uses = xcalloc(scenario->samples, sizeof *uses);
    uint32_t used = count_uses(deal, node, uses, (uint32_t)scenario->samples), from = 0;
    qsort(uses, used, sizeof *uses, by_times);
    for (uint32_t class = 1; class < scenario->n_classes; ++class) {
        double room = scenario->classes[class].capacity;
        uint32_t end = from;
        for (; end < used && sizes[uses[end].id] <= room; end++)
            room -= sizes[uses[end].id];
        qsort(uses + from, end - from, sizeof *uses, by_first);
        struct nodes_list *list = &lists[class];
        *list = (struct nodes_list){.ids = xcalloc(end - from + 1, sizeof *list->ids), .count = end - from};
        for (uint32_t i = from; i < end; i++)
            list->ids[i - from] = uses[i].id;
        from = end;
    }
    free(uses);
}
