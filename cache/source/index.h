/* index.h: the samples of a source as they were found, in their order. An index belongs to one thread. */
#ifndef LARDER_CACHE_SOURCE_INDEX_H
#define LARDER_CACHE_SOURCE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/source/identity.h"
#include "cache/source/log_key.h"
#include "cache/source/packed_rows.h"
#include "cache/source/pixels.h"

#define DATASET_SAMPLES_MAX INT32_MAX /* the most samples of one dataset */

/* One sample as it was found. key is an offset into the index's strings. Device, inode, size and mtime are its
 * identity. The change time is not part of it, for a new hard link changes that; in a packed store it is 0. */
struct index_sample {
    uint64_t key;
    uint64_t size;
    int64_t mtime_ns, ctime_ns;
    uint64_t device, inode;
    int32_t label;
    uint32_t flags;
};

/* A flag of a sample: its file could not be reached when it was indexed. Reading it will say why. Its identity is made
 * from its path. */
#define INDEX_UNREACHABLE 1u

/* The modification time of a sample whose device and inode are the hash of its bytes as they were found. A store has
 * other times for bytes that it wrote anew (cache/store/format.h). */
#define INDEX_MTIME_STORED INT64_MIN

/* One folder of the tree, with the values that tell whether it has changed. */
struct index_folder {
    uint64_t path; /* offset of the path below the root; "" for the root */
    uint64_t device, inode;
    int64_t mtime_ns;
    uint64_t listing; /* hash of its entries' names, types and inodes, in any order */
    uint32_t flags;
};

/* A flag of a folder: it was modified so shortly before it was listed that a later change may have the same time. So
 * its time proves nothing, and its listing is compared instead. */
#define FOLDER_FRESH 1u

/* A file in which several samples lie, as it was found: a shard, or one that a list of places names. */
struct index_blob {
    uint64_t path;  /* offset of its path below the root */
    uint64_t first; /* index of the first sample that lies in it, or behind it */
    uint64_t size;
    uint64_t device, inode;
    int64_t mtime_ns;
    int64_t ctime_ns;     /* which a checkpoint has with the samples alone */
    struct pixels pixels; /* what its samples are */
};

/* Where a sample begins in its blob, and what proves that bytes are its own: that is its kind's. */
struct index_place {
    uint64_t offset, proof;
};

struct index {
    char *text;    /* what the source is opened by; a folder's is its root */
    char *root;    /* absolute path */
    char *strings; /* NUL-terminated texts, one after the other */
    size_t strings_len_bytes, strings_cap_bytes;
    uint64_t *classes; /* offsets of their names, in label order */
    size_t class_count, class_cap;
    struct index_folder *folders; /* the root first */
    size_t folder_count, folder_cap;
    struct index_sample *samples; /* while it is made; NULL once it is packed */
    size_t sample_count, sample_cap;
    struct index_blob *blobs;   /* none: each sample is a file */
    struct index_place *places; /* one a sample where there are blobs; else, or once it is packed, NULL */
    size_t blob_count, blob_cap, place_cap;
    struct packed_rows rows; /* the samples and places, once it is packed */
    /* XXH3-128 of the samples' bytes, as a store says that was packed from them (origins.h): that is what they are
     * known by. Zeros: by their file. NULL: all are. */
    struct identity *contents;
    size_t unreachable;      /* samples that are INDEX_UNREACHABLE, once it is packed */
    uint64_t device_was;     /* the root's device in the rows; 0: the rows have the one that it has now */
    uint8_t *whole;          /* what strings and rows lie in, of a checkpoint; NULL: each is its own */
    uint64_t fingerprint[2]; /* as dataset_fingerprint has it, and the version's times; 0, 0: not found out */
    uint64_t times[2];
    uint64_t content[2]; /* the version's content, in a checkpoint; 0, 0: not known */
};

/* index_pack packs the samples of an index that is complete, and gives back what its arrays have beyond their contents.
 * LARDER_ENOMEM: it is as it was. */
int index_pack(struct index *index);

/* These return what an index has of a sample < sample_count, packed or not. */

