/* catalog.h: the catalog knows the datasets: which samples there are, where their bytes lie, how they are labelled.
 *
 * A catalog gives ids that are global to the daemon. An id is given to another sample when no dataset has it any more.
 * A sample's identity is (device, inode, size, mtime), symbolic links followed. In a packed store it is the content's
 * hash, and also the store itself if others may write to the store. So datasets that contain the same file share its
 * id. A file that one dataset contains k times has k ids, and its first occurrence shares with the first occurrence
 * elsewhere. A dataset is immutable once opened, and reference-counted (atomic). Any thread may call all its functions.
 *
 * A class-per-folder tree is read as torchvision's ImageFolder reads it. Classes are the sorted names of the root's
 * folders, and a sample's label is its class's index. The extensions are .jpg .jpeg .png .ppm .bmp .pgm .tif .tiff
 * .webp (any case). Samples are ordered by class, then by the sorted walk of its folders, then by file name. An image
 * that cannot be reached (a dangling link) keeps its place and fails when it is read. Trees with which ImageFolder
 * would quietly go wrong are refused: those with a folder that cannot be listed, or with symbolic links that lead back
 * to a folder above them. */
#ifndef LARDER_CACHE_CATALOG_CATALOG_H
#define LARDER_CACHE_CATALOG_CATALOG_H

#include <stdbool.h>
#include <stddef.h>

#include "cache/source/chunking.h"
#include "cache/source/samples.h"
#include "common/dataset_version.h"
#include "common/error.h"
#include "common/interrupt.h"
#include "common/sample_rows.h"
#include "common/types.h"

struct catalog;
struct dataset;
struct source;

/* catalog_create makes a catalog. checkpoint_dir (copied) is the folder where indices are kept between runs; it is made
 * when missing. NULL: none are kept. When the folder cannot be made or written, that is logged and none are kept. */
int catalog_create(const char *checkpoint_dir, struct catalog **out, struct error *err);
/* catalog_destroy accepts NULL. Datasets that have references live on. It waits until checkpoints are written. */
void catalog_destroy(struct catalog *catalog);

/* catalog_wait_saved waits until the checkpoints of all datasets that were opened before are written: a thread writes
 * them after catalog_open. Any thread. */
void catalog_wait_saved(struct catalog *catalog);

/* catalog_set_chunking says how trees that are opened afterwards fall into logical chunks: `samples` a chunk
 * (1 … CHUNK_SAMPLES_MAX, CHECKed), shuffled with the seed. Without it CHUNK_SAMPLES_DEFAULT and CHUNK_SEED_DEFAULT
 * hold. */
#define CHUNK_SAMPLES_DEFAULT 64
#define CHUNK_SEED_DEFAULT 1
void catalog_set_chunking(struct catalog *catalog, uint32_t samples, uint64_t seed);

/* catalog_set_limit says how much memory catalogs may take: samples_bytes and paths_bytes of catalog_stats. Beyond it
 * datasets that nobody uses are given up, and what is opened first then fails with LARDER_ELIMIT; a dataset that
 * somebody uses is given to others nevertheless. A dataset is looked at when it has been indexed. Without a call there
 * is no limit. */
void catalog_set_limit(struct catalog *catalog, uint64_t bytes);

/* catalog_set_rows_max says how many bytes the parts of rows, such as boxes, of a dataset may take that is opened
 * afterwards. Without it, it is 1 GiB. */
void catalog_set_rows_max(struct catalog *catalog, uint64_t bytes);

/* catalog_keep_apart has files that are opened afterwards share nothing with stores that were packed from them: of a
 * daemon that takes samples of other nodes, which nobody can compare with a store's hashes. */
void catalog_keep_apart(struct catalog *catalog);

/* catalog_folder returns the absolute path, links resolved, of the folder below which a source lies that a path or text
 * names: what is there is not looked at. The caller frees it. It fails as catalog_open does. It blocks. Any thread. */
int catalog_folder(const char *path, char **out, struct error *err);

/* catalog_open returns a reference to the dataset of a source: a class-per-folder tree, a packed store, or tar shards.
 * When
 * the dataset is not in memory unchanged, it indexes the source or verifies its checkpoint. Unchanged means three
 * things: every folder has the modification time it had; no read has met a changed file; and the files that are looked
 * at are those that were indexed. It looks at all files of a small tree, and at a random part of a large one's
 * (docs/reference/files.md). A sample whose file has become another one has another id. The call blocks for as long as
 * that takes. Any thread may call it; two callers of one source do the work once. LARDER_ENOENT, LARDER_EINVAL (not a
 * folder, no class folders, an empty class, a loop of links), LARDER_EIO, LARDER_EPERM, LARDER_ELIMIT,
 * LARDER_ENOMEM. */
int catalog_open(struct catalog *catalog, const char *path, struct dataset **out, struct error *err);

/* catalog_open_for does the same, with the samples that `wish` asks for. It returns LARDER_EGONE soon after the
 * caller's interrupt was set and catalog_interrupted called. Work that several callers wait for goes on while one of
 * them is not interrupted, and those who still want it get it. */
