/* arrivals.h: the callbacks of the session, of the registrar and of the workers. Each runs in the thread that calls it,
 * and puts what it is told into the inbox of the engine's thread. */
#ifndef LARDER_SERVER_DRIVER_ARRIVALS_H
#define LARDER_SERVER_DRIVER_ARRIVALS_H

#include <stdatomic.h>

#include "common/mailbox.h"
#include "server/registration/registrar.h"
#include "server/session/session.h"
#include "server/workers/worker.h"

/* The owner fills it before the session and the workers begin, and keeps it until both have ended. */
struct arrivals {
    struct mailbox *inbox;
    struct registrar *registrar;
    void (*on_lost)(void *ctx); /* the owner's answer to session_handlers.on_lost */
    void *ctx;
    _Atomic uint64_t last_client_ns; /* when a client was last seen; set by the session's thread and by main */
};

/* arrivals_of_sessions and arrivals_of_workers return callbacks that refer to arrivals, for session_start and for
 * workers_create. arrivals_registered is registrar_means.done, whose ctx is the arrivals. */
struct session_handlers arrivals_of_sessions(struct arrivals *arrivals);
struct worker_results arrivals_of_workers(struct arrivals *arrivals);
void arrivals_registered(void *arrivals, struct registration *registration);

#endif
