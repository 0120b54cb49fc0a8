/* catalog.h: datasets: which samples there are, where their bytes lie, what they are labelled.
 *
 * A catalog gives ids that are global to the daemon, and to other samples when no dataset has them any more. Identity
 * is (device, inode, size, mtime), symbolic links followed, or in a packed store the content's hash (and, where others
 * may write to the store, the store), so datasets that contain the same file share its id; a file that one dataset
 * contains k times has k ids (its first occurrence shares with the first occurrence elsewhere). A dataset is immutable
 * once opened, and reference-counted (atomic): all its functions may be called from any thread.
 *
 * A class-per-folder tree is read as torchvision's ImageFolder reads it: classes are the sorted names of the root's
 * folders, a sample's label is its class's index, extensions .jpg .jpeg .png .ppm .bmp .pgm .tif .tiff .webp (any
 * case), order: by class, then the sorted walk of its folders, then sorted file names. An image that cannot be reached
 * (a dangling link) keeps its place and fails when it is read. Where ImageFolder would quietly go wrong, a tree is
 * refused: a folder that cannot be listed, and symbolic links that lead back to a folder above them. */
#ifndef LARDER_CACHE_CATALOG_CATALOG_H
#define LARDER_CACHE_CATALOG_CATALOG_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "common/interrupt.h"
#include "common/types.h"

struct catalog;
struct dataset;

/* catalog_create: checkpoint_dir (copied) is where indices are kept between runs, made when missing; NULL: keep none.
 * A folder that cannot be made or written is logged, and indices are then not kept. */
int catalog_create(const char *checkpoint_dir, struct catalog **out, struct error *err);
void catalog_destroy(struct catalog *catalog); /* accepts NULL; datasets that are still referenced live on */

/* catalog_set_chunking says how the trees that are opened from now on fall into logical chunks: `samples` a chunk
 * (1 … CHUNK_SAMPLES_MAX, CHECKed), shuffled with the seed. Without it: CHUNK_SAMPLES_DEFAULT, CHUNK_SEED_DEFAULT. */
#define CHUNK_SAMPLES_MAX 4096
#define CHUNK_SAMPLES_DEFAULT 64
#define CHUNK_SEED_DEFAULT 1
void catalog_set_chunking(struct catalog *catalog, uint32_t samples, uint64_t seed);

/* catalog_open gives a reference to the dataset of a source (a class-per-folder tree, or a store.h folder), indexing
 * it, or verifying its checkpoint, when it is not in memory unchanged. Unchanged means: every folder has the
 * modification time it had, no read has met a changed file, and the files that are looked at are those that were
 * indexed: all of a small tree, some drawn at random of a large one (docs/files.md). A sample whose file is another one
 * has another id. Blocks for as long as that takes; thread-safe; two callers of one source do the work once.
 * LARDER_ENOENT, LARDER_EINVAL (not a folder, no class folders, an empty class, a loop of links), LARDER_EIO,
 * LARDER_EPERM, LARDER_ELIMIT, LARDER_ENOMEM. */
int catalog_open(struct catalog *catalog, const char *path, struct dataset **out, struct error *err);

/* catalog_open_files does the same, but the samples of a tree are all files whose names do not begin with a dot,
 * whatever they are. Its index is not kept between runs. A store is what was packed into it. */
int catalog_open_files(struct catalog *catalog, const char *path, struct dataset **out, struct error *err);

/* catalog_open_for does the one or the other, with LARDER_EGONE soon after the caller's interrupt was set and
 * catalog_interrupted called. What several callers wait for goes on while one of them is not interrupted, and whoever
 * still wants it gets it. */
struct catalog_wish {
    const char *path;
    bool every_file; /* as catalog_open_files */
    const struct interrupt *interrupt; /* lives until the call returns; may be NULL */
};
int catalog_open_for(struct catalog *catalog, const struct catalog_wish *wish, struct dataset **out, struct error *err);
/* catalog_interrupted: the interrupt of a caller inside catalog_open_for was set, or one above it. Any thread. */
void catalog_interrupted(struct catalog *catalog);

struct catalog_stats {
    uint32_t datasets;   /* in memory */
    uint64_t samples;    /* ids that datasets have */
    uint64_t checkpoints_loaded;
    uint64_t trees_walked;
};
void catalog_stats(struct catalog *catalog, struct catalog_stats *out);

