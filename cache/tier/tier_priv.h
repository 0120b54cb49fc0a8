/* tier_priv.h: what the files of a storage class share.
 *
 *   record.c   the bytes of records and of indices; pure
 *   table.c    key to place, in memory
 *   folder.c   the folder, its lock and its description
 *   segment.c  segment files: found, gone through, sealed, removed
 *   tier.c     the class: its life, and what it says
 *   read.c, write.c, move.c, view.c */
#ifndef LARDER_CACHE_TIER_TIER_PRIV_H
#define LARDER_CACHE_TIER_TIER_PRIV_H

#include <pthread.h>
#include <sys/uio.h>

#include "cache/tier/tier.h"

/* ── record.c ── */

#define TIER_VERSION 1
#define RECORD_HEADER_BYTES 56
#define RECORD_BYTES_MAX UINT32_MAX /* a sample's */
#define SEGMENT_OWNERS_MAX 8
#define INDEX_HEADER_BYTES (8 * (4 + SEGMENT_OWNERS_MAX))
#define INDEX_ENTRY_BYTES 40
#define INDEX_BYTES_MAX ((uint64_t)8 << 30)

struct record {
    struct tier_key key;
    uint64_t owner, hash; /* hash: the sample's bytes' */
    uint32_t len_bytes;
    enum tier_form form;
};

uint64_t tier_hash(const void *bytes, uint64_t len_bytes);
void tier_header_encode(const struct record *record, uint8_t out[RECORD_HEADER_BYTES]);
/* tier_header_parse returns false when the bytes are no header. */
bool tier_header_parse(const uint8_t bytes[RECORD_HEADER_BYTES], struct record *out);

/* The place of a sample. It is useless if its segment is gone or SEGMENT_NONE. */
struct place {
    struct tier_key key;
    uint64_t hash;
    uint64_t offset : 62; /* where the sample's bytes begin */
    uint64_t form : 2;    /* enum tier_form */
    uint32_t len_bytes, segment;
};
#define SEGMENT_NONE UINT32_MAX
#define SEGMENT_NUMBER_MAX (UINT32_MAX / 2) /* most for segments found at the start: later ones get higher numbers */
#define SEGMENTS_MAX 512                    /* kept when a class opens: each has a descriptor */

/* The index of one segment. */
struct segment_index {
    uint32_t segment, n_owners;
    uint64_t owners[SEGMENT_OWNERS_MAX];
    uint64_t sealed_bytes; /* offset in the segment's file; all records before it are listed */
    struct place *places;  /* malloc'ed */
    size_t count;
};

/* index_encode returns the file's bytes, which the caller frees; NULL when memory runs out. */
uint8_t *index_encode(const struct segment_index *index, size_t *len_bytes);
/* index_parse returns false when the bytes are no index of this segment, or memory runs out. The caller frees
 * places. */
bool index_parse(const uint8_t *bytes, size_t len_bytes, uint32_t segment, struct segment_index *out);

/* ── table.c: places by key. No locks. ── */

struct place_table {
    struct place *places; /* open addressing, a power of two long; len_bytes 0 and segment 0: free */
    size_t cap, used;     /* used: places of no use included */
};

struct place *place_find(const struct place_table *table, struct tier_key key); /* NULL: there is none */
/* place_put adds a place, or replaces that of the same key. *old is the replaced one (segment SEGMENT_NONE: there was
 * none). `alive` tells whether a place is still of use: others are dropped when the table grows. LARDER_ENOMEM. */
int place_put(struct place_table *table, const struct place *place, bool (*alive)(void *ctx, uint32_t segment),
              void *ctx, struct place *old);
void place_table_free(struct place_table *table);

/* ── segment.c ── */

struct segment {
    uint32_t number;
    uint32_t refs; /* readers, and 1 while the class has it; under the class's lock */
    int fd;
    uint64_t len_bytes; /* whole records only */
    uint64_t sealed_bytes;
    uint64_t samples, planes;
    bool moved; /* its samples are in the form that they stay in */
    uint32_t n_owners;
    uint64_t owners[SEGMENT_OWNERS_MAX];
};

#define SEGMENT_NAME_BYTES 32
void segment_name(const char *kind, uint32_t number, char out[SEGMENT_NAME_BYTES]); /* kind: "segment", "index" */

