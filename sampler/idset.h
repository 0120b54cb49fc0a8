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

int idset_create(struct idset **out);                                        /* empty */
int idset_from_sorted(const sample_id *ids, size_t count, struct idset **out); /* strictly ascending */
int idset_from_range(sample_id first, uint64_t end, struct idset **out);       /* [first, end) */
int idset_copy(const struct idset *set, struct idset **out);
void idset_destroy(struct idset *set); /* accepts NULL */

uint64_t idset_count(const struct idset *set);
uint64_t idset_bytes(const struct idset *set); /* memory of its containers and what leads to them */
bool idset_contains(const struct idset *set, sample_id id);
void idset_add(struct idset *set, sample_id id);
void idset_add_many(struct idset *set, const sample_id *ids, size_t count); /* in any order; fastest ascending */
void idset_remove(struct idset *set, sample_id id);
/* The set's union with another one, and what the other one lacks of it, in place. other is not set itself. */
void idset_add_all(struct idset *set, const struct idset *other);
void idset_remove_all(struct idset *set, const struct idset *other);
bool idset_equal(const struct idset *a, const struct idset *b);
uint64_t idset_intersection_count(const struct idset *a, const struct idset *b);
/* idset_select gives the id of the given rank (0 = smallest); false when rank ≥ count. */
bool idset_select(const struct idset *set, uint64_t rank, sample_id *out);
/* idset_to_array writes all ids ascending; the array has room for idset_count of them. */
void idset_to_array(const struct idset *set, sample_id *ids);

/* New sets from two; a and b stay as they are. LARDER_ENOMEM. */
int idset_union(const struct idset *a, const struct idset *b, struct idset **out);
int idset_intersection(const struct idset *a, const struct idset *b, struct idset **out);
int idset_difference(const struct idset *a, const struct idset *b, struct idset **out); /* in a and not in b */

/* idset_each_page calls visit for every page of 65536 ids that has some, ascending: bit i of its words is id
 * page × 65536 + i. The words are lent for the call. LARDER_ENOMEM before the first call, or 0. */
#define IDSET_PAGE_WORDS 1024
typedef void idset_page_visit(void *context, uint32_t page, const uint64_t *words);
int idset_each_page(const struct idset *set, idset_page_visit *visit, void *context);

/* The serial form: what is kept on disk or sent. Little-endian: a header (magic, version, numbers of pages and of ids),
 * a page after another (ids, runs or words, whichever is shortest), an XXH3 checksum. A set has exactly one serial
 * form.
 *
 * idset_write gives it in new memory (free). LARDER_ENOMEM.
 * idset_read takes foreign bytes: every length, order and count is checked, and the whole must be the one form of what
 * it holds. LARDER_EFORMAT with what is wrong and where, LARDER_EVERSION, LARDER_ENOMEM. */
int idset_write(const struct idset *set, uint8_t **bytes, size_t *len_bytes);
int idset_read(const uint8_t *bytes, size_t len_bytes, struct idset **out, struct error *err);

#endif
