/* arena.c: a daemon's memory as this process sees it: mapped read-only, and nothing in it is believed to lie where the
 * daemon says before it was looked at. A mapping lasts as long as the loader's connection or a batch needs it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/loader_priv.h"

static int map(const struct larder_loader *loader, int fd, uint64_t arena_bytes, struct arena *out, struct error *err)
{
    const char *path = loader->connection.path;
    struct stat info;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK)) /* reading what a file has lost ends the process with SIGBUS */
        return error_set(err, LARDER_EFORMAT, "the daemon at %s passed memory that is not sealed against shrinking",
                         path);
    if (fstat(fd, &info) != 0 || arena_bytes == 0 || arena_bytes > SIZE_MAX || (uint64_t)info.st_size < arena_bytes)
        return error_set(err, LARDER_EFORMAT,
                         "the daemon at %s passed memory that is smaller than the %llu bytes it names", path,
                         (unsigned long long)arena_bytes);
    void *data = mmap(NULL, (size_t)arena_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        return error_set(
            err, LARDER_ENOMEM,
            "mapping the %llu bytes of the daemon's arena failed (%s): raise the limit on address space (ulimit -v)",
            (unsigned long long)arena_bytes, strerror(errno));
    *out = (struct arena){.refs = 1, .state = ARENA_LEASED, .data = data, .bytes = arena_bytes};
    return 0;
}

int arena_map(const struct larder_loader *loader, int fd, uint64_t arena_bytes, struct arena **out, struct error *err)
{
    if (fd < 0)
        return error_set(err, LARDER_EFORMAT, "the daemon at %s passed no memory", loader->connection.path);
    struct arena *arena = malloc(sizeof *arena);
    int rc = arena ? map(loader, fd, arena_bytes, arena, err)
                   : error_set(err, LARDER_ENOMEM, "no memory to note the daemon's arena");
    close(fd);
    if (rc)
        free(arena);
    else
        *out = arena;
    return rc;
}

struct arena *arena_ref(struct arena *arena)
{
    arena->refs++;
    return arena;
}

void arena_unref(struct arena **arena)
{
    struct arena *old = *arena;
    *arena = NULL;
    if (!old || --old->refs > 0)
        return;
    munmap((void *)(uintptr_t)old->data, (size_t)old->bytes);
    free(old);
}

/* is_aligned says whether every field of a sample that begins at `offset` begins where its numbers may. */
static bool is_aligned(const struct sample_layout *layout, uint64_t offset)
{
    for (uint32_t i = 0; i < layout->n; i++) {
        if (offset % pixel_dtype_bytes(layout->fields[i].dtype)) /* its own offset in the sample is checked */
            return false;
    }
    return true;
}

/* check_head says whether the head of a sample that may have any size says what can be. */
static int check_head(const struct larder_loader *loader, const struct wire_entry *entry, struct error *err)
{
    const struct sample_layout *layout = &loader->job.layout;
    const uint8_t *slot = loader->arena->data + entry->offset;
    bool good = entry->len_bytes <= layout->bytes && entry->len_bytes >= sample_head_bytes(layout->n) &&
                entry->offset % FIELD_PLACE_ALIGN == 0;
    for (uint32_t i = 0; i < layout->n && good; i++) {
        struct field_place place = sample_head_get(slot, i);
        good = sample_head_check(layout, i, &place, entry->len_bytes);
    }
    return good ? 0
                : error_set(err, LARDER_EFORMAT,
                            "the daemon at %s sent sample %u with fields that are not in its %u bytes",
                            loader->connection.path, entry->id, entry->len_bytes);
}

int arena_check(const struct larder_loader *loader, const struct wire_entry *entry, struct error *err)
{
    const struct sample_layout *layout = &loader->job.layout;
    if (entry->offset > loader->arena->bytes || entry->len_bytes > loader->arena->bytes - entry->offset)
        return error_set(err, LARDER_EFORMAT, "the daemon at %s placed sample %u outside its arena",
                         loader->connection.path, entry->id);
    if (sample_layout_is_ragged(layout))
        return check_head(loader, entry, err);
    if (layout->n && (entry->len_bytes != layout->bytes || !is_aligned(layout, entry->offset)))
        return error_set(err, LARDER_EFORMAT,
                         "the daemon at %s sent sample %u with %u bytes at %llu, not %llu aligned ones",
                         loader->connection.path, entry->id, entry->len_bytes, (unsigned long long)entry->offset,
                         (unsigned long long)layout->bytes);
    return 0;
}
