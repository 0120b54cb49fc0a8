/* tar_idx.h: the index of a shard that NVIDIA DALI's wds2idx writes: a text "v1.2 SAMPLES" and then a line a sample,
 * with extension, first byte, length and name of each of its members. Pure. */
#ifndef LARDER_CACHE_SOURCE_TAR_IDX_H
#define LARDER_CACHE_SOURCE_TAR_IDX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAR_IDX_BYTES_MAX (UINT64_C(1) << 30)

struct tar_idx {
    const char *at, *end; /* what is left of the text; borrowed */
};

struct tar_idx_member {
    const char *name; /* in the text, not terminated */
    size_t name_len;
    uint64_t header; /* where its header begins */
    uint64_t size;
};

/* tar_idx_begin reads the first line. False: it is not of that form or version. */
bool tar_idx_begin(struct tar_idx *idx, const char *text, size_t len);
/* tar_idx_next reads the next member. It returns 1, 0 at the end, and -1 for what is not of that
 * form, names with blanks among it. */
int tar_idx_next(struct tar_idx *idx, struct tar_idx_member *out);

#endif
