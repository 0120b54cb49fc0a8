/* chunks.h: where samples are stored: chunks, the groups that share one place in memory, and what memory has of a
 * fiber.
 *
 * A dataset's chunks have a random order that never changes. A group is made of chunks that follow each other in it:
 * first the kept chunks are grouped, then the others. So no fiber has samples of both. When other chunks are kept, the
 * groups are made anew.
 *
 * Invariant: the groups of a dataset are neighbours. So are the fibers of a group, and the chunks of a group in
 * chunks.order. A fiber lists each encoded of its samples, each instance of them that somebody wants and that is not
 * alone, and nothing else.
 * A group's stock is the number of encodeds in its fibers.
 * Owner: chunks.c owns chunks, groups and fibers, and encoded_keep.c which chunks are kept. residents_places.c and
 * residents_forget.c set where samples are, and which are placed. prepared and encoded each keep their list in a fiber,
 * and encoded keeps a group's stock. */
#ifndef LARDER_SERVER_ENGINE_CHUNKS_H
#define LARDER_SERVER_ENGINE_CHUNKS_H

#include "server/engine/job.h"

/* Samples that are read together. */
struct chunk {
    /* The samples of its slots. SAMPLE_NONE: no view had the sample of that slot yet. The chunk owns the array, unless
     * it is its range's `none`. */
    sample_id *members;
    /* The group that it belongs to. ENGINE_NONE until the groups are made anew, after a job came with it first. */
    uint32_t group;
    uint32_t pending; /* number of tasks in state TO_LOAD for its samples */
    bool kept;        /* The samples of it that views have stay in memory over all epochs. */
    /* A member was forgotten and is still listed; residents_forget sweeps it in the same call. */
    bool stale;
};

/* n chunks that share one place in memory, and the fibers across them. */
struct group {
    uint32_t first, n_chunks; /* its chunks are chunks.order[first … first + n_chunks - 1] */
    uint32_t chunk_samples;
    uint32_t width;       /* slots of a fiber; the last fiber may have fewer */
    uint32_t first_fiber; /* the first of its fibers, which are neighbours */
    uint32_t stock;       /* number of its encodeds in memory or being loaded */
    uint32_t stock_max;   /* largest stock in a fiber of a job that wants all chunks, in samples that it still wants */
    uint32_t stock_part;  /* the same of a job that wants one in `parts` of them */
    /* The budget does not hold one sample for each fiber, so no sample makes room for another. */
    bool thin;
    bool ample;                    /* Memory holds so much of it that a read may bring all of a chunk, as at w = 1. */
    bool kept;                     /* its chunks are kept */
    uint32_t first_alike, n_alike; /* the groups of its range that are kept like it, which are neighbours */
    uint32_t most_chunks;          /* chunks of the largest of these; the others have as many, or one less */
    uint32_t ahead_below;          /* Reading ahead is tried again once the stock is below this. */
};

/* Numbers of instances or encodeds, the newest last. Picks go along them all the time, and what they name lies all over
 * memory: in an array the next ones are known, and can be fetched beforehand. */
struct fiber_members {
    uint32_t *all; /* `count` of them; the fiber owns the array, with room for `cap` */
    uint32_t count, cap;
};

#define MEMBERS_AHEAD 8 /* a member is fetched this many members before it is looked at */

/* The part of a fiber that is in memory. */
struct fiber {
    struct fiber_members instances, encoded; /* the instances that are listed (prepared.h); all encodeds */
};

/* The numbers of a dataset's chunks: base … base + count - 1. */
struct chunk_range {
    uint64_t key[ENGINE_CHUNK_KEY];
    uint32_t base, count;
    uint32_t samples, width; /* slots of a chunk and of a fiber */
    /* shared `members` of all chunks of which no view had a sample yet; the range owns the array */
    sample_id *none;
    uint32_t *order;     /* its chunks in their own order, as number − base; the range owns the array */
    uint32_t n_kept;     /* number of kept chunks */
    uint64_t rest, held; /* totals of chunks that are not kept: samples in views, and samples that memory can hold */
    /* A job of a training at several nodes wants one chunk in `parts`; 0 and 1: all jobs want all chunks. */
    uint32_t parts;
    uint64_t used;  /* the value of chunks.uses when a job last came with it */
    uint64_t wants; /* number of its samples in jobs' views; valid while ranges are compared */
};

