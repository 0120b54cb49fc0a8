/* engine_priv.h: the engine: one of each module, the lowest first. A module knows only those before it; what holds the
 * engine comes after all of them. */
#ifndef LARDER_SERVER_ENGINE_ENGINE_PRIV_H
#define LARDER_SERVER_ENGINE_ENGINE_PRIV_H

#include "server/engine/plan.h"
#include "server/engine/split.h"

#define ENGINE_MAGIC 0x656e6769u

struct engine {
    uint32_t magic;
    bool draining, halted;
    struct engine_env env;
    struct outbox outbox;
    struct jobs jobs;
    struct chunks chunks;
    struct prepared prepared;
    struct sources sources;
    struct encoded_store encoded;
    struct residents residents;
    struct quota quota;
    struct queues queues;
    struct tasks tasks;
    struct split split;
    struct plan plan;
};

#endif
