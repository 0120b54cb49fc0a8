#include "common/log_recent.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/log_format.h"

static struct {
    size_t len_bytes;
    char text[LOG_LINE_MAX];
} lines[LOG_RECENT_MAX];                                 /* line number n is at n % LOG_RECENT_MAX */
static uint64_t count;                                   /* lines that were ever kept */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards both */

void log_recent_keep(const char *line, size_t len_bytes)
{
    size_t len = len_bytes < LOG_LINE_MAX ? len_bytes : LOG_LINE_MAX;
    pthread_mutex_lock(&lock);
    size_t at = count++ % LOG_RECENT_MAX;
    memcpy(lines[at].text, line, len);
    lines[at].len_bytes = len && line[len - 1] == '\n' ? len - 1 : len;
    pthread_mutex_unlock(&lock);
}

void log_recent_read(void (*take)(void *ctx, const char *line, size_t len_bytes), void *ctx)
{
    char line[LOG_LINE_MAX];
    pthread_mutex_lock(&lock);
    uint64_t end = count, at = end > LOG_RECENT_MAX ? end - LOG_RECENT_MAX : 0;
    pthread_mutex_unlock(&lock);
    for (; at < end; at++) {
        pthread_mutex_lock(&lock);
        bool kept = count - at <= LOG_RECENT_MAX;
        size_t len = kept ? lines[at % LOG_RECENT_MAX].len_bytes : 0;
        memcpy(line, lines[at % LOG_RECENT_MAX].text, len);
        pthread_mutex_unlock(&lock);
        if (kept)
            take(ctx, line, len);
    }
}
