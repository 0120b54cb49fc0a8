/* catalog_priv.h: what the catalog's files share.
 *
 * A source is indexed by its kind, or made of the index that its checkpoint has. The catalog gives its samples ids, and
 * the source becomes a struct dataset. A dataset is immutable but for the fields that say otherwise. */
#ifndef LARDER_CACHE_CATALOG_CATALOG_PRIV_H
#define LARDER_CACHE_CATALOG_CATALOG_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/catalog/catalog.h"
#include "cache/file.h"
#include "cache/source/source.h"

/* checkpoint.c */

/* checkpoint_parse makes an index of a checkpoint's bytes, which malloc gave and which it takes over, and the chunks
 * that were drawn for it; of another size or seed than is wanted they are drawn anew. Whatever the bytes are, nothing
 * that is read of the index lies outside them. LARDER_EVERSION, LARDER_EFORMAT, LARDER_ENOMEM: the bytes are the
 * caller's still. Pure. */
int checkpoint_parse(uint8_t *bytes, size_t len_bytes, struct index *out, struct chunking *chunks, struct error *err);
/* checkpoint_encode returns a checkpoint of a packed index in memory that the caller frees. LARDER_ENOMEM. */
int checkpoint_encode(const struct index *index, const struct chunking *chunking, uint8_t **bytes, size_t *len_bytes);
/* checkpoint_path returns the name of the checkpoint of a source's text in dir, which the caller frees; NULL: no
 * memory. */
char *checkpoint_path(const char *dir, const char *text, enum sample_files files);
/* checkpoint_load reads the checkpoint of a source into an empty index. LARDER_ENOENT when there is none,
 * LARDER_EFORMAT when it is another source's, LARDER_EGONE soon after the interrupt (may be NULL) was set; else it
 * fails as checkpoint_parse does. */
int checkpoint_load(const char *path, const char *text, const struct interrupt *interrupt, struct index *out,
                    struct chunking *chunks, struct error *err);
/* checkpoint_save writes the checkpoint as file_replace does: it is there whole, or as it was before. */
int checkpoint_save(const char *path, const struct index *index, const struct chunking *chunking, struct error *err);
/* checkpoint_prepare makes dir and its parents, and removes what an interrupted save left behind. */
int checkpoint_prepare(const char *dir, struct error *err);

/* What the catalogs of datasets take of memory. */
struct dataset_bytes {
    uint64_t samples, paths; /* beside the paths, and the paths */
};
/* dataset_bytes_all adds up what all datasets of this process take, those that are only held by jobs among them. Any
 * thread. */
struct dataset_bytes dataset_bytes_all(void);

/* ids.c: the ids of the datasets' samples. An identity keeps its id as long as some dataset has it. After the last
 * of them the id is retired, and is given to another identity only after id_table_settle. Any thread may call these
 * functions. The catalog and each dataset have a reference. */
struct id_table;
int id_table_create(struct id_table **out);
struct id_table *id_table_ref(struct id_table *table);
void id_table_unref(struct id_table **table); /* accepts a pointer to NULL; sets it to NULL */
/* Makes the identities of a dataset's samples, the same each time: all of them differ. LARDER_ENOMEM. Any thread may
 * call it, until id_table_drop. */
struct id_maker {
    int (*make)(const struct id_maker *maker, struct identity *identities);
    const void *context;
    uint64_t seed;
    size_t count;
};
/* id_table_give writes a dataset's ids, one for each identity. The ids, and what the maker needs, stay where they are
 * until id_table_drop. LARDER_ELIMIT and LARDER_ENOMEM: it gave none. */
int id_table_give(struct id_table *table, const struct id_maker *maker, sample_id *ids);
/* id_table_drop takes back the ids of a dataset that goes: the very array that they were written to. It may wait while
 * the dataset's identities are made. */
void id_table_drop(struct id_table *table, const sample_id *ids, size_t count);
/* id_table_take_retired and id_table_settle do what catalog_take_retired describes. */
uint32_t id_table_take_retired(struct id_table *table, sample_id *ids, uint32_t most);
void id_table_settle(struct id_table *table, const sample_id *ids, uint32_t count, bool forgotten);
uint64_t id_table_used(struct id_table *table);
uint64_t id_table_bytes(struct id_table *table); /* memory that it takes */

/* columns.c */

struct kept_column;
struct columns {
    pthread_mutex_t lock; /* guards the fields below */
    struct kept_column *first;
    uint32_t kept; /* how many */
    uint64_t bytes;
};
void columns_init(struct columns *columns);
void columns_drop(struct columns *columns); /* those that are kept; clients have theirs */
void columns_destroy(struct columns *columns);

/* dataset.c */

#define DATASET_MAGIC UINT32_C(0x44415441)

