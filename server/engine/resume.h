/* resume.h: what the ranks of a job received of an epoch before the job was made. The job keeps it until that epoch
 * begins.
 *
 * Invariant: the ranks' records are consistent. Those with the highest epoch have one base, and no two of them received
 * the same sample.
 * Owner: jobs_attach.c and jobs_come.c make it; jobs_resume.c uses it up. It never changes the job. */
#ifndef LARDER_SERVER_ENGINE_RESUME_H
#define LARDER_SERVER_ENGINE_RESUME_H

#include "server/engine/engine.h"

/* The record of one rank. */
struct resume_rank {
    bool told, presented;
    bool done;               /* told by another rank: this one has received its whole share */
    uint32_t epoch, batches; /* its epoch; its batches there, those of the base included */
    uint64_t delivered;
    uint32_t through;
    struct idset *turns;       /* NULL: none */
    struct engine_again again; /* the resume owns the ids */
};

struct resume {
    uint32_t world_size;
    struct resume_rank *ranks;
    /* The highest epoch that a rank has told, and its base. */
    uint32_t epoch, base_batches, n_segments;
    uint64_t key;
    struct idset *base;             /* NULL: none */
    struct engine_again base_again; /* the resume owns the ids */
    struct engine_copy *copies;     /* n_copies of the base */
    uint32_t n_copies;
    struct engine_segment *segments;
    uint32_t *numbers; /* the `through` arrays of the segments */
    /* What the base leaves of the epoch: to all ranks of the job; to those here, and with repeats, if others are at
     * other nodes (part.h). */
    uint64_t draws, samples, part_samples;
};

/* resume.c */
/* resume_flaw returns what is wrong with the description's resume by itself; NULL when nothing is. The rest of the
 * description is well formed, and its view is not empty. */
const char *resume_flaw(const struct engine_job_desc *desc);
/* resume_clash returns why the description's resume, which has no flaw, does not fit those of the other ranks; NULL
 * when it does. A rank that has told already tells the same again. */
const char *resume_clash(const struct resume *resume, const struct engine_job_desc *desc);
/* resume_is_of_the_start tells whether all ranks so far come back to epoch 0, and received nothing of it before this
 * job. */
bool resume_is_of_the_start(const struct resume *resume);
/* resume_is_done tells whether the job need not wait for the rank: another rank has told what it received of the
 * epoch. */
bool resume_is_done(const struct resume *resume, uint32_t rank);
/* resume_had tells whether the rank has told that it had something. resume_forget forgets what the rank has told. */
bool resume_had(const struct resume *resume, uint32_t rank);
void resume_forget(struct resume *resume, uint32_t rank);
/* resume_create makes it from the first rank's description; resume_add adds that of another rank, which has no clash.
 * They copy what they keep. LARDER_ENOMEM, and then it may have a part of what was told. */
int resume_create(const struct engine_job_desc *desc, struct resume **out);
int resume_add(struct resume *resume, const struct engine_job_desc *desc);
void resume_destroy(struct resume *resume); /* accepts NULL */

/* resume_segments.c */
/* resume_part returns the length of a rank's part of a sequence. */
uint64_t resume_part(uint64_t samples, uint32_t world_size, uint32_t rank);
/* resume_segment_fits tells whether the segment takes no more positions of any part than the part has in a sequence of
 * `samples`. */
bool resume_segment_fits(const struct engine_segment *segment, uint64_t samples);

#define RESUME_TAKEN UINT64_MAX

/* The position of a walk through an epoch's order. `segments` are those of the base, and one more for what the ranks of
 * this job received. The caller owns them. */
struct resume_walk {
    const struct engine_segment *segments;
    uint32_t n_segments;
    /* The position of the next sample in each sequence, and the position from which on the segment takes nothing. */
    uint64_t at[ENGINE_SEGMENTS_MAX + 1], end[ENGINE_SEGMENTS_MAX + 1];
    /* The same position as an index in a rank's part, at / world_size, and the rank, at % world_size. */
    uint32_t number[ENGINE_SEGMENTS_MAX + 1], rank[ENGINE_SEGMENTS_MAX + 1];
};

/* resume_walk_begin stands before the first sample of the order. resume_walk_ahead returns a number of samples that the
 * walk goes past at the least until the segments take nothing more; 0: they do not. */
void resume_walk_begin(struct resume_walk *walk, const struct engine_segment *segments, uint32_t n_segments);
uint64_t resume_walk_ahead(const struct resume_walk *walk);
/* resume_walk_next goes past one sample. It returns the sample's position in the sequence that this job deals, or
 * RESUME_TAKEN when the base has it. *had tells whether one of this job's ranks received it. */
uint64_t resume_walk_next(struct resume_walk *walk, bool *had);

#endif
