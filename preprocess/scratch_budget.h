/* scratch_budget.h: the memory that threads decode in, all together.
 *
 * Each thread may hold scratch_budget_keep bytes at any time, also between images: what fits there never waits,
 * whatever the others do. What an image needs beyond that comes from one common part. A thread that gets none of it
 * gives back all that it has of it, waits in line until what it needs is there at once, and decodes again: so nobody
 * who waits holds what another waits for. Who stands in line is served in turn, and nobody begins to take past them;
 * those that hold some already may. All functions may be called from any thread. */
#ifndef LARDER_PREPROCESS_SCRATCH_BUDGET_H
#define LARDER_PREPROCESS_SCRATCH_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scratch_budget;

/* scratch_budget_create divides bytes among `threads` (≥ 1) threads. LARDER_ENOMEM. */
int scratch_budget_create(uint64_t bytes, uint32_t threads, struct scratch_budget **out);
void scratch_budget_destroy(struct scratch_budget *budget); /* accepts NULL; nothing of it is taken any more */

size_t scratch_budget_keep(const struct scratch_budget *budget);
/* scratch_budget_most is what one image can have: a thread's own and all of the common part. */
size_t scratch_budget_most(const struct scratch_budget *budget);

/* scratch_budget_try takes bytes of the common part if they are there. holds: the caller has some of it already. */
bool scratch_budget_try(struct scratch_budget *budget, size_t bytes, bool holds);
/* scratch_budget_wait takes bytes, at most all of the common part, and blocks until they are there. The caller holds
 * none of it. */
void scratch_budget_wait(struct scratch_budget *budget, size_t bytes);
void scratch_budget_give(struct scratch_budget *budget, size_t bytes);

struct scratch_budget_stats {
    uint64_t budget_bytes;
    uint64_t used_bytes;  /* what threads may keep, and what is taken of the common part */
    uint32_t waiting;     /* threads */
    uint64_t waits;       /* images that ever waited for room */
};
void scratch_budget_stats(struct scratch_budget *budget, struct scratch_budget_stats *out);

#endif
