/* http_priv.h: what the HTTP endpoint's files share.
 *
 *   http.c         the endpoint's life, its thread, and what is answered
 *   http_listen.c  where it listens
 *   http_visits.c  who is connected, since when, and who has to go */
#ifndef LARDER_SERVER_CONTROL_HTTP_PRIV_H
#define LARDER_SERVER_CONTROL_HTTP_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/socket_file.h"
#include "server/control/http.h"

struct MHD_Connection;

#define HTTP_CONNECTIONS_SPARE 8 /* places for newcomers, while connections that make room for them are being closed */

/* http_listen.c: both open a socket *fd that listens and does not block; it is the caller's. */
int http_listen_tcp(const char *address, uint16_t port, int *fd, struct error *err);
int http_listen_unix(const char *path, int *fd, struct socket_file *file, struct error *err);
uint16_t http_listen_port(int fd); /* 0: it is no TCP socket */
/* http_host_is_loopback: a request's Host, with or without a port, is "localhost" or a loopback address. */
bool http_host_is_loopback(const char *host);

/* A connection. It asks from its beginning, or from the end of the previous answer, until its request is whole. Then it
 * is answered until the answer is sent. Each of the two has a deadline. Between them it may have to wait. */
struct visit {
    bool used, answered, ended;   /* ended: the connection is shut down and about to be closed */
    bool waited;                  /* the request has waited long enough for this answer */
    struct MHD_Connection *waits; /* the library's connection, which is suspended; NULL: it does not wait */
    int fd;
    uint64_t since_ns, deadline_ns;
};

/* All connections. Only the HTTP thread uses it. */
struct visits {
    struct visit all[HTTP_CONNECTIONS_MAX + HTTP_CONNECTIONS_SPARE];
};

/* visits_begin notes a connection. If there are HTTP_CONNECTIONS_MAX already, it ends the oldest that has not got its
 * whole answer; connections that are still asking go first. NULL: there is no place, and the newcomer is ended. */
struct visit *visits_begin(struct visits *visits, int fd);
/* visit_asks says that the connection's next request may begin, visit_is_answered that its answer is being sent, and
 * visit_is_over that the connection is closed. */
void visit_asks(struct visit *visit);
void visit_is_answered(struct visit *visit);
/* visit_waits says that the request is whole, and the connection suspended. visits_next_waiting returns one of those,
 * and takes it out: the caller resumes it. Only such as are ended, unless it is due for all; NULL: there is none. */
void visit_waits(struct visit *visit, struct MHD_Connection *connection);
struct MHD_Connection *visits_next_waiting(struct visits *visits, bool due);
bool visits_wait(const struct visits *visits); /* whether a connection waits that is not ended */
void visit_is_over(struct visit *visit);
/* visits_end_late ends the connections whose deadline is before now_ns. The caller has read what had come by then. */
void visits_end_late(struct visits *visits, uint64_t now_ns);
/* visits_next_deadline returns 0 if a waiting connection has ended, and UINT64_MAX if there is no deadline. */
uint64_t visits_next_deadline(const struct visits *visits);

#endif
