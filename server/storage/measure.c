/* measure.c: random reads of samples from a folder's disk, by one to eight threads. The file that is read loses its
 * name once it is open. If the disk allows it, reads bypass the page cache. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/random.h"
#include "server/storage/measure.h"

enum { THREADS_MAX = 8, PIECE = 4 << 20 };

struct storage_bench {
    struct storage_wish wish;
    int fd, direct_fd; /* direct_fd -1: reads go through the page cache */
};

struct reader {
    const struct storage_bench *bench;
    pthread_t thread;
    uint64_t seed, until_ns, reads;
    int failed; /* errno */
};

static int write_file(const struct storage_bench *bench, double *mb_per_s)
{
    uint64_t *piece = NULL, began_ns = clock_now_ns();
    if (posix_memalign((void **)&piece, STORAGE_ALIGN, PIECE))
        return ENOMEM;
    for (size_t i = 0; i < PIECE / sizeof *piece; i++)
        piece[i] = random_mix64(i);
    int number = 0;
    for (uint64_t at = 0; !number && at < bench->wish.file_bytes;) {
        size_t len = bench->wish.file_bytes - at < PIECE ? (size_t)(bench->wish.file_bytes - at) : PIECE;
        ssize_t put = pwrite(bench->fd, piece, len, (off_t)at);
        number = put < 0 && errno != EINTR ? errno : 0;
        at += put > 0 ? (uint64_t)put : 0;
    }
    if (!number && fdatasync(bench->fd))
        number = errno;
    free(piece);
    *mb_per_s = (double)bench->wish.file_bytes / 1e6 / ((double)(clock_now_ns() - began_ns) / (double)CLOCK_NS_PER_S);
    posix_fadvise(bench->fd, 0, 0, POSIX_FADV_DONTNEED);
    return number;
}

static void *read_some(void *arg)
{
    struct reader *reader = arg;
    const struct storage_bench *bench = reader->bench;
    struct rng rng;
    char *buf = NULL;
    random_seed(&rng, reader->seed);
    uint64_t places = (bench->wish.file_bytes - bench->wish.sample_bytes) / STORAGE_ALIGN + 1;
    int fd = bench->direct_fd >= 0 ? bench->direct_fd : bench->fd;
    if (posix_memalign((void **)&buf, STORAGE_ALIGN, bench->wish.sample_bytes))
        reader->failed = ENOMEM;
    while (!reader->failed && clock_now_ns() < reader->until_ns) {
        off_t at = (off_t)(random_below(&rng, places) * STORAGE_ALIGN);
        ssize_t got = pread(fd, buf, bench->wish.sample_bytes, at);
        if (got < 0 && errno != EINTR)
            reader->failed = errno;
        reader->reads += got > 0;
        if (bench->direct_fd < 0)
            posix_fadvise(fd, at, (off_t)bench->wish.sample_bytes, POSIX_FADV_DONTNEED);
    }
    free(buf);
    return NULL;
}

static int run_round(const struct storage_bench *bench, struct storage_round *round)
{
    struct reader readers[THREADS_MAX];
    uint64_t reads = 0, began_ns = clock_now_ns();
    uint32_t started = 0;
    int failed = 0;
    for (; started < round->threads && !failed; started += !failed) {
        readers[started] = (struct reader){.bench = bench,
                                           .seed = round->threads * 100 + started,
                                           .until_ns = began_ns +
                                                       (uint64_t)(bench->wish.seconds * (double)CLOCK_NS_PER_S)};
        failed = pthread_create(&readers[started].thread, NULL, read_some, &readers[started]);
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(readers[i].thread, NULL);
        failed = failed ? failed : readers[i].failed;
        reads += readers[i].reads;
    }
    double took_s = (double)(clock_now_ns() - began_ns) / (double)CLOCK_NS_PER_S;
    round->reads_per_s = (double)reads / took_s;
    round->mb_per_s = round->reads_per_s * (double)bench->wish.sample_bytes / 1e6;
    return failed;
}

/* make_file opens a file that has no name any more, and once more past the page cache. */
static int make_file(struct storage_bench *bench)
{
    char *name;
    if (asprintf(&name, "%s/larder-bench-XXXXXX", bench->wish.path) < 0)
        return ENOMEM;
    bench->fd = mkostemp(name, O_CLOEXEC);
    int number = errno;
    bench->direct_fd = bench->fd >= 0 ? open(name, O_RDONLY | O_DIRECT | O_CLOEXEC) : -1;
    if (bench->fd >= 0)
        unlink(name);
    free(name);
    return bench->fd >= 0 ? 0 : number;
}

static int measure(struct storage_bench *bench, struct storage_measured *out, const char **what)
{
    *what = "make a file in it";
    int number = make_file(bench);
    if (number)
        return number;
    *what = "write a file in it";
    number = write_file(bench, &out->write_mb_per_s);
    if (number)
        return number;
    *what = "read the file in it";
    for (int i = 0; !number && i < STORAGE_ROUNDS; i++) {
        out->rounds[i].threads = 1u << i;
        number = run_round(bench, &out->rounds[i]);
        if (number && bench->direct_fd >= 0 && i == 0) { /* it was opened so, but cannot be read so */
            close(bench->direct_fd);
            bench->direct_fd = -1;
            number = run_round(bench, &out->rounds[i]);
        }
    }
    out->direct = bench->direct_fd >= 0;
    return number;
}

int storage_measure(const struct storage_wish *wish, struct storage_measured *out, const char **what)
{
    struct storage_bench bench = {.wish = *wish, .fd = -1, .direct_fd = -1};
    bench.wish.sample_bytes = (wish->sample_bytes + STORAGE_ALIGN - 1) / STORAGE_ALIGN * STORAGE_ALIGN;
    bench.wish.file_bytes = wish->file_bytes / STORAGE_ALIGN * STORAGE_ALIGN;
    if (bench.wish.file_bytes < bench.wish.sample_bytes)
        bench.wish.file_bytes = bench.wish.sample_bytes;
    int number = measure(&bench, out, what);
    if (bench.direct_fd >= 0)
        close(bench.direct_fd);
    if (bench.fd >= 0)
        close(bench.fd);
    return number;
}
