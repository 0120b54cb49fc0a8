/* nodes_deal.c: which node gets which samples, and in which order, in all epochs. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/random.h"
#include "tests/bench/virtual/nodes_priv.h"

enum { KEY_DRAWS = 22 };

/* Samples to draw from without putting back. When it is empty, all of them are in it again. */
struct bag {
    uint32_t *ids;
    uint32_t count, taken;
    struct rng rng;
};

static uint32_t bag_take(struct bag *bag)
{
    if (bag->taken == bag->count)
        bag->taken = 0;
    uint32_t at = bag->taken + (uint32_t)random_below(&bag->rng, bag->count - bag->taken), id = bag->ids[at];
    bag->ids[at] = bag->ids[bag->taken];
    bag->ids[bag->taken++] = id;
    return id;
}

static void bag_fill(struct bag *bag, const struct nodes_policy *policy, const struct nodes_places *places,
                     uint32_t node)
{
    const struct nodes_scenario *scenario = places->scenario;
    bag->ids = xcalloc(scenario->samples, sizeof *bag->ids);
    random_seed_keys(&bag->rng, scenario->seed, KEY_DRAWS, node, 0);
    for (uint32_t id = 0; id < scenario->samples; id++) {
        if (policy->deals == NODES_CACHED ? places->lowest[id]
                                          : policy->deals != NODES_LOCAL || nodes_own(places, node, id))
            bag->ids[bag->count++] = id;
    }
}

static uint64_t part_begins(const struct nodes_deal *deal, uint32_t node)
{
    uint32_t more = deal->batch % deal->nodes;
    return (uint64_t)(deal->batch / deal->nodes) * node + (node < more ? node : more);
}

uint32_t nodes_pick(const struct nodes_deal *deal, uint32_t node, uint64_t at)
{
    uint32_t part = nodes_part(deal, node);
    return deal->ids[at / part * deal->batch + part_begins(deal, node) + at % part];
}

uint32_t nodes_getter(const struct nodes_deal *deal, uint64_t place, uint64_t *at)
{
    uint64_t in_batch = place % deal->batch;
    uint32_t node = 0;
    for (; in_batch >= nodes_part(deal, node); node++)
        in_batch -= nodes_part(deal, node);
    *at = place / deal->batch * nodes_part(deal, node) + in_batch;
    return node;
}

/* The node that a sample of a batch goes to: a holder that has room in its part, else the first node with room. */
static uint32_t receiver(const struct nodes_places *places, const uint32_t *room, uint32_t id, bool holder)
{
    uint32_t node = 0;
    while (node < places->scenario->nodes && !(room[node] && (!holder || nodes_own(places, node, id))))
        node++;
    return node;
}

/* This deals one batch again, so that nodes get what they hold, and all parts stay as large as they are. */
static void deal_to_holders(const struct nodes_deal *deal, const struct nodes_places *places, uint32_t *batch,
                            uint32_t *scratch)
{
    uint32_t room[NODES_MAX], left = 0;
    for (uint32_t node = 0; node < deal->nodes; node++)
        room[node] = nodes_part(deal, node);
    memcpy(scratch, batch, deal->batch * sizeof *batch);
    for (int pass = 0; pass < 2; pass++) {
        uint32_t count = pass == 0 ? deal->batch : left;
        left = 0;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t node = receiver(places, room, scratch[i], pass == 0);
            if (node == deal->nodes)
                scratch[left++] = scratch[i];
            else
                batch[part_begins(deal, node) + nodes_part(deal, node) - room[node]--] = scratch[i];
        }
    }
    CHECK(left == 0);
}

static void deal_all(struct nodes_deal *deal, struct bag *bags, uint32_t n_bags, uint64_t epochs)
{
    uint64_t at = 0;
    for (uint64_t epoch = 0; epoch < epochs; epoch++) {
        for (uint32_t i = 0; i < n_bags; i++)
            bags[i].taken = 0;
        for (uint64_t batch = 0; batch < deal->batches / epochs; batch++) {
            for (uint32_t node = 0; node < deal->nodes; node++) {
                for (uint32_t i = 0; i < nodes_part(deal, node); i++)
                    deal->ids[at++] = bag_take(&bags[node % n_bags]);
            }
        }
    }
}

bool nodes_deal_create(struct nodes_deal *deal, const struct nodes_policy *policy, const struct nodes_places *places)
{
    const struct nodes_scenario *scenario = places->scenario;
    struct bag bags[NODES_MAX] = {{.count = 0}};
    uint32_t n_bags = policy->deals == NODES_LOCAL ? (uint32_t)scenario->nodes : 1;
    bool any = true;
    *deal = (struct nodes_deal){.batches = scenario->samples / scenario->batch * scenario->epochs,
                                .batch = (uint32_t)scenario->batch,
                                .nodes = (uint32_t)scenario->nodes};
    for (uint32_t i = 0; i < n_bags; i++) {
        bag_fill(&bags[i], policy, places, i);
        any &= bags[i].count > 0;
    }
    if (any) {
        deal->ids = xcalloc(deal->batches * deal->batch, sizeof *deal->ids);
        deal_all(deal, bags, n_bags, scenario->epochs);
    }
    if (any && policy->deals == NODES_TO_HOLDERS) {
        uint32_t *scratch = xcalloc(deal->batch, sizeof *scratch);
        for (uint64_t batch = 0; batch < deal->batches; batch++)
            deal_to_holders(deal, places, deal->ids + batch * deal->batch, scratch);
        free(scratch);
    }
    for (uint32_t i = 0; i < n_bags; i++)
        free(bags[i].ids);
    return any;
}

void nodes_deal_free(struct nodes_deal *deal)
{
    free(deal->ids);
}
