/* scratch_budget.h: the memory that all threads together decode in.
 *
 * Each thread may hold scratch_budget_keep bytes at any time, also between images. What fits there never waits,
 * whatever the others do. What an image needs beyond that comes from one common part. A thread that gets none of it
 * gives back all that it has of it. Then it waits in line until all that it needs is there at once, and decodes
 * again. So nobody who waits holds what another waits for. The line is served in turn. Nobody who holds nothing of
 * the common part may take past it; those that hold some already may. Any thread may call all functions. */
#ifndef LARDER_PREPROCESS_SCRATCH_BUDGET_H
#define LARDER_PREPROCESS_SCRATCH_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scratch_budget;

/* scratch_budget_create divides bytes among `threads` (≥ 1) threads. LARDER_ENOMEM. */
int scratch_budget_create(uint64_t bytes, uint32_t threads, struct scratch_budget **out);
void scratch_budget_destroy(struct scratch_budget *budget); /* accepts NULL; all that was taken has been given back */

/* scratch_budget_keep returns the bytes that are a thread's own. */
size_t scratch_budget_keep(const struct scratch_budget *budget);
/* scratch_budget_most returns the bytes that one image can have: a thread's own and all of the common part. */
size_t scratch_budget_most(const struct scratch_budget *budget);

/* scratch_budget_try takes bytes of the common part if they are there, and says whether it did. `holds` says that the
 * caller has some of it already. */
bool scratch_budget_try(struct scratch_budget *budget, size_t bytes, bool holds);
/* scratch_budget_wait takes bytes, at most all of the common part, and blocks until they are there. The caller holds
 * none of it. */
void scratch_budget_wait(struct scratch_budget *budget, size_t bytes);
/* scratch_budget_give gives bytes back to the common part. */
void scratch_budget_give(struct scratch_budget *budget, size_t bytes);

struct scratch_budget_stats {
    uint64_t budget_bytes;
    uint64_t used_bytes; /* what threads may keep, and what is taken of the common part */
    uint32_t waiting;    /* threads in line */
    uint64_t waits;      /* images that ever waited for room */
};
void scratch_budget_stats(struct scratch_budget *budget, struct scratch_budget_stats *out);

#endif
