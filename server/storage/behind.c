#include "server/storage/behind.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/thread.h"

/* Samples that were read together. Their bytes lie behind the records. */
struct batch {
    struct batch *next;
    uint64_t owner, len_bytes;
    uint32_t count;
    struct tier_record records[];
};

struct behind {
    struct tier *tier;
    struct convert *told;
    pthread_t thread;
    uint64_t room_bytes;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    struct batch *first, **last; /* oldest first */
    uint64_t waiting_bytes, skipped;
    uint32_t reading;
    bool stopping;
};

/* take waits until a batch may be written, and returns it. NULL: the thread ends. */
static struct batch *take(struct behind *behind)
{
    pthread_mutex_lock(&behind->lock);
    while (!behind->stopping &&
           (!behind->first || (behind->reading > 0 && behind->waiting_bytes < behind->room_bytes / 2)))
        pthread_cond_wait(&behind->changed, &behind->lock);
    struct batch *batch = behind->first;
    if (batch) {
        behind->first = batch->next;
        if (!behind->first)
            behind->last = &behind->first;
    }
    pthread_mutex_unlock(&behind->lock);
    return batch;
}

static void *run(void *arg)
{
    struct behind *behind = arg;
    for (struct batch *batch; (batch = take(behind));) {
        tier_write(behind->tier, batch->owner, batch->records, batch->count);
        convert_wake(behind->told);
        pthread_mutex_lock(&behind->lock);
        behind->waiting_bytes -= batch->len_bytes;
        pthread_mutex_unlock(&behind->lock);
        free(batch);
    }
    return NULL;
}

/* room_of returns what a sample that waits takes: small ones are mostly their record. */
static uint64_t room_of(const struct tier_record *record)
{
    return sizeof *record + record->len_bytes;
}

/* make_batch copies the first `count` records. NULL: no memory. */
static struct batch *make_batch(uint64_t owner, const struct tier_record *records, uint32_t count, uint64_t len_bytes)
{
    struct batch *batch = malloc(sizeof *batch + len_bytes);
    if (!batch)
        return NULL;
    *batch = (struct batch){.owner = owner, .len_bytes = len_bytes, .count = count};
    char *at = (char *)&batch->records[count];
    for (uint32_t i = 0; i < count; i++) {
        memcpy(at, records[i].bytes, records[i].len_bytes);
        batch->records[i] = (struct tier_record){records[i].key, at, records[i].len_bytes};
        at += records[i].len_bytes;
    }
    return batch;
}

void behind_put(struct behind *behind, uint64_t owner, const struct tier_record *records, uint32_t count)
{
    uint64_t len_bytes = 0;
    uint32_t fit = 0;
    pthread_mutex_lock(&behind->lock);
    uint64_t room = behind->room_bytes > behind->waiting_bytes ? behind->room_bytes - behind->waiting_bytes : 0;
    while (fit < count && room_of(&records[fit]) <= room - len_bytes)
        len_bytes += room_of(&records[fit++]);
    behind->skipped += count - fit;
    behind->waiting_bytes += len_bytes; /* the room is taken before the bytes are copied, without the lock */
    pthread_mutex_unlock(&behind->lock);
    struct batch *batch = fit ? make_batch(owner, records, fit, len_bytes) : NULL;
    pthread_mutex_lock(&behind->lock);
    if (batch) {
        *behind->last = batch;
        behind->last = &batch->next;
        pthread_cond_signal(&behind->changed);
    } else {
        behind->waiting_bytes -= len_bytes;
    }
    pthread_mutex_unlock(&behind->lock);
}

void behind_reading(struct behind *behind, int more)
{
    pthread_mutex_lock(&behind->lock);
    CHECK(more > 0 || behind->reading > 0);
    behind->reading = more > 0 ? behind->reading + 1 : behind->reading - 1;
    if (behind->reading == 0)
        pthread_cond_signal(&behind->changed);
    pthread_mutex_unlock(&behind->lock);
}

void behind_counts(struct behind *behind, struct behind_counts *out)
{
    pthread_mutex_lock(&behind->lock);
    *out = (struct behind_counts){behind->waiting_bytes, behind->skipped};
    pthread_mutex_unlock(&behind->lock);
}

int behind_create(struct tier *tier, uint64_t room_bytes, struct convert *told, struct behind **out, struct error *err)
{
    struct behind *behind = xcalloc(1, sizeof *behind);
    behind->tier = tier;
    behind->told = told;
    behind->room_bytes = room_bytes;
    behind->last = &behind->first;
    CHECK(pthread_mutex_init(&behind->lock, NULL) == 0 && pthread_cond_init(&behind->changed, NULL) == 0);
    if (thread_start(&behind->thread, "larder-behind", run, behind)) {
        free(behind);
        return error_set(err, LARDER_ELIMIT, "a storage class's thread could not be started: raise ulimit -u");
    }
    *out = behind;
    return 0;
}

void behind_destroy(struct behind *behind)
{
    if (!behind)
        return;
    pthread_mutex_lock(&behind->lock);
    behind->stopping = true;
    pthread_cond_signal(&behind->changed);
    pthread_mutex_unlock(&behind->lock);
    pthread_join(behind->thread, NULL);
    pthread_cond_destroy(&behind->changed);
    pthread_mutex_destroy(&behind->lock);
    free(behind);
}
