/* log_writer.c: writes lines to standard error.
 *
 * Before start and after stop the caller writes directly, as a tool does. In between a thread writes them, and callers
 * only copy lines into a ring: standard error may be a pipe that nobody reads. If the ring has no room, lines are
 * dropped and counted until half of it is free again; then one line says how many they were. A line is one write, so
 * that it stays whole beside the output of other processes. */
#include "common/log_writer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/log_format.h"
#include "common/thread.h"

#define RING_BYTES (UINT32_C(1) << 16)
#define LAST_BYTES (LOG_LINE_MAX + sizeof(uint16_t)) /* kept free for a line that is the last one */

enum phase {
    DIRECT, /* no thread: lines are written by whoever logs */
    THREAD,
    LOST /* the thread could not write all in time: what comes now is not written */
};

static struct {
    pthread_mutex_t lock; /* guards the members below; held while lines are copied, never while they are written */
    pthread_cond_t filled, written;
    enum phase phase;
    bool ending, woken;
    pthread_t thread;
    log_writer_tell *tell; /* set before the thread begins; no lock */
    char ring[RING_BYTES]; /* lines, each after its length (uint16_t) */
    size_t first, used;
    uint64_t n_put, n_written; /* lines */
    uint64_t dropped;
    uint64_t refused; /* lines that standard error would not have; the thread's, no lock */
} writer = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* False when the line cannot be written at all, for example because its file system is full. */
static bool write_line(const char *line, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t got = write(STDERR_FILENO, line + done, len - done);
        if (got >= 0) {
            done += (size_t)got;
        } else if (errno == EAGAIN) { /* whoever else has it may have made it non-blocking */
            struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
            poll(&ready, 1, -1);
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* ── the ring ── */

static void ring_in_locked(const void *bytes, size_t len)
{
    size_t at = (writer.first + writer.used) % RING_BYTES, until_end = RING_BYTES - at;
    size_t part = len < until_end ? len : until_end;
    memcpy(writer.ring + at, bytes, part);
    memcpy(writer.ring, (const char *)bytes + part, len - part);
    writer.used += len;
}

static void ring_out_locked(void *bytes, size_t len)
{
    size_t until_end = RING_BYTES - writer.first, part = len < until_end ? len : until_end;
    memcpy(bytes, writer.ring + writer.first, part);
    memcpy((char *)bytes + part, writer.ring, len - part);
    writer.first = (writer.first + len) % RING_BYTES;
    writer.used -= len;
}

static bool has_room_locked(size_t len, size_t keep_free)
{
    return writer.used + sizeof(uint16_t) + len + keep_free <= RING_BYTES;
}

static void put_locked(const char *line, size_t len)
{
    uint16_t len_bytes = (uint16_t)len;
    ring_in_locked(&len_bytes, sizeof len_bytes);
    ring_in_locked(line, len);
    writer.n_put++;
    pthread_cond_signal(&writer.filled);
}

static size_t take_locked(char line[LOG_LINE_MAX])
{
    uint16_t len;
    ring_out_locked(&len, sizeof len);
    ring_out_locked(line, len);
    return len;
}

static size_t format_dropped(char line[LOG_LINE_MAX], uint64_t dropped)
{
    return log_format(line, "warn", "msg=\"log lines were dropped: standard error did not take them\" dropped=%llu",
                      (unsigned long long)dropped);
}

static void tell_dropped_locked(void)
{
    char line[LOG_LINE_MAX];
    if (!writer.dropped || writer.used > RING_BYTES / 2)
        return;
    put_locked(line, format_dropped(line, writer.dropped));
    writer.dropped = 0;
}

/* ── the thread ── */

static struct timespec at_ns(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / CLOCK_NS_PER_S), .tv_nsec = (long)(ns % CLOCK_NS_PER_S)};
}

/* Waits for a line until due_ns at most. */
static void wait_locked(uint64_t due_ns)
{
    struct timespec due = at_ns(due_ns);
    while (!writer.used && !writer.ending && !writer.woken) {
        if (due_ns == UINT64_MAX)
            pthread_cond_wait(&writer.filled, &writer.lock);
        else if (pthread_cond_timedwait(&writer.filled, &writer.lock, &due) == ETIMEDOUT)
            break;
    }
    writer.woken = false;
}

