/* plan_measure.c: a short measurement on a person's own files: a seeded sample of them is read by several numbers of
 * threads, as larderd reads them, and then prepared from memory. The files' pages leave the page cache before each
 * reading, so that the storage is measured and not memory. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/blocks.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/random.h"
#include "preprocess/prepare.h"
#include "server/plan/commands_priv.h"

enum {
    READS = 24,       /* reads of the measured files; each of one chunk */
    READ_SAMPLES = 8, /* most samples of one read */
    THREADS_MAX = 64, /* most measuring threads */
    /* up to this many threads each round has twice as many; with little memory few reads are under way */
    CLOSE = 4,
    FORMS = 64, /* samples of which decoded forms are made */
    KEY_FILES = 1
};

#define ROUND_NS (3 * CLOCK_NS_PER_S / 2) /* a round of reading begins no read after this */
#define PREPARE_NS CLOCK_NS_PER_S         /* the same of preparing */
#define BYTES_MAX (UINT64_C(256) << 20)   /* most bytes of the measured files */

struct some_read {
    struct sample_read reads[READ_SAMPLES];
    uint32_t count;
    uint64_t bytes;
};

struct bench {
    const struct plan_probe *probe;
    struct some_read *all;
    uint32_t count;
    bool *came; /* indexed by read: it has been read */
    /* The state of one round. */
    atomic_uint next;
    atomic_uint_least64_t done, failed; /* bytes read, or samples prepared; samples that failed */
    atomic_uint_least64_t core_ns;      /* CPU time of the preparing threads */
    uint64_t until_ns;
};

/* ── the sample ── */

static void fill_read(struct bench *bench, struct some_read *read, uint32_t chunk, uint32_t first)
{
    const struct dataset *dataset = bench->probe->dataset;
    uint32_t members;
    const uint32_t *indices = dataset_chunk_members(dataset, chunk, &members);
    for (; read->count < READ_SAMPLES && first + read->count < members; read->count++) {
        uint32_t index = indices[first + read->count];
        uint64_t bytes = dataset_size(dataset, index);
        read->reads[read->count] = (struct sample_read){.index = index, .buf = xmalloc(bytes ? bytes : 1)};
        read->bytes += bytes;
    }
}

/* The sample is drawn without repeats: pieces of READ_SAMPLES slots of chunks, in random order. */
static void draw(struct bench *bench)
{
    const struct dataset *dataset = bench->probe->dataset;
    uint32_t pieces = (dataset_chunk_size(dataset) + READ_SAMPLES - 1) / READ_SAMPLES;
    uint64_t all = (uint64_t)dataset_chunk_count(dataset) * pieces, drawn = 0, bytes = 0;
    struct rng rng;
    random_seed_keys(&rng, bench->probe->seed, KEY_FILES, 0, 0);
    uint64_t wanted = all < READS ? all : READS;
    for (uint64_t at = 0; at < all && drawn < wanted && bytes < BYTES_MAX; at++) {
        if (random_below(&rng, all - at) >= wanted - drawn)
            continue;
        drawn++;
        struct some_read *read = &bench->all[bench->count];
        fill_read(bench, read, (uint32_t)(at / pieces), (uint32_t)(at % pieces) * READ_SAMPLES);
        bytes += read->bytes;
        bench->count += read->count > 0;
    }
}

static void forget_file(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

/* This asks the kernel to forget the sample's files. In a store samples have no files: all of the store's are asked
 * for. */
static void forget_pages(const struct bench *bench)
{
    const struct dataset *dataset = bench->probe->dataset;
    DIR *folder = opendir(dataset_path(dataset));
    if (!folder || bench->probe->warm) {
        if (folder)
            closedir(folder);
        return;
    }
    for (uint32_t i = 0; i < bench->count; i++) {
        for (uint32_t at = 0; at < bench->all[i].count; at++)
            forget_file(dirfd(folder), dataset_key(dataset, bench->all[i].reads[at].index));
    }
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_type == DT_REG)
            forget_file(dirfd(folder), entry->d_name);
    }
    closedir(folder);
}

/* ── reading ── */

static void *read_some(void *arg)
{
    struct bench *bench = arg;
    while (clock_now_ns() < bench->until_ns) {
        uint32_t at = atomic_fetch_add(&bench->next, 1);
        if (at >= bench->count)
            break;
        struct some_read *read = &bench->all[at];
        uint32_t failed = dataset_read_many(bench->probe->dataset, read->reads, read->count, 0);
        uint64_t bytes = 0;
        for (uint32_t i = 0; i < read->count; i++)
            bytes += read->reads[i].err.code ? 0 : dataset_size(bench->probe->dataset, read->reads[i].index);
        bench->came[at] = true;
        atomic_fetch_add(&bench->done, bytes);
        atomic_fetch_add(&bench->failed, failed);
    }
    return NULL;
}

