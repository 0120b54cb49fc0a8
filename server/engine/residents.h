/* residents.h: wants and places across both memories. */
#ifndef LARDER_SERVER_ENGINE_RESIDENTS_H
#define LARDER_SERVER_ENGINE_RESIDENTS_H

#include "server/engine/engine_priv.h"

/* residents.c */
int residents_place(struct engine *engine, const struct engine_job_desc *desc, struct job *job); /* LARDER_ENOMEM */
void residents_left(struct engine *engine, uint32_t job, sample_id id); /* id has just left R_job */
void residents_back(struct engine *engine, uint32_t job, sample_id id); /* id has just come back into R_job */
/* A running job's remaining set changes as a whole: withdraw its wants before, declare them after. The work goes by what
 * remains to it, or by what is in memory, whichever is less. */
void residents_withdraw(struct engine *engine, uint32_t job);
void residents_declare(struct engine *engine, uint32_t job);
void residents_drop_left(struct engine *engine, uint32_t job); /* it wants what remains to it no more: let that go */
void residents_forget_had(struct engine *engine, uint32_t job); /* its place will be another's */

/* residents_forget.c */
/* residents_forget.c; see ENGINE_SAMPLES_GONE */
void residents_forget(struct engine *engine, sample_id *ids, uint32_t count, uint32_t *kept);

#endif
