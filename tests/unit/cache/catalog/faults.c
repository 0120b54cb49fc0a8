#include "tests/unit/cache/catalog/faults.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "common/check.h"

struct faults faults;

ssize_t __real_pread(int fd, void *buf, size_t len, off_t offset);
ssize_t __wrap_pread(int fd, void *buf, size_t len, off_t offset);
ssize_t __wrap_preadv(int fd, const struct iovec *parts, int count, off_t offset);

ssize_t __wrap_pread(int fd, void *buf, size_t len, off_t offset)
{
    struct stat st;
    faults.calls++;
    if (faults.interrupt_every && faults.calls % faults.interrupt_every == 0) {
        errno = EINTR;
        return -1;
    }
    if (faults.most_bytes && len > faults.most_bytes)
        len = faults.most_bytes;
    CHECK(fstat(fd, &st) == 0);
    uint64_t end = faults.fail_len ? faults.fail_offset + faults.fail_len : UINT64_MAX;
    if (st.st_ino == faults.fail_inode && (uint64_t)offset < end && (uint64_t)offset + len > faults.fail_offset) {
        if ((uint64_t)offset >= faults.fail_offset) {
            errno = faults.fail_errno;
            return faults.fail_errno ? -1 : 0;
        }
        len = faults.fail_offset - (uint64_t)offset;
    }
    return __real_pread(fd, buf, len, offset);
}

/* Reads the first part only: a short read, with the faults of pread. */
ssize_t __wrap_preadv(int fd, const struct iovec *parts, int count, off_t offset)
{
    CHECK(count > 0);
    for (int i = 0; i < count; i++) {
        if (parts[i].iov_len)
            return __wrap_pread(fd, parts[i].iov_base, parts[i].iov_len, offset);
    }
    return 0;
}

ino_t fault_inode(const char *fmt, ...)
{
    char path[PATH_MAX];
    struct stat st;
    va_list args;
    va_start(args, fmt);
    CHECK(vsnprintf(path, sizeof path, fmt, args) < PATH_MAX);
    va_end(args);
    CHECK(stat(path, &st) == 0);
    return st.st_ino;
}
