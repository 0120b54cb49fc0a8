/* queue.c: a ring under one mutex. Waits use the monotonic clock. The eventfd is written when the ring goes from empty
 * to not empty and drained when it goes back, both under the mutex: it never blocks (EFD_NONBLOCK) and must not lag
 * behind. */
#include "common/queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/check.h"

#define QUEUE_MAGIC UINT32_C(0x51554555)

struct queue {
    uint32_t magic;
    size_t capacity, element_bytes;
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t not_empty, not_full;
    size_t head, length;
    bool closed;
    int eventfd;
    uint8_t *ring;
};

int queue_create(size_t capacity, size_t element_bytes, struct queue **out)
{
    if (capacity == 0 || element_bytes == 0 || capacity > SIZE_MAX / element_bytes)
        return LARDER_EINVAL;
    struct queue *queue = calloc(1, sizeof *queue);
    uint8_t *ring = malloc(capacity * element_bytes);
    if (!queue || !ring) {
        free(queue);
        free(ring);
        return LARDER_ENOMEM;
    }
    *queue = (struct queue){.magic = QUEUE_MAGIC, .capacity = capacity, .element_bytes = element_bytes, .eventfd = -1,
                            .ring = ring};
    pthread_condattr_t attr;
    CHECK(pthread_condattr_init(&attr) == 0);
    CHECK(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_mutex_init(&queue->mutex, NULL) == 0);
    CHECK(pthread_cond_init(&queue->not_empty, &attr) == 0);
    CHECK(pthread_cond_init(&queue->not_full, &attr) == 0);
    pthread_condattr_destroy(&attr);
    *out = queue;
    return 0;
}

void queue_destroy(struct queue *queue)
{
    if (!queue)
        return;
    CHECK_MAGIC(queue, QUEUE_MAGIC);
    pthread_mutex_destroy(&queue->mutex);
    pthread_cond_destroy(&queue->not_empty);
    pthread_cond_destroy(&queue->not_full);
    if (queue->eventfd >= 0)
        close(queue->eventfd);
    queue->magic = 0;
    free(queue->ring);
    free(queue);
}

static void signal_locked(struct queue *queue)
{
    if (queue->eventfd >= 0) {
        ssize_t written = write(queue->eventfd, &(uint64_t){1}, sizeof(uint64_t));
        (void)written; /* EAGAIN: it is readable already */
    }
}

static void put_locked(struct queue *queue, const void *element)
{
    size_t tail = (queue->head + queue->length) % queue->capacity;
    memcpy(queue->ring + tail * queue->element_bytes, element, queue->element_bytes);
    if (queue->length++ == 0)
        signal_locked(queue);
    pthread_cond_signal(&queue->not_empty);
}

static int push(struct queue *queue, const void *element, bool wait)
{
    CHECK_MAGIC(queue, QUEUE_MAGIC);
    int rc = 0;
    pthread_mutex_lock(&queue->mutex);
    while (wait && queue->length == queue->capacity && !queue->closed)
        pthread_cond_wait(&queue->not_full, &queue->mutex);
    if (queue->closed)
        rc = LARDER_EGONE;
    else if (queue->length == queue->capacity)
        rc = LARDER_ELIMIT;
    else
        put_locked(queue, element);
    pthread_mutex_unlock(&queue->mutex);
    return rc;
}

int queue_push(struct queue *queue, const void *element)
{
    return push(queue, element, true);
}

int queue_try_push(struct queue *queue, const void *element)
{
    return push(queue, element, false);
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

static int wait_not_empty_locked(struct queue *queue, int64_t timeout_ms)
{
    struct timespec deadline = {0};
    if (timeout_ms > 0)
        deadline = deadline_after(timeout_ms);
    while (queue->length == 0) {
        if (queue->closed)
            return LARDER_EGONE;
        if (timeout_ms == 0)
            return LARDER_ETIMEOUT;
        if (timeout_ms < 0)
            pthread_cond_wait(&queue->not_empty, &queue->mutex);
        else if (pthread_cond_timedwait(&queue->not_empty, &queue->mutex, &deadline) == ETIMEDOUT && queue->length == 0)
            return queue->closed ? LARDER_EGONE : LARDER_ETIMEOUT;
    }
    return 0;
}

static void take_locked(struct queue *queue, uint8_t *elements, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(elements + i * queue->element_bytes, queue->ring + queue->head * queue->element_bytes,
               queue->element_bytes);
        queue->head = (queue->head + 1) % queue->capacity;
    }
    queue->length -= count;
    if (queue->length == 0 && queue->eventfd >= 0 && !queue->closed) {
        uint64_t ignored;
        ssize_t got = read(queue->eventfd, &ignored, sizeof ignored);
        (void)got;
    }
    if (count == 1)
        pthread_cond_signal(&queue->not_full);
    else
        pthread_cond_broadcast(&queue->not_full);
}

int queue_pop_many(struct queue *queue, void *elements, size_t max, size_t *count, int64_t timeout_ms)
{
    CHECK_MAGIC(queue, QUEUE_MAGIC);
    CHECK(max > 0);
    pthread_mutex_lock(&queue->mutex);
    int rc = wait_not_empty_locked(queue, timeout_ms);
    if (rc == 0) {
        *count = queue->length < max ? queue->length : max;
        take_locked(queue, elements, *count);
    }
    pthread_mutex_unlock(&queue->mutex);
    return rc;
}

int queue_pop(struct queue *queue, void *element, int64_t timeout_ms)
{
    size_t count;
    return queue_pop_many(queue, element, 1, &count, timeout_ms);
}

void queue_close(struct queue *queue)
{
    CHECK_MAGIC(queue, QUEUE_MAGIC);
    pthread_mutex_lock(&queue->mutex);
    queue->closed = true;
    signal_locked(queue);
    pthread_cond_broadcast(&queue->not_empty);
    pthread_cond_broadcast(&queue->not_full);
    pthread_mutex_unlock(&queue->mutex);
}

size_t queue_length(struct queue *queue)
{
    CHECK_MAGIC(queue, QUEUE_MAGIC);
    pthread_mutex_lock(&queue->mutex);
    size_t length = queue->length;
    pthread_mutex_unlock(&queue->mutex);
    return length;
}

int queue_eventfd(struct queue *queue)
{
    CHECK_MAGIC(queue, QUEUE_MAGIC);
    pthread_mutex_lock(&queue->mutex);
    if (queue->eventfd < 0) {
        queue->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (queue->length || queue->closed)
            signal_locked(queue);
    }
    int fd = queue->eventfd;
    pthread_mutex_unlock(&queue->mutex);
    return fd;
}
