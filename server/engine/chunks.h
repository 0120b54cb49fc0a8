/* chunks.h: where samples are stored, and what of a fiber is in memory. */
#ifndef LARDER_SERVER_ENGINE_CHUNKS_H
#define LARDER_SERVER_ENGINE_CHUNKS_H

#include "server/engine/engine_priv.h"

uint64_t chunks_mean_bytes(const struct engine *engine, const struct engine_job_desc *desc); /* of a sample of the view, encoded */
uint64_t chunks_samples_held(const struct engine *engine, const struct engine_job_desc *desc);
int chunks_enter(struct engine *engine, const struct engine_job_desc *desc);
void chunks_drop_groups(struct engine *engine, uint32_t first, uint32_t end);
void chunks_destroy(struct engine *engine);
uint32_t chunks_stock_max(uint32_t width); /* samples that a job's stock in a fiber is meant to have */
bool chunks_is_here(const struct job *job, const struct group *group);
void chunks_fiber_add_instance(struct engine *engine, uint32_t instance);
void chunks_fiber_remove_instance(struct engine *engine, uint32_t instance);
void chunks_fiber_add_encoded(struct engine *engine, uint32_t encoded);
void chunks_fiber_remove_encoded(struct engine *engine, uint32_t encoded);

#endif
