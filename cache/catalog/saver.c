/* saver.c: writes checkpoints in a thread of its own, since whoever opens a dataset need not wait for the disk.
 *
 * One thread, which begins with the first checkpoint, writes them in the order in which they came. So the newest of a
 * source is the last to be written. `lock` guards the queue and the thread's flags. Nothing is written under it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/catalog/catalog_priv.h"
#include "common/check.h"
#include "common/log.h"
#include "common/thread.h"

#define SAVES_MAX 64 /* waiting saves */

struct save {
    struct save *next;
    struct dataset *dataset;      /* a reference */
    struct index_folder *folders; /* a copy: the dataset's own may change meanwhile */
};

struct saver {
    pthread_mutex_t lock; /* guards all below but thread, which belongs to saver_destroy */
    pthread_cond_t came;  /* a save, or the end */
    pthread_cond_t idle;  /* nothing waits, and nothing is written */
    struct save *first, *last;
    unsigned waiting;
    bool running, writing, ending;
    pthread_t thread;
};

int saver_create(struct saver **out)
{
    struct saver *saver = calloc(1, sizeof *saver);
    if (!saver)
        return LARDER_ENOMEM;
    CHECK(pthread_mutex_init(&saver->lock, NULL) == 0);
    CHECK(pthread_cond_init(&saver->came, NULL) == 0);
    CHECK(pthread_cond_init(&saver->idle, NULL) == 0);
    *out = saver;
    return 0;
}

static void not_kept(const struct dataset *dataset, const char *why)
{
    log_warn_limited("msg=\"catalog checkpoint not kept\" source=\"%s\" err=\"%s\"", dataset_path(dataset), why);
}

static void save_free(struct save *save)
{
    dataset_unref(&save->dataset);
    free(save->folders);
    free(save);
}

/* A read that meets a changed file marks the dataset first, and removes its checkpoint then. So either the mark shows
 * here after the checkpoint was written, or the reader removes what was written. */
static void write_checkpoint(const struct save *save)
{
    const struct dataset *dataset = save->dataset;
    struct index index = dataset->source->index;
    struct dataset_version version;
    struct error problem;
    if (atomic_load(&dataset->stale))
        return;
    dataset_version(dataset, &version);
    index.folders = save->folders;
    memcpy(index.content, version.content, sizeof index.content);
    memcpy(index.fingerprint, dataset->fingerprint, sizeof index.fingerprint);
    memcpy(index.times, version.times, sizeof index.times);
    if (checkpoint_save(dataset->checkpoint, &index, &dataset->source->chunking, &problem))
        not_kept(dataset, problem.text);
    else if (atomic_load(&dataset->stale))
        unlink(dataset->checkpoint);
}

static struct save *next_locked(struct saver *saver)
{
    saver->writing = false;
    if (!saver->first)
        pthread_cond_broadcast(&saver->idle);
    while (!saver->first && !saver->ending)
        pthread_cond_wait(&saver->came, &saver->lock);
    struct save *save = saver->first;
    if (save) {
        saver->writing = true;
        saver->first = save->next;
        saver->waiting--;
    }
    return save;
}

static void *run(void *arg)
{
    struct saver *saver = arg;
    struct save *save;
    pthread_mutex_lock(&saver->lock);
    while ((save = next_locked(saver))) {
        pthread_mutex_unlock(&saver->lock);
        write_checkpoint(save);
        save_free(save);
        pthread_mutex_lock(&saver->lock);
    }
    pthread_mutex_unlock(&saver->lock);
    return NULL;
}

/* Puts a save into the queue. It fails if the thread cannot be started, or too many saves wait. */
static const char *add(struct saver *saver, struct save *save)
{
    const char *why = NULL;
    pthread_mutex_lock(&saver->lock);
    if (!saver->running)
        saver->running = thread_start(&saver->thread, "checkpoints", run, saver) == 0;
    if (!saver->running) {
        why = "no thread can be started";
    } else if (saver->waiting == SAVES_MAX) {
        why = "too many wait to be written: the folder's disk is slow";
    } else {
        if (saver->first)
            saver->last->next = save;
        else
            saver->first = save;
        saver->last = save;
        saver->waiting++;
        pthread_cond_signal(&saver->came);
    }
    pthread_mutex_unlock(&saver->lock);
    return why;
}

void saver_save(struct saver *saver, struct dataset *dataset)
{
    size_t bytes = dataset->source->index.folder_count * sizeof *dataset->source->index.folders;
    struct save *save = calloc(1, sizeof *save);
    struct index_folder *folders = malloc(bytes);
    if (!save || !folders) {
        free(save);
        free(folders);
        not_kept(dataset, "out of memory");
        return;
    }
    memcpy(folders, dataset->source->index.folders, bytes);
    save->dataset = dataset_ref(dataset);
    save->folders = folders;
    const char *why = add(saver, save);
    if (why) {
        not_kept(dataset, why);
        save_free(save);
    }
}

void saver_wait(struct saver *saver)
{
    pthread_mutex_lock(&saver->lock);
    while (saver->first || saver->writing)
        pthread_cond_wait(&saver->idle, &saver->lock);
    pthread_mutex_unlock(&saver->lock);
}

void saver_destroy(struct saver *saver)
{
    pthread_mutex_lock(&saver->lock);
    saver->ending = true;
    pthread_cond_signal(&saver->came);
    bool running = saver->running;
    pthread_mutex_unlock(&saver->lock);
    if (running)
        pthread_join(saver->thread, NULL);
    pthread_cond_destroy(&saver->came);
    pthread_cond_destroy(&saver->idle);
    pthread_mutex_destroy(&saver->lock);
    free(saver);
}
