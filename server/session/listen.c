/* listen.c: the socket's place in the file system, and who may have it.
 *
 * The lock file decides, not the socket: a daemon that was killed leaves its socket behind, but the kernel drops its
 * lock. A daemon removes the lock file when it ends, while the file is still locked. A daemon that locks the file
 * checks that it still has its name, so that two daemons cannot hold two files of the same name.
 *
 * Whoever removes or moves the files of a living daemon makes room for a successor. At its end a daemon removes only
 * files that are still its own, by device and inode, and none that merely has the same name. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/check.h"
#include "common/log.h"
#include "common/socket_file.h"
#include "common/socket_folder.h"
#include "common/socket_path.h"
#include "server/session/session_priv.h"

#define LOCK_TRIES 100 /* if the file is removed just as it is locked, so often in a row, that is no accident */

static int busy(struct error *err, const char *path, long pid)
{
    if (pid > 0)
        return error_set(err, LARDER_EBUSY,
                         "another daemon (pid %ld) serves %s: use that one, stop it, or choose another socket path",
                         pid, path);
    return error_set(err, LARDER_EBUSY,
                     "another daemon serves %s: use that one, stop it, or choose another socket path", path);
}

static long locked_by(int fd)
{
    char text[32];
    ssize_t len = pread(fd, text, sizeof text - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    return strtol(text, NULL, 10);
}

/* lock_is_named tells whether the file that was locked still has the lock's name. */
static bool lock_is_named(const struct session_listener *listener, int fd)
{
    struct stat ours, named;
    return fstat(fd, &ours) == 0 && lstat(listener->lock_path, &named) == 0 && ours.st_ino == named.st_ino &&
           ours.st_dev == named.st_dev;
}

/* try_lock opens and locks the lock file. 1: the file had lost its name meanwhile, and the caller tries again. */
static int try_lock(struct session_listener *listener, struct error *err)
{
    int fd = open(listener->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return socket_file_error(err, "opening the lock file", listener->lock_path);
    int rc = 0;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        rc = errno == EWOULDBLOCK ? busy(err, listener->path, locked_by(fd))
                                  : socket_file_error(err, "locking", listener->lock_path);
    else if (!lock_is_named(listener, fd))
        rc = 1;
    if (rc) {
        close(fd);
        return rc;
    }
    char pid[32];
    int len = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, pid, (size_t)len, 0) != len)
        log_warn("msg=\"the lock file does not show the pid\" file=\"%s\" err=\"%s\"", listener->lock_path,
                 strerror(errno));
    listener->lock_fd = fd;
    return 0;
}

static int take_lock(struct session_listener *listener, struct error *err)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        int rc = try_lock(listener, err);
        if (rc <= 0)
            return rc;
    }
    return error_set(err, LARDER_EBUSY, "the lock file %s is removed again and again by somebody", listener->lock_path);
}

/* clear_place removes a socket that a killed daemon left. This process holds the lock, so the socket belongs to a
 * living daemon only if somebody has removed that daemon's lock file. */
static int clear_place(const char *path, struct error *err)
{
    pid_t pid;
    struct stat st;
    bool there = lstat(path, &st) == 0;
    int rc = socket_file_clear(path, SOCK_SEQPACKET, &pid, err);
    if (rc == LARDER_EBUSY)
        return busy(err, path, pid);
    if (rc == 0 && there)
        log_info("msg=\"removed the socket of a daemon that was killed\" socket=\"%s\"", path);
    return rc;
}

/* check_buffer checks that the largest message fits a socket's send buffer; otherwise it could never be sent. The limit
 * is the same for all sockets, so the listening one stands for them. */
static int check_buffer(int fd, struct error *err)
{
    int wanted = WIRE_REPLY_MAX + 4096, got = 0;
    socklen_t len = sizeof got;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &wanted, sizeof wanted);
    if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &got, &len) == 0 && got >= wanted)
        return 0;
    return error_set(err, LARDER_ELIMIT,
                     "a socket's send buffer holds %d bytes, less than a message of %d: raise net.core.wmem_max", got,
                     WIRE_REPLY_MAX);
}

int session_listen_open(struct session_listener *listener, struct error *err)
{
    int rc = socket_path_check(listener->path, err);
    if (rc)
        return rc;
    rc = socket_folder_prepare(listener->path, err);
    if (rc)
        return rc;
    size_t size = strlen(listener->path) + sizeof ".lock";
    listener->lock_path = xmalloc(size);
    snprintf(listener->lock_path, size, "%s.lock", listener->path);
    rc = take_lock(listener, err);
    if (rc == 0 && listener->adopted && !socket_file_note(listener->path, &listener->file))
        rc = socket_file_error(err, "looking at the service manager's socket", listener->path);
    if (rc == 0 && !listener->adopted)
        rc = clear_place(listener->path, err);
    if (rc == 0 && !listener->adopted)
        rc = socket_file_listen(listener->path, SOCK_SEQPACKET, &listener->fd, &listener->file, err);
    return rc ? rc : check_buffer(listener->fd, err);
}

bool session_listen_lost(const struct session_listener *listener)
{
    return listener->fd >= 0 && socket_file_lost(listener->path, &listener->file);
}

/* Between the look at a name and its removal no other daemon's file can come there. As long as this process listens and
 * holds its lock, a daemon that starts at the same path finds one of the two in its way and touches neither. A daemon
 * can lose its files only if somebody removes or renames the files of this one by hand and starts that daemon in the
 * same moment. */
void session_listen_close(struct session_listener *listener)
{
    if (listener->fd < 0)
        return;
    if (!listener->adopted)
        socket_file_remove(listener->path, &listener->file);
    close(listener->fd);
    listener->fd = -1;
}

void session_lock_release(struct session_listener *listener)
{
    if (listener->lock_fd < 0)
        return;
    if (lock_is_named(listener, listener->lock_fd))
        unlink(listener->lock_path);
    close(listener->lock_fd);
    listener->lock_fd = -1;
}