static void *run(void *arg)
{
    char line[LOG_LINE_MAX], notice[LOG_LINE_MAX];
    (void)arg;
    for (;;) {
        uint64_t due_ns = writer.tell();
        pthread_mutex_lock(&writer.lock);
        wait_locked(due_ns);
        if (!writer.used && writer.ending)
            break;
        bool taken = writer.used > 0;
        size_t len = taken ? take_locked(line) : 0;
        tell_dropped_locked();
        pthread_mutex_unlock(&writer.lock);
        if (!taken)
            continue;
        if (writer.refused && write_line(notice, format_dropped(notice, writer.refused)))
            writer.refused = 0;
        writer.refused += !write_line(line, len);
        pthread_mutex_lock(&writer.lock);
        writer.n_written++;
        pthread_cond_broadcast(&writer.written);
        pthread_mutex_unlock(&writer.lock);
    }
    pthread_mutex_unlock(&writer.lock);
    return NULL;
}

int log_writer_start(log_writer_tell *tell)
{
    static bool made;
    pthread_mutex_lock(&writer.lock);
    int rc = 0;
    if (!made) {
        pthread_condattr_t monotonic;
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&writer.filled, &monotonic);
        pthread_cond_init(&writer.written, &monotonic);
        pthread_condattr_destroy(&monotonic);
        made = true;
    }
    if (writer.phase == DIRECT) {
        writer.ending = false;
        writer.tell = tell;
        rc = thread_start(&writer.thread, "larder-log", run, NULL);
        writer.phase = rc ? DIRECT : THREAD;
    }
    pthread_mutex_unlock(&writer.lock);
    return rc ? LARDER_ELIMIT : 0;
}

/* Waits until all that was put so far is written; false when LOG_FLUSH_MS were not enough. */
static bool flush_locked(void)
{
    uint64_t number = writer.n_put;
    struct timespec due = at_ns(clock_now_ns() + LOG_FLUSH_MS * CLOCK_NS_PER_MS);
    while (writer.n_written < number) {
        if (pthread_cond_timedwait(&writer.written, &writer.lock, &due) == ETIMEDOUT)
            break;
    }
    return writer.n_written >= number;
}

void log_writer_stop(void)
{
    pthread_mutex_lock(&writer.lock);
    if (writer.phase != THREAD) {
        pthread_mutex_unlock(&writer.lock);
        return;
    }
    bool all = flush_locked();
    writer.phase = all ? DIRECT : LOST;
    writer.ending = true;
    pthread_cond_signal(&writer.filled);
    pthread_t thread = writer.thread;
    pthread_mutex_unlock(&writer.lock);
    if (all)
        pthread_join(thread, NULL);
    else
        pthread_detach(thread); /* it may be inside a write for ever */
}

void log_writer_flush(void)
{
    pthread_mutex_lock(&writer.lock);
    if (writer.phase == THREAD)
        flush_locked();
    pthread_mutex_unlock(&writer.lock);
}

void log_writer_put(const char *line, size_t len)
{
    pthread_mutex_lock(&writer.lock);
    enum phase phase = writer.phase;
    if (phase == THREAD && !writer.dropped && has_room_locked(len, LAST_BYTES))
        put_locked(line, len);
    else if (phase == THREAD)
        writer.dropped++;
    pthread_mutex_unlock(&writer.lock);
    if (phase == DIRECT)
        write_line(line, len);
}

void log_writer_put_last(const char *line, size_t len)
{
    pthread_mutex_lock(&writer.lock);
    enum phase phase = writer.phase;
    if (phase == THREAD && has_room_locked(len, 0)) {
        put_locked(line, len);
        flush_locked();
    }
    pthread_mutex_unlock(&writer.lock);
    if (phase == DIRECT)
        write_line(line, len);
}

void log_writer_wake(void)
{
    pthread_mutex_lock(&writer.lock);
    if (writer.phase == THREAD) {
        writer.woken = true;
        pthread_cond_signal(&writer.filled);
    }
    pthread_mutex_unlock(&writer.lock);
}
