#include "common/aside.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "common/check.h"
#include "common/clock.h"

#define KNOWN 16 /* devices */
#define KNOWN_NS (10 * CLOCK_NS_PER_S)
#define LINE_BYTES 8192

struct task {
    void (*run)(void *ctx);
    void *ctx;
    bool done;
};

static int run_task(void *arg)
{
    struct task *task = arg;
    task->run(task->ctx);
    task->done = true;
    return 0;
}

/* As vfork does: until the other process ends the calling thread stands still, in a wait that a killing signal ends,
 * and what is the thread's alone (errno, the caches of malloc) is the other's. */
void aside_run(void (*run)(void *ctx), void *ctx)
{
    struct task task = {.run = run, .ctx = ctx};
    char *stack = mmap(NULL, ASIDE_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    pid_t pid = stack == MAP_FAILED ? -1
                                    : clone(run_task, stack + ASIDE_STACK_BYTES,
                                            CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_FS | SIGCHLD, &task);
    if (pid < 0)
        run_task(&task);
    while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        continue; /* ECHILD: SIGCHLD is ignored, and nothing is left of it */
    if (stack != MAP_FAILED)
        munmap(stack, ASIDE_STACK_BYTES);
    CHECK(task.done);
}

/* ── which file systems ──────────────────────────────────────────────────────────────────────────────────────────── */

static bool is_fuse(uint64_t device)
{
    char line[LINE_BYTES];
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    bool found = false;
    while (mounts && !found && fgets(line, sizeof line, mounts)) {
        unsigned major_number, minor_number;
        const char *type = strstr(line, " - "); /* "36 35 98:0 /root /mount options - type source options" */
        found = type && strncmp(type + 3, "fuse", 4) == 0 &&
                sscanf(line, "%*u %*u %u:%u", &major_number, &minor_number) == 2 &&
                makedev(major_number, minor_number) == device;
    }
    if (mounts)
        fclose(mounts);
    return found;
}

bool aside_suits(uint64_t device)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the rest */
    static struct {
        uint64_t device, until_ns; /* 0: not known */
        bool fuse;
    } known[KNOWN];
    uint64_t now_ns = clock_now_ns();
    size_t at = device % KNOWN;
    pthread_mutex_lock(&lock);
    if (known[at].device != device || known[at].until_ns < now_ns) {
        known[at].device = device;
        known[at].until_ns = now_ns + KNOWN_NS;
        known[at].fuse = is_fuse(device);
    }
    bool fuse = known[at].fuse;
    pthread_mutex_unlock(&lock);
    return fuse;
}
