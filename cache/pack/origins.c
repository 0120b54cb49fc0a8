/* origins.c: which files with which bytes a pack copied. See cache/source/origins.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "cache/pack/pack_priv.h"
#include "common/little_endian.h"
#include "common/log.h"

bool pack_notes_origins(const struct pack *pack)
{
    return pack->layout.version == STORE_VERSION_PLAIN && origins_suit(dataset_source(pack->dataset));
}

/* Writes the origins behind the room for a header: as many as files were settled. */
static size_t fill(const struct pack *pack, uint8_t *bytes)
{
    uint8_t *first = bytes + SEALED_HEADER_BYTES, *at = first;
    for (uint32_t i = 0; i < pack->layout.sample_count; i++) {
        uint32_t position = pack->chunking.positions[i];
        const struct store_entry *entry = &pack->entries[position];
        if (!pack->settled[position] || entry->flags & INDEX_UNREACHABLE)
            continue;
        struct identity file = origins_file(dataset_source(pack->dataset), i);
        at = put_u64(put_u64(at, file.low), file.high);
        at = put_u64(put_u64(at, entry->hash.low), entry->hash.high);
    }
    qsort(first, (size_t)(at - first) / ORIGIN_BYTES, ORIGIN_BYTES, origin_compare);
    return (size_t)(at - bytes);
}

int pack_write_origins(const struct pack *pack, bool *noted, struct error *err)
{
    char path[PATH_MAX];
    uint8_t *bytes = malloc(SEALED_HEADER_BYTES + (size_t)pack->layout.sample_count * ORIGIN_BYTES);
    if (!bytes)
        return pack_no_memory(err);
    size_t len_bytes = fill(pack, bytes);
    sealed_close(&origins_seal, bytes, len_bytes);
    snprintf(path, sizeof path, "%s/" ORIGINS_NAME, pack->dest); /* pack_prepare saw that there is room */
    *noted = len_bytes > SEALED_HEADER_BYTES;
    int code = *noted ? file_replace(path, 0644, bytes, len_bytes, err) : 0;
    free(bytes);
    return code;
}

void pack_name_store(const struct pack *pack)
{
    char store[PATH_MAX], hint[ORIGINS_HINT_MAX];
    struct shown shown;
    const char *folder = dataset_path(pack->dataset);
    origins_hint(dataset_source(pack->dataset), hint);
    if (realpath(pack->dest, store) && setxattr(folder, hint, store, strlen(store), 0))
        log_info("msg=\"the folder cannot be told of the store: their jobs will share nothing\" source=\"%s\" "
                 "err=\"%m\"",
                 path_shown(folder, &shown));
}
