/* inbox.h: what the other threads tell the engine's thread: one mailbox of small messages.
 *
 * Pushing waits while the mailbox is full; that cannot deadlock, because the engine's thread waits for nothing else.
 * Pointers in a message change hands with it. */
#ifndef LARDER_SERVER_DRIVER_INBOX_H
#define LARDER_SERVER_DRIVER_INBOX_H

#include "common/mailbox.h"
#include "server/driver/registration.h"
#include "server/workers/worker.h"

#define INBOX_MESSAGES 16384

struct driver_question; /* questions.c */

enum inbox_type {
    INBOX_COMING,     /* a client asked to be registered; the registrar is at it */
    INBOX_REGISTERED, /* the registrar's result */
    INBOX_GONE,
    INBOX_NEXT,
    INBOX_RELEASE,
    INBOX_CLASSES,
    INBOX_LOADED,
    INBOX_READ, /* a read of LOADs has ended, after all of its LOADED */
    INBOX_PREPARED,
    INBOX_HALT,
    INBOX_STATUS,
    INBOX_CANCEL,
    INBOX_WEIGHT,
    INBOX_DRAIN,
    INBOX_SETTLE, /* a question that has no answer but that its turn came */
    INBOX_STOP,
};

struct inbox_message {
    enum inbox_type type;
    union {
        uint64_t client; /* COMING, GONE */
        struct registration *registration;
        struct {
            uint64_t client;
            uint32_t epoch, credits;
        } next;
        struct {
            uint64_t client, batch;
        } release;
        struct {
            uint64_t client;
            uint32_t seq, first;
        } classes;
        struct worker_loaded loaded;
        struct worker_read read;
        struct worker_prepared prepared;
        struct driver_question *question; /* STATUS, CANCEL, WEIGHT, DRAIN, SETTLE */
    };
};

#endif
