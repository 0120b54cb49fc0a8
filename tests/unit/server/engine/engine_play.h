/* engine_play.h: a step of an engine and all that follows from it, for unit tests. */
#ifndef LARDER_TESTS_UNIT_SERVER_ENGINE_ENGINE_PLAY_H
#define LARDER_TESTS_UNIT_SERVER_ENGINE_ENGINE_PLAY_H

#include "server/engine/engine.h"

/* engine_play steps, checks the whole engine and calls react for each action; react may step further. */
void engine_play(struct engine *engine, uint64_t now_ns, const struct engine_event *events, size_t n_events,
                 void (*react)(void *scene, const struct engine_action *action), void *scene);

#endif