/* run_round runs `work` in `threads` threads, this one included. It returns how many ran, and how long they took. */
static uint32_t run_round(struct bench *bench, uint32_t threads, uint64_t most_ns, void *(*work)(void *),
                          double *took_s)
{
    pthread_t others[THREADS_MAX];
    uint32_t started = 0;
    atomic_store(&bench->next, 0);
    atomic_store(&bench->done, 0);
    atomic_store(&bench->failed, 0);
    atomic_store(&bench->core_ns, 0);
    uint64_t began_ns = clock_now_ns();
    bench->until_ns = began_ns + most_ns;
    while (started + 1 < threads && pthread_create(&others[started], NULL, work, bench) == 0)
        started++;
    work(bench);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(others[i], NULL);
    *took_s = (double)(clock_now_ns() - began_ns) / (double)CLOCK_NS_PER_S;
    return started + 1;
}

static int measure_reads(struct bench *bench, struct plan_measured *out, struct error *err)
{
    const struct plan_probe *probe = bench->probe;
    uint32_t most = probe->loaders < bench->count ? probe->loaders : bench->count;
    most = most < THREADS_MAX ? most : THREADS_MAX;
    for (uint32_t threads = 1; threads > 0;) {
        double took_s;
        forget_pages(bench);
        uint32_t ran = run_round(bench, threads, ROUND_NS, read_some, &took_s);
        double bytes = (double)atomic_load(&bench->done);
        out->unreadable = (uint32_t)atomic_load(&bench->failed);
        plan_curve_add(&out->source, ran, took_s > 0 ? bytes / took_s : 0);
        uint32_t next = threads < CLOSE ? threads * 2 : threads * 4;
        threads = threads >= most ? 0 : next < most ? next : most;
    }
    return out->source.count ? 0
                             : error_set(err, LARDER_EIO, "%s: none of its files can be read: %s",
                                         dataset_path(probe->dataset), bench->all[0].reads[0].err.text);
}

/* ── preparing ── */

/* sample_at returns the sample of that number among those that were read, round and round. */
static const struct sample_read *sample_at(const struct bench *bench, uint32_t number)
{
    for (uint32_t tried = 0; tried < bench->count * READ_SAMPLES; tried++, number++) {
        uint32_t at = number % (bench->count * READ_SAMPLES);
        const struct some_read *read = &bench->all[at / READ_SAMPLES];
        if (bench->came[at / READ_SAMPLES] && at % READ_SAMPLES < read->count &&
            !read->reads[at % READ_SAMPLES].err.code)
            return &read->reads[at % READ_SAMPLES];
    }
    return NULL;
}

static size_t longest_bytes(const struct bench *bench)
{
    size_t longest = pipeline_layout(bench->probe->pipeline)->bytes;
    for (uint32_t i = 0; i < bench->count; i++) {
        for (uint32_t at = 0; at < bench->all[i].count; at++) {
            uint64_t bytes = dataset_size(bench->probe->dataset, bench->all[i].reads[at].index);
            longest = bytes > longest ? bytes : longest;
        }
    }
    return longest ? longest : 1;
}

static void *prepare_some(void *arg)
{
    struct bench *bench = arg;
    struct prepare_scratch *scratch;
    if (prepare_scratch_create(&bench->probe->limits, &scratch))
        return NULL;
    void *dst = xmalloc(longest_bytes(bench));
    uint64_t began_ns = clock_thread_ns();
    while (clock_now_ns() < bench->until_ns) {
        uint32_t number = atomic_fetch_add(&bench->next, 1);
        const struct sample_read *read = sample_at(bench, number);
        struct prepare_output output = {
            .pipeline = bench->probe->pipeline, .key = {bench->probe->seed, read->index, number}, .dst = dst};
        enum bad_reason reason;
        int code = prepare_sample(scratch, read->buf, dataset_size(bench->probe->dataset, read->index), &output, 1,
                                  &reason, NULL);
        atomic_fetch_add(code ? &bench->failed : &bench->done, 1);
    }
    atomic_fetch_add(&bench->core_ns, clock_thread_ns() - began_ns);
    free(dst);
    prepare_scratch_destroy(scratch);
    return NULL;
}

/* Time counts while threads have a core: what else runs now should not count. So only as many workers as there are
 * cores add up. */
