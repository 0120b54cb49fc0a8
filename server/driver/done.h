/* done.h: ranks that have received all of their share of the epoch, and keep it. Their scripts may end then, and could
 * not tell the next daemon what they received. So the daemon tells the other ranks, which present it along with their
 * own history. Only the engine's thread calls these functions. */
#ifndef LARDER_SERVER_DRIVER_DONE_H
#define LARDER_SERVER_DRIVER_DONE_H

#include "server/driver/driver_priv.h"

/* done_look: the rank was given a batch, or keeps one. If it is done with that, those that are not are told. */
void done_look(struct driver *driver, uint32_t place, uint32_t rank);
/* done_asked: a client asks for batches. When it does so first, it is told of all that are done. */
void done_asked(struct driver *driver, const struct driver_client *row);

#endif
