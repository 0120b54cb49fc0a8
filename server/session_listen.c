/* session_listen.c: where the socket lies, and who may have it.
 *
 * The lock file decides, not the socket: a daemon that was killed leaves its socket behind, but the kernel drops its
 * lock. The lock file itself is removed when the daemon ends, while it is locked; whoever locks it checks that it is
 * still the file of that name, so that two daemons cannot hold two files called the same. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/check.h"
#include "common/log.h"
#include "common/socket_path.h"
#include "server/session_priv.h"

#define LOCK_TRIES 100 /* a file that is removed just as it is locked, so often in a row, is no accident */

static int system_error(struct error *err, const char *what, const char *path)
{
    bool refused = errno == EACCES || errno == EPERM || errno == EROFS;
    int code = refused ? LARDER_EPERM : errno == ENOENT ? LARDER_ENOENT : LARDER_EIO;
    return error_set(err, code, "%s %.300s: %s", what, path, strerror(errno));
}

static int make_folder(const char *path, struct error *err)
{
    char folder[SOCKET_PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return 0;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    if (mkdir(folder, 0700) == 0 || errno == EEXIST)
        return 0;
    if (errno == ENOENT)
        return error_set(err, LARDER_ENOENT,
                         "the socket's folder %s cannot be made because the one above it is missing: make it, "
                         "or choose another socket path", folder);
    return system_error(err, "making the socket's folder", folder);
}

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

/* Gives 1 when the file was locked but had lost its name meanwhile: try again. */
static int try_lock(struct session *session, struct error *err)
{
    int fd = open(session->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return system_error(err, "opening the lock file", session->lock_path);
    int rc = 0;
    struct stat ours, named;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        rc = errno == EWOULDBLOCK ? busy(err, session->path, locked_by(fd))
                                  : system_error(err, "locking", session->lock_path);
    else if (fstat(fd, &ours) != 0 || stat(session->lock_path, &named) != 0 || ours.st_ino != named.st_ino ||
             ours.st_dev != named.st_dev)
        rc = 1;
    if (rc) {
        close(fd);
        return rc;
    }
    char pid[32];
    int len = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, pid, (size_t)len, 0) != len)
        log_warn("msg=\"the lock file does not show the pid\" file=\"%s\" err=\"%s\"", session->lock_path,
                 strerror(errno));
    session->lock_fd = fd;
    return 0;
}

static int take_lock(struct session *session, struct error *err)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        int rc = try_lock(session, err);
        if (rc <= 0)
            return rc;
    }
    return error_set(err, LARDER_EBUSY, "the lock file %s is removed again and again by somebody", session->lock_path);
}

/* With the lock held a socket in our place is a killed daemon's, unless somebody removed the lock file of one that
 * lives. */
static int clear_place(const struct sockaddr_un *address, struct error *err)
{
    struct stat st;
    if (lstat(address->sun_path, &st) != 0)
        return errno == ENOENT ? 0 : system_error(err, "looking at", address->sun_path);
    if (!S_ISSOCK(st.st_mode))
        return error_set(err, LARDER_EINVAL,
                         "%s is not a socket and is in the way: remove it, or choose another socket path",
                         address->sun_path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return system_error(err, "making a socket for", address->sun_path);
    bool alive = connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN;
    struct ucred peer = {0};
    socklen_t len = sizeof peer;
    if (alive && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
        peer.pid = 0;
    close(fd);
    if (alive)
        return busy(err, address->sun_path, peer.pid);
    if (unlink(address->sun_path) != 0 && errno != ENOENT)
        return system_error(err, "removing the socket a killed daemon left at", address->sun_path);
    log_info("msg=\"removed the socket of a daemon that was killed\" socket=\"%s\"", address->sun_path);
    return 0;
}

/* The largest message must fit the socket's send buffer, or it could never be sent. The limit is the same for all
 * sockets, so it is tried on this one. */
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

static int listen_at(const char *path, int *out, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    int rc = clear_place(&address, err);
    if (rc)
        return rc;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return system_error(err, "making a socket for", path);
    bool bound = false;
    rc = check_buffer(fd, err);
    /* The mode set before bind is the mode it is made with: there is no moment at which others could connect. */
    if (!rc && (fchmod(fd, 0600) != 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0))
        rc = system_error(err, "listening at", path);
    else
        bound = !rc;
    if (!rc && listen(fd, SOMAXCONN) != 0)
        rc = system_error(err, "listening at", path);
    if (rc) {
        close(fd);
        if (bound)
            unlink(path);
        return rc;
    }
    *out = fd;
    return 0;
}

int session_listen_open(struct session *session, struct error *err)
{
    int rc = socket_path_check(session->path, err);
    if (rc)
        return rc;
    rc = make_folder(session->path, err);
    if (rc)
        return rc;
    size_t size = strlen(session->path) + sizeof ".lock";
    session->lock_path = xmalloc(size);
    snprintf(session->lock_path, size, "%s.lock", session->path);
    rc = take_lock(session, err);
    return rc ? rc : listen_at(session->path, &session->listen_fd, err);
}

void session_listen_close(struct session *session)
{
    if (session->listen_fd < 0)
        return;
    unlink(session->path);
    close(session->listen_fd);
    session->listen_fd = -1;
}

void session_lock_release(struct session *session)
{
    if (session->lock_fd < 0)
        return;
    unlink(session->lock_path);
    close(session->lock_fd);
    session->lock_fd = -1;
}
