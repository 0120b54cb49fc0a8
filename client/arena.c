/* arena.c: the daemon's memory as this process sees it: mapped read-only, and nothing in it is believed to lie where
 * the daemon says before it was looked at. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/loader_priv.h"

static int map(struct larder_loader *loader, int fd, uint64_t arena_bytes, struct error *err)
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
    void *arena = mmap(NULL, (size_t)arena_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (arena == MAP_FAILED)
        return error_set(
            err, LARDER_ENOMEM,
            "mapping the %llu bytes of the daemon's arena failed (%s): raise the limit on address space (ulimit -v)",
            (unsigned long long)arena_bytes, strerror(errno));
    loader->arena = (struct loader_arena){.data = arena, .bytes = arena_bytes};
    return 0;
}

int arena_map(struct larder_loader *loader, int fd, uint64_t arena_bytes, struct error *err)
{
    if (fd < 0)
        return error_set(err, LARDER_EFORMAT, "the daemon at %s passed no memory", loader->connection.path);
    int rc = map(loader, fd, arena_bytes, err);
    close(fd);
    return rc;
}

int arena_check(const struct larder_loader *loader, const struct wire_entry *entry, struct error *err)
{
    static const uint32_t pixel_bytes[] = {[PIXEL_UINT8] = 1, [PIXEL_FLOAT16] = 2, [PIXEL_FLOAT32] = 4};
    if (entry->offset > loader->arena.bytes || entry->len_bytes > loader->arena.bytes - entry->offset)
        return error_set(err, LARDER_EFORMAT, "the daemon at %s placed sample %u outside its arena",
                         loader->connection.path, entry->id);
    if (loader->job.height && (entry->len_bytes != loader->job.sample_bytes ||
                               entry->offset % pixel_bytes[loader->job.dtype])) /* wire_decode has checked dtype */
        return error_set(err, LARDER_EFORMAT,
                         "the daemon at %s sent sample %u with %u bytes at %llu, not %llu aligned ones",
                         loader->connection.path, entry->id, entry->len_bytes, (unsigned long long)entry->offset,
                         (unsigned long long)loader->job.sample_bytes);
    return 0;
}
