#include "server/leaving.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/socket_path.h"

enum { SLICE_MS = 100, BLIND_MS = 10 }; /* BLIND_MS: the wait when there is no process to wait for */

static bool serves(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || strlen(path) >= sizeof address.sun_path) {
        if (fd >= 0)
            close(fd);
        return true; /* it cannot be found out who serves the socket, so there is no reason to wait */
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    bool refused = connect(fd, (const struct sockaddr *)&address, sizeof address) != 0 &&
                   (errno == ECONNREFUSED || errno == ENOENT);
    close(fd);
    return !refused;
}

static long locked_by(const char *path)
{
    char name[SOCKET_PATH_MAX + sizeof ".lock"], text[32];
    snprintf(name, sizeof name, "%s.lock", path);
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
    return strtol(text, NULL, 10);
}

bool leaving_wait(const char *socket_path)
{
    if (serves(socket_path))
        return false;
    long pid = locked_by(socket_path);
    int process = pid > 0 ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;
    struct pollfd fd = {.fd = process, .events = POLLIN};
    poll(&fd, 1, process >= 0 ? SLICE_MS : BLIND_MS); /* poll passes a negative descriptor over */
    if (process >= 0)
        close(process);
    return true;
}
