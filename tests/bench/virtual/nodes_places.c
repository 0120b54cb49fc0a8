/* nodes_places.c: which class of which node holds a sample, and loading before training. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "tests/bench/virtual/nodes_priv.h"

void nodes_places_create(struct nodes_places *places, const struct nodes_scenario *scenario, const double *sizes)
{
    *places = (struct nodes_places){.scenario = scenario, .sizes = sizes};
    places->own = xcalloc(scenario->nodes * scenario->samples, 1);
    places->lowest = xcalloc(scenario->samples, 1);
}

void nodes_places_free(struct nodes_places *places)
{
    free(places->own);
    free(places->lowest);
}

bool nodes_put(struct nodes_places *places, uint32_t node, uint32_t class, uint32_t id)
{
    double *used = &places->used[node][class];
    if (*used + places->sizes[id] > places->scenario->classes[class].capacity)
        return false;
    *used += places->sizes[id];
    places->own[(uint64_t)node * places->scenario->samples + id] = (uint8_t) class;
    if (places->lowest[id] == 0 || class < places->lowest[id])
        places->lowest[id] = (uint8_t) class;
    return true;
}

enum nodes_source nodes_choose(const struct nodes_places *places, const struct nodes_costs *costs, uint32_t node,
                               uint32_t id)
{
    uint8_t own = nodes_own(places, node, id), lowest = places->lowest[id];
    double least = costs->pfs[places->scenario->nodes];
    enum nodes_source source = NODES_PFS;
    if (lowest && costs->others[lowest] < least) {
        least = costs->others[lowest];
        source = NODES_OTHERS;
    }
    return own && costs->own[own] <= least ? (enum nodes_source)(NODES_OWN + own) : source;
}

double nodes_fetch_cost(const struct nodes_places *places, const struct nodes_costs *costs, enum nodes_source source,
                        uint32_t id, uint32_t reading)
{
    return source == NODES_PFS      ? costs->pfs[reading]
           : source == NODES_OTHERS ? costs->others[places->lowest[id]]
                                    : costs->own[source - NODES_OWN];
}

/* This gives one sample to the first class with room, and counts the time that its threads take. */
static void load_one(struct nodes_places *places, const struct nodes_costs *costs, uint32_t node, uint32_t end,
                     uint32_t id, double spent[NODES_CLASSES_MAX], double read[NODES_SOURCES])
{
    uint32_t class = 1;
    enum nodes_source source = nodes_choose(places, costs, node, id);
    double fetch = nodes_fetch_cost(places, costs, source, id, (uint32_t)places->scenario->nodes);
    while (class < end && !nodes_put(places, node, class, id))
        class ++;
    if (class == end)
        return;
    spent[class] += places->sizes[id] * nodes_read_cost(costs, class, fetch);
    read[source] += places->sizes[id];
}

double nodes_load(struct nodes_places *places, const struct nodes_costs *costs, bool all_classes,
                  double read[NODES_SOURCES])
{
    uint32_t nodes = (uint32_t)places->scenario->nodes, samples = (uint32_t)places->scenario->samples;
    uint32_t n_classes = places->scenario->n_classes, end = all_classes || n_classes < 2 ? n_classes : 2;
    double spent[NODES_MAX][NODES_CLASSES_MAX] = {{0}}, longest = 0;
    for (uint32_t id = 0; id < samples; id++)
        load_one(places, costs, id % nodes, end, id, spent[id % nodes], read);
    for (uint32_t node = 0; all_classes && node < nodes; node++) {
        for (uint32_t id = 0; id < samples; id++) {
            if (id % nodes != node)
                load_one(places, costs, node, end, id, spent[node], read);
        }
    }
    for (uint32_t node = 0; node < nodes; node++) {
        for (uint32_t class = 1; class < end; ++class)
            longest = fmax(longest, spent[node][class]);
    }
    return longest;
}
