/* tar_text.h: the texts that name tar shards: "/data/train-{000000..000146}.tar", "/data/train-*.tar", two of such
 * joined by "::", one shard, or a folder of shards, with "#labels=" and what the labels are at the end or not.
 *
 * A resolved text is one in whose folders no links are left. It names its shards below one folder, the root. */
#ifndef LARDER_CACHE_SOURCE_TAR_TEXT_H
#define LARDER_CACHE_SOURCE_TAR_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "common/interrupt.h"

#define TAR_SHARDS_MAX (1u << 20)

/* tar_text_is says whether a text that is no path of something names shards. */
bool tar_text_is(const char *text);
/* tar_text_resolve returns the resolved text, which the caller frees. It looks at folders alone, and blocks.
 * LARDER_ENOENT and others where one is not there; LARDER_EINVAL. */
int tar_text_resolve(const char *text, char **out, struct error *err);
/* tar_text_root returns the root of a resolved text, which the caller frees; NULL: no memory. It blocks: the text may
 * be a folder. */
char *tar_text_root(const char *text);
/* tar_text_labels returns what stands behind "#labels=", and *len of what names the shards; "": nothing. Pure. */
const char *tar_text_labels(const char *text, size_t *len);
/* tar_text_unmixed says whether "#mixed=no" stands behind what names the shards, before "#labels=": samples that lie
 * behind each other are not to be read together. Pure. */
bool tar_text_unmixed(const char *text);

/* tar_folder_is says whether a folder is one of shards: it has some, and no other folders, hidden ones apart. It fails
 * as listing a folder does. */
bool tar_folder_is(const char *path);

/* The shards of a resolved text, in order: their paths below the root. */
struct tar_shards {
    char **names;
    size_t count, cap;
};
/* tar_shards_find finds them; a glob and a folder are looked through. It says nothing of whether a shard that is named
 * is there. LARDER_ENOENT where there is none; LARDER_ELIMIT, LARDER_ENOMEM, LARDER_EINVAL (a name that is none of a
 * shard's). The caller frees what *out holds by tar_shards_free. */
int tar_shards_find(const char *text, const char *root, struct tar_shards *out, struct error *err);
void tar_shards_free(struct tar_shards *shards);

#endif
