/* source.h: where a dataset comes from. A kind of source says how samples lie in their container: which there are,
 * where their bytes are, and whether they still are those that were indexed. The medium, below it, knows files and no
 * samples. The catalog, above it, gives samples ids, keeps indices between runs and knows no kinds but by their table
 * (kinds in cache/catalog/build.c).
 *
 * A kind has a struct of its own that begins with a struct source, and a const struct source_kind. Once a source is
 * indexed any thread may read from it, and nothing in it changes but what says otherwise. */
#ifndef LARDER_CACHE_SOURCE_SOURCE_H
#define LARDER_CACHE_SOURCE_SOURCE_H

#include <stdatomic.h>

#include "cache/medium/medium.h"
#include "cache/source/chunking.h"
#include "cache/source/column.h"
#include "cache/source/identity.h"
#include "cache/source/index.h"
#include "cache/source/origins.h"
#include "cache/source/samples.h"
#include "common/interrupt.h"
#include "common/sample_rows.h"
#include "common/types.h"

struct source_kind;

struct source {
    const struct source_kind *kind;
    struct medium medium;
    struct index index;            /* only source_unchanged changes its folders */
    struct chunking chunking;      /* empty: the container has no chunks, and the catalog draws them */
    struct packing packing;        /* zeros: nothing was packed */
    const struct identity *hashes; /* XXH3-128 of each sample as it was packed; NULL: only reading it tells */
    const struct identity *stored; /* what stands for a sample's device and inode, if it can be reached; or NULL */
    const uint64_t *packed_bytes;  /* length of each sample as it was packed; NULL: its own */
    uint64_t own_bytes;            /* memory that grows with the samples and that only the kind has */
    struct origins origins;
    atomic_bool changed; /* a read met a sample that is not the one that was indexed */
    atomic_bool doubted; /* a read met other bytes than its store says, of a file that has not changed */
};

struct source_wish {
    const char *text; /* an absolute path, links resolved; or one that a kind of its own has resolved: tar_text.h */
    const char *part; /* which of a sample's parts is wanted, as parts_text.h says; NULL: the image */
    enum sample_files files;
    uint64_t rows_max; /* bytes that all parts of rows of numbers may take; 0: ROWS_BYTES_MAX (rows.h) */
    bool apart;        /* files share nothing with stores that were packed from them */
    const struct interrupt *interrupt;
};

#define BLOB_NAME_MAX 32
#define LEAD_BYTES_MAX 512

/* Why the bytes of a sample did not come: an errno, or one of these. */
#define READ_ENDS 0         /* its blob ends before it */
#define READ_AWAY (-1)      /* the folder of its blob is not there */
#define READ_UNREACHED (-2) /* it could not be reached when it was indexed */
#define READ_CHANGED (-3)   /* its blob is not the one that was indexed */

/* What a kind of source does. All functions may block but where a comment says pure; any thread may call those that
 * take a const source, and one thread at a time the others. */
struct source_kind {
    const char *name; /* what it is, as messages say it */
    size_t bytes;     /* size of its own struct */
    /* What its samples are shared with, and why with nothing else, as source_shares says it. NULL: origins.apart. */
    const char *shares;
    /* Says whether a wish's text is of this kind, or fails where it would be and cannot be used. NULL: every one is. */
    int (*is)(const char *text, bool *is, struct error *err);
    /* Fills a zeroed source: index, which source_index packs, medium and what else it has. It ends soon after the
     * wish's interrupt, with LARDER_EGONE. What it leaves behind when it fails, destroy and source_free must be able to
     * free. */
    int (*index)(const struct source_wish *wish, struct source *source, struct error *err);
    /* Makes a source whose index a checkpoint had complete, and says whether that changed the index. NULL: indices of
     * this kind are not kept between runs. */
    bool (*restore)(struct source *source);
    /* Says whether the source is as it was indexed. *settled: the index has changed so that it proves more. It returns
     * false soon after the interrupt was set. */
    bool (*unchanged)(struct source *source, const struct interrupt *interrupt, bool *settled);
    /* Reads samples, as dataset_read_many does: files_read or ranges_read. */
    uint32_t (*read)(const struct source *source, struct sample_read *reads, uint32_t count, uint64_t until_ns);
    /* Hashes a sample, as `hashes` would have it; fails as reading does, or with LARDER_EGONE. NULL with `hashes`. */
    int (*hash)(const struct source *source, uint32_t index, const struct interrupt *interrupt, struct identity *out,
                struct error *err);
    /* The identity of a sample's content, among those made with the same seed. `apart` distinguishes samples that are
     * the same otherwise: it is the number of earlier ones in their dataset, or the file's change time. Pure. */
    struct identity (*identity)(const struct source *source, uint32_t index, uint64_t apart, uint64_t seed);
    /* Appends a cell for each sample, in their order, of a column that the container has by this name; with
     * COLUMN_NAMES the columns' names. It ends soon after the interrupt, with LARDER_EGONE. LARDER_ENOENT: there is no
     * such column, and then err has no text. LARDER_ECHANGED: the container is not the one that was indexed;
     * LARDER_ELIMIT: see cells. NULL: its containers have no columns. */
    int (*column)(const struct source *source, const char *name, const struct interrupt *interrupt, struct cells *cells,
                  struct error *err);
    /* Says what is known of a part of rows; false: nothing, or there is no such part. NULL: nothing of any. Pure. */
    bool (*rows)(const struct source *source, const char *part, struct part_rows *out);
    /* Returns how many rows the sample has in such a part. Pure. */
    uint32_t (*row_count)(const struct source *source, const char *part, uint32_t index);
    void (*destroy)(struct source *source); /* frees what only the kind has; NULL: nothing */

