/* pack_priv.h: a pack: its plan, its destination and its threads. */
#ifndef LARDER_CACHE_STORE_PACK_PRIV_H
#define LARDER_CACHE_STORE_PACK_PRIV_H

#include "cache/store/store_priv.h"

struct layout_chunk {
    uint32_t segment;
    uint64_t offset, len_bytes; /* in the segment's file */
};

struct layout {
    uint32_t sample_count, chunk_size, chunk_count, segment_count;
    struct layout_chunk *chunks;
    struct store_segment *segments;
};

/* store_layout.c */

/* layout_make places every chunk: aligned, in order, a new segment once one holds segment_bytes. LARDER_ELIMIT for a
 * chunk past STORE_CHUNK_BYTES_MAX, LARDER_ENOMEM. */
int layout_make(const struct dataset *dataset, const struct chunking *chunking, uint64_t segment_bytes,
                struct layout *out, struct error *err);
void layout_free(struct layout *layout);
uint32_t layout_chunk_samples(const struct layout *layout, uint32_t chunk);

/* pack_plan numbers what would be packed and how: equal plans make equal stores. LARDER_ENOMEM. */
int pack_plan(const struct dataset *dataset, const struct store_options *options, uint64_t plan[2]);

/* store_dest.c */

/* pack_prepare makes dest or finds it as a run of the same plan left it, and locks it: *lock_fd is the caller's to
 * close, whatever comes back, when it is not -1. *finished: the store is there already. */
int pack_prepare(const struct dataset *dataset, const char *dest, const uint64_t plan[2], int *lock_fd, bool *finished,
                 struct error *err);
/* pack_find_segment says whether a segment is there, finished and whole by its header, length and footer, and then
 * fills its entries. What is there and is not that is removed. */
int pack_find_segment(const char *dest, const uint64_t plan[2], uint32_t number, const struct store_segment *segment,
                      struct store_entry *entries, uint32_t count, bool *finished, struct error *err);
/* pack_finish takes the mark of the unfinished off dest. */
void pack_finish(const char *dest);

/* store_pack_threads.c */

/* A run. lock guards what says so; entries of a chunk belong to the thread that took it until the segment is
 * finished. */
struct pack {
    const struct dataset *dataset;
    const struct store_options *options;
    const char *dest;
    struct chunking chunking;
    struct layout layout;
    uint64_t plan[2];
    struct store_entry *entries; /* by position */
    uint32_t *chunks_left;       /* by segment; lock */
    pthread_mutex_t lock;
    pthread_cond_t progressed;   /* a thread ended */
    uint32_t next_chunk;         /* lock */
    uint32_t running;            /* threads; lock */
    bool stop;                   /* lock */
    struct error error;          /* the first one; lock */
    struct store_progress progress; /* lock */
};

/* pack_run reads and writes every chunk that is left. What store_pack says of reading and writing, and LARDER_EGONE
 * when report (may be NULL) said stop. */
int pack_run(struct pack *pack, store_progress_fn *report, void *context, struct error *err);

static inline int pack_no_memory(struct error *err)
{
    return error_set(err, LARDER_ENOMEM, "out of memory while packing");
}

#endif
