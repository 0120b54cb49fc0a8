/* gives.h: who prepared the samples that others got. Only the engine's thread calls these functions, but for
 * gives_bytes. */
#ifndef LARDER_SERVER_DRIVER_GIVES_H
#define LARDER_SERVER_DRIVER_GIVES_H

#include "server/engine/engine.h"
#include "server/past/past.h"

struct gives;

struct gives *gives_create(uint64_t arena_bytes, uint64_t slot_least); /* the caller destroys it */
void gives_destroy(struct gives *gives);                               /* accepts NULL */
size_t gives_bytes(const struct gives *gives);                         /* the memory that it takes */
void gives_on_action(void *gives, const struct engine_action *action); /* an observer's; ctx is the gives */
/* gives_to returns how many gave to the job at the place since it came, and writes them, malloc'ed. */
size_t gives_to(const struct gives *gives, uint32_t to, struct past_giver **out);

#endif
