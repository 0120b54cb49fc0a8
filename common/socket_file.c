#include "common/socket_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

int socket_file_error(struct error *err, const char *what, const char *path)
{
    bool refused = errno == EACCES || errno == EPERM || errno == EROFS;
    int code = refused ? LARDER_EPERM : errno == ENOENT ? LARDER_ENOENT : LARDER_EIO;
    return error_set(err, code, "%s %.300s: %s", what, path, strerror(errno));
}

bool socket_file_note(const char *path, struct socket_file *out)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return false;
    *out = (struct socket_file){.device = st.st_dev, .inode = st.st_ino, .known = true};
    return true;
}

bool socket_file_lost(const char *path, const struct socket_file *file)
{
    struct socket_file named;
    if (!file->known)
        return false;
    if (!socket_file_note(path, &named))
        return errno == ENOENT || errno == ENOTDIR;
    return named.device != file->device || named.inode != file->inode;
}

void socket_file_remove(const char *path, struct socket_file *file)
{
    struct socket_file named;
    if (file->known && socket_file_note(path, &named) && named.device == file->device && named.inode == file->inode)
        unlink(path);
    file->known = false;
}

/* knock returns 0 when nobody answers. */
static int knock(const struct sockaddr_un *address, int fd, pid_t *pid, struct error *err)
{
    struct ucred peer = {0};
    socklen_t len = sizeof peer;
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0)
        *pid = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 ? peer.pid : 0;
    else if (errno == ECONNREFUSED || errno == ENOENT)
        return 0;
    /* the queue of waiting connections is full; the socket has another type */
    else if (errno != EAGAIN && errno != EPROTOTYPE)
        return socket_file_error(err, "looking who answers at", address->sun_path);
    return error_set(err, LARDER_EBUSY, "a process answers at %s", address->sun_path);
}

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return address;
}

int socket_file_clear(const char *path, int type, pid_t *pid, struct error *err)
{
    struct sockaddr_un address = address_of(path);
    struct stat st;
    *pid = 0;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? 0 : socket_file_error(err, "looking at", path);
    if (!S_ISSOCK(st.st_mode))
        return error_set(err, LARDER_EINVAL,
                         "%s is not a socket and is in the way: remove it, or choose another socket path", path);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return socket_file_error(err, "making a socket for", path);
    int rc = knock(&address, fd, pid, err);
    close(fd);
    if (rc)
        return rc;
    if (unlink(path) != 0 && errno != ENOENT)
        return socket_file_error(err, "removing the socket a killed daemon left at", path);
    return 0;
}

int socket_file_listen(const char *path, int type, int *out, struct socket_file *file, struct error *err)
{
    struct sockaddr_un address = address_of(path);
    int rc = 0, fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    file->known = false;
    if (fd < 0)
        return socket_file_error(err, "making a socket for", path);
    /* The mode set before bind is the mode it is made with: there is no moment at which others could connect. */
    if (fchmod(fd, 0600) != 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        !socket_file_note(path, file) || listen(fd, SOMAXCONN) != 0)
        rc = socket_file_error(err, "listening at", path);
    if (rc) {
        socket_file_remove(path, file);
        close(fd);
        return rc;
    }
    *out = fd;
    return 0;
}
