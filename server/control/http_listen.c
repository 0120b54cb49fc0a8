/* http_listen.c: opens the socket of the HTTP endpoint. It is a loopback port, which all users of the machine reach, or
 * a unix socket, to which only its own user (and root) may connect. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/socket_folder.h"
#include "common/socket_path.h"
#include "server/control/http_priv.h"

#define HTTP_BACKLOG SOMAXCONN /* who asks beside many is in line, and does not have to knock again */
#define HOST_MAX 64            /* bytes; no loopback address is that long */

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
    socklen_t len;
};

static int parse_address(const char *text, uint16_t port, struct address *out, struct error *err)
{
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, text, &out->v4.sin_addr) == 1 && ntohl(out->v4.sin_addr.s_addr) >> 24 == 127) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons(port);
        out->len = sizeof out->v4;
        return 0;
    }
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET6, text, &out->v6.sin6_addr) == 1 && IN6_IS_ADDR_LOOPBACK(&out->v6.sin6_addr)) {
        out->v6.sin6_family = AF_INET6;
        out->v6.sin6_port = htons(port);
        out->len = sizeof out->v6;
        return 0;
    }
    return error_set(err, LARDER_EINVAL, "metrics.address '%s' is not a loopback address: write 127.0.0.1 or ::1",
                     text);
}

int http_listen_tcp(const char *text, uint16_t port, int *out, struct error *err)
{
    struct address address;
    int one = 1, rc = parse_address(text, port, &address, err);
    if (rc)
        return rc;
    int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Without SO_REUSEADDR the port of a daemon that just ended stays taken for a minute. With it, a second listener on
     * the same port is still refused. */
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(fd, &address.any, address.len) == 0 && listen(fd, HTTP_BACKLOG) == 0) {
        *out = fd;
        return 0;
    }
    int failed = errno;
    if (fd >= 0)
        close(fd);
    if (failed == EADDRINUSE)
        return error_set(err, LARDER_EBUSY,
                         "port %u of %s is in use (by another larderd perhaps): set metrics.port to a free one, or to "
                         "0 for no metrics",
                         port, text);
    if (failed == EACCES)
        return error_set(err, LARDER_EPERM, "may not listen on port %u of %s: set metrics.port to one above 1023", port,
                         text);
    return error_set(err, LARDER_EIO, "cannot listen on port %u of %s: %s", port, text, strerror(failed));
}

uint16_t http_listen_port(int fd)
{
    struct address address = {.len = sizeof address.v6};
    if (getsockname(fd, &address.any, &address.len) != 0 || address.any.sa_family == AF_UNIX)
        return 0;
    return ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
}

/* No lock goes with this socket. If two daemons are given the same path at the same moment, the first to bind gets it.
 */
int http_listen_unix(const char *path, int *fd, struct socket_file *file, struct error *err)
{
    pid_t pid;
    int rc = socket_path_check(path, err);
    if (rc == 0)
        rc = socket_folder_prepare(path, err);
    if (rc == 0)
        rc = socket_file_clear(path, SOCK_STREAM, &pid, err);
    if (rc == LARDER_EBUSY)
        return error_set(err, rc, "another process answers at %s: stop it, or set metrics.socket to another path",
                         path);
    return rc ? rc : socket_file_listen(path, SOCK_STREAM, fd, file, err);
}

bool http_host_is_loopback(const char *host)
{
    char name[HOST_MAX];
    struct address address;
    struct error err;
    bool bracket = *host == '[';
    size_t len = strcspn(host + bracket, bracket ? "]" : ":");
    const char *rest = host + bracket + len;
    if (len >= sizeof name || (bracket && *rest++ != ']'))
        return false;
    if (*rest && (*rest != ':' || strspn(rest + 1, "0123456789") != strlen(rest + 1)))
        return false;
    memcpy(name, host + bracket, len);
    name[len] = '\0';
    return (!bracket && strcasecmp(name, "localhost") == 0) || parse_address(name, 0, &address, &err) == 0;
}
