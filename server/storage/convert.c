#include "server/storage/convert.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/check.h"
#include "common/thread.h"
#include "preprocess/decode/jpeg_rewrite.h"

struct convert {
    struct tier *tier;
    struct convert_config config;
    pthread_t thread;
    struct tier_moving moving; /* the thread's own */
    atomic_uint held;          /* what the thread waits for; whoever makes it 0 signals `changed` */
    atomic_bool stopping;      /* set with the lock */
    pthread_mutex_t lock;      /* guards what follows */
    pthread_cond_t changed;
    bool more; /* there may be samples to be converted */
};

/* go_on waits until nothing holds the thread. False: it is to end. */
static bool go_on(void *ctx)
{
    struct convert *convert = ctx;
    if (atomic_load(&convert->held) > 0) {
        pthread_mutex_lock(&convert->lock);
        while (atomic_load(&convert->held) > 0 && !atomic_load(&convert->stopping))
            pthread_cond_wait(&convert->changed, &convert->lock);
        pthread_mutex_unlock(&convert->lock);
    }
    return !atomic_load(&convert->stopping);
}

/* wait_for_more waits until there may be samples. False: the thread is to end. */
static bool wait_for_more(struct convert *convert)
{
    pthread_mutex_lock(&convert->lock);
    while (!convert->more && !atomic_load(&convert->stopping))
        pthread_cond_wait(&convert->changed, &convert->lock);
    convert->more = false;
    pthread_mutex_unlock(&convert->lock);
    return go_on(convert);
}

/* move writes the sample in the form that it stays in. False: the class takes nothing more, or the thread is to end. */
static bool move(struct convert *convert, const struct tier_sample *sample)
{
    const struct jpeg_leave leave = {.scans_max = convert->config.scans_max,
                                     .pixels_max = convert->config.memory_bytes / JPEG_REWRITE_PIXEL_BYTES,
                                     .go_on = go_on,
                                     .ctx = convert};
    size_t len_bytes = 0;
    uint8_t *planes = jpeg_rewrite_at_leisure(sample->bytes, sample->len_bytes, &leave, &len_bytes);
    bool taken = go_on(convert) && tier_move(convert->tier, sample, planes, len_bytes);
    free(planes);
    return taken;
}

static void *run(void *arg)
{
    struct convert *convert = arg;
    struct tier_sample sample;
    while (wait_for_more(convert)) {
        bool taken = true;
        while (taken && go_on(convert) && tier_next(convert->tier, &convert->moving, &sample)) {
            taken = move(convert, &sample);
            free(sample.bytes);
        }
    }
    return NULL;
}

void convert_hold(struct convert *convert, int more)
{
    if (!convert)
        return;
    if (more > 0) {
        atomic_fetch_add(&convert->held, (unsigned)more);
        return;
    }
    unsigned ended = (unsigned)-more, before = atomic_fetch_sub(&convert->held, ended);
    CHECK(before >= ended);
    if (before > ended)
        return;
    pthread_mutex_lock(&convert->lock);
    pthread_cond_signal(&convert->changed);
    pthread_mutex_unlock(&convert->lock);
}

void convert_wake(struct convert *convert)
{
    if (!convert)
        return;
    pthread_mutex_lock(&convert->lock);
    convert->more = true;
    pthread_cond_signal(&convert->changed);
    pthread_mutex_unlock(&convert->lock);
}

int convert_create(struct tier *tier, const struct convert_config *config, struct convert **out, struct error *err)
{
    struct convert *convert = xcalloc(1, sizeof *convert);
    convert->tier = tier;
    convert->config = *config;
    convert->more = true;
    CHECK(pthread_mutex_init(&convert->lock, NULL) == 0 && pthread_cond_init(&convert->changed, NULL) == 0);
    tier_keep_room(tier);
    if (thread_start(&convert->thread, "larder-planes", run, convert)) {
        pthread_cond_destroy(&convert->changed);
        pthread_mutex_destroy(&convert->lock);
        free(convert);
        return error_set(err, LARDER_ELIMIT, "a storage class's thread could not be started: raise ulimit -u");
    }
    *out = convert;
    return 0;
}

void convert_destroy(struct convert *convert)
{
    if (!convert)
        return;
    pthread_mutex_lock(&convert->lock);
    atomic_store(&convert->stopping, true);
    pthread_cond_signal(&convert->changed);
    pthread_mutex_unlock(&convert->lock);
    pthread_join(convert->thread, NULL);
    pthread_cond_destroy(&convert->changed);
    pthread_mutex_destroy(&convert->lock);
    free(convert);
}
