/* kept.h: rates of preparing that were learned, by pipeline and size of its samples, kept in a file between runs. They
 * are a first guess: a wrong one is corrected while running.
 *
 * The file is text: a title with the version, a line for each row, and a checksum of all that. One thread owns a
 * table. */
#ifndef LARDER_SERVER_GOVERNOR_KEPT_H
#define LARDER_SERVER_GOVERNOR_KEPT_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "server/governor/rate.h"

#define KEPT_ROWS_MAX 128 /* beyond that the least recently used rows are dropped */
#define KEPT_SIZES_MAX 64 /* binary logarithms */

struct kept_row {
    uint64_t fingerprint; /* fingerprint of the pipeline's normal form */
    uint32_t size;        /* binary logarithm of the encoded bytes, < KEPT_SIZES_MAX */
    double part;          /* its share of the pipeline's preparations, 0 … 1 */
    uint32_t count;       /* > 0 */
    struct governor_point points[GOVERNOR_KNOTS];
};

struct kept {
    struct kept_row *rows; /* the latest first; KEPT_ROWS_MAX places */
    uint32_t count;
};

void kept_create(struct kept *kept);
void kept_free(struct kept *kept);
/* kept_put makes the row the latest, in place of an earlier one of its pipeline and size. A row without points is not
 * put. */
void kept_put(struct kept *kept, const struct kept_row *row);

/* kept_encode returns the file's bytes, malloc'ed. kept_decode reads them into an empty table. LARDER_EFORMAT,
 * LARDER_EVERSION: the table stays empty. */
char *kept_encode(const struct kept *kept, size_t *len_bytes);
int kept_decode(const char *bytes, size_t len_bytes, struct kept *out, struct error *err);

/* kept_load reads the file into an empty table. If the file cannot be used, the table stays empty, and the log says so
 * unless the file is missing. kept_save writes the file, unless the table is empty; it logs a failure. Both block on
 * the disk. */
void kept_load(struct kept *kept, const char *path);
void kept_save(const struct kept *kept, const char *path);

#endif