/* Below 2^63, whatever a checkpoint says. */
static inline uint64_t index_size(const struct index *index, size_t sample)
{
    uint64_t size = index->samples ? index->samples[sample].size : packed_rows_value(&index->rows, sample, PACKED_SIZE);
    return size <= INT64_MAX ? size : INT64_MAX;
}

/* Below class_count, whatever a checkpoint says. */
static inline int32_t index_label(const struct index *index, size_t sample)
{
    uint64_t label = index->samples ? (uint32_t)index->samples[sample].label
                                    : packed_rows_value(&index->rows, sample, PACKED_LABEL);
    return label < index->class_count ? (int32_t)label : 0;
}

static inline uint32_t index_flags(const struct index *index, size_t sample)
{
    uint64_t flags = index->samples ? index->samples[sample].flags
                                    : packed_rows_value(&index->rows, sample, PACKED_FLAGS);
    return flags & INDEX_UNREACHABLE; /* there is no other */
}

/* Within the strings, whatever a checkpoint says: whoever opens a file by it looks at it first. */
static inline const char *index_key(const struct index *index, size_t sample)
{
    uint64_t key = index->samples ? index->samples[sample].key : packed_rows_value(&index->rows, sample, PACKED_KEY);
    return index->strings + (key < index->strings_len_bytes ? key : index->strings_len_bytes - 1);
}

/* NULL: the sample is known by its file, or its container's place. */
static inline const struct identity *index_content(const struct index *index, size_t sample)
{
    const struct identity *content = index->contents ? &index->contents[sample] : NULL;
    return content && (content->low || content->high) ? content : NULL;
}

/* index_content_differs says whether these are other bytes than those that the sample is known by; false if it is not
 * known by its bytes. */
bool index_content_differs(const struct index *index, size_t sample, const void *bytes);

struct index_sample index_sample(const struct index *index, size_t sample);
struct index_place index_place(const struct index *index, size_t sample); /* where there are blobs */

void index_free(struct index *index); /* frees what it holds, not itself; a zeroed index is empty */
/* index_text appends "a" or, with b, "a/b", and gives its offset. LARDER_ENOMEM. */
int index_text(struct index *index, const char *a, const char *b, uint64_t *offset);
/* array_grow makes room for one more element. LARDER_ENOMEM, or LARDER_ELIMIT past count_max. */
int array_grow(void **array, size_t count, size_t *cap, size_t element_bytes, size_t count_max);
/* index_join appends parts, in their order, and empties them; each has samples, folders and blobs of its own. On
 * failure (LARDER_ELIMIT, LARDER_ENOMEM) they are as they were. */
int index_join(struct index *index, struct index *parts, size_t count);
#define INDEX_FOLDERS_MAX (1u << 24)
/* index_blob_of returns the number of the blob that a sample lies in. */
uint32_t index_blob_of(const struct index *index, size_t sample);
/* index_store_key returns the key that a sample has in a store that is packed from its dataset. It may lie in buf. */
const char *index_store_key(const struct index *index, size_t sample, char buf[LOG_KEY_BYTES]);
/* index_fingerprint returns what dataset_fingerprint describes. sizes, by index, stand for the samples' own; NULL:
 * these. LARDER_ENOMEM. */
int index_fingerprint(const struct index *index, const uint64_t *sizes, uint64_t out[2]);

/* index_identity hashes what tells one sample's content from another's, with the seed: device, inode, size and time,
 * what sets it apart from others that have the same, and whose it is (NULL: anybody's). */
struct identity index_identity(const struct index_sample *sample, uint64_t apart, const uint64_t whose[3],
                               uint64_t seed);

/* text_compare orders names as Python orders the texts that os.listdir gives: by code point, where a byte that is not
 * part of valid UTF-8 counts as U+DC00 + byte. For valid UTF-8 that is the order of the bytes. */
int text_compare(const char *a, const char *b);
/* key_is_below says whether a key that a file names stays below its root: it has no "..", is not absolute, and is not
 * empty. */
bool key_is_below(const char *key);

#endif
