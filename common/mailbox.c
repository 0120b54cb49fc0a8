/* mailbox.c: a ring under one mutex. Waits use the monotonic clock. */
#include "common/mailbox.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/check.h"

#define MAILBOX_MAGIC UINT32_C(0x4d41494c)

struct mailbox {
    uint32_t magic;
    size_t capacity, element_bytes;
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t not_empty, not_full;
    size_t head, length;
    bool closed;
    uint8_t *ring;
};

int mailbox_create(size_t capacity, size_t element_bytes, struct mailbox **out)
{
    if (capacity == 0 || element_bytes == 0 || capacity > SIZE_MAX / element_bytes)
        return LARDER_EINVAL;
    struct mailbox *mailbox = calloc(1, sizeof *mailbox);
    uint8_t *ring = malloc(capacity * element_bytes);
    if (!mailbox || !ring) {
        free(mailbox);
        free(ring);
        return LARDER_ENOMEM;
    }
    *mailbox = (struct mailbox){
        .magic = MAILBOX_MAGIC, .capacity = capacity, .element_bytes = element_bytes, .ring = ring};
    pthread_condattr_t attr;
    CHECK(pthread_condattr_init(&attr) == 0);
    CHECK(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_mutex_init(&mailbox->mutex, NULL) == 0);
    CHECK(pthread_cond_init(&mailbox->not_empty, &attr) == 0);
    CHECK(pthread_cond_init(&mailbox->not_full, &attr) == 0);
    pthread_condattr_destroy(&attr);
    *out = mailbox;
    return 0;
}

void mailbox_destroy(struct mailbox *mailbox)
{
    if (!mailbox)
        return;
    CHECK_MAGIC(mailbox, MAILBOX_MAGIC);
    pthread_mutex_destroy(&mailbox->mutex);
    pthread_cond_destroy(&mailbox->not_empty);
    pthread_cond_destroy(&mailbox->not_full);
    mailbox->magic = 0;
    free(mailbox->ring);
    free(mailbox);
}

static void put_locked(struct mailbox *mailbox, const void *element)
{
    size_t tail = (mailbox->head + mailbox->length) % mailbox->capacity;
    memcpy(mailbox->ring + tail * mailbox->element_bytes, element, mailbox->element_bytes);
    mailbox->length++;
}

static int push(struct mailbox *mailbox, const void *element, bool wait)
{
    CHECK_MAGIC(mailbox, MAILBOX_MAGIC);
    int rc = 0;
    pthread_mutex_lock(&mailbox->mutex);
    while (wait && mailbox->length == mailbox->capacity && !mailbox->closed)
        pthread_cond_wait(&mailbox->not_full, &mailbox->mutex);
    if (mailbox->closed)
        rc = LARDER_EGONE;
    else if (mailbox->length == mailbox->capacity)
        rc = LARDER_ELIMIT;
    else
        put_locked(mailbox, element);
    if (rc == 0)
        pthread_cond_signal(&mailbox->not_empty);
    pthread_mutex_unlock(&mailbox->mutex);
    return rc;
}

int mailbox_push(struct mailbox *mailbox, const void *element)
{
    return push(mailbox, element, true);
}

int mailbox_push_many(struct mailbox *mailbox, const void *elements, size_t count)
{
    CHECK_MAGIC(mailbox, MAILBOX_MAGIC);
    const uint8_t *next = elements, *end = next + count * mailbox->element_bytes;
    pthread_mutex_lock(&mailbox->mutex);
    while (next < end && !mailbox->closed) {
        for (; next < end && mailbox->length < mailbox->capacity; next += mailbox->element_bytes)
            put_locked(mailbox, next);
        pthread_cond_broadcast(&mailbox->not_empty);
        if (next < end)
            pthread_cond_wait(&mailbox->not_full, &mailbox->mutex);
    }
    pthread_mutex_unlock(&mailbox->mutex);
    return next < end ? LARDER_EGONE : 0;
}

int mailbox_try_push(struct mailbox *mailbox, const void *element)
{
    return push(mailbox, element, false);
}

static struct timespec deadline_after(int64_t timeout_ms)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(timeout_ms / 1000);
    at.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        at.tv_sec++;
    }
    return at;
}

static int wait_not_empty_locked(struct mailbox *mailbox, int64_t timeout_ms)
{
    struct timespec deadline = {0};
    if (timeout_ms > 0)
        deadline = deadline_after(timeout_ms);
    while (mailbox->length == 0) {
        if (mailbox->closed)
            return LARDER_EGONE;
        if (timeout_ms == 0)
            return LARDER_ETIMEOUT;
        if (timeout_ms < 0)
            pthread_cond_wait(&mailbox->not_empty, &mailbox->mutex);
        else if (pthread_cond_timedwait(&mailbox->not_empty, &mailbox->mutex, &deadline) == ETIMEDOUT &&
                 mailbox->length == 0)
            return mailbox->closed ? LARDER_EGONE : LARDER_ETIMEOUT;
    }
    return 0;
}

static void take_locked(struct mailbox *mailbox, uint8_t *elements, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(elements + i * mailbox->element_bytes, mailbox->ring + mailbox->head * mailbox->element_bytes,
               mailbox->element_bytes);
        mailbox->head = (mailbox->head + 1) % mailbox->capacity;
    }
    mailbox->length -= count;
    if (count == 1)
        pthread_cond_signal(&mailbox->not_full);
    else
        pthread_cond_broadcast(&mailbox->not_full);
}

int mailbox_pop_many(struct mailbox *mailbox, void *elements, size_t max, size_t *count, int64_t timeout_ms)
{
    CHECK_MAGIC(mailbox, MAILBOX_MAGIC);
    CHECK(max > 0);
    pthread_mutex_lock(&mailbox->mutex);
    int rc = wait_not_empty_locked(mailbox, timeout_ms);
    if (rc == 0) {
        *count = mailbox->length < max ? mailbox->length : max;
        take_locked(mailbox, elements, *count);
    }
    pthread_mutex_unlock(&mailbox->mutex);
    return rc;
}

int mailbox_pop(struct mailbox *mailbox, void *element, int64_t timeout_ms)
{
    size_t count;
    return mailbox_pop_many(mailbox, element, 1, &count, timeout_ms);
}

void mailbox_close(struct mailbox *mailbox)
{
    CHECK_MAGIC(mailbox, MAILBOX_MAGIC);
    pthread_mutex_lock(&mailbox->mutex);
    mailbox->closed = true;
    pthread_cond_broadcast(&mailbox->not_empty);
    pthread_cond_broadcast(&mailbox->not_full);
    pthread_mutex_unlock(&mailbox->mutex);
}

size_t mailbox_length(struct mailbox *mailbox)
{
    CHECK_MAGIC(mailbox, MAILBOX_MAGIC);
    pthread_mutex_lock(&mailbox->mutex);
    size_t length = mailbox->length;
    pthread_mutex_unlock(&mailbox->mutex);
    return length;
}
