/* store.h: a packed chunk store holds a dataset's samples in chunks of K, shuffled once, so that one read brings K
 * samples.
 *
 * A store is a folder with an index and segments of many chunks each (docs/internals/store-format.md). catalog_open
 * opens it like a tree. Its samples keep the source's order, labels, keys and fingerprint. They are identified by the
 * hash of their content, so the same image in two stores is the same sample. It is not if one of the stores was packed
 * with rewriting, because its bytes differ. If images were shrunk, the fingerprint is the store's own. The hash does
 * not resist forgery. So a store that others than this process's user and root may write to shares no samples with
 * other stores. Owner and mode of its folder and files tell who may write. */
#ifndef LARDER_CACHE_STORE_STORE_H
#define LARDER_CACHE_STORE_STORE_H

#include "cache/source/source.h"
#include "cache/store/format.h"

/* open.c */

extern const struct source_kind store_kind;

/* A store's source. */
struct store_source {
    struct source source;
    struct store store;
};

/* store_of returns what a source has as a store, besides its samples; NULL: it is no store. */
static inline const struct store *store_of(const struct source *source)
{
    return source->kind == &store_kind ? &((const struct store_source *)source)->store : NULL;
}

/* samples.c: functions of store_kind. */

bool store_unchanged(struct source *source, const struct interrupt *interrupt, bool *settled);
struct sample_place store_place(const struct source *source, uint32_t index);
const char *store_blob_name(const struct source *source, uint32_t blob, char buf[BLOB_NAME_MAX]);
int store_check(const struct source *source, uint32_t index, const void *lead, void *bytes, struct error *err);
int store_failed(const struct source *source, uint32_t index, int why, struct error *err);
struct identity store_identity(const struct source *source, uint32_t index, uint64_t apart, uint64_t seed);

#endif
