/* types.h: the few types that every part shares. */
#ifndef LARDER_COMMON_TYPES_H
#define LARDER_COMMON_TYPES_H

#include <stdbool.h>
#include <stdint.h>

/* A sample's id is global to the daemon, and ids are dense from 0. An id is given to another sample only when no
 * dataset has it any more and nothing is kept under it. */
typedef uint32_t sample_id;
#define SAMPLE_NONE UINT32_MAX

/* Jobs live in numbered places; a set of jobs is a bit set over them. */
#define JOBS_MAX 256

struct jobset {
    uint64_t word[JOBS_MAX / 64];
};

static inline void jobset_add(struct jobset *set, unsigned job)
{
    set->word[job / 64] |= UINT64_C(1) << (job % 64);
}

static inline void jobset_remove(struct jobset *set, unsigned job)
{
    set->word[job / 64] &= ~(UINT64_C(1) << (job % 64));
}

static inline bool jobset_has(const struct jobset *set, unsigned job)
{
    return set->word[job / 64] >> (job % 64) & 1;
}

static inline bool jobset_empty(const struct jobset *set)
{
    return (set->word[0] | set->word[1] | set->word[2] | set->word[3]) == 0;
}

static inline unsigned jobset_count(const struct jobset *set)
{
    unsigned count = 0;
    for (unsigned i = 0; i < JOBS_MAX / 64; i++) {
        if (set->word[i]) /* most are 0, and counting takes longer than a look */
            count += (unsigned)__builtin_popcountll(set->word[i]);
    }
    return count;
}

/* jobset_next returns the first member at or after `from`, or JOBS_MAX. */
static inline unsigned jobset_next(const struct jobset *set, unsigned from)
{
    for (unsigned i = from / 64; i < JOBS_MAX / 64; i++) {
        uint64_t word = set->word[i];
        if (i == from / 64)
            word &= ~UINT64_C(0) << (from % 64);
        if (word)
            return i * 64 + (unsigned)__builtin_ctzll(word);
    }
    return JOBS_MAX;
}

#define JOBSET_EACH(job, set) \
    for (unsigned job = jobset_next((set), 0); job < JOBS_MAX; job = jobset_next((set), job + 1))

_Static_assert(JOBS_MAX == 256, "jobset_empty knows four words");

/* A job's share of the work where jobs contend for it, relative to the others' weights. */
#define JOB_WEIGHT_MIN 0.01
#define JOB_WEIGHT_MAX 100.0

/* Which files of a source are its samples, where a folder or a shard has files of several kinds. */
enum sample_files { FILES_IMAGES, FILES_ALL, FILES_SOUNDS };

enum shuffle_mode { SHUFFLE_DEPENDENT, SHUFFLE_STRICT, SHUFFLE_NONE };
enum bad_policy { BAD_SKIP, BAD_REPLACE, BAD_ERROR };
/* Why a sample is bad. */
enum bad_reason {
    BAD_NONE,
    BAD_UNREADABLE,
    BAD_NOT_AN_IMAGE,
    BAD_CORRUPT,
    BAD_TOO_LARGE,
    BAD_NO_MEMORY,
    BAD_TOO_SMALL,
    BAD_POISONOUS,
    BAD_OTHER_SIZE, /* not the size that all images of the job have */
    BAD_REASONS
};
/* What numbers are. Images have the first three alone. */
enum pixel_dtype {
    PIXEL_UINT8,
    PIXEL_FLOAT16,
    PIXEL_FLOAT32,
    PIXEL_INT16,
    PIXEL_UINT16,
    PIXEL_INT32,
    PIXEL_INT64,
    PIXEL_FLOAT64
};
enum pixel_layout { LAYOUT_HWC, LAYOUT_CHW };

/* An image's size, in pixels. */
struct image_size {
    uint32_t width, height;
};

#endif
