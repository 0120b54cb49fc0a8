/* sources.h: what datasets are read from, and whether it answers. */
#ifndef LARDER_SERVER_ENGINE_SOURCES_H
#define LARDER_SERVER_ENGINE_SOURCES_H

#include "server/engine/engine_priv.h"

static inline bool sources_away(const struct engine *engine, uint32_t job)
{
    return engine->sources.all[engine->jobs.all[job].source.at].away;
}

struct data_source *sources_find_source(struct engine *engine, const void *dataset);
void sources_join(struct engine *engine, struct job *job);
void sources_leave(struct engine *engine, struct job *job);
void sources_load(struct engine *engine, uint32_t job, uint32_t encoded); /* its load begins */
bool sources_waits(const struct engine *engine, uint32_t job);

#endif
