#include "server/ending.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"

#define CLOSE_MS 500 /* a file on a mount that does not answer may not even be closed */

enum phase { RUNNING, STOPPING, OVER };

struct ending {
    pthread_t thread;
    int signals, wake_fd;
    atomic_int phase;     /* an enum phase; wake_fd is written after each change */
    pthread_mutex_t late; /* the thread holds it for ever once the process is to end; else the owner, at last */
    void (*on_late)(void *ctx);
    void *ctx;
};

/* ── the last things ── */

/* Others may miss what is closed, and find that nothing is as it must be. */
static void go(int signal)
{
    (void)signal;
    _exit(EXIT_SUCCESS);
}

/* close_those closes the descriptors of files, or all others: these are closed at once. */
static void close_those(bool files)
{
    static const char memory[] = "/memfd:"; /* no file of a file system */
    char link[32], target[sizeof memory - 1];
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        int fd = atoi(entry->d_name);
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t len = readlink(link, target, sizeof target);
        bool is_memory = len == sizeof target && memcmp(target, memory, sizeof target) == 0;
        bool is_file = len > 0 && *target == '/' && !is_memory;
        if (fd > STDERR_FILENO && fd != dirfd(folder) && is_file == files)
            close(fd);
    }
    if (folder)
        closedir(folder);
}

static void *close_all(void *arg)
{
    sem_t *closed = arg;
    close_those(false);
    close_those(true);
    sem_post(closed);
    return NULL;
}

/* A thread in the kernel shares the descriptors, and has them as long as it is there. */
static void let_go_of_descriptors(void)
{
    sem_t closed;
    pthread_t thread;
    struct timespec until;
    sem_init(&closed, 0, 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += CLOSE_MS * (long)CLOCK_NS_PER_MS;
    until.tv_sec += until.tv_nsec / (long)CLOCK_NS_PER_S;
    until.tv_nsec %= (long)CLOCK_NS_PER_S;
    if (thread_start(&thread, "closes", close_all, &closed) == 0)
        sem_timedwait(&closed, &until);
}

static void end(struct ending *ending)
{
    pthread_mutex_lock(&ending->late);
    if (atomic_load(&ending->phase) == OVER) {
        pthread_mutex_unlock(&ending->late);
        return;
    }
    log_warn("msg=\"what the daemon reads or writes does not answer: it ends without that\" waited_s=%d",
             ENDING_LIMIT_S);
    ending->on_late(ending->ctx);
    log_flush();
    signal(SIGABRT, go);
    let_go_of_descriptors();
    _exit(EXIT_SUCCESS);
}

/* ── the thread ── */

static bool is_unread(const struct ending *ending)
{
    struct pollfd signals = {.fd = ending->signals, .events = POLLIN};
    return poll(&signals, 1, 0) > 0;
}

static void *run(void *arg)
{
    struct ending *ending = arg;
    uint64_t limit_ns = 0; /* 0: nothing is bounded */
    for (;;) {
        uint64_t now = clock_now_ns();
        struct pollfd fds[] = {{.fd = ending->wake_fd, .events = POLLIN},
                               {.fd = limit_ns ? -1 : ending->signals, .events = POLLIN}};
        int wait_ms = !limit_ns ? -1 : limit_ns <= now ? 0 : (int)((limit_ns - now) / CLOCK_NS_PER_MS) + 1;
        int came = poll(fds, 2, wait_ms);
        eventfd_t told;
        if (came > 0 && fds[0].revents)
            eventfd_read(ending->wake_fd, &told);
        enum phase phase = (enum phase)atomic_load(&ending->phase);
        if (phase == OVER)
            return NULL;
        if (came > 0)
            limit_ns = clock_now_ns() + ENDING_LIMIT_S * CLOCK_NS_PER_S;
        else if (!limit_ns || clock_now_ns() < limit_ns)
            continue;
        else if (phase == STOPPING || is_unread(ending))
            end(ending);
        else
            limit_ns = 0; /* the owner has read the signal, and goes about it */
    }
}

struct ending *ending_create(int signals, void (*late)(void *ctx), void *ctx)
{
    struct ending *ending = xcalloc(1, sizeof *ending);
    *ending = (struct ending){
        .signals = signals, .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .on_late = late, .ctx = ctx};
    CHECK(pthread_mutex_init(&ending->late, NULL) == 0);
    if (ending->wake_fd >= 0 && thread_start(&ending->thread, "ending", run, ending) == 0)
        return ending;
    log_warn("msg=\"no thread to bound the end: storage that does not answer can delay it\"");
    if (ending->wake_fd >= 0)
        close(ending->wake_fd);
    free(ending);
    return NULL;
}

static void tell(struct ending *ending, enum phase phase)
{
    atomic_store(&ending->phase, phase);
    CHECK(eventfd_write(ending->wake_fd, 1) == 0);
}

void ending_begin(struct ending *ending)
{
    if (ending)
        tell(ending, STOPPING);
}

void ending_over(struct ending *ending)
{
    if (!ending)
        return;
    pthread_mutex_lock(&ending->late);
    tell(ending, OVER);
    pthread_mutex_unlock(&ending->late);
    pthread_join(ending->thread, NULL);
    pthread_mutex_destroy(&ending->late);
    close(ending->wake_fd);
    free(ending);
}
