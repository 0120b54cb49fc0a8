/* residents.h: wants and places across both memories: samples leave remaining sets, come back, and are forgotten.
 *
 * Invariant: a module that changes R_j calls residents_left or residents_back for each sample. When all of R_j changes,
 * it calls residents_withdraw before and residents_declare after. Then the wants of both stores equal demand_count and
 * demand_count_encoded.
 * Owner: none; this module has no state. It sets a sample's chunk and slot, and the members of chunks. */
#ifndef LARDER_SERVER_ENGINE_RESIDENTS_H
#define LARDER_SERVER_ENGINE_RESIDENTS_H

#include "server/engine/encoded.h"

/* The modules that this one works on. */
struct residents {
    struct engine_env *env;
    struct jobs *jobs;
    struct chunks *chunks;
    struct prepared *prepared;
    struct encoded_store *encoded;
};

/* residents.c */
/* residents_left lowers the wants of the sample's residents, after id has left R_job. */
void residents_left(struct residents *residents, uint32_t job, sample_id id);
/* residents_back raises the wants of the sample's residents, after id has come back into R_job. */
void residents_back(struct residents *residents, uint32_t job, sample_id id);
/* residents_withdraw takes all wants of the job away, before its remaining set changes as a whole. residents_declare
 * adds those of the changed set. They do nothing unless the job is running. The work goes by what remains to the job,
 * or by what is in memory, whichever is less. */
void residents_withdraw(struct residents *residents, uint32_t job);
void residents_declare(struct residents *residents, uint32_t job);
/* residents_drop_remaining drops the encodeds of the job's remaining set that nobody else wants. The job no longer
 * wants them. */
void residents_drop_remaining(struct residents *residents, uint32_t job);
/* residents_renew lets a repeatable job have again what it had in an epoch before. It is called when an epoch has
 * begun. residents_job_failed is called when the job has failed: it will want nothing again. */
void residents_renew(struct residents *residents, struct job *job);
void residents_job_failed(struct residents *residents, struct job *job);
/* residents_inherit has the job have had what its description says. It is called when the job has come. */
void residents_inherit(struct residents *residents, struct job *job, const struct engine_job_desc *desc);
/* residents_forget_job takes the job out of `had` of all instances, because its number will be another job's. It will
 * want nothing again. */
void residents_forget_job(struct residents *residents, struct job *job);

/* residents_forget.c */
/* residents_forget forgets what is kept under the ids; see ENGINE_SAMPLES_GONE for ids and kept. */
void residents_forget(struct residents *residents, sample_id *ids, uint32_t count, uint32_t *kept);

/* residents_places.c */
#define CHUNK_RANGES_SPARE 16 /* how many ranges there may be beyond two for each dataset in use */
/* residents_place gives places in chunks to those of the job's samples that have none, and fills in the chunks of the
 * job's shape. It fails with LARDER_ENOMEM. */
int residents_place(struct residents *residents, const struct engine_job_desc *desc, struct job *job);
/* residents_place_some places samples before their job comes; see ENGINE_PLACE. */
void residents_place_some(struct residents *residents, const struct engine_placing *placing);
/* residents_keep chooses what encoded memory keeps over all epochs, and makes the groups anew if that has changed. It
 * is called when a job has come or gone. `ahead_bytes`: what the look-ahead of all jobs takes at once. */
void residents_keep(struct residents *residents, uint64_t ahead_bytes);
/* residents_forget_range forgets the range's chunks and the places of the samples in them; see engine_forget_chunks. */
void residents_forget_range(struct residents *residents, struct chunk_range *range);

#endif
