#include "client/cli/machine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 8192
#define LINE_BYTES 4096
#define NO_LIMIT (UINT64_C(1) << 62) /* cgroup v1 writes a number near 2^63 for no limit */

/* keyed_number finds "key number" in a small file; 0: it is not there. */
static uint64_t keyed_number(const char *path, const char *key)
{
    char line[LINE_BYTES];
    unsigned long long value = 0;
    size_t len = strlen(key);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, len) == 0 && (line[len] == ' ' || line[len] == ':') &&
            sscanf(line + len + 1, "%llu", &value) == 1)
            break;
        value = 0;
    }
    if (file)
        fclose(file);
    return value;
}

/* two_numbers reads the first one or two numbers of a small file, and returns their count. "max" is none. */
static int two_numbers(const char *path, double *first, double *second)
{
    FILE *file = fopen(path, "re");
    int found = file ? fscanf(file, "%lf %lf", first, second) : 0;
    if (file)
        fclose(file);
    return found < 0 ? 0 : found;
}

/* idle_of reads the time in which the machine's cores had nothing to do, or nothing but to wait for storage. */
static double idle_of(const char *root)
{
    char path[PATH_BYTES];
    unsigned long long idle = 0, waiting = 0;
    snprintf(path, sizeof path, "%.2000s/proc/stat", root);
    FILE *file = fopen(path, "re");
    bool found = file && fscanf(file, "cpu %*u %*u %*u %llu %llu", &idle, &waiting) == 2;
    if (file)
        fclose(file);
    return found ? (double)(idle + waiting) / (double)sysconf(_SC_CLK_TCK) : 0;
}

/* read_cgroup takes one cgroup's limits, where they are lower than those found so far. */
static void read_cgroup(const char *folder, struct cli_machine *out)
{
    char path[PATH_BYTES];
    double quota = 0, period = 0, limit = 0, none;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    bool found = two_numbers(path, &quota, &period) == 2;
    if (!found) {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
        found = two_numbers(path, &quota, &none) >= 1;
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
        found = found && two_numbers(path, &period, &none) >= 1;
    }
    if (found && quota > 0 && period > 0 && (out->quota_cores == 0 || quota / period < out->quota_cores)) {
        out->quota_cores = quota / period;
        snprintf(path, sizeof path, "%s/cpu.stat", folder);
        out->periods = keyed_number(path, "nr_periods");
        out->throttled_periods = keyed_number(path, "nr_throttled");
    }
    snprintf(path, sizeof path, "%s/memory.max", folder);
    found = two_numbers(path, &limit, &none) >= 1;
    snprintf(path, sizeof path, "%s/memory.limit_in_bytes", folder);
    found = found || two_numbers(path, &limit, &none) >= 1;
    if (found && limit > 0 && limit < (double)NO_LIMIT && (!out->limit_bytes || limit < (double)out->limit_bytes))
        out->limit_bytes = (uint64_t)limit;
}

/* read_upwards reads a cgroup and those around it: a container sees its own as the top one. */
static void read_upwards(const char *mount, char *cgroup, struct cli_machine *out)
{
    char folder[PATH_BYTES - 64];
    for (;;) {
        snprintf(folder, sizeof folder, "%.2000s%.4000s", mount, cgroup);
        read_cgroup(folder, out);
        char *slash = strrchr(cgroup, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

static void read_cgroups(const char *root, long pid, struct cli_machine *out)
{
    char path[PATH_BYTES], line[LINE_BYTES], mount[PATH_BYTES];
    snprintf(path, sizeof path, "%.2000s/proc/%ld/cgroup", root, pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) { /* "0::/path" (v2), "4:cpu,cpuacct:/path" (v1) */
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *cgroup = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!cgroup)
            continue;
        *cgroup++ = '\0';
        snprintf(mount, sizeof mount, "%.2000s/sys/fs/cgroup%s%.200s", root, controllers[1] ? "/" : "",
                 controllers + 1);
        read_upwards(mount, cgroup, out);
    }
    if (file)
        fclose(file);
}

void cli_machine_read(const char *root, long pid, struct cli_machine *out)
{
    char path[PATH_BYTES];
    cpu_set_t cores;
    *out = (struct cli_machine){.cores = 0};
    snprintf(path, sizeof path, "%.2000s/proc/meminfo", root);
    out->memory_bytes = keyed_number(path, "MemTotal") * 1024;
    out->available_bytes = keyed_number(path, "MemAvailable") * 1024;
    out->page_cache_bytes = keyed_number(path, "Cached") * 1024;
    if (pid <= 0)
        return;
    out->idle_s = idle_of(root);
    if (sched_getaffinity((pid_t)pid, sizeof cores, &cores) == 0)
        out->cores = CPU_COUNT(&cores);
    read_cgroups(root, pid, out);
}

double cli_throttled(const struct cli_machine *before, const struct cli_machine *now)
{
    if (now->quota_cores <= 0 || now->periods <= before->periods || now->throttled_periods < before->throttled_periods)
        return 0;
    return (double)(now->throttled_periods - before->throttled_periods) / (double)(now->periods - before->periods);
}
