/* line.h: reads that wait for a thread, oldest first: a ring that grows, bounded by the engine's loads in
 * flight.
 *
 * Zeroed to begin with. One thread. */
#ifndef LARDER_SERVER_GOVERNOR_LINE_H
#define LARDER_SERVER_GOVERNOR_LINE_H

#include "server/workers/worker.h"

struct read_line {
    struct worker_load *tasks;
    uint32_t head, length, cap;
};

void read_line_put(struct read_line *line, const struct worker_load *task); /* takes the task over */
struct worker_load read_line_take(struct read_line *line);                  /* length > 0; gives it back */
void read_line_clear(struct read_line *line);                               /* drops what waits, frees all */

#endif
