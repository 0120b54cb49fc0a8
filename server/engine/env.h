/* env.h: what all modules of the engine see: configuration, time, chance, and counts. Owner: engine.c. */
#ifndef LARDER_SERVER_ENGINE_ENV_H
#define LARDER_SERVER_ENGINE_ENV_H

#include "common/random.h"
#include "sampler/sampler.h"
#include "server/engine/engine.h"
#include "server/engine/samples.h"

struct engine_env {
    struct engine_config config;
    uint64_t now_ns; /* time of the present step */
    struct rng rng;
    struct engine_counts counts;
    struct sampler *sampler;
    /* By job with homes: the samples left elsewhere, which are neither received nor drawn for an entry. */
    struct sampler *elsewhere;
    struct samples samples;
};

#endif
