/* tier.h: a storage class: a folder on a fast disk that keeps the encoded bytes of samples between memory and the
 * source, over restarts.
 *
 * A record is one sample: a 128-bit key, the bytes and their hash. Records are appended to a few large segment files,
 * those of one write together. Nothing is ever overwritten. The class evicts only whole segments, and only those that
 * have no record of an owner (a dataset) that is wanted now. Every read is verified. A record whose bytes differ from
 * those written is dropped and counted.
 *
 *   tier_open ─▶ { tier_find, tier_read_many, tier_stats, tier_write: any threads │ tier_move: one thread │
 * tier_want }* ─▶ tier_close
 *
 * The folder has `class` (what it is, its seed and size), `lock`, and for each segment `segment-N` and, once it was
 * sealed, `index-N`. An index is written by file_replace and has a checksum. Records that no index lists are found
 * again by scanning the records' headers, which have checksums too. So the class opens again after a kill at any
 * moment, and has all records that were written whole. */
#ifndef LARDER_CACHE_TIER_TIER_H
#define LARDER_CACHE_TIER_TIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct tier;

#define TIER_SIZE_MIN (UINT64_C(1) << 20)
#define TIER_SIZE_MAX (UINT64_C(1) << 50)
#define TIER_OWNERS_MAX 1024 /* owners that can be wanted at once */
#define TIER_READS_MAX 4096  /* reads of one tier_read_many */

/* tier_open opens the class in the folder `path`, which is made when missing and must be empty when it is no class yet.
 * It takes the folder's lock. If the class holds more than size_bytes (TIER_SIZE_MIN … TIER_SIZE_MAX, CHECKed), its
 * oldest segments go. Damage costs only samples, and is logged: a class without its seed begins anew, and a segment
 * that cannot be read is left out.
 *
 * LARDER_EINVAL: there is something else in the folder, which is left as it is. LARDER_EBUSY: another process has the
 * lock. LARDER_EVERSION: another version made the class. LARDER_EPERM, also if others may write to the folder,
 * LARDER_ENOENT, LARDER_EIO, LARDER_ELIMIT, LARDER_ENOMEM. */
int tier_open(const char *path, uint64_t size_bytes, struct tier **out, struct error *err);
/* tier_close seals what was written and gives the lock up. Accepts NULL. */
void tier_close(struct tier *tier);

const char *tier_path(const struct tier *tier);
/* tier_seed returns a number that is the class's own for as long as its folder is there. Keys are made with it, so that
 * nobody who cannot read the folder can make up a file with another file's key. */
uint64_t tier_seed(const struct tier *tier);

struct tier_key {
    uint64_t low, high;
};

/* The form of a sample in a class. The class knows nothing of its bytes. */
enum tier_form {
    TIER_AS_READ,
    TIER_PLANES, /* other bytes that give the same pixels, of another length (jpeg_planes.h) */
    TIER_STAYS   /* as it was read, after it was found to have no other form */
};
#define TIER_FORMS 3

/* A sample to be read. The caller sets the first three, and room if it takes planes. done: buf has the sample's bytes,
 * or, if planes_bytes is not 0, so many bytes of its planes. */
struct tier_read {
    struct tier_key key;
    uint64_t bytes; /* its length as it was read */
    void *buf;      /* room for `bytes`, or for `room` if that is more */
    bool done;
    uint64_t room; /* the most bytes of its planes that are taken; 0: none are */
    uint64_t planes_bytes;
};

/* tier_find tells whether the class has a sample of this size, in any form, and can be read. tier_find_planes returns
 * the length of its planes if that is its form, or 0. */
bool tier_find(struct tier *tier, struct tier_key key, uint64_t bytes);
uint64_t tier_find_planes(struct tier *tier, struct tier_key key);
/* tier_read_many reads samples, and neighbours with one request. It returns how many were read. If the disk does not
 * answer, the class is switched off. count ≤ TIER_READS_MAX. It blocks on the disk. */
uint32_t tier_read_many(struct tier *tier, struct tier_read *reads, uint32_t count);

/* A sample to be written, borrowed. */
struct tier_record {
    struct tier_key key;
    const void *bytes;
    uint64_t len_bytes;
};

