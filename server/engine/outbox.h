/* outbox.h: actions of this step, and numbered places. */
#ifndef LARDER_SERVER_ENGINE_OUTBOX_H
#define LARDER_SERVER_ENGINE_OUTBOX_H

#include "server/engine/engine_priv.h"

struct engine_action *outbox_add_job(struct engine *engine, enum engine_action_type type, uint32_t job);
void outbox_seal(struct engine *engine);
uint32_t slab_instance_new(struct engine *engine);
uint32_t slab_encoded_new(struct engine *engine);
uint32_t slab_task_new(struct engine *engine);
uint32_t slab_entry_new(struct engine *engine);
void slab_instance_drop(struct engine *engine, uint32_t index);
void slab_encoded_drop(struct engine *engine, uint32_t index);
void slab_task_drop(struct engine *engine, uint32_t index);
void slab_entry_drop(struct engine *engine, uint32_t index);
struct engine_action *outbox_add(struct engine *engine, enum engine_action_type type);

#endif
