/* pack.h: writes a dataset into a packed chunk store, and checks one.
 *
 * A store is a source like a tree (cache/store/store.h): catalog_open opens it. */
#ifndef LARDER_CACHE_PACK_PACK_H
#define LARDER_CACHE_PACK_PACK_H

#include "cache/catalog/catalog.h"
#include "cache/store/format.h"

struct store_options;

struct store_made {
    uint8_t *bytes; /* the packer frees them; NULL: the sample's own are to be kept */
    size_t len_bytes;
    uint32_t form;    /* STORE_FORM_… */
    bool broken;      /* the bytes begin as planes do, and give no image; where the source has them in planes, the
                       * sample cannot be read */
    struct error why; /* set with STORE_FORM_UNDECODED */
};
/* store_rewrite_fn returns other bytes that stand for the same image. A negative code, with err, ends the pack. Several
 * threads call it. */
typedef int store_rewrite_fn(const struct store_options *options, const uint8_t *bytes, size_t len_bytes,
                             struct store_made *made, struct error *err);

struct store_options {
    uint32_t chunk_size;    /* samples a chunk, 1 … CHUNK_SAMPLES_MAX */
    uint64_t seed;          /* seed of the shuffle */
    uint32_t threads;       /* threads that read and write; 0: one a core, at most STORE_THREADS_MAX */
    uint64_t segment_bytes; /* a segment is closed once it holds this much; STORE_SEGMENT_MIN … STORE_SEGMENT_MAX */
    /* A sample that cannot be read does not end the pack. It is kept as one that never can be read. */
    bool skip_unreadable;
    /* Every sample goes through this, and the store is one of version 2, with max_side of version 3, or with planes of
     * version 4. NULL: none, and version 1. It has to give the same bytes for the same sample and options in each run.
     * A source with planes needs it, since their bytes are for version 4 alone. */
    store_rewrite_fn *rewrite;
    uint32_t max_side; /* longer side that rewrite shrinks images to, at most STORE_SIDE_MAX; 0: it shrinks none */
    uint32_t quality;  /* quality of shrunk JPEGs, 1 … 100; ignored without max_side */
    bool restart_rows; /* whether it writes restart markers; without max_side it always does */
    bool planes;       /* it writes JPEGs in bit planes where it can, and with restart markers elsewhere */
};
#define STORE_THREADS_MAX 64
#define STORE_QUALITY_DEFAULT 90
#define STORE_SEGMENT_MIN (UINT64_C(64) << 10)

/* store_options_default fills the defaults: 64 samples a chunk, seed 1, one thread a core, segments of 256 MiB; a
 * sample that cannot be read ends the pack, and none is rewritten. */
void store_options_default(struct store_options *options);

struct store_progress {
    uint64_t samples_done, samples_total;
    uint64_t bytes_done, bytes_total;
    uint64_t samples_resumed; /* samples done that an interrupted run had finished */
    uint64_t samples_skipped; /* the samples that could not be read */
    uint64_t samples_rewritten;
    uint64_t samples_shrunk, samples_undecoded, samples_planes; /* see STORE_FORM_… */
    uint64_t bytes_packed;                                      /* bytes that the samples done take in the store */
    struct packing packing;                                     /* set by store_verify */
};
/* The thread that called store_pack or store_verify calls this about ten times a second, and once at the end. false
 * tells it to stop. */
typedef bool store_progress_fn(void *context, const struct store_progress *progress);

/* store_pack writes the dataset to the folder dest, which it makes when missing. It blocks. It writes each segment
 * under a temporary name and renames it. The index comes last, and until then dest is no dataset. After an
 * interruption, whether by error, by progress (may be NULL) or by kill, the same call goes on after the finished
 * segments. On a finished store it does nothing. LARDER_EINVAL (options; dest holds something else or lies in the
 * source), LARDER_EBUSY (another pack writes to dest), LARDER_EGONE (progress said stop), LARDER_ELIMIT (a chunk or the
 * disk is too small), the codes of dataset_read for a sample, LARDER_EIO, LARDER_EPERM, LARDER_ENOMEM. */
int store_pack(const struct dataset *dataset, const char *dest, const struct store_options *options,
               store_progress_fn *progress, void *context, struct error *err);

/* Is called for each thing that is wrong with a store: the file's name below the store, and what is wrong. Both
 * texts are borrowed for the call. */
typedef void store_problem_fn(void *context, const char *file, const char *what);

/* store_verify reads every byte of a store. It checks the checksums of index and segments, the content hash of every
 * sample, the zeros in between, lengths, and that there are no other files. It blocks. Each problem goes to
 * `problem` (may be NULL). LARDER_EFORMAT, with their number, when there is any; LARDER_EGONE when progress (may be
 * NULL) said stop. */
int store_verify(const char *path, store_progress_fn *progress, store_problem_fn *problem, void *context,
                 struct error *err);

#endif
