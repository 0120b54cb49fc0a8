/* reserver.h: the thread that takes memory for the arena and gives it back, so that nobody else waits for that.
 *
 * It does what it is asked in order, and answers through the inbox: RESERVED and RENEWED. While some of the arena is
 * reserved it also looks once a second whether memory is short, and says so with PRESSURE. */
#ifndef LARDER_SERVER_DRIVER_RESERVER_H
#define LARDER_SERVER_DRIVER_RESERVER_H

#include <stdint.h>

#include "cache/memory/arena.h"
#include "common/mailbox.h"
#include "server/session/session.h"

struct reserver;

struct reserver_config {
    struct arena *arena;     /* borrowed, all of these */
    struct session *session; /* hands the arena's descriptor to clients */
    struct mailbox *inbox;
    const char *root; /* put before the paths that tell how much memory is free, and short; "" outside tests */
};

/* reserver_start begins the thread; the caller ends it with reserver_stop. LARDER_ENOMEM, LARDER_ELIMIT. */
int reserver_start(const struct reserver_config *config, struct reserver **out, struct error *err);
/* reserver_stop waits until what is under way has ended. The inbox takes messages until then. Accepts NULL. */
void reserver_stop(struct reserver *reserver);

/* These two are called by the engine's thread, with at most one request of each kind open, and wait for nothing.
 * reserver_reserve asks for the arena's bytes from `from` to `to`; the answer may be less. reserver_renew asks for all
 * of them to be given back, if no client is connected. */
void reserver_reserve(struct reserver *reserver, uint64_t from, uint64_t to);
void reserver_renew(struct reserver *reserver);

#endif
