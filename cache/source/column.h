/* column.h: a column of a source: a value for each sample, in their order. Pure.
 *
 * Cells are gathered as they are read, and what they are is known when all have come: whole numbers, numbers, vectors
 * of one length, or texts. A cell without a value is NaN among numbers and the empty text among texts. */
#ifndef LARDER_CACHE_SOURCE_COLUMN_H
#define LARDER_CACHE_SOURCE_COLUMN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define COLUMN_WIDTH_MAX 65536u /* the longest vector */
#define COLUMN_NAME_MAX 1024u   /* bytes of a name that a column can be asked for by */

/* The columns of every source. Others are called as its container calls them. */
#define COLUMN_NAMES "__columns__"   /* names of those others; of tar shards the first shard's; a row for each */
#define COLUMN_LABEL "__label__"     /* the samples' labels, which number the classes */
#define COLUMN_KEY "__key__"         /* their keys; of a tar shard as webdataset has them */
#define COLUMN_PATH "__path__"       /* absolute; in a shard or a store behind that one's path */
#define COLUMN_ROOT "__root__"       /* one row: the folder that all samples lie below; absolute */
#define COLUMN_CLASSES "__classes__" /* the names of the classes; a row for each */

/* What a text is as a number. */
enum number { NUMBER_NONE, NUMBER_WHOLE, NUMBER_REAL, NUMBER_WORD };
/* number_of reads a text as people write numbers, blanks around it or not: "-3", "2.5e-3". NUMBER_WORD is "nan", "inf"
 * or "infinity" in any case, which is a number only among numbers. Whole numbers beyond 64 bits are none. It sets the
 * value of its kind. */
enum number number_of(const char *text, size_t len, int64_t *whole, double *real);

enum column_kind { COLUMN_WHOLE, COLUMN_REAL, COLUMN_TEXT };

struct column {
    enum column_kind kind;
    uint32_t width; /* numbers a row: above 1 of vectors; 1 of texts */
    uint64_t count; /* rows */
    /* Numbers: count × width of them, int64_t, or double by its bits. Texts: count + 1 offsets in `texts`, where each
     * begins, and where the last one ends. Owned. */
    uint64_t *words;
    char *texts; /* owned; NULL with numbers */
};
void column_free(struct column *column);            /* frees what it holds; zeros hold nothing */
uint64_t column_words(const struct column *column); /* number of its words */
uint64_t column_bytes(const struct column *column); /* of its words and texts */

struct cells {
    uint64_t bytes_max; /* the most that the texts of all cells may take; its owner sets it, and zeros the rest */
    char *texts;
    size_t texts_bytes, texts_cap;
    uint64_t *ends; /* of each cell in texts */
    size_t count, cap;
    unsigned not ;  /* what the column is not, as far as it is known */
    bool some;      /* a cell is a number or a vector */
    bool lacks;     /* a cell has no value */
    uint32_t width; /* of its vectors; 0: none yet */
};
struct json_t;

/* column_member returns a new reference to a member of an object by its name, "bbox", or by its path, "objects.bbox";
 * of a list of objects it is the list of their members. NULL: it is not there. */
struct json_t *column_member(const struct json_t *object, const char *name);

/* These append a cell: one without a value; the text of a cell, which is a number if it looks like one, and none where
 * it is empty; a text, whatever it looks like; a JSON value (NULL and null: none). LARDER_ENOMEM; LARDER_ELIMIT:
 * bytes_max. */
int cells_add_none(struct cells *cells);
int cells_add(struct cells *cells, const char *text, size_t len);
int cells_add_text(struct cells *cells, const char *text, size_t len);
int cells_add_json(struct cells *cells, const struct json_t *value);
/* cells_finish makes the column, and frees the cells in any case. LARDER_ENOMEM; LARDER_ELIMIT: its numbers take more
 * than bytes_max. */
int cells_finish(struct cells *cells, struct column *out);
void cells_free(struct cells *cells);

#endif