static int measure_preparing(struct bench *bench, struct plan_measured *out, struct error *err)
{
    const struct plan_probe *probe = bench->probe;
    uint32_t useful = probe->workers < probe->cores ? probe->workers : probe->cores;
    if (!sample_at(bench, 0))
        return error_set(err, LARDER_EIO, "%s: none of the files that were looked at can be read",
                         dataset_path(bench->probe->dataset));
    for (int round = 0; round < 2; round++) {
        double took_s;
        uint32_t threads = !round ? 1 : useful < THREADS_MAX ? useful : THREADS_MAX;
        run_round(bench, threads, PREPARE_NS, prepare_some, &took_s);
        double core_s = (double)atomic_load(&bench->core_ns) / (double)CLOCK_NS_PER_S;
        double each = core_s > 0 ? (double)atomic_load(&bench->done) / core_s : 0;
        plan_curve_add(&out->preparing, round ? useful : 1, each * (round ? useful : 1));
        out->unprepared = (uint32_t)atomic_load(&bench->failed);
    }
    return out->preparing.count
               ? 0
               : error_set(err, LARDER_EIO, "%s: none of the files that were looked at can be prepared",
                           dataset_path(bench->probe->dataset));
}

/* measure_form prepares one sample three times, as is, making a form and of the form, and adds what that took. It
 * returns what the form takes; 0: there is none. */
static uint64_t measure_form(const struct plan_probe *probe, const struct sample_read *read,
                             struct prepare_scratch *scratch, struct prepare_output *output, uint64_t took_ns[3])
{
    struct prepare_keep keep = {.most_bytes = SIZE_MAX};
    struct prepare_source source = {.bytes = read->buf, .len_bytes = dataset_size(probe->dataset, read->index)};
    void *form = NULL;
    uint64_t times[4] = {clock_thread_ns()}, bytes = 0;
    enum bad_reason reason;
    for (int round = 0; round < 3; round++) {
        source.keep = round == 1 ? &keep : NULL;
        if (round == 2) {
            form = keep.form;
            bytes = keep.bytes;
            source = (struct prepare_source){.bytes = form, .decoded = true};
        }
        if ((round == 2 && !form) || prepare_image(scratch, &source, output, 1, &reason, NULL)) {
            blocks_give(keep.form);
            return 0;
        }
        times[round + 1] = clock_thread_ns();
    }
    for (int round = 0; round < 3; round++)
        took_ns[round] += times[round + 1] - times[round];
    blocks_give(form);
    return bytes;
}

/* measure_forms finds out what decoded forms of some samples take and save. The first one is not counted: it takes the
 * thread's memory. */
static void measure_forms(const struct bench *bench, struct plan_forms *out)
{
    const struct plan_probe *probe = bench->probe;
    uint64_t took_ns[3] = {0}, encoded_bytes = 0, form_bytes = 0, until_ns = clock_now_ns() + PREPARE_NS / 2;
    struct prepare_scratch *scratch;
    if (pipeline_needs_encoded(probe->pipeline) || prepare_scratch_create(&probe->limits, &scratch))
        return;
    void *dst = xmalloc(longest_bytes(bench));
    for (uint32_t number = 0; number <= FORMS && clock_now_ns() < until_ns; number++) {
        const struct sample_read *read = sample_at(bench, number);
        struct prepare_output output = {
            .pipeline = probe->pipeline, .key = {probe->seed, read->index, number}, .dst = dst};
        uint64_t bytes = measure_form(probe, read, scratch, &output, took_ns);
        if (number == 0)
            memset(took_ns, 0, sizeof took_ns);
        form_bytes += number && bytes ? bytes : 0;
        encoded_bytes += number && bytes ? dataset_size(probe->dataset, read->index) : 0;
    }
    free(dst);
    prepare_scratch_destroy(scratch);
    if (encoded_bytes && took_ns[0])
        *out = (struct plan_forms){.ratio = (double)form_bytes / (double)encoded_bytes,
                                   .making = (double)took_ns[1] / (double)took_ns[0],
                                   .of_form = (double)took_ns[2] / (double)took_ns[0]};
}

int plan_measure(const struct plan_probe *probe, struct plan_measured *out, struct error *err)
{
    uint64_t began_ns = clock_now_ns();
    struct plan_measured measured = {0};
    struct bench bench = {
        .probe = probe, .all = xcalloc(READS, sizeof *bench.all), .came = xcalloc(READS, sizeof *bench.came)};
    draw(&bench);
    int code = measure_reads(&bench, &measured, err);
    if (!code)
        code = measure_preparing(&bench, &measured, err);
    if (!code)
        measure_forms(&bench, &measured.forms);
    for (uint32_t i = 0; i < bench.count; i++) {
        measured.files += bench.came[i] ? bench.all[i].count : 0;
        measured.bytes += bench.came[i] ? bench.all[i].bytes : 0;
        for (uint32_t at = 0; at < bench.all[i].count; at++)
            free(bench.all[i].reads[at].buf);
    }
    free(bench.all);
    free(bench.came);
    measured.took_s = (double)(clock_now_ns() - began_ns) / (double)CLOCK_NS_PER_S;
    if (!code)
        *out = measured;
    return code;
}
