#include "common/socket_path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

_Static_assert(SOCKET_PATH_MAX == sizeof(((struct sockaddr_un *)0)->sun_path), "SOCKET_PATH_MAX is sun_path's size");

int socket_path_check(const char *path, struct error *err)
{
    size_t len = strlen(path);
    if (len == 0)
        return error_set(err, LARDER_EINVAL, "the socket's path is empty");
    if (len >= SOCKET_PATH_MAX)
        return error_set(err, LARDER_ELIMIT,
                         "the socket's path '%s' has %zu bytes, and the system allows %d: choose a shorter one, with "
                         "LARDER_SOCKET for example",
                         path, len, SOCKET_PATH_MAX - 1);
    return 0;
}

static int put(char *buf, size_t size, struct error *err, const char *head, const char *tail)
{
    char path[4096];
    int len = snprintf(path, sizeof path, "%s%s", head, tail);
    if (len < 0 || len >= (int)sizeof path)
        return error_set(err, LARDER_ELIMIT, "the socket's path '%.100s…' is far too long", head);
    int rc = socket_path_check(path, err);
    if (rc)
        return rc;
    if ((size_t)len >= size)
        return error_set(err, LARDER_ELIMIT, "the socket's path '%s' does not fit in %zu bytes", path, size);
    memcpy(buf, path, (size_t)len + 1);
    return 0;
}

/* ── the rule, which client/python/larder/_socket_path.py has too ────────────────────────────────────────────────── */

#define IN_BASE "/larder/larder.sock"
#define CONTROL ".control"

static const char *const shared[] = {"/tmp", "/dev/shm"}; /* folders in which every user may make a folder */

static bool may(const char *path, int how)
{
    return faccessat(AT_FDCWD, path, how, AT_EACCESS) == 0;
}

/* is_safe tells whether nobody else may replace files in this folder. */
static bool is_safe(const struct stat *st)
{
    bool others_write = st->st_mode & (S_IWGRP | S_IWOTH) && !(st->st_mode & S_ISVTX);
    return S_ISDIR(st->st_mode) && (st->st_uid == 0 || st->st_uid == geteuid()) && !others_write;
}

static bool has_room(const char *folder)
{
    struct statvfs fs;
    return may(folder, W_OK | X_OK) && statvfs(folder, &fs) == 0 && (fs.f_bavail || !fs.f_blocks) &&
           (fs.f_favail || !fs.f_files); /* none at all: they are not counted */
}

/* has_daemon: a socket of this user's or root's is there, and this user may connect to it. */
static bool has_daemon(const char *base)
{
    char path[SOCKET_PATH_MAX];
    struct stat st;
    snprintf(path, sizeof path, "%s" IN_BASE, base);
    return stat(path, &st) == 0 && S_ISSOCK(st.st_mode) && (st.st_uid == 0 || st.st_uid == geteuid()) &&
           may(path, W_OK);
}

/* takes_daemon: a daemon of this user's can have its folder there. */
static bool takes_daemon(const char *base)
{
    char folder[SOCKET_PATH_MAX];
    struct stat above, st;
    snprintf(folder, sizeof folder, "%s/larder", base);
    if (stat(base, &above) != 0 || !is_safe(&above))
        return false;
    if (stat(folder, &st) == 0)
        return is_safe(&st) && st.st_uid == geteuid() && has_room(folder);
    return errno == ENOENT && above.st_uid == geteuid() && has_room(base);
}

static bool is_usable(const char *base)
{
    return base && *base == '/' && strlen(base) + strlen(IN_BASE CONTROL) < SOCKET_PATH_MAX &&
           (has_daemon(base) || takes_daemon(base));
}

/* put_below_shared: every user may take the name first, so whose the folder is must be looked at. */
static int put_below_shared(char *buf, size_t size, struct error *err)
{
    char folder[32];
    struct stat st;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        snprintf(folder, sizeof folder, "%s/larder-%u", shared[i], (unsigned)geteuid());
        if (lstat(folder, &st) == 0) {
            if (is_safe(&st) && st.st_uid == geteuid())
                return put(buf, size, err, folder, "/larder.sock");
            return error_set(err, LARDER_EPERM,
                             "%s would be the folder of your daemon's socket, and is no folder that is yours (user %u) "
                             "alone to write to: have it removed, or set LARDER_SOCKET to a path in a folder of yours",
                             folder, (unsigned)geteuid());
        }
        if (has_room(shared[i]))
            return put(buf, size, err, folder, "/larder.sock");
    }
    return error_set(err, LARDER_EPERM,
                     "there is no folder for your daemon's socket: XDG_RUNTIME_DIR is none of yours, and neither /tmp "
                     "nor /dev/shm can be written to: set LARDER_SOCKET to a path in a folder of yours");
}

bool socket_path_is_shared(const char *path)
{
    char folder[32];
    bool is = false;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        int len = snprintf(folder, sizeof folder, "%s/larder-%u/", shared[i], (unsigned)geteuid());
        is |= strncmp(path, folder, (size_t)len) == 0;
    }
    return is;
}

int socket_path_default(char *buf, size_t size, struct error *err)
{
    const char *given = getenv("LARDER_SOCKET"), *runtime = getenv("XDG_RUNTIME_DIR");
    if (given && *given)
        return put(buf, size, err, given, "");
    if (is_usable(runtime))
        return put(buf, size, err, runtime, IN_BASE);
    if (is_usable("/run"))
        return put(buf, size, err, "/run", IN_BASE);
    return put_below_shared(buf, size, err);
}

int socket_path_control(const char *session_path, char *buf, size_t size, struct error *err)
{
    return put(buf, size, err, session_path, CONTROL);
}