/* tier_write appends those records that the class does not have and that it has room for, and returns how many. owner
 * is the dataset's number. Any thread; it blocks on the disk. If the disk takes nothing, writing is switched off. */
uint32_t tier_write(struct tier *tier, uint64_t owner, const struct tier_record *records, uint32_t count);
/* tier_writable tells whether tier_write may be of use now. */
bool tier_writable(struct tier *tier);
/* tier_want says which owners are wanted from now on; to begin with none are. count ≤ TIER_OWNERS_MAX. */
void tier_want(struct tier *tier, const uint64_t *owners, uint32_t count);

/* ── samples that get another form: one thread ──
 *
 * A class that is moved has two kinds of segments: with samples as they were read, and with those that stay in the form
 * that they have. Each sample of the former is written once more, in the form that it stays in, to one of the latter. A
 * segment that has no sample left is removed. So nothing is overwritten, and a kill at any moment costs no sample. */

/* tier_keep_room has the class keep room for one segment more. Call it before all else. */
void tier_keep_room(struct tier *tier);

/* Where tier_next is; all is 0 at first. */
struct tier_moving {
    uint32_t segment;
    uint64_t offset;
};
/* A sample in the form as it was read. The caller frees the bytes. */
struct tier_sample {
    struct tier_key key;
    uint64_t owner, offset;
    uint32_t segment, len_bytes;
    uint8_t *bytes;
};
/* tier_next returns the next sample to be moved. False: there is none now, or no memory. It blocks on the disk. */
bool tier_next(struct tier *tier, struct tier_moving *moving, struct tier_sample *out);
/* tier_move writes the sample once more, unless it has gone from where it was: its planes, if there are any and the
 * class has room for what they take more than the sample; or else its own bytes, which then stay. False: the class
 * takes nothing more. It blocks on the disk. */
bool tier_move(struct tier *tier, const struct tier_sample *sample, const void *planes, uint64_t len_bytes);

/* TIER_READ_ONLY: writing failed. TIER_OFF: reading failed; the class is not used any more. */
enum tier_state { TIER_FILLING, TIER_FULL, TIER_READ_ONLY, TIER_OFF };
#define TIER_STATES 4
const char *tier_state_name(enum tier_state state); /* "filling", "full", "read_only", "off" */
const char *const *tier_state_names(void);          /* all of them, by state, and then NULL */

struct tier_stats {
    enum tier_state state;
    uint64_t size_bytes, used_bytes;   /* used: by the segment files */
    uint64_t samples, planes, unmoved; /* planes: samples in planes; unmoved: samples for tier_next */
    uint32_t segments;
    uint64_t written_samples, written_bytes; /* since the class was opened; so are those below */
    uint64_t corrupt;                        /* records dropped because their bytes were wrong */
    uint64_t given_up;                       /* segments that were evicted */
};
void tier_stats(struct tier *tier, struct tier_stats *out);

/* ── without opening: `larder cache` ── */

struct tier_view {
    bool in_use;                     /* another process has the lock */
    uint64_t size_bytes, used_bytes; /* size: set when it was opened last */
    uint64_t samples, planes, sample_bytes;
    uint32_t segments, sealed_segments; /* sealed: the index lists all records */
    uint64_t unfinished_bytes;          /* unfinished writes at the ends of segments */
    uint64_t broken;                    /* records whose bytes are wrong; known after verifying */
};

/* tier_view_read looks at a class, and with `verify` reads every byte. problem (may be NULL) is called for each thing
 * that is wrong. LARDER_EINVAL: no class is there. LARDER_EGONE: go_on returned false. It works while a daemon uses the
 * class. */
struct tier_viewer {
    bool verify;
    bool (*go_on)(void *ctx); /* may be NULL */
    void (*problem)(void *ctx, const char *file, const char *what);
    void *ctx;
};
int tier_view_read(const char *path, const struct tier_viewer *viewer, struct tier_view *out, struct error *err);
/* tier_empty removes all records. LARDER_EBUSY: another process has the lock. LARDER_EINVAL: no class is there. */
int tier_empty(const char *path, struct error *err);

#endif
