/* store_pack_priv.h: a pack's plan and its destination. */
#ifndef LARDER_CACHE_STORE_PACK_PRIV_H
#define LARDER_CACHE_STORE_PACK_PRIV_H

#include "cache/store_priv.h"

struct layout_chunk {
    uint32_t segment;
    uint64_t offset, len_bytes; /* in the segment's file */
};

struct layout {
    uint32_t sample_count, chunk_size, chunk_count, segment_count;
    struct layout_chunk *chunks;
    struct store_segment *segments;
};

/* layout_make places every chunk: aligned, in order, a new segment once one holds segment_bytes. LARDER_ELIMIT for a chunk
 * past STORE_CHUNK_BYTES_MAX, LARDER_ENOMEM. */
int layout_make(const struct dataset *dataset, const struct chunking *chunking, uint64_t segment_bytes, struct layout *out,
                struct error *err);
void layout_free(struct layout *layout);
uint32_t layout_chunk_samples(const struct layout *layout, uint32_t chunk);

/* pack_plan numbers what would be packed and how: equal plans make equal stores. LARDER_ENOMEM. */
int pack_plan(const struct dataset *dataset, const struct store_options *options, uint64_t plan[2]);

/* pack_prepare makes dest or finds it as a run of the same plan left it, and locks it: *lock_fd is the caller's to close,
 * whatever comes back, when it is not -1. *finished: the store is there already. */
int pack_prepare(const struct dataset *dataset, const char *dest, const uint64_t plan[2], int *lock_fd, bool *finished,
                 struct error *err);
/* pack_find_segment says whether a segment is there, finished and whole by its header, length and footer, and then fills
 * its entries. What is there and is not that is removed. */
int pack_find_segment(const char *dest, const uint64_t plan[2], uint32_t number, const struct store_segment *segment,
                      struct store_entry *entries, uint32_t count, bool *finished, struct error *err);
/* pack_finish takes the mark of the unfinished off dest. */
void pack_finish(const char *dest);

#endif
