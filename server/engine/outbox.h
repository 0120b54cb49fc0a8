/* outbox.h: actions of this step, and numbered places. */
#ifndef LARDER_SERVER_ENGINE_OUTBOX_H
#define LARDER_SERVER_ENGINE_OUTBOX_H

#include "server/engine/engine_priv.h"

struct engine_action *outbox_add_job(struct engine *engine, enum engine_action_type type, uint32_t job);
void outbox_seal(struct engine *engine);
struct engine_action *outbox_add(struct engine *engine, enum engine_action_type type);

#endif
