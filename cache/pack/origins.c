/* origins.c: which files a pack copied, so that jobs on them and on the store share (cache/store/origins.h). */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/pack/pack_priv.h"
#include "cache/source/parts.h"

/* A file that changed so shortly before the pack began may be written to once more without another time: the kernel
 * counts times in ticks of 10 ms at most. */
#define FRESH_NS INT64_C(50000000)

/* Only what is kept byte for byte is what it was packed from; the medium's inodes have to last, since nothing else
 * tells a file from the one that takes its place. */
static bool are_known(const struct pack *pack)
{
    const struct source *source = dataset_source(pack->dataset);
    return pack->layout.version == STORE_VERSION_PLAIN && source->kind != &parts_kind &&
           (source->packing.packed ? source->origins != NULL : source_inodes_last(source));
}

/* The time before which no file had been read, by any of the runs that the pack took: a file that changed later may
 * have been read before that. */
static int began(const struct pack *pack, int64_t *out, struct error *err)
{
    char path[PATH_MAX];
    struct stat st;
    snprintf(path, sizeof path, "%s/" STORE_UNFINISHED_NAME, pack->dest);
    if (stat(path, &st))
        return file_error(err, path, "look at it");
    *out = file_mtime_ns(&st);
    return 0;
}

static void fill(const struct pack *pack, int64_t began_ns, struct identity *origins)
{
    const struct source *source = dataset_source(pack->dataset);
    for (uint32_t i = 0; i < pack->layout.sample_count; i++) {
        const struct store_entry *entry = &pack->entries[pack->chunking.positions[i]];
        bool known = !(entry->flags & INDEX_UNREACHABLE);
        if (source->origins)
            origins[i] = source->origins[i];
        else
            known = known && index_sample(&source->index, i).ctime_ns < began_ns - FRESH_NS &&
                    source_content_id(source, i, SOURCE_ORIGIN_SEED, &origins[i]);
        if (!known)
            origins[i] = (struct identity){0};
    }
}

int pack_write_origins(const struct pack *pack, struct error *err)
{
    struct store_origins of = {.plan = {pack->plan[0], pack->plan[1]}, .count = pack->layout.sample_count};
    char path[PATH_MAX];
    struct stat st;
    uint8_t *bytes = NULL;
    size_t len_bytes;
    snprintf(path, sizeof path, "%s/" STORE_ORIGINS_NAME, pack->dest); /* pack_prepare saw that there is room */
    if (!are_known(pack))
        return unlink(path) && errno != ENOENT ? file_error(err, path, "remove it") : 0;
    if (stat(pack->dest, &st))
        return file_error(err, pack->dest, "look at it");
    of.folder = st.st_ino;
    int64_t began_ns = 0;
    int code = began(pack, &began_ns, err);
    if (code)
        return code;
    struct identity *origins = calloc(of.count, sizeof *origins);
    code = LARDER_ENOMEM;
    if (origins) {
        fill(pack, began_ns, origins);
        code = store_origins_encode(&of, origins, &bytes, &len_bytes);
    }
    free(origins);
    if (code)
        return pack_no_memory(err);
    code = file_replace(path, 0644, bytes, len_bytes, err);
    free(bytes);
    return code;
}
