/* residency.h: which residents go first when room is needed: reference-count eviction (JOADER, section 3.3).
 *
 * Residents are numbered by the caller. Each has a want: how many jobs still want it, or more for what is to go later.
 * Each may be pinned; unpinned ones lie in one list a want value, least recently touched first. The victim is the head
 * of the lowest list. Bytes and budgets are the caller's. One owner thread; every call takes constant time. */
#ifndef LARDER_CACHE_MEMORY_RESIDENCY_H
#define LARDER_CACHE_MEMORY_RESIDENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/types.h"

#define RESIDENT_NONE UINT32_MAX
#define RESIDENCY_WANT_MAX (2 * JOBS_MAX + 1)

struct residency;

struct residency *residency_create(void);
void residency_destroy(struct residency *residency); /* accepts NULL */

void residency_add(struct residency *residency, uint32_t resident, uint32_t want); /* pinned once */
void residency_remove(struct residency *residency, uint32_t resident);             /* pinned or not */
void residency_pin(struct residency *residency, uint32_t resident);
void residency_unpin(struct residency *residency, uint32_t resident);
uint32_t residency_pins(const struct residency *residency, uint32_t resident);
void residency_set_want(struct residency *residency, uint32_t resident, uint32_t want); /* ≤ RESIDENCY_WANT_MAX */
uint32_t residency_want(const struct residency *residency, uint32_t resident);
/* residency_fetch has the processor fetch what is known of a resident that is looked at soon. */
void residency_fetch(const struct residency *residency, uint32_t resident);
/* number of unpinned residents with this want */
uint32_t residency_count(const struct residency *residency, uint32_t want);

/* residency_victim returns the unpinned resident to evict first; RESIDENT_NONE when there is none.
 * residency_victim_after goes on from one to the next in the order of eviction. */
uint32_t residency_victim(const struct residency *residency);
uint32_t residency_victim_after(const struct residency *residency, uint32_t resident);

#endif
