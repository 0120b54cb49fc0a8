/* contents.c: finds out the content of trees' versions, each in a thread of its own: storage that is slow, or does not
 * answer, keeps nobody from its dataset, nor other datasets from their versions. A store's content is in its index.
 * lock guards all fields but the threads' own. Nothing is read under it. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <xxhash.h>

#include "cache/catalog/catalog_priv.h"
#include "common/check.h"
#include "common/log.h"
#include "common/thread.h"

#define READERS_MAX 16
#define MS_PER_S 1000
#define NS_PER_MS 1000000L
#define NS_PER_S 1000000000L

struct reader {
    struct reader *next;
    struct contents *contents;
    struct dataset *dataset; /* a reference, which the thread gives back when it is done */
    pthread_t thread;
    bool unsaved; /* the thread's own */
    bool done;
};

struct contents {
    struct saver *saver;     /* borrowed */
    struct interrupt ending; /* set when it is destroyed */
    pthread_mutex_t lock;    /* guards all below */
    pthread_cond_t changed;  /* a reader is done, or somebody's interrupt was set */
    struct reader *readers;
};

int contents_create(struct saver *saver, struct contents **out)
{
    struct contents *contents = calloc(1, sizeof *contents);
    pthread_condattr_t attr;
    if (!contents)
        return LARDER_ENOMEM;
    contents->saver = saver;
    CHECK(pthread_mutex_init(&contents->lock, NULL) == 0);
    CHECK(pthread_condattr_init(&attr) == 0 && pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_cond_init(&contents->changed, &attr) == 0);
    pthread_condattr_destroy(&attr);
    *out = contents;
    return 0;
}

/* Reads the witnesses. False: what they hold cannot be told now. One that is no file, or is gone from a folder that is
 * there, is so in every copy. */
static bool read_content(const struct dataset *dataset, const struct interrupt *ending, uint64_t out[2])
{
    uint32_t witnesses[WITNESSES_MAX], n = version_witnesses(dataset, witnesses);
    struct identity hashes[WITNESSES_MAX];
    struct error problem;
    for (uint32_t i = 0; i < n; i++) {
        int code = dataset_hash(dataset, witnesses[i], ending, &hashes[i], &problem);
        if (code == LARDER_ENOENT || code == LARDER_EFORMAT) {
            hashes[i] = (struct identity){0};
        } else if (code) {
            if (code != LARDER_EGONE)
                log_warn_limited("msg=\"a dataset is told from other versions of it by its files' times alone\" "
                                 "source=\"%s\" err=\"%s\"",
                                 dataset_path(dataset), problem.text);
            return false;
        }
    }
    version_content(witnesses, hashes, n, out);
    return true;
}

static void *run(void *arg)
{
    struct reader *reader = arg;
    struct contents *contents = reader->contents;
    struct dataset *dataset = reader->dataset;
    uint64_t content[2];
    if (read_content(dataset, &contents->ending, content)) {
        dataset->content[0] = content[0];
        dataset->content[1] = content[1];
        atomic_store_explicit(&dataset->has_content, true, memory_order_release); /* see dataset_version */
        reader->unsaved = true;
    }
    if (dataset->checkpoint && reader->unsaved)
        saver_save(contents->saver, dataset);
    pthread_mutex_lock(&contents->lock);
    reader->done = true;
    pthread_cond_broadcast(&contents->changed);
    pthread_mutex_unlock(&contents->lock);
    dataset_unref(&dataset);
    return NULL;
}

static void free_done_locked(struct contents *contents)
{
    for (struct reader **at = &contents->readers; *at;) {
        struct reader *reader = *at;
        if (!reader->done) {
            at = &reader->next;
            continue;
        }
        *at = reader->next;
        CHECK(pthread_join(reader->thread, NULL) == 0); /* it has only to give its dataset back */
        free(reader);
    }
}

/* The reader of a dataset that is not done; NULL: there is none. *n: how many there are of all. */
static const struct reader *find_locked(const struct contents *contents, const struct dataset *dataset, unsigned *n)
{
    const struct reader *found = NULL;
    *n = 0;
    for (const struct reader *reader = contents->readers; reader; reader = reader->next) {
        *n += !reader->done;
        if (!reader->done && reader->dataset == dataset)
            found = reader;
    }
    return found;
}

bool contents_find(struct contents *contents, struct dataset *dataset, bool unsaved)
{
    unsigned n;
    struct reader *reader = NULL;
    if (dataset->source->hashes || atomic_load_explicit(&dataset->has_content, memory_order_acquire))
        return false;
    pthread_mutex_lock(&contents->lock);
    free_done_locked(contents);
    bool reads = find_locked(contents, dataset, &n) != NULL;
    if (!reads && n < READERS_MAX && (reader = calloc(1, sizeof *reader))) {
        *reader = (struct reader){.contents = contents, .dataset = dataset_ref(dataset), .unsaved = unsaved};
        reads = thread_start(&reader->thread, "versions", run, reader) == 0;
        if (reads) {
            reader->next = contents->readers;
            contents->readers = reader;
        } else {
            dataset_unref(&reader->dataset);
            free(reader);
        }
    }
    pthread_mutex_unlock(&contents->lock);
    return reads;
}

void contents_await(struct contents *contents, const struct dataset *dataset, unsigned wait_ms,
                    const struct interrupt *interrupt)
{
    unsigned n;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    long ns = until.tv_nsec + (long)(wait_ms % MS_PER_S) * NS_PER_MS;
    until.tv_sec += (time_t)(wait_ms / MS_PER_S + (ns >= NS_PER_S));
    until.tv_nsec = ns % NS_PER_S;
    pthread_mutex_lock(&contents->lock);
    while (find_locked(contents, dataset, &n) && !interrupt_is_set(interrupt) &&
           pthread_cond_timedwait(&contents->changed, &contents->lock, &until) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&contents->lock);
}

void contents_interrupted(struct contents *contents)
{
    pthread_mutex_lock(&contents->lock);
    pthread_cond_broadcast(&contents->changed);
    pthread_mutex_unlock(&contents->lock);
}

void contents_wait(struct contents *contents)
{
    unsigned n;
    pthread_mutex_lock(&contents->lock);
    while (find_locked(contents, NULL, &n), n > 0)
        pthread_cond_wait(&contents->changed, &contents->lock);
    free_done_locked(contents);
    pthread_mutex_unlock(&contents->lock);
}

void contents_destroy(struct contents *contents)
{
    interrupt_set(&contents->ending);
    contents_wait(contents);
    pthread_cond_destroy(&contents->changed);
    pthread_mutex_destroy(&contents->lock);
    free(contents);
}
