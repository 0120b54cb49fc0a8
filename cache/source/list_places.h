/* list_places.h: lists whose rows are places in files: each sample lies whole in a range of the file that its row
 * names. list.c reads the rows, and has the kind. */
#ifndef LARDER_CACHE_SOURCE_LIST_PLACES_H
#define LARDER_CACHE_SOURCE_LIST_PLACES_H

#include "cache/source/list_rows.h"
#include "cache/source/source.h"

#define PLACES_FILES_MAX (1u << 20) /* files of one list, each counted once a shape of pixels */

/* places_add adds a row that has a place: the file, at this absolute path, becomes a blob unless it is one. *key gets
 * the offset of the sample's key, which begins with that path. `files` numbers the blobs, and is zeroed before the
 * first row. The sample is added to the index by the caller, afterwards. LARDER_EINVAL, LARDER_ELIMIT, LARDER_ENOMEM:
 * the error's text does not name the row. */
int places_add(struct index *index, struct identity_table *files, const char *path, const struct list_row *row,
               uint64_t *key, struct error *err);
/* places_look fills in what a blob's file is known by. It blocks. */
void places_look(int root_fd, struct index *index, size_t blob);
/* places_settle gives the samples what they have of their files, once all blobs have been looked at: those whose file
 * cannot be read, or ends before they do, cannot be reached. */
void places_settle(struct index *index);
/* places_fit says of an index that a checkpoint had whether reading it can rely on what it has of each sample. */
bool places_fit(const struct index *index);

/* places_unchanged says whether the files are those that were indexed, and none that was unreachable can be reached. It
 * returns false soon after the interrupt was set. It blocks. */
bool places_unchanged(const struct source *source, const struct interrupt *interrupt);

/* Functions of a source_kind. */
struct sample_place places_place(const struct source *source, uint32_t index);
uint32_t places_head_bytes(const struct source *source, uint32_t index);
int places_check(const struct source *source, uint32_t index, const void *lead, void *bytes, struct error *err);
int places_failed(const struct source *source, uint32_t index, int why, struct error *err);
struct identity places_identity(const struct source *source, uint32_t index, uint64_t apart, uint64_t seed);

#endif
