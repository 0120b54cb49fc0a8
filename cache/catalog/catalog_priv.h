/* catalog_priv.h: what the catalog's files share.
 *
 * A source is read into a struct index, by walking it or from its checkpoint. The catalog gives its samples ids, and
 * the index becomes a struct dataset. An index belongs to one thread. A dataset is immutable but for the fields that
 * say otherwise. */
#ifndef LARDER_CACHE_CATALOG_CATALOG_PRIV_H
#define LARDER_CACHE_CATALOG_CATALOG_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/catalog/catalog.h"
#include "cache/file.h"

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

struct index {
    char *root;    /* absolute path */
    char *strings; /* NUL-terminated texts, one after the other */
    size_t strings_len_bytes, strings_cap_bytes;
    uint64_t *classes; /* offsets of their names, in label order */
    size_t class_count, class_cap;
    struct index_folder *folders; /* the root first */
    size_t folder_count, folder_cap;
    struct index_sample *samples;
    size_t sample_count, sample_cap;
    bool all_reachable;  /* It is known that no sample is INDEX_UNREACHABLE. */
    uint64_t content[2]; /* the version's content, in a checkpoint; 0, 0: not known */
};

/* index.c */

void index_free(struct index *index); /* frees what it holds, not itself; a zeroed index is empty */
/* index_text appends "a" or, with b, "a/b", and gives its offset. LARDER_ENOMEM. */
int index_text(struct index *index, const char *a, const char *b, uint64_t *offset);
/* array_grow makes room for one more element. LARDER_ENOMEM, or LARDER_ELIMIT past count_max. */
int array_grow(void **array, size_t count, size_t *cap, size_t element_bytes, size_t count_max);
/* index_fingerprint returns what dataset_fingerprint describes. sizes, by index, stand for the samples' own; NULL:
 * these. LARDER_ENOMEM. */
int index_fingerprint(const struct index *index, const uint64_t *sizes, uint64_t out[2]);

/* text_compare orders names as Python orders the texts that os.listdir gives: by code point, where a byte that is not
 * part of valid UTF-8 counts as U+DC00 + byte. For valid UTF-8 that is the order of the bytes. */
int text_compare(const char *a, const char *b);
/* key_is_below says whether a key that a file names stays below its root: it has no "..", is not absolute, and is not
 * empty. */
bool key_is_below(const char *key);

/* folder.c */

/* folder_open opens a folder below the root ("" for the root itself). It records the folder's identity and time before
 * anything in it is read, so that whatever changes afterwards shows. It returns the fd, which the caller owns, or -1
 * with errno. */
int folder_open(int root_fd, const char *path, struct index_folder *folder);
/* folder_list calls this for each entry. dir_fd is the folder's. It returns 0, or a negative code that ends the
 * listing. */
typedef int folder_entry_fn(void *context, int dir_fd, const char *name, unsigned char type);
/* folder_list lists a folder and hashes what it lists into *listing. It takes fd over. fn may be NULL. It returns 0,
 * fn's negative code, or the positive errno of reading. */
int folder_list(int fd, folder_entry_fn *fn, void *context, uint64_t *listing);

/* tree.c */

/* tree_index walks a class-per-folder tree into an empty index. root is absolute and copied. With `every` all files are
 * samples, not images alone. It fails as catalog_open does, or with LARDER_EGONE soon after the interrupt was set. */
int tree_index(const char *root, bool every, const struct interrupt *interrupt, struct index *out, struct error *err);

/* file.c: whether a sample's file is the one that was indexed. It is when device, inode, size and modification time
 * are what they were. On file systems that number their files anew now and then (inodes_last) the inode is not
 * compared. Any thread may call these functions; they block where something differs. */

/* file_unchanged compares all four values. */
bool file_unchanged(const struct index *index, size_t number, const struct stat *st);
/* file_unchanged_or_remounted does the same, but takes a new device number for the old one when another sample of
 * the old device has it too. Then the whole file system was mounted anew. */
bool file_unchanged_or_remounted(const struct index *index, size_t number, const struct stat *st);
/* inodes_last says whether files keep their inodes: false for a path on FUSE, FAT, exFAT or SMB. */
bool inodes_last(const char *path);
/* index_follow_mount replaces the root's device number by the present one, and says whether they differ. */
bool index_follow_mount(struct index *index);

/* away.c */

