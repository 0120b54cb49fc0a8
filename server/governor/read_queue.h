/* read_queue.h: reads that wait for a thread, oldest first: a ring that grows, bounded by the engine's loads in
 * flight.
 *
 * Zeroed to begin with. One thread. */
#ifndef LARDER_SERVER_GOVERNOR_READ_QUEUE_H
#define LARDER_SERVER_GOVERNOR_READ_QUEUE_H

#include "server/workers/worker.h"

struct read_queue {
    struct worker_load *tasks;
    uint32_t head, length, cap;
};

void read_queue_put(struct read_queue *queue, const struct worker_load *task); /* takes the task over */
struct worker_load read_queue_take(struct read_queue *queue);                  /* length > 0; gives it back */
void read_queue_clear(struct read_queue *queue);                               /* drops what waits, frees all */

#endif
