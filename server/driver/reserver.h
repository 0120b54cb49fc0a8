/* reserver.h: the thread that takes memory for the arena and gives it back, so that nobody else waits for that.
 *
 * It does what it is asked in order, and answers RESERVED through the inbox. While some of the arena is there it also
 * looks once a second whether memory is short, and says so with PRESSURE. */
#ifndef LARDER_SERVER_DRIVER_RESERVER_H
#define LARDER_SERVER_DRIVER_RESERVER_H

#include <stdint.h>

#include "cache/memory/arena.h"
#include "common/mailbox.h"
#include "server/engine/events.h"

struct reserver;

struct reserver_config {
    struct arena *arena; /* borrowed, all three of these */
    struct mailbox *inbox;
    const struct engine_config *engine; /* budgets: what the arena does not have, blocks may keep (common/blocks.h) */
    const char *root; /* put before the paths that tell how much memory is free, and short; "" outside tests */
};

/* reserver_start begins the thread; the caller ends it with reserver_stop. LARDER_ENOMEM, LARDER_ELIMIT. */
int reserver_start(const struct reserver_config *config, struct reserver **out, struct error *err);
/* reserver_stop waits until what is under way has ended. The inbox takes messages until then. Accepts NULL. */
void reserver_stop(struct reserver *reserver);

/* These two are called by the engine's thread. reserver_reserve asks for the arena's bytes from `from` to `to`; the
 * answer may be less. At most one such request is open. reserver_return has the bytes from `from` to `to` given back;
 * it is not called while a reserver_reserve is open. */
void reserver_reserve(struct reserver *reserver, uint64_t from, uint64_t to);
void reserver_return(struct reserver *reserver, uint64_t from, uint64_t to);

#endif
