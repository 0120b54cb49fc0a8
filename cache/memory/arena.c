#include "cache/memory/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/memory/memory_free.h"
#include "common/check.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define ARENA_MAGIC 0x4152454eu             /* "AREN" */
#define STEP_BYTES (UINT64_C(64) << 20)     /* reserved between two looks at what memory is left */
#define HEADROOM_BYTES (UINT64_C(64) << 20) /* left for the rest of the daemon */

struct arena {
    uint32_t magic;
    int fd;     /* ours alone */
    int fd_out; /* the clients': a description of the same file that is open for reading only */
    void *base;
    uint64_t bytes;
    const char *root;
    bool huge_pages; /* the kernel has them for who asks */
};

static uint64_t mib(uint64_t bytes)
{
    return bytes >> 20;
}

/* The kernel may answer a reservation it cannot keep by killing a process rather than by an error, so look first. */
static int check_free(const struct arena *arena, uint64_t wanted, struct error *err)
{
    struct memory_free left;
    int rc = memory_free_read(arena->root, &left, err);
    if (rc)
        return rc;
    uint64_t available = left.machine_bytes < left.cgroup_bytes ? left.machine_bytes : left.cgroup_bytes;
    if (available >= HEADROOM_BYTES && wanted <= available - HEADROOM_BYTES)
        return 0;
    bool limited = left.cgroup_bytes < left.machine_bytes;
    return error_set(err, LARDER_ENOMEM,
                     "%" PRIu64 " MiB more of the arena do not fit: %s %" PRIu64 " MiB, and %" PRIu64
                     " MiB stay free for the daemon itself; free some, or lower memory.arena",
                     mib(wanted), limited ? "the cgroup's memory limit leaves" : "the machine has available",
                     mib(available), mib(HEADROOM_BYTES));
}

int arena_reserve(struct arena *arena, uint64_t from, uint64_t to, uint64_t *got, struct error *err)
{
    CHECK_MAGIC(arena, ARENA_MAGIC);
    CHECK(from <= to && to <= arena->bytes);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), skew = from % page;
    *got = from;
    while (*got < to) {
        uint64_t most = STEP_BYTES - skew, step = to - *got < most ? to - *got : most;
        int rc = check_free(arena, step, err);
        if (rc)
            return rc;
        /* This comes first because only a fault in a mapping that asks for huge pages gets them. It may fail: fallocate
         * takes the pages that are still missing, and decides. Without huge pages fallocate alone is faster, because
         * each page is zeroed only when it is first written to. */
        if (arena->huge_pages)
            (void)madvise((char *)arena->base + *got - skew, step + skew, MADV_POPULATE_WRITE);
        skew = 0;
        if (fallocate(arena->fd, 0, (off_t)*got, (off_t)step) == 0)
            *got += step;
        else if (errno == ENOSPC || errno == ENOMEM)
            return error_set(err, LARDER_ENOMEM,
                             "%" PRIu64 " MiB more of the arena do not fit: the kernel refused them (%s); free some "
                             "memory, or lower memory.arena",
                             mib(to - *got), strerror(errno));
        else if (errno != EINTR)
            return error_set(err, LARDER_EIO, "reserving %" PRIu64 " MiB of the arena: fallocate: %s", mib(to - *got),
                             strerror(errno));
    }
    return 0;
}

int arena_return(struct arena *arena, uint64_t from, uint64_t to, struct error *err)
{
    CHECK_MAGIC(arena, ARENA_MAGIC);
    CHECK(from <= to && to <= arena->bytes);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = (from + page - 1) / page * page, end = to / page * page;
    int rc = 0;
    while (first < end && rc == 0 &&
           fallocate(arena->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first, (off_t)(end - first)) != 0)
        if (errno != EINTR)
            rc = error_set(err, LARDER_EIO, "giving %" PRIu64 " MiB of the arena back: fallocate: %s", mib(end - first),
                           strerror(errno));
    return rc;
}

/* open_out opens the file once more, for reading only. Nobody but its owner can open it for writing from that. */
static int open_out(int fd, int *out, struct error *err)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    *out = fchmod(fd, S_IRUSR) == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    return *out >= 0 ? 0
                     : error_set(err, LARDER_EIO, "opening the arena for clients by %s: %s; /proc must be mounted",
                                 path, strerror(errno));
}

/* make makes the memfd, the descriptor that clients get, and the daemon's mapping. If it fails, unmake frees what it
 * had made. */
static int make(struct arena *arena, struct error *err)
{
    arena->fd = memfd_create("larder-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (arena->fd < 0 || ftruncate(arena->fd, (off_t)arena->bytes) != 0)
        return error_set(err, errno == ENOMEM ? LARDER_ENOMEM : LARDER_EIO, "making the arena: %s: %s",
                         arena->fd < 0 ? "memfd_create" : "ftruncate", strerror(errno));
    if (fcntl(arena->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return error_set(err, LARDER_EIO, "sealing the arena: %s", strerror(errno));
    int rc = open_out(arena->fd, &arena->fd_out, err);
    if (rc)
        return rc;
    arena->base = mmap(NULL, arena->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, arena->fd, 0);
    if (arena->base == MAP_FAILED)
        return error_set(err, errno == ENOMEM ? LARDER_ENOMEM : LARDER_EIO,
                         "mapping an arena of %" PRIu64
                         " MiB: %s; lower memory.arena, or raise the address space limit (ulimit -v)",
                         mib(arena->bytes), strerror(errno));
    (void)madvise(arena->base, arena->bytes, MADV_HUGEPAGE); /* both are wishes */
    (void)madvise(arena->base, arena->bytes, MADV_DONTDUMP);
    return 0;
}

static void unmake(struct arena *arena)
{
    if (arena->base != MAP_FAILED)
        munmap(arena->base, arena->bytes);
    if (arena->fd >= 0)
        close(arena->fd);
    if (arena->fd_out >= 0)
        close(arena->fd_out);
    arena->magic = 0;
    free(arena);
}

int arena_create(uint64_t bytes, const char *root, struct arena **out, struct error *err)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (bytes == 0 || bytes > (UINT64_C(1) << 46))
        return error_set(err, LARDER_EINVAL, "an arena of %" PRIu64 " bytes: memory.arena must be 1 byte to 64 TiB",
                         bytes);
    struct arena *arena = xcalloc(1, sizeof *arena);
    *arena = (struct arena){.magic = ARENA_MAGIC,
                            .fd = -1,
                            .fd_out = -1,
                            .base = MAP_FAILED,
                            .bytes = (bytes + page - 1) / page * page,
                            .root = root,
                            .huge_pages = memory_shared_huge_pages(root)};
    int rc = make(arena, err);
    if (rc)
        unmake(arena);
    else
        *out = arena;
    return rc;
}

void arena_destroy(struct arena *arena)
{
    if (!arena)
        return;
    CHECK_MAGIC(arena, ARENA_MAGIC);
    unmake(arena);
}

void arena_forsake(struct arena *arena)
{
    /* If it fails, the memory stays until the process is gone. */
    (void)mmap(arena->base, arena->bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void *arena_base(const struct arena *arena)
{
    CHECK_MAGIC(arena, ARENA_MAGIC);
    return arena->base;
}

uint64_t arena_bytes(const struct arena *arena)
{
    CHECK_MAGIC(arena, ARENA_MAGIC);
    return arena->bytes;
}

int arena_fd(const struct arena *arena)
{
    CHECK_MAGIC(arena, ARENA_MAGIC);
    return arena->fd_out;
}
