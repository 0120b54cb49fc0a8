/* chunks.h: where samples are stored: chunks, groups of chunks, and the fibers across a group.
 *
 * Only geometry is decided here. Each fiber has the heads of two lists, of instances and of encoded samples; their owners are
 * prepared and encoded. A sample has its place from the first job on that names it, in a chunk and a fiber, or in neither. */
#ifndef LARDER_SERVER_ENGINE_CHUNKS_H
#define LARDER_SERVER_ENGINE_CHUNKS_H

#include "server/engine/job.h"

struct chunk {
    sample_id *members; /* by slot; SAMPLE_NONE: not seen in any view yet */
    uint32_t group;
    uint32_t pending; /* tasks of its samples that wait for their load to begin */
    bool stale;       /* a member has been forgotten and is still listed */
};

/* n chunks that share one place in memory, and the fibers across them. */
struct group {
    uint32_t first_chunk, n_chunks, chunk_samples;
    uint32_t width; /* slots of a fiber */
    uint32_t first_fiber;
    uint32_t stock;       /* encoded samples of it in memory */
    uint32_t stock_max;   /* samples of a fiber that one job may have there and still want */
    bool thin;            /* the budget does not hold a sample for each fiber: none makes room for another */
    uint32_t ahead_below; /* with less than this it is worth a try to read ahead in it */
};

/* What of a fiber is in memory. */
struct fiber {
    struct line instances, encoded; /* instances that somebody wants */
};

struct chunk_place {
    uint32_t chunk, fiber; /* ENGINE_NONE, both: in none */
};

#define CHUNK_PLACE_NONE ((struct chunk_place){ENGINE_NONE, ENGINE_NONE})

/* Where samples are stored. Owner: chunks.c. */
struct chunks {
    struct engine_env *env;
    struct jobs *jobs;
    struct chunk_place *at; /* by sample */
    struct chunk *chunks;
    struct group *groups;
    struct fiber *fibers;
    uint32_t n_chunks, n_groups, n_fibers;
};

int chunks_make_room(struct chunks *chunks, uint64_t ids); /* for samples below ids; LARDER_ENOMEM */
/* chunks_enter makes the groups and fibers of a dataset whose chunks nobody came with before; `held`: how many of its samples
 * the encoded budget holds. LARDER_ENOMEM. */
int chunks_enter(struct chunks *chunks, const struct engine_job_desc *desc, uint64_t held);
void chunks_drop_groups(struct chunks *chunks, uint32_t first, uint32_t end);
void chunks_destroy(struct chunks *chunks);
uint32_t chunks_stock_max(uint32_t width); /* samples that a job's stock in a fiber is meant to have */
bool chunks_is_here(const struct job *job, const struct group *group);
struct fiber *chunks_fiber(const struct chunks *chunks, sample_id id); /* NULL: the sample is in none */
struct group *chunks_group(const struct chunks *chunks, sample_id id); /* NULL: the sample is in none */

#endif
