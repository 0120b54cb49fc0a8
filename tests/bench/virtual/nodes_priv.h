/* nodes_priv.h: the parts of `larder_bench nodes` (nodes*.c only).
 *
 *   nodes_model.c: speeds to seconds ── nodes_places.c: who holds what ── nodes_deal.c: who gets what, in which order
 *                                       nodes_frequent.c: what HDMLP keeps
 *                                       nodes_homes.c: what Larder keeps
 *                                       nodes_run.c: events in virtual time */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_NODES_PRIV_H
#define LARDER_TESTS_BENCH_VIRTUAL_NODES_PRIV_H

#include "tests/bench/virtual/nodes.h"

/* ── nodes_model.c ── */

/* Seconds for one MB. A fetch is by one thread of a class, while all others of the class read too. */
struct nodes_costs {
    double compute, preprocess;
    double pfs[NODES_MAX + 1]; /* by how many nodes read */
    double others[NODES_CLASSES_MAX], own[NODES_CLASSES_MAX], write[NODES_CLASSES_MAX];
    double threads[NODES_CLASSES_MAX];
    double network;
};

void nodes_costs(const struct nodes_scenario *scenario, struct nodes_costs *out);

/* nodes_read_cost is what reading one MB into a class takes, all its threads at work, if the fetch takes so long. */
double nodes_read_cost(const struct nodes_costs *costs, uint32_t class, double fetch);

/* ── nodes_places.c ── */

/* Who holds what. Class 0 says that nobody does. Only Larder's homes (below) ever drop a sample. */
struct nodes_places {
    const struct nodes_scenario *scenario;
    const double *sizes;
    uint8_t *own;    /* by node and sample: the class that holds it there */
    uint8_t *lowest; /* by sample: the fastest class that holds it anywhere */
    double used[NODES_MAX][NODES_CLASSES_MAX];
};

void nodes_places_create(struct nodes_places *places, const struct nodes_scenario *scenario, const double *sizes);
void nodes_places_free(struct nodes_places *places);

static inline uint8_t nodes_own(const struct nodes_places *places, uint32_t node, uint32_t id)
{
    return places->own[(uint64_t)node * places->scenario->samples + id];
}

/* nodes_put puts a sample into a class of a node that does not hold it yet. False: there is no room. */
bool nodes_put(struct nodes_places *places, uint32_t node, uint32_t class, uint32_t id);

/* nodes_choose returns the source with the least predicted time, as if all nodes read from the file system. */
enum nodes_source nodes_choose(const struct nodes_places *places, const struct nodes_costs *costs, uint32_t node,
                               uint32_t id);
/* nodes_fetch_cost is what fetching one MB from this source takes while `reading` nodes read from the file system. */
double nodes_fetch_cost(const struct nodes_places *places, const struct nodes_costs *costs, enum nodes_source source,
                        uint32_t id, uint32_t reading);

/* nodes_load fills classes before training, and gives the seconds that the slowest node takes. A node first takes its
 * part of the dataset, from the file system. If all classes load, it fills what is left with the others' parts. */
double nodes_load(struct nodes_places *places, const struct nodes_costs *costs, bool all_classes,
                  double read[NODES_SOURCES]);

/* ── nodes_deal.c ── */

/* The order in which each node gets its samples, known beforehand. */
struct nodes_deal {
    uint32_t *ids; /* by batch; in a batch the nodes' parts one after another */
    uint64_t batches;
    uint32_t batch, nodes;
};

static inline uint32_t nodes_part(const struct nodes_deal *deal, uint32_t node)
{
    return deal->batch / deal->nodes + (node < deal->batch % deal->nodes);
}

static inline uint64_t nodes_picks(const struct nodes_deal *deal, uint32_t node)
{
    return deal->batches * nodes_part(deal, node);
}

/* nodes_pick returns the sample that a node gets as its number `at`. */
uint32_t nodes_pick(const struct nodes_deal *deal, uint32_t node, uint64_t at);
/* nodes_getter returns the node that gets place `place` of ids, and as which number. */
uint32_t nodes_getter(const struct nodes_deal *deal, uint64_t place, uint64_t *at);

/* nodes_deal_create deals all batches of all epochs. False: a node has nothing to deal from. */
bool nodes_deal_create(struct nodes_deal *deal, const struct nodes_policy *policy, const struct nodes_places *places);
void nodes_deal_free(struct nodes_deal *deal);

/* ── nodes_frequent.c ── */

struct nodes_list {
    uint32_t *ids;
    uint32_t count, next;
};

/* nodes_frequent says what a node's classes shall hold: what it reads most often goes to the fastest. Each list is in
 * the order of first use. The caller frees the lists' ids. */
void nodes_frequent(const struct nodes_scenario *scenario, const double *sizes, const struct nodes_deal *deal,
                    uint32_t node, struct nodes_list lists[NODES_CLASSES_MAX]);

/* ── nodes_homes.c ── */

/* What Larder's homes hold. A sample is kept (in memory over all epochs, once it has come), or it is in its home's
 * stock between a read ahead and its use. Beside that it may be on a disk of its home, which it never leaves. */
struct nodes_homes {
    uint8_t *home, *disk; /* by sample: its home, and the class that has it there; 0: none */
    bool *kept;           /* by sample */
    double *until;        /* by sample: when the read that brings it into memory ends; 0: none is under way */
    double stock[NODES_MAX], stocked[NODES_MAX]; /* MB of memory for what is not kept, and taken of that */
    double behind[NODES_MAX][NODES_CLASSES_MAX]; /* when what waits to be written to a class is there */
    uint64_t next[NODES_MAX];                    /* the first place of the deal that reads ahead have not dealt with */
};

void nodes_homes_create(struct nodes_homes *homes, const struct nodes_scenario *scenario, const double *sizes);
void nodes_homes_free(struct nodes_homes *homes);

/* nodes_homes_room says whether memory has room for the sample. nodes_homes_reserve takes it, and marks the read as
 * under way; nodes_homes_in_memory ends it. */
bool nodes_homes_room(const struct nodes_homes *homes, const struct nodes_places *places, uint32_t id);
void nodes_homes_reserve(struct nodes_homes *homes, const struct nodes_places *places, uint32_t id);
void nodes_homes_in_memory(struct nodes_homes *homes, struct nodes_places *places, uint32_t id);
/* nodes_homes_used: a node has it in its staging buffer. It stays in memory if it is kept, and else leaves it. */
void nodes_homes_used(struct nodes_homes *homes, struct nodes_places *places, uint32_t id);
/* nodes_homes_write_behind writes what came from the file system to the first class with room, if the sample is in none
 * and not too much waits there already. */
void nodes_homes_write_behind(struct nodes_homes *homes, struct nodes_places *places, const struct nodes_costs *costs,
                              uint32_t id, double now);

#endif
