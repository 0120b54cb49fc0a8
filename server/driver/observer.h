/* observer.h: an observer watches what the engine's thread does. That thread calls it. An observer has NULL in place of
 * each function that it does not need. */
#ifndef LARDER_SERVER_DRIVER_OBSERVER_H
#define LARDER_SERVER_DRIVER_OBSERVER_H

#include "server/engine/engine.h"
#include "server/workers/worker.h"

struct driver_observer {
    void *ctx;
    void (*on_event)(void *ctx, const struct engine_event *event);    /* before the engine gets it */
    void (*on_action)(void *ctx, const struct engine_action *action); /* before it is carried out */
    void (*on_read)(void *ctx, const struct worker_read *read);       /* after the read has ended */
    void (*on_prepared)(void *ctx, const struct worker_cost *cost);   /* before the engine gets the result */
};

#endif
