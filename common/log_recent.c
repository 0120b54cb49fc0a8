#include "common/log_recent.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "common/log_format.h"

static struct ring {
    struct {
        size_t len_bytes;
        char text[LOG_LINE_MAX];
    } lines[LOG_RECENT_MAX]; /* line number n is at n % LOG_RECENT_MAX */
    uint64_t count;          /* lines that were ever kept */
} rings[LOG_RECENT_KINDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all rings */

static void keep(struct ring *ring, const char *line, size_t len_bytes)
{
    size_t at = ring->count++ % LOG_RECENT_MAX;
    memcpy(ring->lines[at].text, line, len_bytes);
    ring->lines[at].len_bytes = len_bytes && line[len_bytes - 1] == '\n' ? len_bytes - 1 : len_bytes;
}

void log_recent_keep(bool warning, const char *line, size_t len_bytes)
{
    size_t len = len_bytes < LOG_LINE_MAX ? len_bytes : LOG_LINE_MAX;
    pthread_mutex_lock(&lock);
    keep(&rings[LOG_RECENT_ALL], line, len);
    if (warning)
        keep(&rings[LOG_RECENT_WARNINGS], line, len);
    pthread_mutex_unlock(&lock);
}

void log_recent_read(enum log_recent kind, void (*take)(void *ctx, const char *line, size_t len_bytes), void *ctx)
{
    const struct ring *ring = &rings[kind];
    char line[LOG_LINE_MAX];
    pthread_mutex_lock(&lock);
    uint64_t end = ring->count, at = end > LOG_RECENT_MAX ? end - LOG_RECENT_MAX : 0;
    pthread_mutex_unlock(&lock);
    for (; at < end; at++) {
        pthread_mutex_lock(&lock);
        bool kept = ring->count - at <= LOG_RECENT_MAX;
        size_t len = kept ? ring->lines[at % LOG_RECENT_MAX].len_bytes : 0;
        memcpy(line, ring->lines[at % LOG_RECENT_MAX].text, len);
        pthread_mutex_unlock(&lock);
        if (kept)
            take(ctx, line, len);
    }
}
