/* machine.c: how much memory and how many processor cores there are for this process. */
#include <stdlib.h>
#include <unistd.h>

#include "common/cgroup.h"
#include "server/config/config.h"

#define PATH_BYTES 4096

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

static void limit_memory(void *ctx, const char *folder, bool v2)
{
    uint64_t *limit = ctx, bytes;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%.3900s/%s", folder, v2 ? "memory.max" : "memory.limit_in_bytes");
    if (read_number(path, &bytes) && bytes < *limit)
        *limit = bytes;
}

void config_machine_read(const char *root, struct config_machine *out)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    out->memory_bytes = pages > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 1024 * CONFIG_MIB;
    out->available_bytes = out->memory_bytes;
    read_meminfo(root, out);
    cgroup_visit(root, "memory", limit_memory, &out->memory_bytes); /* v1 writes a number near 2^63 for no limit */
    if (out->available_bytes > out->memory_bytes)
        out->available_bytes = out->memory_bytes;
    out->cores = cgroup_cores(root);
}
