#include "cache/memory/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cache/memory/memory_free.h"
#include "common/check.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1; libc headers may be older than the kernel */
#endif

#define ARENA_MAGIC 0x4152454eu             /* "AREN" */
#define STEP_BYTES (UINT64_C(64) << 20)     /* reserved between two looks at what memory is left */
#define HEADROOM_BYTES (UINT64_C(64) << 20) /* left for the rest of the daemon */

struct arena {
    uint32_t magic;
    int fd;
    void *base;
    uint64_t bytes;
    const char *root;
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
    *got = from;
    while (*got < to) {
        uint64_t step = to - *got < STEP_BYTES ? to - *got : STEP_BYTES;
        int rc = check_free(arena, step, err);
        if (rc)
            return rc;
        /* This comes first because only a fault in a mapping that asks for huge pages gets them on most machines. It
         * may fail; what counts is fallocate, which takes what is still missing. */
        (void)madvise((char *)arena->base + *got, step, MADV_POPULATE_WRITE);
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

static int seal(int fd, struct error *err)
{
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) == 0)
        return 0;
    if (errno == EINVAL)
        return error_set(err, LARDER_EIO,
                         "this kernel cannot seal shared memory against writing (F_SEAL_FUTURE_WRITE): Linux 5.1 or "
                         "newer is needed");
    return error_set(err, LARDER_EIO, "sealing the arena: %s", strerror(errno));
}

/* make makes a memfd and the daemon's mapping of it. */
static int make(uint64_t bytes, int *out, void **base, struct error *err)
{
    int fd = memfd_create("larder-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
        int rc = error_set(err, errno == ENOMEM ? LARDER_ENOMEM : LARDER_EIO, "making the arena: %s: %s",
                           fd < 0 ? "memfd_create" : "ftruncate", strerror(errno));
        if (fd >= 0)
            close(fd);
        return rc;
    }
    int rc = 0;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (at == MAP_FAILED)
        rc = error_set(err, errno == ENOMEM ? LARDER_ENOMEM : LARDER_EIO,
                       "mapping an arena of %" PRIu64
                       " MiB: %s; lower memory.arena, or raise the address space limit (ulimit -v)",
                       mib(bytes), strerror(errno));
    else
        rc = seal(fd, err);
    if (rc) {
        if (at != MAP_FAILED)
            munmap(at, bytes);
        close(fd);
        return rc;
    }
    (void)madvise(at, bytes, MADV_HUGEPAGE); /* both are wishes */
    (void)madvise(at, bytes, MADV_DONTDUMP);
    *out = fd;
    *base = at;
    return 0;
}

int arena_create(uint64_t bytes, const char *root, struct arena **out, struct error *err)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (bytes == 0 || bytes > (UINT64_C(1) << 46))
        return error_set(err, LARDER_EINVAL, "an arena of %" PRIu64 " bytes: memory.arena must be 1 byte to 64 TiB",
                         bytes);
    struct arena made = {.magic = ARENA_MAGIC, .bytes = (bytes + page - 1) / page * page, .root = root};
    int rc = make(made.bytes, &made.fd, &made.base, err);
    if (rc)
        return rc;
    struct arena *arena = xcalloc(1, sizeof *arena);
    *arena = made;
    *out = arena;
    return 0;
}

int arena_renew(struct arena *arena, bool (*take)(void *ctx, int fd), void *ctx, bool *renewed, struct error *err)
{
    CHECK_MAGIC(arena, ARENA_MAGIC);
    int fd = -1;
    void *base = NULL;
    *renewed = false;
    int rc = make(arena->bytes, &fd, &base, err);
    if (rc)
        return rc;
    *renewed = take(ctx, fd);
    if (!*renewed) {
        munmap(base, arena->bytes);
        close(fd);
        return 0;
    }
    /* The new mapping takes the place of the old one, whose pages go with the last reference to their memfd. */
    CHECK(mremap(base, arena->bytes, arena->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, arena->base) == arena->base);
    close(arena->fd);
    arena->fd = fd;
    return 0;
}

void arena_destroy(struct arena *arena)
{
    if (!arena)
        return;
    CHECK_MAGIC(arena, ARENA_MAGIC);
    munmap(arena->base, arena->bytes);
    close(arena->fd);
    arena->magic = 0;
    free(arena);
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
    return arena->fd;
}