/* source_open opens a file below the root for reading. It returns the fd, which the caller owns, or -1 with errno.
 * *away says that the root, the file's folder, or the folder that a link leads to is not there. Then the failure says
 * nothing about the file. */
int source_open(const struct index *index, const char *name, bool *away);

/* unchanged.c */

/* tree_note_reachable finds out whether the tree had files that could not be looked at. */
void tree_note_reachable(struct index *index);
/* tree_unchanged says whether every folder still is as it was recorded, no unreachable file has become reachable,
 * and the files are those that were indexed. It looks at all of up to FILES_ALL_MAX files; of more, at
 * FILES_LOOKED_AT that are drawn anew each time. It clears FOLDER_FRESH where the folder's time proves something by
 * now; *settled says whether any was cleared. It returns false soon after the interrupt was set, whatever the tree is
 * like. */
bool tree_unchanged(const char *root, struct index *index, const struct interrupt *interrupt, bool *settled);
#define FILES_ALL_MAX 1024
#define FILES_LOOKED_AT 256

/* checkpoint.c */

/* checkpoint_parse reads a checkpoint's bytes into an empty index. It checks every offset and count against its bounds.
 * LARDER_EVERSION, LARDER_EFORMAT, LARDER_ENOMEM. Pure. */
int checkpoint_parse(const uint8_t *bytes, size_t len_bytes, struct index *out, struct error *err);
/* checkpoint_encode returns a checkpoint in memory that the caller frees. LARDER_ENOMEM. */
int checkpoint_encode(const struct index *index, uint8_t **bytes, size_t *len_bytes);
/* checkpoint_path returns the name of a root's checkpoint in dir, which the caller frees; NULL when memory runs out. */
char *checkpoint_path(const char *dir, const char *root);
/* checkpoint_load reads the checkpoint of a root into an empty index. LARDER_ENOENT when there is none,
 * LARDER_EFORMAT when it is another root's, LARDER_EGONE soon after the interrupt (may be NULL) was set; else it
 * fails as checkpoint_parse does. */
int checkpoint_load(const char *path, const char *root, const struct interrupt *interrupt, struct index *out,
                    struct error *err);
/* checkpoint_save writes the checkpoint as file_replace does: it is there whole, or as it was before. */
int checkpoint_save(const char *path, const struct index *index, struct error *err);
/* checkpoint_prepare makes dir and its parents, and removes what an interrupted save left behind. */
int checkpoint_prepare(const char *dir, struct error *err);

/* identity.c: a table that numbers 128-bit identities from 0. A number that was forgotten belongs to no identity
 * until it is released. Then it is given anew, the lowest first. The table has one owner thread. */

struct identity {
    uint64_t low, high;
};

struct identity_table {
    struct identity *identities; /* indexed by number */
    size_t count, cap;           /* numbers ever given, and room for them */
    size_t used;                 /* identities that have a number */
    uint64_t *spare;             /* a bit for each number that was released */
    size_t n_spare, spare_from;  /* bits that are set in spare; no word before spare_from has one */
    uint32_t *places;            /* a hash table with open addressing, a power of two long: number + 1, or 0 */
    size_t place_count;
};

void identity_table_free(struct identity_table *table);
/* identity_table_reserve makes room for `more` further identities, so that as many identity_number calls cannot
 * fail. */
int identity_table_reserve(struct identity_table *table, size_t more);
/* identity_number returns the number of an identity; a new identity gets a number. */
uint32_t identity_number(struct identity_table *table, struct identity identity);
/* identity_expect says that identity_number will be called with this identity soon, so that it need not wait for
 * memory. IDENTITY_AHEAD calls before is soon enough. */
void identity_expect(const struct identity_table *table, struct identity identity);
#define IDENTITY_AHEAD 16
void identity_forget(struct identity_table *table, uint32_t number);
void identity_release(struct identity_table *table, uint32_t number);

/* content.c */

struct store; /* store_priv.h */

/* content_identity returns the identity of a sample's content, among those made with the same seed. store: NULL in a
 * plain tree. `apart` distinguishes samples that are the same file otherwise. It is the number of earlier samples of
 * their dataset that are that file, or the file's change time. */
struct identity content_identity(const struct index_sample *sample, const struct store *store, uint64_t apart,
                                 uint64_t seed);

/* ids.c: the ids of the datasets' samples. An identity keeps its id as long as some dataset has it. After the last
 * of them the id is retired, and is given to another identity only after id_table_settle. Any thread may call these
 * functions. The catalog and each dataset have a reference. */
