#include "server/service.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { SERVICE_FD = 3 }; /* the first that a manager hands over */
#define WATCHDOG_MS_MIN 10
#define WATCHDOG_MS_MAX 3600000

void service_notify(const char *lines)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = path ? strlen(path) : 0;
    if (len < 2 || len >= sizeof address.sun_path || (*path != '/' && *path != '@'))
        return;
    memcpy(address.sun_path, path, len);
    if (*path == '@') /* a name outside of the file system */
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    ssize_t sent = sendto(fd, lines, strlen(lines), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    (void)sent; /* a manager that does not listen is told nothing */
    close(fd);
}

/* number_of reads a whole number of the environment. false: it is not there, or no number. */
static bool number_of(const char *name, unsigned long long *out)
{
    const char *text = getenv(name);
    char *end;
    if (!text || *text < '0' || *text > '9')
        return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return !*end && errno == 0;
}

/* is_meant tells whether the manager means this process, not one that has inherited its environment. */
static bool is_meant(const char *name)
{
    unsigned long long pid;
    return !getenv(name) || (number_of(name, &pid) && pid == (unsigned long long)getpid());
}

unsigned service_watchdog_ms(void)
{
    unsigned long long us;
    if (!is_meant("WATCHDOG_PID") || !number_of("WATCHDOG_USEC", &us) || us == 0)
        return 0;
    us /= 2000;
    return us < WATCHDOG_MS_MIN ? WATCHDOG_MS_MIN : us > WATCHDOG_MS_MAX ? WATCHDOG_MS_MAX : (unsigned)us;
}

static int socket_option(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 ? value : -1;
}

/* path_of returns the path that a unix socket is bound to. false: it is none. */
static bool path_of(int fd, char *path, size_t size)
{
    struct sockaddr_un address = {0};
    socklen_t len = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0 || address.sun_family != AF_UNIX)
        return false;
    size_t most = sizeof address.sun_path, used = strnlen(address.sun_path, most);
    if (address.sun_path[0] != '/' || used == most || used >= size)
        return false;
    memcpy(path, address.sun_path, used + 1);
    return true;
}

int service_socket(int *fd, char *path, size_t size, struct error *err)
{
    unsigned long long count;
    bool given = getenv("LISTEN_PID") && is_meant("LISTEN_PID") && number_of("LISTEN_FDS", &count) && count > 0;
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    *fd = -1;
    if (!given)
        return 0;
    int flags = fcntl(SERVICE_FD, F_GETFL);
    if (count != 1 || flags < 0 || !path_of(SERVICE_FD, path, size) ||
        socket_option(SERVICE_FD, SO_TYPE) != SOCK_SEQPACKET || socket_option(SERVICE_FD, SO_ACCEPTCONN) != 1)
        return error_set(err, LARDER_EINVAL,
                         "the service manager hands over something else than one listening socket with a path: the "
                         "socket unit needs one ListenSequentialPacket=/PATH and nothing more");
    if (fcntl(SERVICE_FD, F_SETFD, FD_CLOEXEC) < 0 || fcntl(SERVICE_FD, F_SETFL, flags | O_NONBLOCK) < 0)
        return error_set(err, LARDER_EIO, "the service manager's socket: %s", strerror(errno));
    *fd = SERVICE_FD;
    return 0;
}
