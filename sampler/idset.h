/* idset.h: a set of sample ids: a thin owner of a CRoaring bitmap (the only file pair that knows CRoaring).
 *
 * Not thread-safe; an idset has one owner. Functions that make a set give ownership through `out`. */
#ifndef LARDER_SAMPLER_IDSET_H
#define LARDER_SAMPLER_IDSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/types.h"

struct idset;

/* The set is empty, has the ids (strictly ascending), has [first, end), or is a copy. LARDER_ENOMEM. */
int idset_create(struct idset **out);
int idset_from_sorted(const sample_id *ids, size_t count, struct idset **out);
int idset_from_range(sample_id first, uint64_t end, struct idset **out);
int idset_copy(const struct idset *set, struct idset **out);
void idset_destroy(struct idset *set); /* accepts NULL */

uint64_t idset_count(const struct idset *set);
uint64_t idset_bytes(const struct idset *set); /* memory of its containers and of the tables that lead to them */
bool idset_contains(const struct idset *set, sample_id id);
void idset_add(struct idset *set, sample_id id);
/* ids may be in any order; ascending is fastest */
void idset_add_many(struct idset *set, const sample_id *ids, size_t count);
void idset_remove(struct idset *set, sample_id id);
/* idset_add_all adds all ids of other; idset_remove_all removes them. other is another set than set. */
void idset_add_all(struct idset *set, const struct idset *other);
void idset_remove_all(struct idset *set, const struct idset *other);
bool idset_equal(const struct idset *a, const struct idset *b);
uint64_t idset_intersection_count(const struct idset *a, const struct idset *b);
/* idset_select returns the id of the given rank (0: the smallest). It returns false when rank ≥ count. */
bool idset_select(const struct idset *set, uint64_t rank, sample_id *out);
/* idset_to_array writes all ids, ascending. The array has room for idset_count of them. */
void idset_to_array(const struct idset *set, sample_id *ids);

/* These make a new set from two. a and b stay as they are. LARDER_ENOMEM. */
int idset_union(const struct idset *a, const struct idset *b, struct idset **out);
int idset_intersection(const struct idset *a, const struct idset *b, struct idset **out);
/* the ids in a and not in b */
int idset_difference(const struct idset *a, const struct idset *b, struct idset **out);

/* idset_each_page calls visit for every page of 65536 ids that has some, in ascending order. Bit i of its words is id
 * page × 65536 + i. The words are lent for the call. It returns 0, or LARDER_ENOMEM before the first visit. */
#define IDSET_PAGE_WORDS 1024
typedef void idset_page_visit(void *context, uint32_t page, const uint64_t *words);
int idset_each_page(const struct idset *set, idset_page_visit *visit, void *context);

/* The serial form of a set can be kept on disk or sent. It is little-endian: a header (magic, version, numbers of pages
 * and of ids), the pages one after another (each as ids, runs or words, whichever is shortest), and an XXH3 checksum. A
 * set has exactly one serial form.
 *
 * idset_write returns it in new memory, which the caller frees. LARDER_ENOMEM.
 * idset_read takes foreign bytes. It checks every length, order and count, and that the whole is the one serial form of
 * what it holds. LARDER_EFORMAT with what is wrong and where, LARDER_EVERSION, LARDER_ENOMEM. */
int idset_write(const struct idset *set, uint8_t **bytes, size_t *len_bytes);
int idset_read(const uint8_t *bytes, size_t len_bytes, struct idset **out, struct error *err);

#endif
