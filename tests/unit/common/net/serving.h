/* serving.h: a server for tests. What its requests are answered with is told by their paths:
 *   /echo   at once: the body, in pieces
 *   /later  the same by another thread, the newest request first
 *   /hold   not at all, until the test answers */
#ifndef LARDER_TESTS_SERVING_H
#define LARDER_TESTS_SERVING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/net/serve.h"

#define SERVING_HOST "127.0.77.1" /* where nobody else's late connections arrive */
#define SERVING_KEPT_MAX 4096
#define SERVING_PIECE_BYTES 1000

struct kept {
    uint64_t ticket;
    void *body;
    size_t body_bytes;
};

struct serving {
    struct net_serve *serve;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct kept later[SERVING_KEPT_MAX];
    uint64_t held[SERVING_KEPT_MAX], dropped[SERVING_KEPT_MAX];
    uint32_t n_later, n_held, n_dropped, n_requests;
    uint32_t n_peers; /* requests that came with a certificate */
    bool ending;
    char names[256]; /* of the last peer: "cluster: name name " */
    atomic_uint given, released;
};

struct echo {
    struct serving *serving;
    void *body;
};

static inline void serving_release(void *arg)
{
    struct echo *echo = arg;
    atomic_fetch_add(&echo->serving->released, 1);
    free(echo->body);
    free(echo);
}

/* serving_answer answers with these bytes, cut to pieces, and takes them over. */
static inline void serving_answer(struct serving *serving, uint64_t ticket, void *body, size_t body_bytes)
{
    uint32_t n = (uint32_t)(body_bytes / SERVING_PIECE_BYTES) + 1;
    struct net_piece *pieces = xcalloc(n, sizeof *pieces);
    for (uint32_t i = 0; i < n; i++) {
        size_t at = (size_t)i * SERVING_PIECE_BYTES, left = body_bytes - at;
        pieces[i] = (struct net_piece){(char *)body + at, left < SERVING_PIECE_BYTES ? left : SERVING_PIECE_BYTES};
    }
    struct echo *echo = xmalloc(sizeof *echo);
    *echo = (struct echo){serving, body};
    atomic_fetch_add(&serving->given, 1);
    struct net_answer answer = {
        .status = 200, .pieces = pieces, .n_pieces = n, .release = serving_release, .arg = echo};
    net_serve_answer(serving->serve, ticket, &answer);
    free(pieces);
}

static inline void serving_note_peer(struct serving *serving, const struct net_peer *peer)
{
    serving->n_peers++;
    strcpy(serving->names, peer->cluster ? peer->cluster : "none");
    strcat(serving->names, ":");
    for (size_t i = 0; i < NET_PEER_NAMES_MAX && peer->names[i]; i++) {
        strcat(serving->names, " ");
        strncat(serving->names, peer->names[i], 60);
    }
}

static inline void serving_request(void *user, struct net_serve_request *request)
{
    struct serving *serving = user;
    struct kept kept = {request->ticket, request->body, request->body_bytes};
    bool echo = strcmp(request->path, "/echo") == 0;
    CHECK(request->ticket != 0 && request->address[0] != 0);
    pthread_mutex_lock(&serving->lock);
    CHECK(serving->serve && serving->n_later < SERVING_KEPT_MAX && serving->n_held < SERVING_KEPT_MAX);
    serving->n_requests++;
    if (request->peer)
        serving_note_peer(serving, request->peer);
    if (strcmp(request->path, "/hold") == 0)
        serving->held[serving->n_held++] = request->ticket; /* its body is not taken over */
    else
        request->body = NULL;
    if (strcmp(request->path, "/later") == 0)
        serving->later[serving->n_later++] = kept;
    pthread_cond_broadcast(&serving->change);
    pthread_mutex_unlock(&serving->lock);
    if (echo)
        serving_answer(serving, kept.ticket, kept.body, kept.body_bytes);
}

static inline void serving_drop(void *user, uint64_t ticket)
{
    struct serving *serving = user;
    pthread_mutex_lock(&serving->lock);
    CHECK(serving->n_dropped < SERVING_KEPT_MAX);
    serving->dropped[serving->n_dropped++] = ticket;
    pthread_cond_broadcast(&serving->change);
    pthread_mutex_unlock(&serving->lock);
}

static inline void *serving_run(void *arg)
{
    struct serving *serving = arg;
    pthread_mutex_lock(&serving->lock);
    while (!serving->ending || serving->n_later > 0) {
        if (serving->n_later == 0) {
            pthread_cond_wait(&serving->change, &serving->lock);
            continue;
        }
        struct kept kept = serving->later[--serving->n_later];
        pthread_mutex_unlock(&serving->lock);
        serving_answer(serving, kept.ticket, kept.body, kept.body_bytes);
        pthread_mutex_lock(&serving->lock);
    }
    pthread_mutex_unlock(&serving->lock);
    return NULL;
}

/* serving_start starts a server on a free loopback port; of the options the callbacks, the host and the user are set
 * here. */
static inline struct serving *serving_start(struct net_serve_options options)
{
    struct serving *serving = xcalloc(1, sizeof *serving);
    struct error err = {0};
    pthread_mutex_init(&serving->lock, NULL);
    pthread_cond_init(&serving->change, NULL);
    options.host = options.host ? options.host : SERVING_HOST;
    options.on_request = serving_request;
    options.on_drop = serving_drop;
    options.user = serving;
    pthread_mutex_lock(&serving->lock); /* a request may come before we know the server */
    CHECK(net_serve_start(&options, &serving->serve, &err) == 0);
    pthread_mutex_unlock(&serving->lock);
    CHECK(pthread_create(&serving->thread, NULL, serving_run, serving) == 0);
    return serving;
}

/* serving_wait waits until *number, which the lock guards, is at least so much. */
static inline void serving_wait(struct serving *serving, const uint32_t *number, uint32_t least)
{
    pthread_mutex_lock(&serving->lock);
    while (*number < least)
        pthread_cond_wait(&serving->change, &serving->lock);
    pthread_mutex_unlock(&serving->lock);
}

static inline struct net_serve_counts serving_count(struct serving *serving)
{
    struct net_serve_counts counts;
    net_serve_count(serving->serve, &counts);
    return counts;
}

/* serving_end stops the server, but keeps what it noted. Each answer was released once. */
static inline void serving_end(struct serving *serving)
{
    pthread_mutex_lock(&serving->lock);
    serving->ending = true;
    pthread_cond_broadcast(&serving->change);
    pthread_mutex_unlock(&serving->lock);
    pthread_join(serving->thread, NULL);
    net_serve_stop(serving->serve);
    CHECK(atomic_load(&serving->given) == atomic_load(&serving->released));
}

static inline void serving_free(struct serving *serving)
{
    pthread_mutex_destroy(&serving->lock);
    pthread_cond_destroy(&serving->change);
    free(serving);
}

static inline void serving_stop(struct serving *serving)
{
    serving_end(serving);
    serving_free(serving);
}

#endif
