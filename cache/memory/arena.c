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
};

static uint64_t mib(uint64_t bytes)
{
    return bytes >> 20;
}

/* The kernel may answer a reservation it cannot keep by killing a process rather than by an error, so look first. */
static int check_free(uint64_t wanted, uint64_t total, struct error *err)
{
    struct memory_free left;
    int rc = memory_free_read("", &left, err);
    if (rc)
        return rc;
    uint64_t available = left.machine_bytes < left.cgroup_bytes ? left.machine_bytes : left.cgroup_bytes;
    if (available >= HEADROOM_BYTES && wanted <= available - HEADROOM_BYTES)
        return 0;
    /* What was already reserved would be given back, so it is available to a smaller arena. */
    uint64_t room = available + (total - wanted);
    uint64_t most = room > HEADROOM_BYTES ? room - HEADROOM_BYTES : 0;
    bool limited = left.cgroup_bytes < left.machine_bytes;
    const char *what = limited ? "the cgroup's memory limit leaves" : "the machine has available";
    return error_set(err, LARDER_ENOMEM,
                     "an arena of %" PRIu64 " MiB does not fit: %s %" PRIu64 " MiB, and %" PRIu64
                     " MiB stay free for the daemon itself; set memory.arena to %" PRIu64 " MiB or less",
                     mib(total), what, mib(room), mib(HEADROOM_BYTES), mib(most));
}

static int reserve(int fd, uint64_t bytes, bool (*go_on)(void *ctx), void *ctx, struct error *err)
{
    for (uint64_t done = 0; done < bytes;) {
        int rc = check_free(bytes - done, bytes, err);
        if (rc)
            return rc;
        uint64_t step = bytes - done < STEP_BYTES ? bytes - done : STEP_BYTES;
        if (fallocate(fd, 0, (off_t)done, (off_t)step) == 0) {
            done += step;
            if (go_on && !go_on(ctx))
                return error_set(err, LARDER_EGONE, "stopped while reserving an arena of %" PRIu64 " MiB", mib(bytes));
        } else if (errno == ENOSPC || errno == ENOMEM) {
            return error_set(err, LARDER_ENOMEM,
                             "an arena of %" PRIu64 " MiB does not fit: the kernel gave %" PRIu64
                             " MiB of it (%s); set memory.arena to less than that",
                             mib(bytes), mib(done), strerror(errno));
        } else if (errno != EINTR) {
            return error_set(err, LARDER_EIO, "reserving an arena of %" PRIu64 " MiB: fallocate: %s", mib(bytes),
                             strerror(errno));
        }
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

static int open_memfd(uint64_t bytes, bool (*go_on)(void *ctx), void *ctx, int *out, struct error *err)
{
    int fd = memfd_create("larder-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return error_set(err, errno == ENOMEM ? LARDER_ENOMEM : LARDER_EIO, "making the arena: memfd_create: %s",
                         strerror(errno));
    int rc = reserve(fd, bytes, go_on, ctx, err);
    if (rc) {
        close(fd);
        return rc;
    }
    *out = fd;
    return 0;
}

int arena_create(uint64_t bytes, bool (*go_on)(void *ctx), void *ctx, struct arena **out, struct error *err)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (bytes == 0 || bytes > (UINT64_C(1) << 46))
        return error_set(err, LARDER_EINVAL, "an arena of %" PRIu64 " bytes: memory.arena must be 1 byte to 64 TiB",
                         bytes);
    bytes = (bytes + page - 1) / page * page;
    int fd = -1;
    int rc = open_memfd(bytes, go_on, ctx, &fd, err);
    if (rc)
        return rc;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        rc = error_set(err, errno == ENOMEM ? LARDER_ENOMEM : LARDER_EIO,
                       "mapping an arena of %" PRIu64
                       " MiB: %s; lower memory.arena, or raise the address space limit (ulimit -v)",
                       mib(bytes), strerror(errno));
        goto out;
    }
    /* Both are wishes: the pages are reserved already, so huge ones only come where the kernel may collapse them
     * later. */
    (void)madvise(base, bytes, MADV_HUGEPAGE);
    (void)madvise(base, bytes, MADV_DONTDUMP);
    rc = seal(fd, err);
    if (rc)
        goto out;
    struct arena *arena = xcalloc(1, sizeof *arena);
    *arena = (struct arena){.magic = ARENA_MAGIC, .fd = fd, .base = base, .bytes = bytes};
    *out = arena;
    return 0;

out:
    if (base != MAP_FAILED)
        munmap(base, bytes);
    close(fd);
    return rc;
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
