/* origins.h: what a store's samples were packed from, as a file beside its index (docs/internals/store-format.md).
 *
 * For each sample it has the content id of the file or member that the sample is a copy of: device, inode, size, and
 * times of modification and change. So a job on these files and one on the store share what is prepared. It is believed
 * only in the folder that it was written to: who copies a stranger's store has not copied the stranger's word for which
 * of his own files it is made of. */
#ifndef LARDER_CACHE_STORE_ORIGINS_H
#define LARDER_CACHE_STORE_ORIGINS_H

#include "cache/source/identity.h"
#include "common/error.h"

#define STORE_ORIGINS_NAME "origins.larder"
#define STORE_ORIGINS_BYTES_MAX (UINT64_C(1) << 36)

/* What the file belongs to. */
struct store_origins {
    uint64_t plan[2];
    uint64_t folder; /* inode of the store's folder */
    uint32_t count;  /* samples */
};

/* store_origins_encode returns the file in memory that the caller frees: an identity for each sample, by index, or
 * zeros. LARDER_ENOMEM. Pure. */
int store_origins_encode(const struct store_origins *of, const struct identity *origins, uint8_t **bytes,
                         size_t *len_bytes);
/* store_origins_parse returns the identities in memory that the caller frees. LARDER_ECHANGED: they were written in
 * another folder, or for another store; LARDER_EFORMAT, LARDER_EVERSION, LARDER_ENOMEM. Pure. */
int store_origins_parse(const uint8_t *bytes, size_t len_bytes, const struct store_origins *of, struct identity **out,
                        struct error *err);

#endif
