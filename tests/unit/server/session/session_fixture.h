/* session_fixture.h: an owner that answers a session's callbacks, and a raw client that may say anything. */
#ifndef LARDER_TESTS_UNIT_SERVER_SESSION_SESSION_FIXTURE_H
#define LARDER_TESTS_UNIT_SERVER_SESSION_SESSION_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/wire.h"
#include "server/session/session.h"

/* What the owner saw, over all clients. */
struct owner_counts {
    uint64_t registers, classes, nexts, credits, releases, states, gones, byes;
};

/* Answers REGISTER with REGISTERED, CLASSES_GET with two names, NEXT with a batch of `samples` for each credit, and
 * STATE_GET with "E/B" as the token, of epoch E and B batches, or with an error for an epoch above 1000. A job named
 * "refuse" gets a fatal error, one named "quiet" no answer at all, and one named "silent" no batches, names or
 * tokens. */
struct owner {
    struct session *session;
    char folder[64], path[96];
    int arena_fd;
    _Atomic uint32_t samples; /* set by the test, read by the session's thread; so is last_at */
    _Atomic uint32_t last_at; /* the batch of an epoch, from 1, that is its LAST; 0: none */
    _Atomic bool turns;       /* TURNS of one turn goes before each batch */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct owner_counts counts;
    struct session_peer peer; /* of the last register */
    char state[64];           /* what came with it; empty: nothing */
    _Atomic uint64_t client;  /* the same; read without the lock */
    uint64_t batch;           /* numbers given so far */
    uint32_t sent_of_epoch, epoch;
    _Atomic uint64_t silent; /* the last client of that name */
};

struct owner *owner_start(uint32_t connections_max);
void owner_stop(struct owner *owner); /* CHECKs that every registered client was reported gone once */
struct owner_counts owner_counts_now(struct owner *owner);
/* owner_wait waits until the counter at `offset` of struct owner_counts is at least `value`; false after a
 * minute. */
bool owner_wait(struct owner *owner, size_t offset, uint64_t value);
#define OWNER_WAIT(owner, field, value) assert_true(owner_wait((owner), offsetof(struct owner_counts, field), (value)))

/* Clients: plain descriptors. Failures end the test, except where they are the result. */
int client_connect(const char *path);
bool client_send(int fd, const struct wire_message *msg); /* false: the daemon is gone */
bool client_send_raw(int fd, const void *data, size_t len_bytes);
/* client_receive waits up to a minute. Gives 1 for a message (its texts point into a buffer that lasts until the
 * next call in this thread), 0 for the end, and puts a passed descriptor into *passed_fd when that is not NULL. */
int client_receive(int fd, struct wire_message *out, int *passed_fd);
bool client_hello(int fd);                      /* HELLO and its WELCOME */
bool client_register(int fd, const char *name); /* sends REGISTER, waits for nothing */
bool client_open(int fd, const char *name);     /* all that and REGISTERED */
bool client_next(int fd, uint32_t epoch, uint32_t credits);
bool client_release(int fd, uint64_t batch);
/* client_expect_error reads on until an ERROR comes, checks its code and whether it is fatal, and, when fatal, that the
 * end follows. Gives its text. */
const char *client_expect_error(int fd, int code, bool fatal);

/* client_send_with sends a message with n copies of passed_fd. */
bool client_send_with(int fd, const struct wire_message *msg, int passed_fd, unsigned n_fds);

/* file_of makes a memfd that holds the text. text_of reads the beginning of a file, and closes it. */
int file_of(const char *text);
void text_of(int fd, char *text, size_t cap);
int count_descriptors(void);
void wait_for_descriptors(int count); /* until the process has so many */
void pause_ms(unsigned ms);
/* took_at_most prints a time and says whether it is within its limit; where LARDER_TEST_QUIET is not set other
 * processes may have caused it, and it always is. */
bool took_at_most(const char *what, uint64_t took_ns, uint64_t limit_ns);

#endif