struct catalog_wish {
    const char *path;                  /* or what tar_text.h describes */
    enum sample_files files;           /* which files of a tree are samples; a store has what was packed into it */
    const struct interrupt *interrupt; /* lives until the call returns; may be NULL */
};
int catalog_open_for(struct catalog *catalog, const struct catalog_wish *wish, struct dataset **out, struct error *err);
/* catalog_interrupted tells the catalog that the interrupt of a caller inside catalog_open_for was set, or one above
 * it. Any thread. */
void catalog_interrupted(struct catalog *catalog);

/* catalog_version fills in the version of an open dataset. A background thread reads a few dozen files of a newly
 * indexed tree for it, and a checkpoint keeps the result. The call waits for that, but for wait_ms at most, and no
 * longer than until soon after the interrupt was set and catalog_interrupted called. Then the content may not be
 * known. */
void catalog_version(struct catalog *catalog, const struct dataset *dataset, unsigned wait_ms,
                     const struct interrupt *interrupt, struct dataset_version *out);

struct catalog_stats {
    uint32_t datasets; /* datasets in memory */
    uint64_t samples;  /* ids that datasets have */
    uint64_t checkpoints_loaded;
    uint64_t trees_walked;
    uint64_t samples_bytes;    /* memory that the datasets of this process take beside their samples' paths */
    uint64_t paths_bytes;      /* that the paths take */
    uint64_t identities_bytes; /* that takes by which datasets share ids: little while there is one dataset */
};
void catalog_stats(struct catalog *catalog, struct catalog_stats *out);

/* An id that no dataset has any more is retired: it means no sample. It is given to another sample only after
 * whoever keeps something under ids has said that nothing is left. catalog_take_retired returns the caller up to
 * `most` retired ids and returns their number. Each comes back by catalog_settle_retired: with `forgotten` it may be
 * given anew, without it it is retired again. Any thread. */
uint32_t catalog_take_retired(struct catalog *catalog, sample_id *ids, uint32_t most);
void catalog_settle_retired(struct catalog *catalog, const sample_id *ids, uint32_t count, bool forgotten);

struct dataset *dataset_ref(struct dataset *dataset);
void dataset_unref(struct dataset **dataset); /* accepts a pointer to NULL; sets it to NULL */

/* The path and the names of classes are borrowed, and valid while the dataset is referenced. */
const char *dataset_path(const struct dataset *dataset); /* the source's folder, absolute, links resolved */
/* dataset_text is what another daemon opens the dataset by, or this one again: the path, or what names shards. */
const char *dataset_text(const struct dataset *dataset);
/* dataset_device returns the number of the device that the source lies on now; 0: it cannot be found out. It blocks. */
uint64_t dataset_device(const struct dataset *dataset);
const struct source *dataset_source(const struct dataset *dataset); /* source.h; borrowed in the same way */
uint32_t dataset_count(const struct dataset *dataset);              /* number of samples */
uint32_t dataset_classes(const struct dataset *dataset);
const char *dataset_class(const struct dataset *dataset, uint32_t label); /* NULL when label ≥ classes */
/* dataset_fingerprint hashes classes, keys, sizes, labels and order. Times do not count, so that a copy elsewhere has
 * the same fingerprint. A store counts with the sizes of the files that were packed. If images were shrunk, the limit
 * of their size and their quality count too. */
void dataset_fingerprint(const struct dataset *dataset, uint64_t out[2]);
/* dataset_version fills in what is known of the dataset's version at present. A tree's content may become known later:
 * see catalog_version. A folder and its store have the same content, and different times. */
void dataset_version(const struct dataset *dataset, struct dataset_version *out);

/* What a dataset is made of. */
struct dataset_look {
    const char *kind; /* "class folders", "a list of files" or "of places in files", "tar shards", "a packed store" */
    uint32_t unreachable; /* samples that could not be reached when it was indexed, or are damaged */
    uint32_t shards;      /* files that hold several samples each; 0: it has none, or is a store */
    uint64_t shard_bytes;
    const char *shard; /* what they are: "shard", or "file", which a list names */
    bool in_order;     /* with shards: samples that follow each other lie behind each other */
    bool mixed;        /* with shards: neighbours have labels of all kinds, and a chunk is a run of them */
    char shares[640];  /* with what its samples are shared, and why with nothing else, in half a sentence */
};
void dataset_look(const struct dataset *dataset, struct dataset_look *out);

/* dataset_packing fills that in. It describes what the last store did, and not what had been done to that store's
 * source. Any thread. */
void dataset_packing(const struct dataset *dataset, struct packing *out);

/* These return the dataset's facts about a sample, by its index < dataset_count (CHECKed). The key is borrowed. */
sample_id dataset_id(const struct dataset *dataset, uint32_t index);
int32_t dataset_label(const struct dataset *dataset, uint32_t index);
uint64_t dataset_size(const struct dataset *dataset, uint32_t index);   /* encoded bytes, as indexed */
const char *dataset_key(const struct dataset *dataset, uint32_t index); /* path below the source, "n01440764/x.jpg" */
/* dataset_lasting_id names a sample so that a later process finds the same name for it. It is a hash of the source's
 * path and, in a tree, of the file's key, size and modification time, in a store of the content's hash. */
