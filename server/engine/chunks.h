/* chunks.h: where samples are stored: chunks, the groups that share one place in memory, and what of a fiber is there.
 *
 * Invariant: the groups of a dataset are neighbours, and so are the fibers of a group and the chunks of a group. A
 * sample's chunk and fiber are both set, or neither is, and belong to one group. A fiber lists each encoded of its
 * samples, and each instance of them that somebody wants, and nothing else. A group's stock is the number of encodeds
 * in its fibers.
 * Owner: chunks.c owns chunks, groups and fibers, and where samples are; prepared and encoded keep their list in each
 * fiber, and encoded a group's stock. */
#ifndef LARDER_SERVER_ENGINE_CHUNKS_H
#define LARDER_SERVER_ENGINE_CHUNKS_H

#include "server/engine/job.h"

struct chunk {
    /* The samples of its slots; SAMPLE_NONE: no view has had that one yet. The chunk owns the array. */
    sample_id *members;
    uint32_t group;   /* The group it belongs to; ENGINE_NONE: no job has come with this chunk. */
    uint32_t pending; /* How many tasks of its samples are TO_LOAD. */
    /* A member was forgotten and is still listed; residents_forget sweeps it in the same call. */
    bool stale;
};

/* n chunks that share one place in memory, and the fibers across them. */
struct group {
    uint32_t first_chunk, n_chunks, chunk_samples;
    uint32_t width;       /* Slots of a fiber; the last fiber may have fewer. */
    uint32_t first_fiber; /* Its fibers are neighbours from this one on. */
    uint32_t stock;       /* How many encodeds of its samples are in memory or on their way. */
    uint32_t stock_max;   /* A job's stock in a fiber may grow to so many samples that it still wants. */
    /* The budget does not hold one sample for each fiber, so no sample makes room for another. */
    bool thin;
    uint32_t ahead_below; /* Reading ahead is tried again once the stock is below this. */
};

/* What of a fiber is in memory. */
struct fiber {
    struct line instances, encoded; /* instances that somebody wants */
};

/* The numbers that a dataset's chunks have: base … base + count - 1. */
struct chunk_range {
    uint64_t key[ENGINE_CHUNK_KEY];
    uint32_t base, count;
    uint64_t used;  /* The value of chunks.uses when a job came with it last. */
    uint64_t wants; /* Samples in it that jobs have in their views; valid while ranges are compared. */
};

struct chunk_place {
    uint32_t chunk, fiber; /* ENGINE_NONE, both: in none */
};

#define CHUNK_PLACE_NONE ((struct chunk_place){ENGINE_NONE, ENGINE_NONE})

/* Where samples are stored. Owner: chunks.c. */
struct chunks {
    struct engine_env *env;
    struct chunk_place *at; /* by sample */
    struct chunk *chunks;
    struct group *groups;
    struct fiber *fibers;
    uint32_t n_chunks, n_groups, n_fibers;
    struct chunk_range *ranges; /* n_ranges of them, by base */
    size_t n_ranges, ranges_cap;
    uint64_t uses; /* jobs that came with a range */
};

int chunks_make_room(struct chunks *chunks, uint64_t ids); /* for samples below ids; LARDER_ENOMEM */
/* chunks_enter makes the groups and fibers of a dataset whose chunks nobody came with before; `held`: how many of its
 * samples the encoded budget holds. LARDER_ENOMEM. */
int chunks_enter(struct chunks *chunks, const struct engine_chunks *dataset, uint32_t base, uint64_t held);
void chunks_drop_groups(struct chunks *chunks, uint32_t first, uint32_t end);
void chunks_destroy(struct chunks *chunks);
bool chunks_is_here(const struct job *job, const struct group *group);
struct fiber *chunks_fiber(const struct chunks *chunks, sample_id id); /* NULL: the sample is in none */
struct group *chunks_group(const struct chunks *chunks, sample_id id); /* NULL: the sample is in none */

/* chunks_ranges.c. A pointer to a range is valid until one is added or dropped. */
/* NULL: none */
struct chunk_range *chunks_find_range(const struct chunks *chunks, const uint64_t key[ENGINE_CHUNK_KEY]);
/* chunk is in one */
struct chunk_range *chunks_range_of(const struct chunks *chunks, uint32_t chunk);
/* The first gap that is long enough. */
struct chunk_range *chunks_add_range(struct chunks *chunks, const uint64_t key[ENGINE_CHUNK_KEY], uint32_t count);
void chunks_drop_range(struct chunks *chunks, struct chunk_range *range);
struct chunk_range *chunks_least_wanted(const struct chunks *chunks); /* by `wants`; there is one */

#endif