/* An id that no dataset has any more is retired: it means no sample, and is given to another only after whoever keeps
 * something under ids has said that there is nothing any more. catalog_take_retired gives up to `most` retired ids,
 * which are the caller's; each comes back by catalog_settle_retired. forgotten: they may be given anew; else they are
 * retired again. Any thread. */
uint32_t catalog_take_retired(struct catalog *catalog, sample_id *ids, uint32_t most);
void catalog_settle_retired(struct catalog *catalog, const sample_id *ids, uint32_t count, bool forgotten);

struct dataset *dataset_ref(struct dataset *dataset);
void dataset_unref(struct dataset **dataset); /* accepts a pointer to NULL; sets it to NULL */

const char *dataset_path(const struct dataset *dataset);   /* the source's absolute path, links resolved */
uint32_t dataset_count(const struct dataset *dataset);     /* samples */
uint32_t dataset_classes(const struct dataset *dataset);
const char *dataset_class(const struct dataset *dataset, uint32_t label); /* NULL when label ≥ classes */
/* dataset_fingerprint: of classes, keys, sizes, labels and order; not of times, so that a copy elsewhere has the
 * same. */
void dataset_fingerprint(const struct dataset *dataset, uint64_t out[2]);

/* By index, < dataset_count (CHECKed). */
sample_id dataset_id(const struct dataset *dataset, uint32_t index);
int32_t dataset_label(const struct dataset *dataset, uint32_t index);
uint64_t dataset_size(const struct dataset *dataset, uint32_t index);     /* encoded bytes, as indexed */
const char *dataset_key(const struct dataset *dataset, uint32_t index);   /* path below the source, "n01440764/x.jpg" */
/* dataset_index finds the index of an id; false when the dataset does not contain it. O(log n) at most. */
bool dataset_index(const struct dataset *dataset, sample_id id, uint32_t *index);
/* dataset_ids gives all ids in index order, dataset_count of them; borrowed, valid while the dataset is referenced. */
const sample_id *dataset_ids(const struct dataset *dataset);

/* Chunks: samples that are stored together, or in a plain tree at least read together. Each has dataset_chunk_size
 * samples, the last one perhaps fewer; a sample's slot is its position in its chunk. Chunk numbers and indices are
 * CHECKed. */
uint32_t dataset_chunk_size(const struct dataset *dataset);
uint32_t dataset_chunk_count(const struct dataset *dataset);
uint32_t dataset_chunk_of(const struct dataset *dataset, uint32_t index, uint32_t *slot); /* slot may be NULL */
/* dataset_chunk_members gives a chunk's samples (indices) in slot order; borrowed, valid while the dataset is
 * referenced. */
const uint32_t *dataset_chunk_members(const struct dataset *dataset, uint32_t chunk, uint32_t *count);

/* dataset_read reads the encoded bytes of a sample into buf, which has room for dataset_size(index). Blocks on I/O;
 * handles EINTR and short reads. What its errors say, always with the file's name in err:
 *   of the sample   LARDER_ENOENT (gone from a folder that is there), LARDER_EFORMAT (not a regular file, or a store's
 *                   bytes are damaged)
 *   of its source   LARDER_EIO, LARDER_EPERM, LARDER_ENOMEM: the root or a folder is away, or the system cannot read
 *                   now
 *   of the dataset  LARDER_ECHANGED (another file has its name, or it was written to since it was indexed or while it
 *                   was read; a store was replaced: open the dataset again)
 *   of the process  LARDER_ELIMIT (no file descriptor is free: try again)
 * What is read is never another file's. */
int dataset_read(const struct dataset *dataset, uint32_t index, void *buf, struct error *err);

/* One sample among several to be read: index and buf are the caller's, the outcome comes back in err (code 0: read). */
struct sample_read {
    uint32_t index;
    void *buf; /* room for dataset_size(index) */
    struct error err;
};

/* dataset_read_many reads samples as dataset_read does, each with its own outcome, and gives how many failed. count ≤
 * CHUNK_SAMPLES_MAX. From a store a chunk's samples come with one read; in a plain tree a few files are under way at
 * once. */
uint32_t dataset_read_many(const struct dataset *dataset, struct sample_read *reads, uint32_t count);

#endif