bool segment_is_named(const char *name); /* whether this is the name of a segment or an index */
/* segment_remove removes a segment and its index. 0, also where there is none, or -1 with errno. */
int segment_remove(int dir_fd, uint32_t number);

/* segment_scan calls found for each record from `from` on, and sets *end to the end of the last whole one.
 * LARDER_EIO. */
typedef int segment_found_fn(void *ctx, const struct record *record, uint64_t offset);
int segment_scan(int fd, uint64_t from, uint64_t len_bytes, segment_found_fn *found, void *ctx, uint64_t *end);
/* segment_index_load reads the index of a segment. False: there is none, or it is damaged. */
bool segment_index_load(int dir_fd, uint32_t number, uint64_t file_bytes, struct segment_index *out);
/* segment_numbers lists the segments of a folder in ascending order, malloc'ed, and removes what is left over: indices
 * without a segment, and temporary files. With `keep` it removes nothing. */
int segment_numbers(int dir_fd, bool keep, uint32_t **numbers, size_t *count);

/* ── folder.c ── */

struct folder {
    int dir_fd, lock_fd;
    uint64_t seed, size_bytes;
};

/* folder_open opens a class's folder and takes its lock; folder_close gives both up. size_bytes 0: the folder must be a
 * class, and keeps its size. */
int folder_open_class(const char *path, uint64_t size_bytes, struct folder *out, struct error *err);
void folder_close(struct folder *folder);
/* folder_read_class reads what a folder's `class` says, without a lock. */
int folder_read_class(const char *path, int dir_fd, struct folder *out, struct error *err);
bool folder_is_locked(int dir_fd);

/* ── tier.c ── */

#define TIER_MAGIC UINT32_C(0x54494552)

struct tier {
    uint32_t magic;
    char *path;
    struct folder folder;
    uint64_t size_bytes, segment_bytes; /* segment_bytes: a segment of this length is full */
    bool moves;                         /* it keeps room for a segment that is moved */
    pthread_mutex_t writing;            /* whoever has it is the writer; taken before `lock` */
    pthread_mutex_t lock;               /* guards all below, but that only the writer changes segments' lengths */
    struct place_table table;
    struct segment **segments; /* in ascending order of numbers */
    size_t n_segments, cap_segments;
    struct segment *open[2]; /* those that are written to, by `moved`; NULL: the next write begins one. The writer's */
    uint32_t next_number;
    uint64_t *wanted;
    uint32_t n_wanted;
    bool full, write_off, read_off;
    struct tier_stats stats; /* only the counters: used_bytes, samples and those since the class was opened */
};

struct segment *tier_segment_locked(const struct tier *tier, uint32_t number); /* NULL: it is gone */
void tier_release(struct tier *tier, struct segment *segment);
/* tier_forget_locked makes a place one of no use. */
void tier_forget_locked(struct tier *tier, struct place *place);
/* tier_place_locked adds a place; the one with its key before it is of no use any more. LARDER_ENOMEM. */
int tier_place_locked(struct tier *tier, const struct place *place);
/* tier_is_at_locked tells whether the sample still lies where tier_next found it. */
bool tier_is_at_locked(const struct tier *tier, const struct tier_sample *sample);
/* tier_add_segment returns a new last segment, which the class owns; the writer or whoever opens the class calls it. */
struct segment *tier_add_segment(struct tier *tier, uint32_t number, int fd);
/* tier_give_up removes the segment at `at`, with its records. */
void tier_give_up(struct tier *tier, size_t at);
/* tier_seal makes what a segment holds last, and writes its index. 0, or -1 with errno. */
int tier_seal(struct tier *tier, struct segment *segment);
/* tier_failed switches writing, or all, off after an errno, and logs it the first time. */
void tier_failed(struct tier *tier, bool reading, int number);

/* tier_move_parts has preadv or pwritev move all parts. It returns 0, or -1 with errno, which is 0 where no more could
 * be moved: the file ends early. */
typedef ssize_t tier_move_fn(int fd, const struct iovec *parts, int count, off_t offset);
int tier_move_parts(tier_move_fn *move, int fd, struct iovec *part, int count, uint64_t offset);

#endif
