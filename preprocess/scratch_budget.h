/* scratch_budget.h: the memory that all threads together decode in.
 *
 * A small part of it remembers where the MCUs of JPEGs begin (decode/jpeg_marks.h), and the rest is divided.
 *
 * Each thread may hold scratch_budget_keep bytes at any time, also between images. An image that fits there never
 * waits. All further memory comes from one common part. If the common part has too little, the thread gives back all
 * that it took from it. Then it waits in a queue until all that it needs is there at once, and decodes again. So no
 * waiting thread holds memory that another waits for. The queue is first in, first out. A thread that holds nothing of
 * the common part may not pass the queue; one that holds some may. Any thread may call all functions. */
#ifndef LARDER_PREPROCESS_SCRATCH_BUDGET_H
#define LARDER_PREPROCESS_SCRATCH_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jpeg_marks;
struct scratch_budget;

/* scratch_budget_create divides bytes among `threads` (≥ 1) threads. LARDER_ENOMEM. */
int scratch_budget_create(uint64_t bytes, uint32_t threads, struct scratch_budget **out);
void scratch_budget_destroy(struct scratch_budget *budget); /* accepts NULL; all that was taken has been given back */

/* scratch_budget_keep returns the bytes that are a thread's own. */
size_t scratch_budget_keep(const struct scratch_budget *budget);
/* scratch_budget_most returns the bytes that one image can have: a thread's own and all of the common part. */
size_t scratch_budget_most(const struct scratch_budget *budget);

/* scratch_budget_marks returns what is remembered of JPEGs. Borrowed. */
struct jpeg_marks *scratch_budget_marks(const struct scratch_budget *budget);

/* scratch_budget_try takes bytes from the common part if they are there, and returns whether it did. `holds` says that
 * the caller has some of it already. */
bool scratch_budget_try(struct scratch_budget *budget, size_t bytes, bool holds);
/* scratch_budget_wait takes bytes, at most all of the common part, and blocks until they are there. The caller holds
 * none of it. */
void scratch_budget_wait(struct scratch_budget *budget, size_t bytes);
/* scratch_budget_give gives bytes back to the common part. */
void scratch_budget_give(struct scratch_budget *budget, size_t bytes);

struct scratch_budget_stats {
    uint64_t budget_bytes;
    uint64_t used_bytes; /* what may be remembered or kept by threads, and memory taken from the common part */
    uint32_t waiting;    /* threads in the queue */
    uint64_t waits;      /* images that ever waited for room */
};
void scratch_budget_stats(struct scratch_budget *budget, struct scratch_budget_stats *out);

#endif
