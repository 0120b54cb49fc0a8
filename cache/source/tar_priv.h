/* tar_priv.h: what the files that read tar shards share. tar.c is the kind; tar_walk.c reads all shards and
 * tar_shard.c one, tar_labels.c finds its samples' labels, and tar_column.c its columns, of which tar_cells.c reads
 * one cell. tar_text.c, tar_header.c, tar_group.c and tar_idx.c know no samples. */
#ifndef LARDER_CACHE_SOURCE_TAR_PRIV_H
#define LARDER_CACHE_SOURCE_TAR_PRIV_H

#include <sys/stat.h>

#include "cache/source/labels.h"
#include "cache/source/tar.h"
#include "cache/source/tar_group.h"
#include "cache/source/tar_reader.h"
#include "cache/source/tar_text.h"

/* ── tar_labels.c ── */

#define TAR_LABEL_BYTES_MAX 65536u     /* the longest member that is read for a label */
#define TAR_CLASSES_NAME "__classes__" /* a member that has the names of the classes */
#define TAR_CLASSES_BYTES_MAX (64u << 20)

/* Where labels come from. */
struct tar_labels {
    enum { LABELS_ANY, LABELS_NONE, LABELS_CLS, LABELS_JSON } from; /* LABELS_ANY: .cls, where all have one */
    char key[256];                                                  /* LABELS_JSON: the word in the .json */
};

/* tar_labels_parse reads what stands behind "#labels=". LARDER_EINVAL. Pure. */
int tar_labels_parse(const char *text, struct tar_labels *out, struct error *err);
/* tar_labels_want says whether a part of a sample has its label. Pure. */
bool tar_labels_want(const struct tar_labels *labels, const char *part);
/* tar_label_read finds the label in such a part's bytes. It appends a text to the index's strings. What is said in err
 * names neither shard nor sample. LARDER_EINVAL, LARDER_ENOMEM. Pure. */
int tar_label_read(const struct tar_labels *labels, const uint8_t *bytes, size_t len, struct index *strings,
                   struct label *out, struct error *err);
/* tar_classes_are says whether a text that ends with NUL is one of names of classes: each in UTF-8, of 1 to 255 bytes
 * that can be printed, with a line feed behind it. Pure. */
bool tar_classes_are(const char *text);
/* tar_labels_apply is labels_apply for shards. `names` are those of the classes, or NULL. */
int tar_labels_apply(const struct tar_labels *labels, const char *names, const struct label *found, struct index *index,
                     struct error *err);

/* ── tar_cells.c ── */

/* tar_cell_want says whether a part of a sample has its cell of a column: the part of that name, or for "json:KEY" the
 * .json. Pure. */
bool tar_cell_want(const char *column, const char *part);
/* tar_cell_read appends a cell to the index's strings, from such a part's bytes: a text, or what the .json has of KEY,
 * as JSON. *cell stays what it was where that has none. It fails as tar_label_read does. Pure. */
int tar_cell_read(const char *column, const uint8_t *bytes, size_t len, struct index *strings, uint64_t *cell,
                  struct error *err);
#define TAR_NO_CELL UINT64_MAX
/* tar_cell_add appends such a cell's text to a column's cells. It fails as cells_add does. Pure. */
int tar_cell_add(const char *column, const char *text, struct cells *cells);
#define TAR_NAMES_MAX 1024u /* parts of which columns are listed */
/* tar_names_add appends the names of the columns that such a part can be asked for as: none if it is no text. It fails
 * as cells_add does. Pure. */
int tar_names_add(const char *part, const uint8_t *bytes, size_t len, struct cells *names);

/* ── tar_shard.c ── */

/* What one shard has, besides its index. */
struct tar_found {
    struct label *labels; /* one a sample */
    size_t label_cap;
    char *classes;   /* the names of the classes, a line each; NULL: it has none */
    uint64_t *cells; /* one a sample: offset in the index's strings, or TAR_NO_CELL; NULL: no column is read */
    size_t cell_cap;
    uint64_t imageless, repeated; /* samples without an image, and those that a repeated part began */
    bool damaged, more;           /* more: another archive follows behind its end */
    bool by_idx;                  /* its .idx was used */
    struct cells parts, names;    /* with walk->names: the parts that were met, and the columns that they are */
};

struct tar_walk {
    const struct interrupt *interrupt;
    const char *text, *root;
    enum sample_files files; /* FILES_SOUNDS: sounds are samples, else images */
    const char *part;        /* the members that are the samples, as parts_text.h says; NULL: what `files` says */
    int root_fd;
    struct tar_labels labels;
    const char *column; /* that is read; NULL: none */
    bool names;         /* the names of columns are gathered */
    struct tar_shards shards;
    struct index *parts; /* one a shard; each belongs to the thread that took it, until that has ended */
    struct tar_found *found;
};

/* tar_shard_read reads one shard's members into its part: one blob, and its samples in order. A shard that is damaged
 * has a sample that cannot be reached where the damage is, and none behind it. It fails as catalog_open does. */
int tar_shard_read(struct tar_walk *walk, struct tar_reader *reader, size_t shard, struct error *err);
/* tar_proof returns what a header proves: never 0. */
uint64_t tar_proof(const uint8_t block[TAR_BLOCK_BYTES]);

/* ── tar_walk.c ── */

/* tar_walk_open finds the shards of walk->text, and opens the folder below which they lie; `st` is of that. It fails as
 * catalog_open does. tar_walk_run reads all of them, each into its part; tar_walk_close frees what the walk has. */
int tar_walk_failed(const struct tar_walk *walk, int code, struct error *err); /* says what the code says */
int tar_walk_open(struct tar_walk *walk, struct stat *st, struct error *err);
int tar_walk_run(struct tar_walk *walk, uint64_t device, struct error *err);
void tar_walk_close(struct tar_walk *walk);

/* ── tar_column.c: a kind's column, and members' names ── */

/* tar_member returns the name in its shard of a sample of tar_kind's index; "": the index has none. Pure. */
const char *tar_member(const struct index *index, size_t sample);
int tar_column(const struct source *source, const char *name, const struct interrupt *interrupt, struct cells *cells,
               struct error *err);

#endif
