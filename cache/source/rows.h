/* rows.h: a part of samples that is rows of numbers, such as the boxes of an image, which a container has as a column:
 * of each sample a list, in JSON, of numbers or of lists of numbers, or of masks. sample_rows.h and sample_masks.h say
 * what becomes of it. */
#ifndef LARDER_CACHE_SOURCE_ROWS_H
#define LARDER_CACHE_SOURCE_ROWS_H

#include "cache/source/source.h"
#include "common/sample_rows.h"

#define ROWS_BYTES_MAX (UINT64_C(1) << 30) /* of all such parts of a dataset, where nobody says it */

extern const struct source_kind rows_kind;

/* rows_column says whether what a text asks of a part is a column of rows, which is written "[COLUMN]", or one of
 * masks, "{COLUMN}", and returns the column's name, which the caller frees; NULL: it is not, or there is no memory. */
char *rows_column(const char *value, bool *masks);
/* rows_index makes a source of a column of another one, whose samples are those rows. It borrows the container while it
 * runs. Of the wish it takes `part`, which is the column's name, rows_max and the interrupt. It fails as the
 * container's column does; LARDER_ELIMIT: the rows take more than rows_max; LARDER_EINVAL: there is no such column;
 * LARDER_EFORMAT, with a text that names the container, the sample and the number, if a cell is no such list.
 * masks: a cell has those. */
int rows_index(const struct source *container, const struct source_wish *wish, bool masks, struct source **out,
               struct error *err);
/* rows_about returns what is known of the part. */
struct part_rows rows_about(const struct source *source);
uint32_t rows_count(const struct source *source, uint32_t index); /* of a sample */
uint64_t rows_bytes(const struct source *source);                 /* memory of the rows of one source */
uint64_t rows_bytes_of_all(void); /* and of all that there are in this process. Any thread. */

#endif
