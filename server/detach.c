#include "server/detach.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/check.h"
#include "common/log.h"

enum { CPUS_MAX = 8192 }; /* the most CPUs that Linux knows */
enum { IOPRIO_WHO_PROCESS = 1, IOPRIO_NONE = 0 };

/* The process asks for all CPUs; the kernel gives it those that the control group allows. */
static void take_cpus(void)
{
    cpu_set_t *all = CPU_ALLOC(CPUS_MAX);
    size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);
    CHECK(all);
    memset(all, 0xff, bytes);
    if (sched_setaffinity(0, bytes, all) != 0)
        log_warn("msg=\"stays on the CPUs of the script that started it\" err=\"%s\"", strerror(errno));
    CPU_FREE(all);
}

static void take_priority(void)
{
    struct sched_param none = {0};
    int policy = sched_getscheduler(0);
    if (policy != SCHED_OTHER && sched_setscheduler(0, SCHED_OTHER, &none) != 0)
        log_warn("msg=\"keeps the scheduling policy of the script that started it\" policy=%d err=\"%s\"", policy,
                 strerror(errno));
    int nice_value = getpriority(PRIO_PROCESS, 0);
    if (nice_value != 0 && setpriority(PRIO_PROCESS, 0, 0) != 0)
        log_warn("msg=\"keeps the niceness of the script that started it, and works when others leave time: start "
                 "larderd without nice\" nice=%d err=\"%s\"",
                 nice_value, strerror(errno));
    if (syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_NONE) != 0)
        log_warn("msg=\"keeps the I/O priority of the script that started it\" err=\"%s\"", strerror(errno));
}

static void take_limits(void)
{
    static const struct {
        int resource;
        const char *name;
        bool must; /* a daemon should not be held to this bound */
    } limits[] = {{RLIMIT_AS, "address space, ulimit -v", true}, {RLIMIT_DATA, "data, ulimit -d", true},
                  {RLIMIT_CPU, "CPU time, ulimit -t", true},     {RLIMIT_FSIZE, "file size, ulimit -f", true},
                  {RLIMIT_NPROC, "threads, ulimit -u", false},   {RLIMIT_NOFILE, "open files, ulimit -n", false}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct rlimit limit;
        if (getrlimit(limits[i].resource, &limit) != 0)
            continue;
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(limits[i].resource, &limit) != 0)
            log_warn("msg=\"keeps a limit of the script that started it\" limit=\"%s\" err=\"%s\"", limits[i].name,
                     strerror(errno));
        else if (limits[i].must && limit.rlim_max != RLIM_INFINITY)
            log_warn("msg=\"is held to a hard limit of the script that started it\" limit=\"%s\" is=%llu",
                     limits[i].name, (unsigned long long)limit.rlim_max);
    }
}

void detach_from_starter(const char *shares_group)
{
    take_cpus();
    take_priority();
    take_limits();
    if (shares_group)
        log_info("msg=\"shares the control group of the script that started it, because systemd gave it none: the "
                 "group's limits on memory and processors are the daemon's too, and where the group is ended, as a "
                 "step of Slurm is, the daemon ends with it and the next script starts another. If that does harm, "
                 "start larderd by itself\" systemd=\"%s\"",
                 shares_group);
}
