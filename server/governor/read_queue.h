/* read_queue.h: reads that wait for a thread, oldest first, in a ring that grows. The engine's limit on loads in flight
 * bounds it.
 *
 * A queue is zeroed to begin with. One thread owns it. */
#ifndef LARDER_SERVER_GOVERNOR_READ_QUEUE_H
#define LARDER_SERVER_GOVERNOR_READ_QUEUE_H

#include "server/workers/worker.h"

struct read_queue {
    struct worker_load *tasks;
    uint32_t head, length, cap;
};

void read_queue_put(struct read_queue *queue, const struct worker_load *task); /* takes the task over */
/* read_queue_put_first puts a task before all that are not needed sooner, and takes it over. */
void read_queue_put_first(struct read_queue *queue, const struct worker_load *task);
struct worker_load read_queue_take(struct read_queue *queue); /* the oldest, now the caller's; length > 0 */
void read_queue_clear(struct read_queue *queue);              /* drops the reads that wait and frees the ring */

#endif
