/* faulty.c: makes calls of the C library fail, for LD_PRELOAD. LARDER_FAULTY names a file that holds a rule for each
 * kind of call, struct rule below; whoever maps it changes the rules while the program runs, and sees how often each
 * has struck. tests/system/python/faulty.py does. A rule strikes each `every`-th call that it is about, after it has
 * spared the first `skip`, and `times` times at the most. Calls of other libraries go through here too; what libc calls
 * inside of itself does not. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind {
    READ,        /* read, pread and preadv of a file */
    READ_SHORT,  /* these give a part of what was asked for */
    WRITE,       /* write, pwrite, pwritev, fsync and fdatasync of a file, room for one, and its name: fallocate,
                    ftruncate, rename, mkdir */
    WRITE_SHORT, /* write, pwrite and pwritev take a part */
    OPEN,        /* open and openat of a file */
    DESCRIPTOR,  /* memfd_create, eventfd, accept, socket and epoll_create */
    ALLOC,       /* malloc, calloc, realloc and others of from_bytes to to_bytes */
    CLOCK,       /* the time of day is shift_s more */
    SLOW,        /* reads of files bring from_bytes a second together, as from a slow disk */
    KINDS
};

enum { PATH_BYTES = 4096, LINK_BYTES = 32 };

struct rule {
    atomic_uint every; /* 0: the rule is off */
    atomic_uint skip, times;
    atomic_uint calls, struck;
    int32_t error; /* errno */
    uint64_t from_bytes, to_bytes;
    int64_t shift_s;
    char path[80]; /* a part of the file's path; empty: every file but those of the system */
};
_Static_assert(sizeof(struct rule) == 128, "faulty.py writes it");

static struct rule *rules; /* NULL: no rule yet */

