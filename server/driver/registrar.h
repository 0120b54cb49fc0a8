/* registrar.h: turns a client's request into something the engine can take: opens the dataset (which may mean
 * indexing a million files), parses the pipeline, evaluates the subset. A few threads of its own, so that neither the
 * engine nor the sessions wait, nor one job for another job's indexing; and a few more for sources that were opened
 * before, so that these do not wait behind any number of new ones. Results go to the inbox as INBOX_REGISTERED,
 * whatever they are. What nobody waits for any more ends soon, wherever it stands, so that others have their turn. */
#ifndef LARDER_SERVER_DRIVER_REGISTRAR_H
#define LARDER_SERVER_DRIVER_REGISTRAR_H

#include "cache/catalog/catalog.h"
#include "common/mailbox.h"
#include "server/config/config.h"
#include "server/driver/inbox.h"

struct registrar;

int registrar_create(struct catalog *catalog, const struct config *config, struct mailbox *inbox,
                     struct registrar **out, struct error *err);
/* registrar_submit takes the registration over. LARDER_ELIMIT when too many wait (it stays the caller's then). */
int registrar_submit(struct registrar *registrar, struct registration *registration);
/* registrar_abandon: the client of a registration has gone. It comes out as refused, at once when it waits, or as soon
 * as the thread that is at it notices. Nothing when the client has none. Any thread. */
void registrar_abandon(struct registrar *registrar, uint64_t client);
/* registrar_stop ends the threads; what they are at, and what still waits, comes out as refused soon. */
void registrar_stop(struct registrar *registrar);
void registrar_destroy(struct registrar *registrar); /* accepts NULL */

#endif
