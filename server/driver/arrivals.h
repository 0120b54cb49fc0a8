/* arrivals.h: what sessions and workers bring, put into the inbox of the engine's thread, in their own threads. */
#ifndef LARDER_SERVER_DRIVER_ARRIVALS_H
#define LARDER_SERVER_DRIVER_ARRIVALS_H

#include <stdatomic.h>

#include "common/mailbox.h"
#include "server/driver/registrar.h"
#include "server/session/session.h"
#include "server/workers/worker.h"

/* Filled before sessions and workers begin, and there until they have ended. */
struct arrivals {
    struct mailbox *inbox;
    struct registrar *registrar;
    void (*on_lost)(void *ctx); /* as session_handlers has it */
    void *ctx;
    _Atomic uint64_t last_client_ns; /* when a client was last seen; sessions' thread and main */
};

struct session_handlers arrivals_of_sessions(struct arrivals *arrivals);
struct worker_results arrivals_of_workers(struct arrivals *arrivals);

#endif
