/* seneca_priv.h: what Seneca has in memory (seneca*.c only). */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_SENECA_PRIV_H
#define LARDER_TESTS_BENCH_VIRTUAL_SENECA_PRIV_H

#include "common/random.h"
#include "tests/bench/virtual/seneca.h"

enum seneca_form { SENECA_NONE, SENECA_ENCODED, SENECA_DECODED, SENECA_AUGMENTED, SENECA_FORMS };

/* seneca_counts says how many samples memory holds in each form with a split, and how many in none. Augmented ones are
 * counted first, then decoded ones. */
void seneca_counts(const struct sharing_scenario *scenario, const struct seneca_split *split,
                   uint32_t out[SENECA_FORMS]);

#define SENECA_ABSENT UINT32_MAX

/* A set of samples, from which one is drawn at random. */
struct seneca_set {
    uint32_t *ids, *at; /* at: by sample, its place in ids, or SENECA_ABSENT */
    uint32_t count;
};

void seneca_set_create(struct seneca_set *set, uint32_t samples);
void seneca_set_free(struct seneca_set *set);
/* seneca_set_add and seneca_set_remove do nothing if the set has, or has not, the sample. */
void seneca_set_add(struct seneca_set *set, uint32_t id);
void seneca_set_remove(struct seneca_set *set, uint32_t id);
uint32_t seneca_set_draw(const struct seneca_set *set, struct rng *rng); /* count > 0 */

/* What one job has still to get in its epoch: all of it, and by form what of it is cached. */
struct seneca_view {
    bool runs;
    struct seneca_set left, cached[SENECA_FORMS];
};

struct seneca_cache {
    uint32_t samples, room[SENECA_FORMS], count[SENECA_FORMS];
    uint8_t *form;  /* by sample: enum seneca_form */
    uint32_t *uses; /* by sample: how often its augmented form was given */
    struct seneca_view *views;
    uint32_t n_views;
};

void seneca_cache_create(struct seneca_cache *cache, const struct sharing_scenario *scenario,
                         const struct seneca_split *split);
void seneca_cache_free(struct seneca_cache *cache);
void seneca_epoch_begins(struct seneca_cache *cache, uint32_t job);
/* seneca_draw draws a sample for a job, which then has it: one at random, or, if that is not cached, one that is. */
uint32_t seneca_draw(struct seneca_cache *cache, uint32_t job, struct rng *rng);
/* seneca_admit caches a sample that is not cached, in the first form of these that has room: augmented, with so many
 * uses; decoded; encoded. */
void seneca_admit(struct seneca_cache *cache, uint32_t id, uint32_t uses, bool augmented_only);
void seneca_evict(struct seneca_cache *cache, uint32_t id);
/* seneca_running returns how many jobs run. */
uint32_t seneca_running(const struct seneca_cache *cache);

#endif
