/* origins.h: samples of files that are known by their bytes, since a store was packed from them.
 *
 * `larder pack` writes a file beside the store's index that says which files had which bytes (ORIGINS_NAME,
 * docs/internals/store-format.md), or which places in shards and other files, and notes the store in an attribute of
 * the folder (origins_hint). What lies in a file that still has the change time that it had then is known by the hash
 * of its bytes, as the store's sample is: both are one sample. Every read of it is checked with that hash (files.c,
 * blobs.c). So whoever has the sample gets these bytes, or an error, whatever the store says and whatever became of the
 * file. */
#ifndef LARDER_CACHE_SOURCE_ORIGINS_H
#define LARDER_CACHE_SOURCE_ORIGINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/sealed.h"
#include "cache/source/identity.h"

#define ORIGINS_NAME "origins.larder"
#define ORIGINS_HINT "user.larder.store" /* of a folder's files; of shards and places origins_hint has one of theirs */
#define ORIGINS_HINT_MAX 64
#define ORIGINS_BYTES_MAX (UINT64_C(1) << 30)
#define ORIGIN_BYTES 32 /* of one file: origins_file, and the XXH3-128 of its bytes; sorted by origin_compare */
extern const struct seal origins_seal;

struct error;
struct interrupt;
struct source;

/* What a source knows of a store that was packed from it. */
struct origins {
    char *store;       /* its path; NULL: the folder names none */
    uint32_t count;    /* samples that are known by their bytes */
    const char *apart; /* why not all are, in half a sentence; NULL: all are. Of a store: what source_shares says */
};

/* origins_hint returns the name of the attribute in which a source's folder names the store that was packed from it.
 * Shards of several datasets may lie in one folder: theirs is made of their first one. Pure. */
void origins_hint(const struct source *source, char hint[ORIGINS_HINT_MAX]);
/* origins_file names a sample's file as it was found, with its change time, and its place in it. Pure. */
struct identity origins_file(const struct source *source, uint32_t index);
/* origins_load reads what a store says of files: `count` origins at *origins, in *bytes, which the caller frees
 * whatever it returns. LARDER_ENOENT: the store says nothing. It fails as file_load and sealed_open do. It blocks. */
int origins_load(const char *store, const struct interrupt *interrupt, uint8_t **bytes, const uint8_t **origins,
                 size_t *count, struct error *err);
/* origin_compare orders origins, as qsort and bsearch ask. Pure. */
int origin_compare(const void *a, const void *b);
/* origins_suit says whether a source's samples lie in files whose change times show every write. It blocks. */
bool origins_suit(const struct source *source);
/* origins_settled says, before a sample's file is read, whether every write to it from now on will show in its change
 * time, and whether it still is as it was indexed. It blocks. Any thread. */
bool origins_settled(const struct source *source, uint32_t index);
/* origins_find finds the samples of an indexed source that are known by their bytes. If the index is an `old` one, each
 * of their files is looked at. `apart` (static, or NULL) says why none of a source of files may be. It asks no store on
 * a file system that may not answer, and ends soon after the interrupt was set. It blocks. */
void origins_find(struct source *source, bool old, const char *apart, const struct interrupt *interrupt);

/* source_shares says in half a sentence, escaped for a line of a log, with which other sources a source's samples are
 * shared, and why not with more. It returns text. Pure. */
#define SHARES_BYTES 640
const char *source_shares(const struct source *source, char text[SHARES_BYTES]);

#endif
