/* residents.h: wants and places across both memories: samples leave remaining sets, come back, and are forgotten.
 *
 * Invariant: a module that changes R_j calls residents_left or residents_back for each sample. When a job begins or
 * ends an epoch, it calls residents_turned. Then the wants in prepared and encoded memory equal demand_count and
 * demand_count_encoded, once residents are settled. A change that concerns many residents is a line in the changes
 * (changes.h). The sweep settles a bounded number of residents in each step. If there are no more than that, all are
 * settled at once.
 * Owner: residents.c and residents_sweep.c own the changes and the sweep. This module sets a sample's chunk and slot,
 * and the members of chunks. residents_sweep.c owns chunks.arranging. */
#ifndef LARDER_SERVER_ENGINE_RESIDENTS_H
#define LARDER_SERVER_ENGINE_RESIDENTS_H

#include "server/engine/encoded.h"

/* How far the residents are settled. */
struct sweep {
    uint32_t instance, encoded;                   /* the next that it comes to */
    uint32_t to;                                  /* When it is through, all are settled to this line. */
    uint32_t left;                                /* residents that it may still look at in this step */
    bool idle;                                    /* Encodeds may be there that nobody wants. */
    uint32_t to_enter_instance, to_enter_encoded; /* While chunks.arranging: the next that enter their fibers. */
};

struct residents {
    struct engine_env *env;
    struct jobs *jobs;
    struct chunks *chunks;
    struct prepared *prepared;
    struct encoded_store *encoded;
    struct changes changes;
    struct sweep sweep;
};

/* residents.c */
/* residents_left lowers the wants of the sample's residents, after id has left R_job. */
void residents_left(struct residents *residents, uint32_t job, sample_id id);
/* residents_back raises the wants of the sample's residents, after id has come back into R_job. */
void residents_back(struct residents *residents, uint32_t job, sample_id id);
/* residents_turned has residents follow when the job has begun an epoch, and runs, or has ended one, and does not run
 * any more: R_job is what it was then. */
void residents_turned(struct residents *residents, uint32_t job);
/* residents_drop_remaining drops the encodeds of the job's remaining set that nobody else wants. The job no longer
 * wants them. */
void residents_drop_remaining(struct residents *residents, uint32_t job);
/* residents_uses_changed is called when samples are used next at other times than was known. */
void residents_uses_changed(struct residents *residents);
/* residents_forget_pipeline evicts the pipeline's instances. An instance that is being made is freed when it is done.
 * No job may have the pipeline. */
void residents_forget_pipeline(struct residents *residents, uint32_t pipeline);
/* residents_renew lets a repeatable job have again what it had in an epoch before. It is called when an epoch has
 * begun. residents_job_failed is called when the job has failed: it will want nothing again. */
void residents_renew(struct residents *residents, struct job *job);
void residents_job_failed(struct residents *residents, struct job *job);
/* residents_inherit marks the instances that the job inherits as had (engine_inherits). It is called when the job has
 * come. */
void residents_inherit(struct residents *residents, struct job *job, const struct engine_job_desc *desc);
/* residents_forget_job takes the job out of its family. If it is the last with its bit of `had`, it takes the bit out
 * of all instances, because it will be another job's. The job will want nothing again. */
void residents_forget_job(struct residents *residents, struct job *job);

/* residents_sweep.c */
/* residents_step begins a step: the sweep may go on. residents_sweep continues it, at the end of a step.
 * residents_swept tells whether all residents are settled. */
void residents_step(struct residents *residents);
void residents_sweep(struct residents *residents);
bool residents_swept(const struct residents *residents);
/* residents_change adds a line to the changes, and settles as many residents as this step may. */
void residents_change(struct residents *residents, const struct change *change);
/* residents_arrange makes the groups anew. As many residents enter their fibers as this step may look at. The others
 * enter in the next steps, and until then are found for their own sample only. */
void residents_arrange(struct residents *residents);
/* residents_drop_idle drops what nobody wants any more of encoded memory, as far as this step may. */
void residents_drop_idle(struct residents *residents);
/* residents_few tells whether going through this many samples is less work than going through all residents, and fits
 * in one step. This holds for a job with few samples beside what is in memory. */
bool residents_few(const struct residents *residents, uint64_t samples);

/* residents_forget.c */
/* residents_forget forgets what is kept under the ids; see ENGINE_SAMPLES_GONE for ids and kept. */
void residents_forget(struct residents *residents, sample_id *ids, uint32_t count, uint32_t *kept);

/* residents_places.c */
#define CHUNK_RANGES_SPARE 16 /* ranges that may exist beyond two for each dataset in use */
/* residents_place gives a place in a chunk to each of the job's samples that has none, and fills in the chunks of the
 * job's shape. It fails with LARDER_ENOMEM. */
int residents_place(struct residents *residents, const struct engine_job_desc *desc, struct job *job);
/* residents_place_some places samples before their job comes; see ENGINE_PLACE. */
void residents_place_some(struct residents *residents, const struct engine_placing *placing);
/* residents_keep chooses what encoded memory keeps over all epochs, and makes the groups anew if that has changed. It
 * is called when a job has come or gone. `ahead_bytes`: what the look-ahead of all jobs takes at once. */
void residents_keep(struct residents *residents, uint64_t ahead_bytes);
/* residents_forget_range forgets the range's chunks and the places of the samples in them. Each of these samples is
 * loaded alone, until a job comes that places them anew. */
void residents_forget_range(struct residents *residents, struct chunk_range *range);

#endif
