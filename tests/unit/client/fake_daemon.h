/* fake_daemon.h: the daemon's side of the protocol for the client library's tests. It runs in a thread of its own: a
 * default conversation up to REGISTERED and the class names, then the test's script, which says what the daemon does,
 * well or ill. It serves a connection for each script, one after the other; a connection closes when its script
 * returns, as it does when a daemon dies. */
#ifndef LARDER_TESTS_FAKE_DAEMON_H
#define LARDER_TESTS_FAKE_DAEMON_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

#include "common/check.h"
#include "common/record.h"
#include "common/socket_path.h"
#include "common/wire.h"

#define FAKE_ARENA_BYTES 65536u
#define FAKE_SAMPLE_BYTES 12u /* 2 × 2 × 3, uint8 */
#define FAKE_BATCH_SIZE 4u
#define FAKE_CLASSES 5u
#define FAKE_DATASET_SAMPLES 5200u /* the sample with id n has index n + 1000 */
#define FAKE_RECORD_MAX 65536u
#define FAKE_SCRIPTS_MAX 128u

struct fake_daemon;

/* A script runs in the daemon's thread once the job is registered; its connection closes when it returns. */
typedef void fake_script(struct fake_daemon *daemon);

struct fake_daemon {
    char folder[64], path[SOCKET_PATH_MAX];
    int listener, fd, arena_fd;
    uint8_t *arena; /* sample with id n: FAKE_SAMPLE_BYTES bytes of value n at n × 16 */
    pthread_t thread;
    sem_t told;          /* by fake_leave */
    bool opening_only;   /* the script takes over right after accept */
    bool unsealed;       /* the arena lacks its seals */
    bool ignores_record; /* REGISTERED says what `job` says, whatever the client presents */
    uint32_t held_max, arena_claim_bytes;
    uint32_t lost;              /* samples that the batches sent from now on say were left out */
    struct wire_registered job; /* what REGISTERED says; epoch and batch are those of a record that comes */
    int refuse;                 /* not 0: the next REGISTER is refused with this code */
    fake_script *scripts[FAKE_SCRIPTS_MAX];
    uint32_t n_scripts;
    /* what it has seen; read them after fake_stop */
    struct wire_register reg;
    char dataset[WIRE_PATH_MAX + 1], pipeline[256], client[WIRE_CLIENT_MAX + 1];
    uint64_t released[256];
    uint32_t n_released, credits, epoch, connections;
    uint32_t waits, awaited; /* so many NEXT without credits came, the last one for so many batches */
    bool bye, ended;
    char name[WIRE_NAME_MAX + 1], refused_name[WIRE_NAME_MAX + 1]; /* of the job, as REGISTER had it */
    bool presents;                                                 /* REGISTER came with a record: */
    struct record record;
    uint8_t record_bytes[FAKE_RECORD_MAX];
    uint8_t in[WIRE_REPLY_MAX], out[WIRE_REPLY_MAX];
};

/* fake_layout returns the layout of samples that are one image of uint8, channels last. */
struct sample_layout fake_layout(uint32_t height, uint32_t width, uint32_t channels);

/* fake_start listens on a socket of its own and serves one connection with `script` (NULL: none). Fields that shape the
 * conversation are set before. */
void fake_start(struct fake_daemon *daemon, fake_script *script);
void fake_init(struct fake_daemon *daemon);
void fake_stop(struct fake_daemon *daemon); /* waits for the scripts' end, and cleans up */
/* fake_leave tells the scripts, waits for their end and stops listening; fake_come listens again, at the same path,
 * with other memory. fake_then adds the script of one connection more behind theirs, before fake_start or fake_come. */
void fake_leave(struct fake_daemon *daemon);
void fake_come(struct fake_daemon *daemon, fake_script *script);
void fake_then(struct fake_daemon *daemon, fake_script *script);

size_t fake_count_fds(void); /* open in this process, whoever opened them */

/* for scripts */
bool fake_receive(struct fake_daemon *daemon, struct wire_message *out); /* false: the client closed */
void fake_send(struct fake_daemon *daemon, const struct wire_message *msg, int passed_fd);
void fake_send_bytes(struct fake_daemon *daemon, const void *bytes, size_t len, int passed_fd, unsigned n_fds);
void fake_batch(struct fake_daemon *daemon, uint64_t number, uint32_t epoch, uint32_t index, uint32_t first_id,
                uint32_t count, bool last);
void fake_error(struct fake_daemon *daemon, uint32_t seq, int code, bool fatal, const char *text);
/* fake_wait_credits takes messages until `credits` batches of `epoch` are asked for, or the client closes (false). */
bool fake_wait_credits(struct fake_daemon *daemon, uint32_t epoch, uint32_t credits);
bool fake_wait_released(struct fake_daemon *daemon, uint32_t count);
void fake_until_closed(struct fake_daemon *daemon);
void fake_until_told(struct fake_daemon *daemon); /* by fake_leave or fake_stop */
/* fake_serve sends epochs of n_batches full batches within what is asked for and held, until the client closes. What
 * the client has presented as taken it leaves out. fake_serve_some ends after `most` batches. */
void fake_serve(struct fake_daemon *daemon, uint32_t n_batches);
void fake_serve_some(struct fake_daemon *daemon, uint32_t n_batches, uint32_t most);

#endif