struct id_table;
int id_table_create(struct id_table **out);
struct id_table *id_table_ref(struct id_table *table);
void id_table_unref(struct id_table **table); /* accepts a pointer to NULL; sets it to NULL */
/* id_table_give writes a dataset's ids, one for each identity. LARDER_ELIMIT and LARDER_ENOMEM: it gave none. */
int id_table_give(struct id_table *table, const struct identity *identities, size_t count, sample_id *ids);
/* id_table_drop takes back the ids of a dataset that goes. */
void id_table_drop(struct id_table *table, const sample_id *ids, size_t count);
/* id_table_take_retired and id_table_settle do what catalog_take_retired describes. */
uint32_t id_table_take_retired(struct id_table *table, sample_id *ids, uint32_t most);
void id_table_settle(struct id_table *table, const sample_id *ids, uint32_t count, bool forgotten);
uint64_t id_table_used(struct id_table *table);

/* chunking.c */

/* Maps samples to positions. Position p is slot p % chunk_size of chunk p / chunk_size. Both arrays have one entry for
 * each sample. */
struct chunking {
    uint32_t chunk_size;
    uint32_t *members;   /* index, by position */
    uint32_t *positions; /* position, by index */
};

/* chunking_shuffle makes chunks of `count` samples by a seeded shuffle (Fisher and Yates's). The caller frees what *out
 * holds by chunking_free. LARDER_ENOMEM. */
int chunking_shuffle(uint32_t count, uint32_t chunk_size, uint64_t seed, struct chunking *out);
void chunking_free(struct chunking *chunking);

/* dataset.c */

#define DATASET_MAGIC UINT32_C(0x44415441)

struct dataset {
    uint32_t magic;
    atomic_uint refs;  /* changed by dataset_ref and dataset_unref in any thread */
    atomic_bool stale; /* a read met a changed file, or there is a newer dataset: catalog_open returns it no more */
    uint32_t count;
    struct index index;           /* only tree_unchanged changes its folders, called by the one builder */
    struct index_sample *samples; /* the index's */
    sample_id *ids;
    struct id_table *id_table; /* the ids come from it and go back to it; a reference */
    uint32_t *by_id;           /* indices in ascending order of their ids; NULL when the ids ascend by themselves */
    uint64_t fingerprint[2];
    uint64_t times[2], content[2]; /* its version; a thread of contents.c may write content, once */
    atomic_bool has_content;       /* content is there: set with release after that */
    char *checkpoint; /* the checkpoint's name; NULL: none. The file is removed when a read meets a changed file */
    struct chunking chunking;
    struct store *store; /* NULL: a plain tree */
};

/* The parts that a dataset is made from. */
struct dataset_parts {
    struct index index;
    sample_id *ids;            /* one a sample */
    struct id_table *id_table; /* the ids come from it; NULL: there are none yet */
    char *checkpoint;          /* may be NULL */
    bool unsaved;              /* the checkpoint is to be written */
    struct chunking chunking;
    struct store *store; /* may be NULL */
};

void dataset_parts_free(struct dataset_parts *parts); /* frees what they hold */
/* dataset_from_parts makes a dataset, with one reference. On success it takes all the parts over. LARDER_ENOMEM. */
int dataset_from_parts(struct dataset_parts *parts, struct dataset **out);

/* version.c: all are pure. */

#define WITNESSES_MAX 48
/* version_times hashes the modification times of a tree's samples (store is NULL), or the contents that a store has.
 * LARDER_ENOMEM. */
int version_times(const struct index *index, const struct store *store, uint64_t out[2]);
/* version_witnesses chooses the samples whose content stands for the dataset's, at least one, and returns their number.
 * Two datasets of one fingerprint have the same. */
uint32_t version_witnesses(const struct dataset *dataset, uint32_t witnesses[WITNESSES_MAX]);
/* version_content combines the hashes of n witnesses into one. version_of_store makes the same hash from a store's
 * index. */
void version_content(const uint32_t *witnesses, const struct identity *hashes, uint32_t n, uint64_t out[2]);
void version_of_store(const struct dataset *dataset, uint64_t out[2]);

/* read.c: dataset_hash returns the XXH3-128 of a tree's sample, as a store's index has it. It fails as dataset_read
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
int builder_refresh(struct builder *builder, const struct catalog_wish *wish, struct dataset *old, struct dataset **out,
                    struct error *err);

#endif
