/* bag.h: a set of sample ids in which an id may be several times, as the draws of a multiset (multiset.h) are.
 *
 * It has a set for each power of two: an id that is in the bag `times` times is in those of the bits of that number. So
 * a bag in which no id is twice is one set. Not thread-safe; a bag has one owner. */
#ifndef LARDER_SAMPLER_BAG_H
#define LARDER_SAMPLER_BAG_H

#include "sampler/idset.h"

#define BAG_PLANES_MAX 32

struct bag;

/* The bag is empty, or a copy, or has each id of the set once. LARDER_ENOMEM. */
int bag_create(struct bag **out);
int bag_copy(const struct bag *bag, struct bag **out);
int bag_of_set(const struct idset *ids, struct bag **out);
void bag_destroy(struct bag *bag); /* accepts NULL */

uint64_t bag_count(const struct bag *bag);               /* how many there are, each id as often as it is in the bag */
uint32_t bag_times(const struct bag *bag, sample_id id); /* how often the id is in the bag */
static inline bool bag_has(const struct bag *bag, sample_id id)
{
    return bag_times(bag, id) > 0;
}
/* bag_ids makes the set of the ids that are in the bag. LARDER_ENOMEM. */
int bag_ids(const struct bag *bag, struct idset **out);

/* bag_put says how often the id is in the bag from now on. LARDER_ENOMEM: as before; a number that is less than twice
 * the highest that was put never fails so. bag_take takes the id out once; it is in the bag. */
int bag_put(struct bag *bag, sample_id id, uint32_t times);
void bag_take(struct bag *bag, sample_id id);
/* bag_put_all puts in all that the other has; no id is in both. LARDER_ENOMEM: as before. */
int bag_put_all(struct bag *bag, const struct bag *other);

/* bag_renumber makes a bag in which each id is replaced by its number; no two ids have one number. LARDER_ENOMEM. */
typedef sample_id bag_number(const void *context, sample_id id);
int bag_renumber(const struct bag *bag, bag_number *number, const void *context, struct bag **out);

/* A bag of numbers below `stride` as one set: that of the 2^p's is at p × stride. A bag of which no number is twice is
 * its set. bag_flat: LARDER_ENOMEM; LARDER_ELIMIT: the set would have numbers of more than 32 bits. bag_of_flat is its
 * inverse for any set. LARDER_ENOMEM, LARDER_EINVAL: the set is none of a bag's. */
int bag_flat(const struct bag *bag, uint32_t stride, struct idset **out);
int bag_of_flat(const struct idset *flat, uint32_t stride, struct bag **out);

#endif
