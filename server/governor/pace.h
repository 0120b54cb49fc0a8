/* pace.h: estimates how long a client trains on a batch. The daemon sees when batches go to the client, and when the
 * client acts: it asks for more, says that it waits, or gives a batch back.
 *
 * A client acts when it takes a batch and when it is done with one. Between two acts it either trains or waits for a
 * batch. If it acts as soon as a batch has come, it was waiting. So the training step is the time between requests
 * without the waiting. That holds whether the client asks before or after it takes a batch, and whether it copies or
 * holds what it got. A client of an older version that acts only on arrivals (a C program that copies, releases
 * and then always waits) shows no more than its copying.
 *
 * The values have no pointers and no clock. One thread owns them. */
#ifndef LARDER_SERVER_GOVERNOR_PACE_H
#define LARDER_SERVER_GOVERNOR_PACE_H

#include <stdint.h>

/* The observations of one client. Zero it at the start, and when another client takes the queue over. */
struct governor_pace {
    uint64_t acted_ns; /* when the client last acted; 0: it has not yet */
    uint64_t came_ns;  /* when the first batch since then was sent; 0: none was */
    double busy_s;     /* training since the client's last request */
};

/* governor_pace_came notes that a batch was sent to the client. */
void governor_pace_came(struct governor_pace *pace, uint64_t now_ns);
/* governor_pace_acted notes that the client asked for `batches` batches (0: it only gave one back, or began to wait).
 * It returns the seconds that the client trained on each batch since its last request; 0: the client showed no
 * training. */
double governor_pace_acted(struct governor_pace *pace, uint64_t now_ns, uint32_t batches);

#endif
