/* tar_group.h: which members of a shard are a sample, as webdataset groups them. Pure.
 *
 * A member's key is its name up to the first dot behind the last slash, and the rest is its part, in lower case.
 * Neighbours of one key are a sample, which ends with its shard. A part that comes again begins another sample. The
 * image of a sample, or its sound, is its part with the first of the names in tar_kind_rank. */
#ifndef LARDER_CACHE_SOURCE_TAR_GROUP_H
#define LARDER_CACHE_SOURCE_TAR_GROUP_H

#include "cache/source/tar_header.h"
#include "common/types.h"

#define TAR_PARTS_MAX 4096 /* members of one sample */

/* tar_name_split finds the lengths of a name's key and of its part, which lies behind a dot. False: webdataset passes
 * over a file of such a name. */
bool tar_name_split(const char *name, size_t len, size_t *key_len);
/* tar_part_is says whether a part has that name, which is in lower case. */
bool tar_part_is(const char *part, const char *name);
/* tar_kind_rank returns 1 for the part that is taken as image before all others, or with FILES_SOUNDS as sound, higher
 * numbers for later ones, and 0 for a part that is none. */
unsigned tar_kind_rank(const char *part, enum sample_files files);
/* tar_part_rank does the same where names, with ';' between them, say which parts are looked for. */
unsigned tar_part_rank(const char *names, const char *part);

/* The sample that is being gathered. Zeroed, there is none yet. */
struct tar_group {
    bool open;
    size_t key_len, n_parts, cap;
    char key[TAR_NAME_MAX + 1];
    uint64_t *parts; /* hashes of their names */
};

/* What a member is to the group. */
enum tar_place {
    TAR_JOINS,    /* it belongs to the sample that is there */
    TAR_BEGINS,   /* it begins another */
    TAR_REPEATS,  /* so it does, because the sample has such a part already */
    TAR_TOO_MANY, /* it has TAR_PARTS_MAX parts */
    TAR_NO_MEMORY,
};
/* tar_group_add takes a member whose name has a key of key_len bytes. */
enum tar_place tar_group_add(struct tar_group *group, const char *name, size_t key_len);
void tar_group_free(struct tar_group *group);

#endif
