#include "cache/memory/memory_free.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX_BYTES 16384 /* read of each small file; the lines looked for stand before that */
#define ANCESTORS_MAX 64     /* cgroup levels looked at */

/* A cgroup version's names for the same things. */
struct cgroup_files {
    const char *mount;
    const char *limit, *usage;
    const char *cache[2]; /* lines of memory.stat that count page cache, shared memory not among it */
};

static const struct cgroup_files cgroup_v1 = {"/sys/fs/cgroup/memory",
                                              "memory.limit_in_bytes",
                                              "memory.usage_in_bytes",
                                              {"total_inactive_file", "total_active_file"}};
static const struct cgroup_files cgroup_v2 = {
    "/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file", "active_file"}};

static bool read_text(const char *path, char *text)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t len = 0;
    while (len < FILE_MAX_BYTES - 1) {
        ssize_t got = read(fd, text + len, FILE_MAX_BYTES - 1 - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    close(fd);
    text[len] = '\0';
    return len > 0;
}

/* line_number finds "name <number>" at the start of a line; the name's end is a blank or a colon. */
static bool line_number(const char *text, const char *name, uint64_t *out)
{
    size_t len = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && (line[len] == ' ' || line[len] == ':')) {
            char *end;
            const char *digits = line + len + strspn(line + len, ": \t");
            *out = strtoull(digits, &end, 10);
            return end != digits;
        }
    }
    return false;
}

static bool file_number(const char *dir, const char *name, uint64_t *out)
{
    char path[PATH_MAX], text[FILE_MAX_BYTES];
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path || !read_text(path, text))
        return false;
    char *end;
    *out = strtoull(text, &end, 10); /* "max" has no digits: no limit here */
    return end != text;
}

static uint64_t cgroup_level(const char *dir, const struct cgroup_files *files)
{
    uint64_t limit, usage, cached = 0;
    if (!file_number(dir, files->limit, &limit) || !file_number(dir, files->usage, &usage))
        return UINT64_MAX;
    char path[PATH_MAX], text[FILE_MAX_BYTES];
    if (snprintf(path, sizeof path, "%s/memory.stat", dir) < (int)sizeof path && read_text(path, text)) {
        for (int i = 0; i < 2; i++) {
            uint64_t bytes;
            if (line_number(text, files->cache[i], &bytes))
                cached += bytes;
        }
    }
    usage -= cached < usage ? cached : usage;
    return limit > usage ? limit - usage : 0;
}

/* The limits of a cgroup and of all above it hold. A container often sees its own cgroup as the mount's root while
 * /proc/self/cgroup names a path that is not there; going up finds the root all the same. */
static uint64_t cgroup_left(const char *root, const struct cgroup_files *files, const char *path)
{
    char dir[PATH_MAX];
    if (snprintf(dir, sizeof dir, "%s%s%s", root, files->mount, strcmp(path, "/") == 0 ? "" : path) >= (int)sizeof dir)
        return UINT64_MAX;
    size_t base = strlen(root) + strlen(files->mount);
    uint64_t least = UINT64_MAX;
    for (int level = 0; level < ANCESTORS_MAX; level++) {
        uint64_t left = cgroup_level(dir, files);
        least = left < least ? left : least;
        char *slash = strrchr(dir, '/');
        if (strlen(dir) <= base || !slash)
            break;
        *slash = '\0';
    }
    return least;
}

/* Lines are "id:controllers:path"; v2 has id 0 and no controllers. */
static uint64_t cgroups_left(const char *root)
{
    char path[PATH_MAX], text[FILE_MAX_BYTES];
    if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= (int)sizeof path || !read_text(path, text))
        return UINT64_MAX;
    uint64_t least = UINT64_MAX;
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        strsep(&line, ":");
        char *controllers = strsep(&line, ":");
        if (!controllers || !line)
            continue;
        const struct cgroup_files *files = NULL;
        if (*controllers == '\0')
            files = &cgroup_v2;
        for (char *name; !files && (name = strsep(&controllers, ",")) != NULL;)
            files = strcmp(name, "memory") == 0 ? &cgroup_v1 : NULL;
        uint64_t left = files ? cgroup_left(root, files, line) : UINT64_MAX;
        least = left < least ? left : least;
    }
    return least;
}

int memory_free_read(const char *root, struct memory_free *out, struct error *err)
{
    char path[PATH_MAX], text[FILE_MAX_BYTES];
    uint64_t kib;
    if (snprintf(path, sizeof path, "%s/proc/meminfo", root) >= (int)sizeof path || !read_text(path, text) ||
        !line_number(text, "MemAvailable", &kib))
        return error_set(err, LARDER_EIO,
                         "%s/proc/meminfo does not say how much memory is available: is /proc mounted?", root);
    *out = (struct memory_free){.machine_bytes = kib * 1024, .cgroup_bytes = cgroups_left(root)};
    return 0;
}

/* stalled_us returns the total in the "some" line of a pressure file; 0: there is none. */
static uint64_t stalled_us(const char *path)
{
    char text[FILE_MAX_BYTES];
    const char *total = read_text(path, text) && strncmp(text, "some ", 5) == 0 ? strstr(text, "total=") : NULL;
    return total ? strtoull(total + strlen("total="), NULL, 10) : 0;
}

uint64_t memory_stalled_us(const char *root)
{
    char path[PATH_MAX], text[FILE_MAX_BYTES];
    uint64_t most = 0, own = 0;
    if (snprintf(path, sizeof path, "%s/proc/pressure/memory", root) < (int)sizeof path)
        most = stalled_us(path);
    if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= (int)sizeof path || !read_text(path, text))
        return most;
    const char *group = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    if (!group)
        return most;
    group = strchr(group, ':') + 2;
    if (snprintf(path, sizeof path, "%s%s%.*s/memory.pressure", root, cgroup_v2.mount, (int)strcspn(group, "\n"),
                 group) < (int)sizeof path)
        own = stalled_us(path);
    return own > most ? own : most;
}

bool memory_shared_huge_pages(const char *root)
{
    char path[PATH_MAX], text[FILE_MAX_BYTES];
    return snprintf(path, sizeof path, "%s/sys/kernel/mm/transparent_hugepage/shmem_enabled", root) <
               (int)sizeof path &&
           read_text(path, text) && !strstr(text, "[never]") && !strstr(text, "[deny]");
}