struct dataset {
    uint32_t magic;
    atomic_uint refs;  /* changed by dataset_ref and dataset_unref in any thread */
    atomic_bool stale; /* a read met a changed file, or there is a newer dataset: catalog_open returns it no more */
    uint32_t count;
    struct source *source; /* owned; only the one builder has it compared with what is there */
    sample_id *ids;
    struct id_table *id_table; /* the ids come from it and go back to it; a reference */
    uint32_t *by_id;           /* indices in ascending order of their ids; NULL when the ids ascend by themselves */
    uint64_t fingerprint[2];
    uint64_t times[2], content[2]; /* its version; a thread of contents.c may write content, once */
    atomic_bool has_content;       /* content is there: set with release after that */
    struct dataset_bytes bytes;    /* as they are counted for all datasets */
    char *checkpoint; /* the checkpoint's name; NULL: none. The file is removed when a read meets a changed file */
    struct columns columns;
};

/* The parts that a dataset is made from. */
struct dataset_parts {
    struct source *source;
    sample_id *ids;            /* one a sample */
    struct id_table *id_table; /* the ids come from it; NULL: there are none yet */
    char *checkpoint;          /* may be NULL */
    bool unsaved;              /* the checkpoint is to be written */
};

void dataset_parts_free(struct dataset_parts *parts); /* frees what they hold */
/* dataset_from_parts makes a dataset, with one reference. On success it takes all the parts over. LARDER_ENOMEM. */
int dataset_from_parts(struct dataset_parts *parts, struct dataset **out);

/* version.c: all are pure. */

#define WITNESSES_MAX 48
/* version_times hashes the modification times of the samples, or the contents that a source knows. LARDER_ENOMEM. */
int version_times(const struct source *source, uint64_t out[2]);
/* version_witnesses chooses the samples whose content stands for the dataset's, at least one, and returns their number.
 * Two datasets of one fingerprint have the same. */
uint32_t version_witnesses(const struct dataset *dataset, uint32_t witnesses[WITNESSES_MAX]);
/* version_content combines the hashes of n witnesses into one. version_of_hashes makes the same hash where the source
 * knows the hashes. */
void version_content(const uint32_t *witnesses, const struct identity *hashes, uint32_t n, uint64_t out[2]);
void version_of_hashes(const struct dataset *dataset, uint64_t out[2]);

/* read.c: dataset_hash reads a sample and returns its XXH3-128, as a store's index has it. It fails as dataset_read
 * does, or with LARDER_EGONE soon after the interrupt was set. */
int dataset_hash(const struct dataset *dataset, uint32_t index, const struct interrupt *interrupt, struct identity *out,
                 struct error *err);

/* saver.c: writes checkpoints in a thread of its own. Any thread may call it. */
struct saver;
int saver_create(struct saver **out); /* LARDER_ENOMEM */
/* saver_save has the dataset's checkpoint (not NULL) written soon, as the dataset is now. It does not wait for that. If
 * the checkpoint cannot be written, that is logged. A checkpoint whose dataset has become stale is not kept. */
void saver_save(struct saver *saver, struct dataset *dataset);
void saver_wait(struct saver *saver);    /* until all are written */
void saver_destroy(struct saver *saver); /* after all are written */

/* contents.c: reads the witnesses of trees, in threads of its own. Any thread may call it. */
struct contents;
int contents_create(struct saver *saver, struct contents **out); /* LARDER_ENOMEM; borrows the saver */
/* contents_find has the content of a tree's version found out soon, unless it is known. It has the checkpoint written
 * then, if there is one and the content was found or it was unsaved. False: nothing is read, nor written. */
bool contents_find(struct contents *contents, struct dataset *dataset, bool unsaved);
/* contents_await waits until nothing of the dataset is being read, wait_ms at most, or until the interrupt was set and
 * contents_interrupted called. */
void contents_await(struct contents *contents, const struct dataset *dataset, unsigned wait_ms,
                    const struct interrupt *interrupt);
void contents_interrupted(struct contents *contents);
void contents_wait(struct contents *contents);    /* until nothing is being read */
void contents_destroy(struct contents *contents); /* reads in progress end early */

/* build.c makes datasets. Any thread may call it, but one at a time for each source. */

struct builder;

/* builder_create makes a builder, which takes a reference to `ids`. checkpoint_dir is as for catalog_create.
 * LARDER_ENOMEM. */
int builder_create(const char *checkpoint_dir, struct id_table *ids, struct builder **out);
void builder_destroy(struct builder *builder); /* after all checkpoints are written */
void builder_wait_saved(struct builder *builder);
void builder_set_chunking(struct builder *builder, uint32_t samples, uint64_t seed); /* see catalog_set_chunking */

/* How often a builder loaded a checkpoint, and walked a tree. */
struct builder_counts {
    uint64_t checkpoints_loaded, trees_walked;
};
struct builder_counts builder_counts(struct builder *builder);
struct contents *builder_contents(struct builder *builder); /* borrowed */

/* builder_refresh returns a reference to the dataset as the source is at present. It is the old one (may be NULL) when
 * that still holds. The wish's path is resolved. It blocks on I/O and fails as catalog_open does, or with
 * LARDER_EGONE soon after the wish's interrupt was set. */
int builder_refresh(struct builder *builder, const struct source_wish *wish, struct dataset *old, struct dataset **out,
                    struct error *err);

#endif
