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

#define HTTP_CONNECTIONS_SPARE 8 /* newcomers, while those that make room for them are being closed */

/* http_listen.c. *fd listens and does not block. */
int http_listen_tcp(const char *address, uint16_t port, int *fd, struct error *err);
int http_listen_unix(const char *path, int *fd, struct socket_file *file, struct error *err);
uint16_t http_listen_port(int fd); /* 0: not of TCP */

/* A connection. It asks from when it came, or from the end of the answer before, until its request is whole; then it is
 * answered until the answer is sent. Either has its deadline. */
struct visit {
    bool used, answered, ended; /* ended: shut down, and about to be closed */
    int fd;
    uint64_t since_ns, deadline_ns;
};

/* All of them; the HTTP thread's. */
struct visits {
    struct visit all[HTTP_CONNECTIONS_MAX + HTTP_CONNECTIONS_SPARE];
};

/* visits_begin notes a connection; where there are HTTP_CONNECTIONS_MAX already it ends the oldest that has not got its
 * whole answer, of those that ask still first. NULL, and the newcomer is ended: there is no place for it. */
struct visit *visits_begin(struct visits *visits, int fd);
void visit_asks(struct visit *visit);
void visit_is_answered(struct visit *visit);
void visit_is_over(struct visit *visit);
/* visits_end_late ends those whose deadline is before now_ns; what had come by then has been read. */
void visits_end_late(struct visits *visits, uint64_t now_ns);
uint64_t visits_next_deadline(const struct visits *visits); /* UINT64_MAX: none */

#endif
