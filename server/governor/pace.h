/* pace.h: how long a client trains on a batch, from what the daemon sees of it: when batches go to it and when
 * it acts (asks for more, gives one back).
 *
 * A client acts when it takes a batch and when it is through with one. Between two acts it trains, or it waits for a
 * batch; it waited when it acts as soon as one has come. So the time between requests less the waiting is the training
 * step, whether a client asks before or after it takes, and whether it copies or holds what it got. A client that acts
 * only on arrivals (a C program that copies, releases and then always waits) shows no more than the copying.
 *
 * Plain values without pointers or clock. One thread. */
#ifndef LARDER_SERVER_GOVERNOR_PACE_H
#define LARDER_SERVER_GOVERNOR_PACE_H

#include <stdint.h>

/* Zeroed to begin with, and when another client takes the queue over. */
struct governor_pace {
    uint64_t acted_ns; /* last; 0: not yet */
    uint64_t came_ns;  /* first batch since then; 0: none */
    double busy_s;     /* since the last request */
};

/* governor_pace_came: a batch was sent to the client. */
void governor_pace_came(struct governor_pace *pace, uint64_t now_ns);
/* governor_pace_acted: the client asked for so many batches (0: it only gave one back). Gives the seconds of training a
 * batch since its last request; 0: it showed none. */
double governor_pace_acted(struct governor_pace *pace, uint64_t now_ns, uint32_t batches);

#endif
