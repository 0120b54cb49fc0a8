/* list_rows.h: the rows of a list: a CSV or TSV file by RFC 4180, whose first row names the columns, or JSON Lines, an
 * object a line. Pure. */
#ifndef LARDER_CACHE_SOURCE_LIST_ROWS_H
#define LARDER_CACHE_SOURCE_LIST_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/source/column.h"
#include "common/error.h"

enum list_form { LIST_NONE, LIST_CSV, LIST_TSV, LIST_JSONL };

#define LIST_FIELD_BYTES_MAX 65536u
#define LIST_LINE_BYTES_MAX ((size_t)16 << 20) /* of JSON Lines */
#define LIST_COLUMNS_MAX 4096u

/* Where a sample lies in its file, of a row of a list that has the columns offset and bytes. */
struct list_place {
    uint64_t offset, bytes; /* their sum is INT64_MAX at most */
    bool has_crc32;
    uint32_t crc32;  /* of its bytes, as zlib's */
    const char *raw; /* it is pixels of this shape (pixels.h); NULL: a file of some format */
    const char *key; /* its name in the file; NULL: it has none */
};

/* One row, as far as it matters. The texts lie in the reader, until the next row is read. */
struct list_row {
    size_t line; /* in which it begins, from 1 */
    const char *path;
    const char *label; /* NULL: the list has no labels, or the row has none */
    bool named;        /* the label is a name, whatever it looks like */
    bool placed;       /* it has a place: all rows of a list have one, or none has */
    struct list_place place;
};

struct list_rows;

/* list_form_of returns the form of a list by the ending of its name, in any case. */
enum list_form list_form_of(const char *name);
/* list_rows_begin reads the names of columns. `label` is that of the labels; "": it is "label", if there is one. `path`
 * is that of the paths; NULL: whichever has one of the names that are usual for it. The texts and the bytes must
 * stay until list_rows_end. What it says in err begins with the line and column, and names no file.
 * LARDER_EFORMAT; LARDER_EINVAL: there is no such column, or none of paths; LARDER_ENOMEM. */
int list_rows_begin(enum list_form form, const uint8_t *bytes, size_t len_bytes, const char *label, const char *path,
                    struct list_rows **out, struct error *err);
/* list_rows_next reads the next row; *there: there was one. It fails as list_rows_begin does. */
int list_rows_next(struct list_rows *rows, struct list_row *row, bool *there, struct error *err);
void list_rows_end(struct list_rows *rows); /* accepts NULL */

/* Other columns. list_rows_want chooses one by its name, before the first row. Of JSON Lines that may be a path to a
 * member of a member, "objects.bbox"; of a list of objects it is the list of their members.
 * LARDER_ENOENT: there is no such column;
 * of JSON Lines that shows at the end, by list_rows_met. LARDER_ENOMEM. */
int list_rows_want(struct list_rows *rows, const char *name);
/* list_rows_cell appends what the row read last has in the chosen column. It fails as cells_add does. */
int list_rows_cell(struct list_rows *rows, struct cells *cells);
bool list_rows_met(const struct list_rows *rows); /* whether a row so far had the chosen column */
/* list_rows_names appends the names of those columns that it has not appended before: of CSV and TSV at the first call,
 * of JSON Lines after each row. A name that no column can be asked for by is left out: an empty one, as pandas writes
 * for its row numbers, one past COLUMN_NAME_MAX, and one that another column before it has. It fails as cells_add does,
 * and with LARDER_ELIMIT of more than LIST_COLUMNS_MAX columns. */
int list_rows_names(struct list_rows *rows, struct cells *names);

#endif
