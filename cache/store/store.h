/* store.h: a packed chunk store holds a dataset's samples in chunks of K, shuffled once, so that one read brings K
 * samples.
 *
 * A store is a folder with an index and segments of many chunks each (docs/store-format.md). catalog_open opens it like
 * a tree. Its samples keep the source's order, labels, keys and fingerprint. They are identified by the hash of their
 * content, so the same image in two stores is the same sample. It is not if one of the stores was packed with
 * rewriting, because its bytes differ. If images were shrunk, the fingerprint is the store's own. The hash does not
 * resist forgery. So a store that others than this process's user and root may write to shares no samples with other
 * stores. Owner and mode of its folder and files tell who may write. */
#ifndef LARDER_CACHE_STORE_STORE_H
#define LARDER_CACHE_STORE_STORE_H

#include "cache/catalog/catalog_priv.h"
#include "cache/store/format.h"

/* open.c */

/* store_load reads the index of the store at root into the parts (index, chunking, store). It returns LARDER_EGONE
 * soon after the interrupt (may be NULL) was set. */
int store_load(const char *root, const struct interrupt *interrupt, struct dataset_parts *parts, struct error *err);
/* store_is says whether a folder is a store. It returns 0, or LARDER_EINVAL for an unfinished store. */
int store_is(const char *root, bool *is_store, struct error *err);
/* store_unchanged says whether the index file is the one that was loaded. Each read checks its bytes against the
 * index. */
bool store_unchanged(const char *root, const struct store *store);

/* read.c */

/* store_read and store_read_many do what dataset_read and dataset_read_many do, for a store. */
int store_read(const struct dataset *dataset, uint32_t index, void *buf, struct error *err);
uint32_t store_read_many(const struct dataset *dataset, struct sample_read *reads, uint32_t count, uint64_t until_ns);

#endif
