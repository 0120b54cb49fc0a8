/* fake_server.h: an HTTP server for tests, on a free loopback port. Each connection has a thread, so an answer may be
 * late. A test gives a function that answers requests; what the function sends may come in pieces. */
#ifndef LARDER_TESTS_FAKE_SERVER_H
#define LARDER_TESTS_FAKE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A request as the server has it whole, and the answer that is being made. */
struct fake_exchange {
    const char *path;
    const char *body; /* NUL-terminated */
    size_t body_bytes;
    const char *(*header)(struct fake_exchange *exchange, const char *name); /* of the request; NULL: absent */
    void *connection;
    int status;        /* 200, unless changed */
    const char *text;  /* the answer, static or living as long as the server; NULL with more */
    size_t text_bytes; /* 0: strlen */
    /* more gives the next piece of the answer, copied into at; 0: the end; negative: the connection breaks here. It
     * may wait, if it looks at fake_ends. */
    long (*more)(void *arg, char *at, size_t cap);
    void *more_arg;
};

struct fake_tls {
    const char *cert, *key, *ca; /* paths; with ca, whoever shows no certificate of it gets 403 */
};

struct fake_server;

/* fake_start listens on 127.0.0.1; port 0: any. tls may be NULL. */
struct fake_server *fake_start(uint16_t port, const struct fake_tls *tls,
                               void (*answer)(void *arg, struct fake_exchange *exchange), void *arg);
uint16_t fake_port(const struct fake_server *server);
/* fake_connections returns how many connections there were in all, and the most at a time. */
uint32_t fake_connections(struct fake_server *server, uint32_t *most);
/* fake_wait waits in an answer until the server stops, or ms have passed. */
bool fake_wait(struct fake_server *server, uint64_t ms); /* whether it stops */
void fake_stop(struct fake_server *server);

/* fake_raw_start answers the first connection with these bytes once it has sent something, then closes it; until
 * fake_raw_stop it does nothing more. With no bytes at all it never answers. */
struct fake_raw;
struct fake_raw *fake_raw_start(const void *bytes, size_t len_bytes, bool keep_open);
uint16_t fake_raw_port(const struct fake_raw *raw);
void fake_raw_stop(struct fake_raw *raw);

#endif
