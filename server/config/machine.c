/* machine.c: how much memory and how many processor cores there are for this process. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/config/config_priv.h"

#define PATH_BYTES 4096
#define NO_LIMIT (UINT64_C(1) << 62) /* cgroup v1 writes a number near 2^63 for no limit */

/* read_number reads the first number of a small file; false when it is not there or says "max". */
static bool read_number(const char *path, uint64_t *out)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    unsigned long long value;
    bool found = fscanf(file, "%llu", &value) == 1;
    fclose(file);
    if (found)
        *out = value;
    return found;
}

static void read_meminfo(const char *root, struct config_machine *out)
{
    char path[PATH_BYTES], line[256];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    unsigned long long kib;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemTotal: %llu kB", &kib) == 1)
            out->memory_bytes = kib * 1024;
        else if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            out->available_bytes = kib * 1024;
    }
    fclose(file);
}

/* limit_upwards takes the least limit of a cgroup and those around it: a container sees its own as the top one. */
static void limit_upwards(const char *mount, const char *file, char *cgroup, uint64_t *limit)
{
    char path[PATH_BYTES];
    for (;;) {
        uint64_t bytes;
        snprintf(path, sizeof path, "%.2000s%.1900s/%s", mount, cgroup, file);
        if (read_number(path, &bytes) && bytes < *limit)
            *limit = bytes;
        char *slash = strrchr(cgroup, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

static uint64_t cgroup_limit(const char *root)
{
    char path[PATH_BYTES], line[PATH_BYTES], mount[PATH_BYTES];
    uint64_t limit = NO_LIMIT;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) { /* "0::/path" (v2), "4:memory:/path" (v1) */
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *cgroup = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!cgroup)
            continue;
        *cgroup++ = '\0';
        bool v2 = controllers[1] == '\0', v1 = strcmp(controllers + 1, "memory") == 0;
        snprintf(mount, sizeof mount, "%.2000s/sys/fs/cgroup%s", root, v1 ? "/memory" : "");
        if (v1 || v2)
            limit_upwards(mount, v1 ? "memory.limit_in_bytes" : "memory.max", cgroup, &limit);
    }
    if (file)
        fclose(file);
    return limit;
}

static uint32_t count_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (uint32_t)CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

void config_machine_read(const char *root, struct config_machine *out)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    out->memory_bytes = pages > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 1024 * CONFIG_MIB;
    out->available_bytes = out->memory_bytes;
    read_meminfo(root, out);
    uint64_t limit = cgroup_limit(root);
    if (limit < out->memory_bytes)
        out->memory_bytes = limit;
    if (out->available_bytes > out->memory_bytes)
        out->available_bytes = out->memory_bytes;
    out->cores = count_cores();
}