static void __attribute__((constructor)) begin(void)
{
    const char *name = getenv("LARDER_FAULTY");
    int fd = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *map = mmap(NULL, KINDS * sizeof *rules, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    rules = map == MAP_FAILED ? NULL : map;
}

static bool is_on(enum kind kind)
{
    return rules && atomic_load(&rules[kind].every);
}

/* Counts a call that the rule is about. True: it fails. */
static bool strikes(enum kind kind)
{
    struct rule *rule = &rules[kind];
    unsigned every = atomic_load(&rule->every), skip = atomic_load(&rule->skip);
    unsigned call = atomic_fetch_add(&rule->calls, 1);
    if (!every || call < skip || (call - skip) % every != every - 1 ||
        (call - skip) / every >= atomic_load(&rule->times))
        return false;
    atomic_fetch_add(&rule->struck, 1);
    return true;
}

static bool fails(enum kind kind)
{
    if (!strikes(kind))
        return false;
    errno = rules[kind].error;
    return true;
}

static bool is_about(enum kind kind, const char *path)
{
    if (rules[kind].path[0])
        return strstr(path, rules[kind].path) != NULL;
    return strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/sys/", 5) != 0 && strncmp(path, "/dev/", 5) != 0;
}

/* Of descriptors those of files: the others have links such as "socket:[1]" and "/memfd:arena". */
static bool is_about_fd(enum kind kind, int fd)
{
    char link[LINK_BYTES], path[PATH_BYTES];
    if (!is_on(kind))
        return false;
    int saved = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    errno = saved;
    path[len > 0 ? len : 0] = '\0';
    return path[0] == '/' && strncmp(path, "/memfd:", 7) != 0 && is_about(kind, path);
}

static bool is_about_path(enum kind kind, const char *path)
{
    return is_on(kind) && is_about(kind, path);
}

#define REAL(name)                 \
    static __typeof__(name) *real; \
    if (!real)                     \
    *(void **)&real = dlsym(RTLD_NEXT, #name)

/* ── reading ── */

/* Waits for as long as a disk with so many bytes a second would be busy with this read and those before it. */
static void slow_down(int fd, ssize_t len)
{
    static atomic_uint_least64_t free_at_ns;
    struct timespec now, wake;
    if (len <= 0 || !is_about_fd(SLOW, fd) || !strikes(SLOW))
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    uint64_t takes_ns = (uint64_t)len * 1000000000 / rules[SLOW].from_bytes, from_ns = atomic_load(&free_at_ns), to_ns;
    do
        to_ns = (from_ns > now_ns ? from_ns : now_ns) + takes_ns;
    while (!atomic_compare_exchange_weak(&free_at_ns, &from_ns, to_ns));
    wake = (struct timespec){(time_t)(to_ns / 1000000000), (long)(to_ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL) == EINTR)
        ;
}

static size_t part_of(enum kind kind, int fd, size_t len)
{
    return len > 1 && is_about_fd(kind, fd) && strikes(kind) ? (len + 2) / 3 : len;
}

ssize_t read(int fd, void *buf, size_t len)
{
    REAL(read);
    if (is_about_fd(READ, fd) && fails(READ))
        return -1;
    ssize_t got = real(fd, buf, part_of(READ_SHORT, fd, len));
    slow_down(fd, got);
    return got;
}

ssize_t pread(int fd, void *buf, size_t len, off_t offset)
{
    REAL(pread);
    if (is_about_fd(READ, fd) && fails(READ))
        return -1;
    ssize_t got = real(fd, buf, part_of(READ_SHORT, fd, len), offset);
    slow_down(fd, got);
    return got;
}

ssize_t preadv(int fd, const struct iovec *parts, int n, off_t offset)
{
    REAL(preadv);
    if (is_about_fd(READ, fd) && fails(READ))
        return -1;
    if (n < 1 || !is_about_fd(READ_SHORT, fd) || !strikes(READ_SHORT)) {
        ssize_t got = real(fd, parts, n, offset);
        slow_down(fd, got);
        return got;
    }
    struct iovec part = {parts->iov_base, (parts->iov_len + 2) / 3};
    return real(fd, &part, 1, offset);
}

/* ── writing ── */

ssize_t write(int fd, const void *buf, size_t len)
{
    REAL(write);
    if (is_about_fd(WRITE, fd) && fails(WRITE))
        return -1;
    return real(fd, buf, part_of(WRITE_SHORT, fd, len));
}

ssize_t pwrite(int fd, const void *buf, size_t len, off_t offset)
{
    REAL(pwrite);
    if (is_about_fd(WRITE, fd) && fails(WRITE))
        return -1;
    return real(fd, buf, part_of(WRITE_SHORT, fd, len), offset);
}

ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t offset)
{
    REAL(pwritev);
    if (is_about_fd(WRITE, fd) && fails(WRITE))
        return -1;
    if (n < 1 || !is_about_fd(WRITE_SHORT, fd) || !strikes(WRITE_SHORT))
        return real(fd, parts, n, offset);
    struct iovec part = {parts->iov_base, (parts->iov_len + 2) / 3};
    return real(fd, &part, 1, offset);
}

int fdatasync(int fd)
{
    REAL(fdatasync);
    return is_about_fd(WRITE, fd) && fails(WRITE) ? -1 : real(fd);
}

int fsync(int fd)
{
    REAL(fsync);
    return is_about_fd(WRITE, fd) && fails(WRITE) ? -1 : real(fd);
}

int ftruncate(int fd, off_t len)
{
    REAL(ftruncate);
    return is_about_fd(WRITE, fd) && fails(WRITE) ? -1 : real(fd, len);
}

int fallocate(int fd, int mode, off_t offset, off_t len)
{
    REAL(fallocate);
    return is_about_fd(WRITE, fd) && fails(WRITE) ? -1 : real(fd, mode, offset, len);
}

int posix_fallocate(int fd, off_t offset, off_t len)
{
    REAL(posix_fallocate);
    return is_about_fd(WRITE, fd) && strikes(WRITE) ? rules[WRITE].error : real(fd, offset, len);
}

int rename(const char *from, const char *to)
{
    REAL(rename);
    return is_about_path(WRITE, to) && fails(WRITE) ? -1 : real(from, to);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(mkdir);
    return is_about_path(WRITE, path) && fails(WRITE) ? -1 : real(path, mode);
}

/* ── descriptors ── */

/* A file that is made anew counts as a write too: a full file system has no room for its name. */
static bool opening_fails(const char *path, int flags)
{
    return (is_about_path(OPEN, path) && fails(OPEN)) ||
           (flags & O_CREAT && is_about_path(WRITE, path) && fails(WRITE));
}

static mode_t mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    REAL(open);
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return opening_fails(path, flags) ? -1 : real(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    REAL(openat);
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return opening_fails(path, flags) ? -1 : real(folder, path, flags, mode);
}

int memfd_create(const char *name, unsigned flags)
{
    REAL(memfd_create);
    return is_on(DESCRIPTOR) && fails(DESCRIPTOR) ? -1 : real(name, flags);
}

int eventfd(unsigned value, int flags)
{
    REAL(eventfd);
    return is_on(DESCRIPTOR) && fails(DESCRIPTOR) ? -1 : real(value, flags);
}

int accept(int fd, struct sockaddr *address, socklen_t *len)
{
    REAL(accept);
    return is_on(DESCRIPTOR) && fails(DESCRIPTOR) ? -1 : real(fd, address, len);
}

int accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
    REAL(accept4);
    return is_on(DESCRIPTOR) && fails(DESCRIPTOR) ? -1 : real(fd, address, len, flags);
}

int socket(int domain, int type, int protocol)
{
    REAL(socket);
    return is_on(DESCRIPTOR) && fails(DESCRIPTOR) ? -1 : real(domain, type, protocol);
}

/* ── memory ── */

/* libc's own names: dlsym allocates. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t align, size_t size);

static bool no_memory(size_t bytes)
{
    if (!is_on(ALLOC) || bytes < rules[ALLOC].from_bytes || bytes > rules[ALLOC].to_bytes || !strikes(ALLOC))
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return no_memory(size) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return no_memory(count * size) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    return no_memory(size) ? NULL : __libc_realloc(block, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    return no_memory(size) ? NULL : __libc_memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
    void *block = no_memory(size) ? NULL : __libc_memalign(align, size);
    if (!block)
        return ENOMEM;
    *out = block;
    return 0;
}

/* ── the time of day ── */

int clock_gettime(clockid_t id, struct timespec *out)
{
    REAL(clock_gettime);
    int rc = real(id, out);
    if (rc == 0 && id == CLOCK_REALTIME && is_on(CLOCK) && strikes(CLOCK))
        out->tv_sec += rules[CLOCK].shift_s;
    return rc;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