/* All chunks, groups and fibers, and which samples are in them. Owner: chunks.c. */
struct chunks {
    struct engine_env *env;
    struct chunk *chunks;
    uint32_t *order; /* all chunks: those of a range have its numbers as indexes, in the order of their groups */
    struct group *groups;
    struct fiber *fibers;
    uint32_t n_chunks, n_groups, n_fibers;
    uint32_t fibers_end;             /* fibers from here on have no arrays, and are not set */
    uint64_t groups_cap, fibers_cap; /* Room for the groups of all ranges, whatever is kept. */
    bool stale;                      /* the groups are to be made anew */
    uint32_t arranged;               /* a new value each time they are made; a resident that is in its fiber has it */
    bool arranging;                  /* Residents may be there that have not entered their fibers. */
    struct chunk_range *ranges;      /* n_ranges of them, by base */
    size_t n_ranges, ranges_cap;
    uint64_t uses;        /* counts jobs that came with a range */
    struct idset *placed; /* the samples that are in a chunk */
    uint64_t moves;       /* counts samples that entered or left a chunk */
};

/* chunks_place returns where a sample is. */
static inline struct chunk_place *chunks_place(const struct chunks *chunks, sample_id id)
{
    return &samples_at(&chunks->env->samples, id)->place;
}

/* chunks_enter makes the chunks of a dataset with which no job came before. Their groups come with chunks_arrange. It
 * fails with LARDER_ENOMEM, and then changes nothing. */
int chunks_enter(struct chunks *chunks, const struct engine_chunks *dataset, struct chunk_range *range);
/* chunks_put puts a sample, which is in no chunk, into a chunk of the range. The caller adds it to chunks.placed. It
 * fails with LARDER_ENOMEM, and then changes nothing. */
int chunks_put(struct chunks *chunks, const struct chunk_range *range, sample_id id, struct chunk_slot place);
/* chunks_leave frees what the range's chunks have. No sample may be in them. The groups must be made anew. */
void chunks_leave(struct chunks *chunks, struct chunk_range *range);
/* chunks_hold sets how many samples of the range's chunks that are not kept memory holds. It changes nothing if the
 * groups would hardly change. chunks_part sets into how many parts trainings divide the range's chunks. It keeps a
 * larger number until half as many are enough: parts come and go one by one. */
void chunks_hold(struct chunks *chunks, struct chunk_range *range, uint64_t held);
void chunks_part(struct chunks *chunks, struct chunk_range *range, uint32_t parts);
/* chunks_arrange makes all groups and fibers anew, as chunk.kept and the ranges say. All fibers are empty then: what
 * memory has must enter its fiber again. */
void chunks_arrange(struct chunks *chunks);
/* chunks_destroy frees what chunks.c and chunks_ranges.c own. */
void chunks_destroy(struct chunks *chunks);
/* chunks_is_here tells whether the group belongs to the job's dataset. */
bool chunks_is_here(const struct job *job, const struct group *group);
/* chunks_fiber_no returns the number of the sample's fiber; ENGINE_NONE when it is in none. */
uint32_t chunks_fiber_no(const struct chunks *chunks, sample_id id);
/* chunks_fiber and chunks_group return the sample's fiber and group; NULL when it is in none. These and the numbers are
 * valid until chunks_arrange. */
struct fiber *chunks_fiber(const struct chunks *chunks, sample_id id);
struct group *chunks_group(const struct chunks *chunks, sample_id id);
/* chunks_add_member adds a number; chunks_remove_member takes one out that is there. */
void chunks_add_member(struct fiber_members *members, uint32_t number);
void chunks_remove_member(struct fiber_members *members, uint32_t number);
/* chunks_at returns chunk i of the group. */
static inline const struct chunk *chunks_at(const struct chunks *chunks, const struct group *group, uint32_t i)
{
    return &chunks->chunks[chunks->order[group->first + i]];
}

/* chunks_ranges.c: a pointer to a range is valid until a range is added or dropped. */
/* chunks_find_range returns the range of the dataset with this key; NULL when it has none. */
struct chunk_range *chunks_find_range(const struct chunks *chunks, const uint64_t key[ENGINE_CHUNK_KEY]);
/* chunks_range_of returns the range that has this chunk; there must be one. */
struct chunk_range *chunks_range_of(const struct chunks *chunks, uint32_t chunk);
/* chunks_add_range puts a range into the first gap between the others that is long enough. */
struct chunk_range *chunks_add_range(struct chunks *chunks, const uint64_t key[ENGINE_CHUNK_KEY], uint32_t count);
/* chunks_drop_range takes the range away, after chunks_leave. */
void chunks_drop_range(struct chunks *chunks, struct chunk_range *range);
/* chunks_least_wanted returns the range with the smallest share of wanted samples, by `wants`; there must be a
 * range. */
struct chunk_range *chunks_least_wanted(const struct chunks *chunks);

#endif