void dataset_lasting_id(const struct dataset *dataset, uint32_t index, uint64_t out[2]);
/* dataset_content_id names a sample's content: the same bytes in another dataset, or for a later process that gives the
 * same seed, mostly have the same name, and other bytes never do. A file's name has its change time in it, as it was
 * when the dataset was indexed. False: the sample could not be reached when it was indexed, and has no name. */
bool dataset_content_id(const struct dataset *dataset, uint32_t index, uint64_t seed, uint64_t out[2]);
/* dataset_index finds the index of an id. It returns false when the dataset does not contain the id. O(log n) at
 * most. */
bool dataset_index(const struct dataset *dataset, sample_id id, uint32_t *index);

/* A column of a dataset (column.h), in a memfd that is sealed against writing: its words, little-endian, and its texts
 * behind them. */
struct dataset_column {
    uint32_t kind; /* enum column_kind */
    uint32_t width;
    uint64_t count, bytes;
    int fd;
};
/* dataset_column returns a column by its name, made now or for somebody before. The caller closes out->fd. All columns
 * of a dataset take at most bytes_max. Those that were made are kept until only the catalog has the dataset. It blocks,
 * for as long as indexing may take, and ends soon after the interrupt with LARDER_EGONE. Any thread. LARDER_ENOENT:
 * there is no such column; LARDER_EINVAL, LARDER_EFORMAT: its cells are none; LARDER_ECHANGED; LARDER_ELIMIT;
 * LARDER_ENOMEM; LARDER_EIO. */
int dataset_column(struct dataset *dataset, const char *name, uint64_t bytes_max, const struct interrupt *interrupt,
                   struct dataset_column *out, struct error *err);
/* dataset_column_names calls `take` with the name of each column that the dataset lists, as it is shown. It fails as
 * dataset_column does. */
int dataset_column_names(const struct dataset *dataset, void (*take)(void *context, const char *name), void *context,
                         struct error *err);
/* dataset_columns_bytes returns what the columns and the parts of rows take which the datasets of this process keep. */
uint64_t dataset_columns_bytes(void);

/* The samples of a chunk are stored together, or in a plain tree at least read together. Each chunk has
 * dataset_chunk_size samples, the last one perhaps fewer. A sample's slot is its position in its chunk. Chunk
 * numbers and indices are CHECKed. */
uint32_t dataset_chunk_size(const struct dataset *dataset);
uint32_t dataset_chunk_count(const struct dataset *dataset);
uint32_t dataset_chunk_of(const struct dataset *dataset, uint32_t index, uint32_t *slot); /* slot may be NULL */
/* dataset_chunk_members returns the indices of a chunk's samples in slot order. They are borrowed, and valid while the
 * dataset is referenced. */
const uint32_t *dataset_chunk_members(const struct dataset *dataset, uint32_t chunk, uint32_t *count);

/* dataset_part_rows says what is known of a part of rows; false: nothing, or there is no such part. Pure. */
bool dataset_part_rows(const struct dataset *dataset, const char *part, struct part_rows *out);
/* dataset_row_count returns how many rows of such a part a sample has; UINT32_MAX: not known. Pure. */
uint32_t dataset_row_count(const struct dataset *dataset, const char *part, uint32_t index);

/* dataset_read reads the encoded bytes of a sample into buf, which has room for dataset_size(index). It blocks on
 * I/O. It never gives another file's bytes. err always has the file's name. The code says whose fault it is:
 *   of the sample   LARDER_ENOENT (gone from a folder that is there), LARDER_EFORMAT (not a regular file, or a store's
 *                   bytes are damaged)
 *   of its source   LARDER_EIO, LARDER_EPERM, LARDER_ENOMEM: the root or a folder is away, or the system cannot read
 *                   now
 *   of the dataset  LARDER_ECHANGED (another file has its name, or it was written to since it was indexed or while it
 *                   was read; a store was replaced: open the dataset again)
 *   of the process  LARDER_ELIMIT (no file descriptor is free: try again) */
int dataset_read(const struct dataset *dataset, uint32_t index, void *buf, struct error *err);

/* dataset_apart says whether each sample is a file of its own, so that nothing is won by reading neighbours at once. */
bool dataset_apart(const struct dataset *dataset);
/* dataset_read_many reads samples as dataset_read does, each with its own outcome, and returns the number that failed.
 * count ≤ CHUNK_SAMPLES_MAX. In a store one read brings a chunk's samples; in a plain tree a few files are read at
 * once. When it is later than until_ns (of clock_now_ns; 0: never), it begins no further sample and marks the rest as
 * left; something is always read. */
uint32_t dataset_read_many(const struct dataset *dataset, struct sample_read *reads, uint32_t count, uint64_t until_ns);

#endif
