/* catalog_scale.c: what a catalog of so many files takes: memory and checkpoint by the sample, and the time of a start
 * from the checkpoint. `catalog_scale SAMPLES FOLDER` makes the index of a tree that is nowhere, with inodes, times and
 * sizes as a tree has them, keeps its checkpoint in FOLDER, and makes a dataset of that, as a daemon does that starts,
 * but for looking whether files have changed. The least time of five counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cache/catalog/catalog_priv.h"
#include "cache/source/tree.h"
#include "common/check.h"
#include "common/random.h"

#define CLASSES 1000
#define STARTS 5
#define CHUNK 64
#define WHERE "/data/set"

static double cpu_ms(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Files of a class have inodes near each other, and were written within an hour. */
static void add_sample(struct index *index, size_t number, size_t count, struct rng *rng)
{
    uint32_t label = (uint32_t)(number * CLASSES / count);
    char name[64];
    struct index_sample *sample = &index->samples[index->sample_count++];
    *sample = (struct index_sample){.size = 20000 + random_below(rng, 200000),
                                    .device = 2049,
                                    .inode = UINT64_C(1000000) * label + number,
                                    .label = (int32_t)label};
    sample->mtime_ns = INT64_C(1700000000000000000) + (int64_t)random_below(rng, UINT64_C(3600000000000));
    sample->ctime_ns = sample->mtime_ns;
    snprintf(name, sizeof name, "n%08u/n%08u_%08zu.JPEG", label, label, number);
    CHECK(index_text(index, name, NULL, &sample->key) == 0);
}

static void make(struct source *source, size_t count)
{
    struct index *index = &source->index;
    struct index_folder folder = {.device = 2049, .inode = 2, .mtime_ns = 3};
    struct rng rng;
    random_seed(&rng, 1);
    index->root = xstrdup(WHERE);
    index->text = xstrdup(WHERE);
    index->classes = xcalloc(CLASSES, sizeof *index->classes);
    index->folders = xcalloc(CLASSES + 1, sizeof *index->folders);
    index->samples = xcalloc(count, sizeof *index->samples);
    index->sample_cap = count;
    CHECK(index_text(index, "", NULL, &folder.path) == 0);
    index->folders[index->folder_count++] = folder;
    for (unsigned i = 0; i < CLASSES; i++) {
        char name[32];
        snprintf(name, sizeof name, "n%08u", i);
        CHECK(index_text(index, name, NULL, &folder.path) == 0);
        index->classes[index->class_count++] = folder.path;
        index->folders[index->folder_count++] = folder;
    }
    for (size_t i = 0; i < count; i++)
        add_sample(index, i, count, &rng);
    CHECK(index_pack(index) == 0 && chunking_shuffle((uint32_t)count, CHUNK, 1, &source->chunking) == 0);
    CHECK(index_fingerprint(index, NULL, index->fingerprint) == 0 && version_times(source, index->times) == 0);
}

/* Makes a dataset of the checkpoint, and says how much CPU that took. */
static double start(const char *path, struct dataset **out)
{
    struct dataset_parts parts = {0};
    struct error err;
    double began_ms = cpu_ms();
    CHECK(source_create(&tree_kind, &parts.source, &err) == 0);
    int code = checkpoint_load(path, WHERE, NULL, &parts.source->index, &parts.source->chunking, &err);
    if (code) {
        fprintf(stderr, "catalog_scale: %s\n", err.text);
        exit(1);
    }
    tree_kind.restore(parts.source);
    size_t count = parts.source->index.sample_count;
    parts.ids = malloc(count * sizeof *parts.ids);
    CHECK(parts.ids);
    for (size_t i = 0; i < count; i++)
        parts.ids[i] = (sample_id)i;
    CHECK(dataset_from_parts(&parts, out) == 0);
    return cpu_ms() - began_ms;
}

int main(int argc, char **argv)
{
    long long wanted = argc == 3 ? atoll(argv[1]) : 0;
    if (wanted < CLASSES || wanted > DATASET_SAMPLES_MAX) {
        fprintf(stderr, "usage: catalog_scale SAMPLES FOLDER (%d samples or more)\n", CLASSES);
        return 2;
    }
    char path[4096];
    struct source *source = NULL;
    struct error err;
    double count = (double)wanted, least_ms = 0;
    CHECK(source_create(&tree_kind, &source, &err) == 0);
    make(source, (size_t)wanted);
    snprintf(path, sizeof path, "%s/catalog_scale.catalog", argv[2]);
    double began_ms = cpu_ms();
    if (checkpoint_save(path, &source->index, &source->chunking, &err)) {
        fprintf(stderr, "catalog_scale: %s\n", err.text);
        return 1;
    }
    double saved_ms = cpu_ms() - began_ms;
    source_free(&source);
    struct stat st;
    CHECK(stat(path, &st) == 0);
    struct dataset_bytes bytes = {0};
    for (unsigned i = 0; i < STARTS; i++) {
        struct dataset *dataset = NULL;
        double took_ms = start(path, &dataset);
        least_ms = i == 0 || took_ms < least_ms ? took_ms : least_ms;
        bytes = dataset->bytes;
        dataset_unref(&dataset);
    }
    unlink(path);
    printf("samples %lld: beside the path %.1f B in memory and %.1f B in the checkpoint, path %.1f B; save %.0f ms, "
           "start %.1f ms of CPU\n",
           wanted, (double)bytes.samples / count, ((double)st.st_size - (double)bytes.paths) / count,
           (double)bytes.paths / count, saved_ms, least_ms);
    return 0;
}
