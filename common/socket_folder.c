#include "common/socket_folder.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/socket_file.h"

#define LINKS_MAX 40
#define OVERFLOW_UID 65534 /* the kernel's default */

/* A path that is followed name by name: `done` is free of links and has been checked, "" stands for the root. */
struct walk {
    const char *socket_path;
    char done[PATH_MAX], rest[PATH_MAX];
    unsigned links;
};

/* ── who may ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static bool is_mapped(unsigned uid)
{
    FILE *map = fopen("/proc/self/uid_map", "re");
    unsigned inside, outside, count;
    bool found = !map; /* without user namespaces all are */
    while (map && !found && fscanf(map, "%u %u %u", &inside, &outside, &count) == 3)
        found = uid >= inside && uid - inside < count;
    if (map)
        fclose(map);
    return found;
}

static unsigned overflow_uid(void)
{
    unsigned uid;
    FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");
    if (!file || fscanf(file, "%u", &uid) != 1)
        uid = OVERFLOW_UID;
    if (file)
        fclose(file);
    return uid;
}

static bool is_trusted(uid_t owner)
{
    return owner == 0 || owner == geteuid() || (owner == overflow_uid() && !is_mapped(owner));
}

static int check(const struct walk *walk, const struct stat *st, struct error *err)
{
    const char *path = *walk->done ? walk->done : "/";
    if (!is_trusted(st->st_uid))
        return error_set(err, LARDER_EPERM,
                         "the socket %s would not be safe: %.150s belongs to user %u, who could put another in its "
                         "place: choose a path in a folder that is yours (user %u) or root's",
                         walk->socket_path, path, (unsigned)st->st_uid, (unsigned)geteuid());
    bool others_write = S_ISDIR(st->st_mode) && st->st_mode & (S_IWGRP | S_IWOTH) && !(st->st_mode & S_ISVTX);
    if (others_write)
        return error_set(err, LARDER_EPERM,
                         "the socket %s would not be safe: others may write to the folder %.150s (mode %04o) and put "
                         "another in its place: chmod go-w that folder, or choose another path",
                         walk->socket_path, path, (unsigned)st->st_mode & 07777u);
    return 0;
}

/* ── the way there ───────────────────────────────────────────────────────────────────────────────────────────────── */

static int too_long(const struct walk *walk, struct error *err)
{
    return error_set(err, LARDER_ELIMIT, "the folder of the socket %s has too long a path: choose another",
                     walk->socket_path);
}

static void step_back(struct walk *walk)
{
    char *slash = strrchr(walk->done, '/');
    if (slash)
        *slash = '\0';
}

/* follow puts what the link at `done` says in its place, in front of the rest. */
static int follow(struct walk *walk, struct error *err)
{
    char target[PATH_MAX], rest[PATH_MAX];
    ssize_t got = readlink(walk->done, target, sizeof target - 1);
    if (got < 0)
        return socket_file_error(err, "reading the link", walk->done);
    target[got] = '\0';
    if (++walk->links > LINKS_MAX)
        return error_set(err, LARDER_EINVAL,
                         "the folder of the socket %s is behind links that lead nowhere: choose another path",
                         walk->socket_path);
    int len = snprintf(rest, sizeof rest, "%s/%s", target, walk->rest);
    if (len < 0 || (size_t)len >= sizeof rest)
        return too_long(walk, err);
    memcpy(walk->rest, rest, (size_t)len + 1);
    if (target[0] == '/')
        walk->done[0] = '\0';
    else
        step_back(walk);
    return 0;
}

static int enter(struct walk *walk, const char *name, struct error *err)
{
    struct stat st;
    size_t used = strlen(walk->done), len = strlen(name);
    if (len == 0 || strcmp(name, ".") == 0)
        return 0;
    if (strcmp(name, "..") == 0) {
        step_back(walk);
        return 0;
    }
    if (used + len + 2 > sizeof walk->done)
        return too_long(walk, err);
    walk->done[used] = '/';
    memcpy(walk->done + used + 1, name, len + 1);
    if (lstat(walk->done, &st) != 0)
        return socket_file_error(err, "looking at the socket's folder", walk->done);
    int rc = check(walk, &st, err);
    if (rc)
        return rc;
    if (S_ISLNK(st.st_mode))
        return follow(walk, err);
    return S_ISDIR(st.st_mode)
               ? 0
               : error_set(err, LARDER_EINVAL,
                           "%.150s is not a folder, and the socket %s cannot lie in it: choose another path",
                           walk->done, walk->socket_path);
}

static int walk_down(struct walk *walk, struct error *err)
{
    struct stat root;
    if (stat("/", &root) != 0)
        return socket_file_error(err, "looking at", "/");
    int rc = check(walk, &root, err);
    while (rc == 0 && *walk->rest) {
        char name[PATH_MAX];
        size_t len = strcspn(walk->rest, "/"), rest = strlen(walk->rest);
        memcpy(name, walk->rest, len);
        name[len] = '\0';
        len += walk->rest[len] == '/';
        memmove(walk->rest, walk->rest + len, rest - len + 1);
        rc = enter(walk, name, err);
    }
    return rc;
}

/* ── the folder ──────────────────────────────────────────────────────────────────────────────────────────────────── */

static int make(const char *folder, struct error *err)
{
    if (mkdir(folder, 0700) == 0 || errno == EEXIST)
        return 0;
    if (errno == ENOENT)
        return error_set(err, LARDER_ENOENT,
                         "the socket's folder %s cannot be made because the one above it is missing: make it, or "
                         "choose another socket path",
                         folder);
    return socket_file_error(err, "making the socket's folder", folder);
}

int socket_folder_prepare(const char *socket_path, struct error *err)
{
    struct walk walk = {.socket_path = socket_path};
    const char *slash = strrchr(socket_path, '/');
    int folder_len = slash ? (int)(slash - socket_path) : 0, rc = 0;
    char here[PATH_MAX] = "", folder[PATH_MAX];
    if (socket_path[0] != '/' && !getcwd(here, sizeof here))
        return socket_file_error(err, "finding the current folder for the socket", socket_path);
    int len = snprintf(folder, sizeof folder, "%s%s%.*s", here, *here ? "/" : "", folder_len, socket_path);
    if (len < 0 || (size_t)len >= sizeof folder)
        return too_long(&walk, err);
    if (folder_len > 0)
        rc = make(folder, err);
    memcpy(walk.rest, folder, (size_t)len + 1);
    return rc ? rc : walk_down(&walk, err);
}
