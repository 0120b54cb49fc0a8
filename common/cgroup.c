#include "common/cgroup.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4096

static void visit_upwards(const char *mount, char *cgroup, bool v2, void (*visit)(void *, const char *, bool),
                          void *ctx)
{
    char folder[PATH_BYTES];
    for (;;) {
        snprintf(folder, sizeof folder, "%.2000s%.2000s", mount, cgroup);
        visit(ctx, folder, v2);
        char *slash = strrchr(cgroup, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

/* has says whether a list such as "cpu,cpuacct" names the controller. */
static bool has(const char *list, const char *controller)
{
    size_t len = strlen(controller);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',') {
        if (strncmp(at, controller, len) == 0 && (at[len] == ',' || !at[len]))
            return true;
    }
    return false;
}

void cgroup_visit(const char *root, const char *controller, void (*visit)(void *ctx, const char *folder, bool v2),
                  void *ctx)
{
    char path[PATH_BYTES], line[PATH_BYTES], mount[PATH_BYTES], above[PATH_BYTES];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) { /* "0::/path" (v2), "4:cpu,cpuacct:/path" (v1) */
        line[strcspn(line, "\n")] = '\0';
        char *list = strchr(line, ':'), *cgroup = list ? strchr(list + 1, ':') : NULL;
        if (!cgroup)
            continue;
        *cgroup++ = '\0';
        list++;
        if (!*list) {
            snprintf(mount, sizeof mount, "%.2000s/sys/fs/cgroup", root);
            visit_upwards(mount, cgroup, true, visit, ctx);
        } else if (has(list, controller)) {
            /* It is mounted under the whole list's name, mostly with a link of the single one, or under that alone. */
            snprintf(above, sizeof above, "%s", cgroup);
            snprintf(mount, sizeof mount, "%.2000s/sys/fs/cgroup/%.1000s", root, list);
            visit_upwards(mount, above, false, visit, ctx);
            snprintf(mount, sizeof mount, "%.2000s/sys/fs/cgroup/%.1000s", root, controller);
            visit_upwards(mount, cgroup, false, visit, ctx);
        }
    }
    if (file)
        fclose(file);
}

/* ── cores ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool read_numbers(const char *folder, const char *name, const char *format, long long *a, long long *b)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%.3900s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    int wanted = b ? 2 : 1, found = b ? fscanf(file, format, a, b) : fscanf(file, format, a);
    fclose(file);
    return found == wanted;
}

static void limit_cores(void *ctx, const char *folder, bool v2)
{
    uint32_t *cores = ctx;
    long long quota_us, period_us;
    bool limited = v2 ? read_numbers(folder, "cpu.max", "%lld %lld", &quota_us, &period_us) /* "max 100000": none */
                      : read_numbers(folder, "cpu.cfs_quota_us", "%lld", &quota_us, NULL) /* -1: none */ &&
                            read_numbers(folder, "cpu.cfs_period_us", "%lld", &period_us, NULL);
    if (!limited || quota_us <= 0 || period_us <= 0)
        return;
    long long allowed = quota_us / period_us + (quota_us % period_us > 0);
    if (allowed < *cores)
        *cores = (uint32_t)allowed;
}

uint32_t cgroup_cores(const char *root)
{
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t cores = online > 0 ? (uint32_t)online : 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        cores = (uint32_t)CPU_COUNT(&set);
    cgroup_visit(root, "cpu", limit_cores, &cores);
    return cores;
}
