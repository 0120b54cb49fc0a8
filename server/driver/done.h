/* done.h: ranks that have had all of their share of the epoch, and keep it. Their scripts may end then, and a daemon
 * that comes next hears of no one what they have had. So the others are told while there is somebody who knows, and
 * present it with what they had themselves. Only the engine's thread calls these functions. */
#ifndef LARDER_SERVER_DRIVER_DONE_H
#define LARDER_SERVER_DRIVER_DONE_H

#include "server/driver/driver_priv.h"

/* done_look: the rank was given a batch, or keeps one. If it is done with that, those that are not are told. */
void done_look(struct driver *driver, uint32_t place, uint32_t rank);
/* done_asked: a client asks for batches. When it does so first, it is told of all that are done. */
void done_asked(struct driver *driver, const struct driver_client *row);

#endif
