/* serve_listen.c: the socket that a server listens on. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/net/serve_priv.h"

#define BACKLOG 256

static uint16_t port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        return 0;
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

/* Gives a socket, or -1 with errno. Without SO_REUSEADDR the port of a daemon that just ended stays taken for a minute;
 * with it a second listener on the same port is still refused. */
static int listen_at(const struct addrinfo *at)
{
    int one = 1, fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 && bind(fd, at->ai_addr, at->ai_addrlen) == 0 &&
        listen(fd, BACKLOG) == 0)
        return fd;
    int failed = errno;
    close(fd);
    errno = failed;
    return -1;
}

int serve_listen(const char *host, uint16_t port, int *fd, uint16_t *chosen, struct error *err)
{
    struct addrinfo wish = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found = NULL;
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    int rc = getaddrinfo(host, service, &wish, &found);
    if (rc)
        return error_set(err, LARDER_EINVAL, "cannot listen on '%s': %s", host, gai_strerror(rc));
    int at = -1;
    errno = EADDRNOTAVAIL;
    for (const struct addrinfo *each = found; each && at < 0; each = each->ai_next)
        at = listen_at(each);
    int failed = errno;
    freeaddrinfo(found);
    if (at >= 0) {
        *fd = at;
        *chosen = port_of(at);
        return 0;
    }
    int code = failed == EADDRINUSE ? LARDER_EBUSY : failed == EACCES ? LARDER_EPERM : LARDER_EIO;
    return error_set(err, code, "cannot listen on port %u of %s: %s", port, host, strerror(failed));
}

void serve_address(const struct sockaddr *address, char *out, size_t cap)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    socklen_t len = address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    bool known = getnameinfo(address, len, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) == 0;
    snprintf(out, cap, strchr(known ? host : "", ':') ? "[%s]:%s" : "%s:%s", known ? host : "?", known ? port : "?");
}
