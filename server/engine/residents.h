/* residents.h: wants and places across both memories: samples leave remaining sets, come back, and are forgotten.
 *
 * Invariant: whoever changes R_j calls residents_left or residents_back for the sample, or residents_withdraw before
 * and residents_declare after when all of R_j changes. Then the wants of both stores equal demand_count and
 * demand_count_encoded.
 * Owner: none; this module has no state. It sets a sample's chunk and fiber, and the members of chunks. */
#ifndef LARDER_SERVER_ENGINE_RESIDENTS_H
#define LARDER_SERVER_ENGINE_RESIDENTS_H

#include "server/engine/encoded.h"

struct residents {
    struct engine_env *env;
    struct jobs *jobs;
    struct chunks *chunks;
    struct prepared *prepared;
    struct encoded_store *encoded;
};

/* residents.c */
void residents_left(struct residents *residents, uint32_t job, sample_id id); /* id has just left R_job */
void residents_back(struct residents *residents, uint32_t job, sample_id id); /* id has just come back into R_job */
/* A running job's remaining set changes as a whole: withdraw its wants before, declare them after. The work goes by
 * what remains to it, or by what is in memory, whichever is less. */
void residents_withdraw(struct residents *residents, uint32_t job);
void residents_declare(struct residents *residents, uint32_t job);
/* it wants what remains to it no more: let that go */
void residents_drop_remaining(struct residents *residents, uint32_t job);
void residents_forget_had(struct residents *residents, uint32_t job); /* its place will be another's */

/* residents_forget.c */
/* residents_forget: see ENGINE_SAMPLES_GONE. */
void residents_forget(struct residents *residents, sample_id *ids, uint32_t count, uint32_t *kept);

/* residents_places.c */
#define CHUNK_RANGES_SPARE 16 /* ranges beyond two for each dataset in use */
/* residents_place gives the job's samples that have none their places in chunks. LARDER_ENOMEM. */
int residents_place(struct residents *residents, const struct engine_job_desc *desc, struct job *job);
void residents_forget_range(struct residents *residents, struct chunk_range *range); /* see engine_forget_chunks */

#endif