    /* What ranges_read asks; NULL where the kind reads otherwise. */

    const char *blob; /* what a blob is, as messages say it; NULL: no message names one */
    struct sample_place (*place)(const struct source *source, uint32_t index); /* pure */
    /* Returns a blob's name for medium_open, which it may write to buf. Pure. */
    const char *(*blob_name)(const struct source *source, uint32_t blob, char buf[BLOB_NAME_MAX]);
    /* So many bytes in front of a sample are read with it, for check alone; at most LEAD_BYTES_MAX. */
    uint32_t lead_bytes;
    /* Returns how many of a sample's first bytes its blob does not have: check writes them. NULL: none. Pure. */
    uint32_t (*head_bytes)(const struct source *source, uint32_t index);
    /* Says whether bytes that came for a sample are the sample's, with an error that names it where they are not. It
     * may make them what the sample is delivered as. */
    int (*check)(const struct source *source, uint32_t index, const void *lead, void *bytes, struct error *err);
    /* Says of an open blob whether it is the one that was indexed: it is asked when samples have been read. NULL: check
     * finds that out. */
    bool (*is_blob)(const struct source *source, uint32_t blob, int fd);
    /* Says in err why a sample did not come (an errno or READ_…), and returns the code. */
    int (*failed)(const struct source *source, uint32_t index, int why, struct error *err);
};

/* source_create makes a zeroed source of a kind. LARDER_ENOMEM. */
int source_create(const struct source_kind *kind, struct source **out, struct error *err);
/* source_index makes a source and has its kind index it. It fails as the kind's index does. */
int source_index(const struct source_kind *kind, const struct source_wish *wish, struct source **out,
                 struct error *err);
void source_free(struct source **source); /* accepts a pointer to NULL; sets it to NULL */

/* source_device returns the number of the device that the source lies on now; 0: it cannot be found out. It blocks. */
uint64_t source_device(const struct source *source);

/* source_bytes returns the memory that grows with the samples of a packed source, and in *paths that of their paths,
 * which is not in it. Pure. */
uint64_t source_bytes(const struct source *source, uint64_t *paths);

/* source_sample returns what identifies a sample, but for its container. Pure. */
struct index_sample source_sample(const struct source *source, uint32_t index);
/* source_identity returns what the kind's identity does, or that of its content, if it is known by that. Pure. */
struct identity source_identity(const struct source *source, uint32_t index, uint64_t apart, uint64_t seed);

/* These do what the kind's functions do, by medium_run. */
uint32_t source_read(const struct source *source, struct sample_read *reads, uint32_t count, uint64_t until_ns);
int source_hash(const struct source *source, uint32_t index, const struct interrupt *interrupt, struct identity *out,
                struct error *err);

/* source_column makes a column, one of every source or one that its kind has. It blocks, and fails as the kind's column
 * does, always with a text. The caller frees what *out holds by column_free. */
int source_column(const struct source *source, const char *name, uint64_t bytes_max, const struct interrupt *interrupt,
                  struct column *out, struct error *err);

/* ranges_read reads samples that lie in ranges of blobs. What lies near each other comes with one request, and every
 * sample is checked. */
uint32_t ranges_read(const struct source *source, struct sample_read *reads, uint32_t count, uint64_t until_ns);
/* ranges_hash is a kind's hash where ranges_read is its read. */
int ranges_hash(const struct source *source, uint32_t index, const struct interrupt *interrupt, struct identity *out,
                struct error *err);

#endif
