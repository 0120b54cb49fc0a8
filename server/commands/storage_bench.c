/* storage_bench.c: `larder bench storage`: random reads of samples from a folder's disk, by one to eight threads. What
 * it reads is a file of its own, which has no name any more once it is open. Where the disk can, reads go past the page
 * cache. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/option.h"
#include "common/random.h"
#include "server/commands/storage.h"

enum { THREADS_MAX = 8, ALIGN = 4096, PIECE = 4 << 20 };

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

static const char bench_usage[] =
    "usage: larder bench storage PATH [--kib N] [--mib N] [--seconds S] [--json]\n"
    "\n"
    "Writes a file into the folder PATH, reads pieces of it at random with 1, 2, 4 and 8 threads, and removes it.\n"
    "\n"
    "  --kib N      size of a piece, as of a sample; default 112\n"
    "  --mib N      size of the file; default 256\n"
    "  --seconds S  of each number of threads; default 2\n"
    "  --json       instead of a table\n";

static int write_file(const struct storage_bench *bench, double *mb_per_s)
{
    uint64_t *piece = NULL, began_ns = clock_now_ns();
    if (posix_memalign((void **)&piece, ALIGN, PIECE))
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
    uint64_t places = (bench->wish.file_bytes - bench->wish.sample_bytes) / ALIGN + 1;
    int fd = bench->direct_fd >= 0 ? bench->direct_fd : bench->fd;
    if (posix_memalign((void **)&buf, ALIGN, bench->wish.sample_bytes))
        reader->failed = ENOMEM;
    while (!reader->failed && clock_now_ns() < reader->until_ns) {
        off_t at = (off_t)(random_below(&rng, places) * ALIGN);
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
    bench.wish.sample_bytes = (wish->sample_bytes + ALIGN - 1) / ALIGN * ALIGN;
    bench.wish.file_bytes = wish->file_bytes / ALIGN * ALIGN;
    if (bench.wish.file_bytes < bench.wish.sample_bytes)
        bench.wish.file_bytes = bench.wish.sample_bytes;
    int number = measure(&bench, out, what);
    if (bench.direct_fd >= 0)
        close(bench.direct_fd);
    if (bench.fd >= 0)
        close(bench.fd);
    return number;
}

/* ── the command ── */

static void print_table(const struct storage_wish *wish, const struct storage_measured *measured)
{
    printf("%s: writing %.0f MB/s; reads of %llu KiB%s:\n%8s %10s %10s\n", wish->path, measured->write_mb_per_s,
           (unsigned long long)(wish->sample_bytes >> 10),
           measured->direct ? "" : " through the page cache, which this file system needs", "threads", "MB/s",
           "reads/s");
    for (int i = 0; i < STORAGE_ROUNDS; i++)
        printf("%8u %10.1f %10.0f\n", measured->rounds[i].threads, measured->rounds[i].mb_per_s,
               measured->rounds[i].reads_per_s);
}

static void print_json(const struct storage_wish *wish, const struct storage_measured *measured)
{
    json_t *rows = json_array();
    for (int i = 0; i < STORAGE_ROUNDS; i++)
        json_array_append_new(rows,
                              json_pack("{s:i, s:f, s:f}", "threads", (int)measured->rounds[i].threads, "mb_per_s",
                                        measured->rounds[i].mb_per_s, "reads_per_s", measured->rounds[i].reads_per_s));
    json_t *root = json_pack("{s:s, s:I, s:b, s:f, s:o}", "path", wish->path, "sample_bytes",
                             (json_int_t)wish->sample_bytes, "direct", measured->direct, "write_mb_per_s",
                             measured->write_mb_per_s, "reads", rows);
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : NULL;
    puts(text ? text : "{}");
    free(text);
    json_decref(root);
}

static int run(const struct storage_wish *wish, bool json)
{
    struct storage_measured measured;
    const char *what;
    int number = storage_measure(wish, &measured, &what);
    if (number) {
        fprintf(stderr, "larder bench storage: %s: cannot %s: %s\n", wish->path, what, strerror(number));
        return 1;
    }
    if (json)
        print_json(wish, &measured);
    else
        print_table(wish, &measured);
    return fflush(stdout) ? 1 : 0;
}

static bool parse_number(const char *option, const char *text, double min, double max, double *out)
{
    char *end;
    *out = strtod(text, &end);
    if (end != text && !*end && *out >= min && *out <= max)
        return true;
    fprintf(stderr, "larder bench storage: --%s %s: write a number from %g to %g\n", option, text, min, max);
    return false;
}

int storage_bench_main(int argc, char **argv)
{
    struct storage_wish wish = {.seconds = 2};
    int json = 0;
    double kib = 112, mib = 256;
    const struct option known[] = {{"kib", required_argument, NULL, 'k'},     {"mib", required_argument, NULL, 'm'},
                                   {"seconds", required_argument, NULL, 's'}, {"json", no_argument, &json, 1},
                                   {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
    static char name[] = "larder bench storage"; /* option_next's messages begin with it */
    bool good = true;
    argv[0] = name;
    optind = 1;
    for (int option; good && (option = option_next(argc, argv, known, NULL)) != -1;) {
        switch (option) {
        case 0: break;
        case 'k': good = parse_number("kib", optarg, 1, 1 << 18, &kib); break;
        case 'm': good = parse_number("mib", optarg, 1, 1 << 24, &mib); break;
        case 's': good = parse_number("seconds", optarg, 0.01, 3600, &wish.seconds); break;
        case 'h': fputs(bench_usage, stdout); return 0;
        default: return 2;
        }
    }
    wish.sample_bytes = ((uint64_t)(kib * 1024) + ALIGN - 1) / ALIGN * ALIGN;
    wish.file_bytes = (uint64_t)(mib * 1024 * 1024) / ALIGN * ALIGN;
    if (!good || argc - optind != 1 || wish.file_bytes < wish.sample_bytes) {
        if (good)
            fputs(bench_usage, stderr);
        return 2;
    }
    wish.path = argv[optind];
    return run(&wish, json);
}
