/* inbox.h: the messages by which the other threads tell the engine's thread what happened. They go through one mailbox.
 *
 * A push waits while the mailbox is full. That cannot deadlock, because the engine's thread waits for nothing but the
 * mailbox. Whoever takes a message owns what its pointers refer to, but for a question, which its asker keeps. */
#ifndef LARDER_SERVER_DRIVER_INBOX_H
#define LARDER_SERVER_DRIVER_INBOX_H

#include "common/mailbox.h"
#include "server/peering/peering.h"
#include "server/registration/registration.h"
#include "server/workers/worker.h"

#define INBOX_MESSAGES 16384

struct driver_question; /* private to questions.c */

enum inbox_type {
    INBOX_COMING,     /* a client asked to be registered; its registration goes to the registrar */
    INBOX_REGISTERED, /* the registration comes back from the registrar, resolved or refused */
    INBOX_GONE,       /* a client has left */
    INBOX_NEXT,
    INBOX_RELEASE,
    INBOX_CLASSES,
    INBOX_STATE_GET,
    INBOX_COLUMN_GET, /* its registration comes back as INBOX_REGISTERED, too */
    INBOX_LOADED,
    INBOX_READ, /* a read has ended; the LOADED messages of all its samples came before */
    INBOX_PREPARED,
    INBOX_RESERVED, /* the reserver's answer, and its warning that memory is short */
    INBOX_PRESSURE,
    INBOX_PEERS, /* events of the peering */
    INBOX_ALONE,
    INBOX_LEAVE,
    INBOX_HALT,
    INBOX_STATUS,
    INBOX_LEFT,
    INBOX_CANCEL,
    INBOX_WEIGHT,
    INBOX_DRAIN,
    INBOX_SETTLE, /* a request that is answered when all messages before it were dealt with */
    INBOX_STOP,   /* the last message: the thread ends */
};

struct inbox_message {
    enum inbox_type type;
    union {
        uint64_t client;                   /* COMING */
        struct registration *registration; /* REGISTERED, COLUMN_GET */
        struct {
            uint64_t client;
            bool bye; /* it said so */
        } gone;
        struct {
            uint64_t client;
            struct wire_next asked;
        } next;
        struct {
            uint64_t client, batch;
        } release;
        struct {
            uint64_t client;
            uint32_t seq, first;
        } classes;
        struct {
            uint64_t client;
            uint32_t seq;
            struct wire_state_get get;
        } state_get;
        struct worker_loaded loaded;
        struct worker_read read;
        struct worker_prepared prepared;
        struct {
            uint64_t bytes; /* reserved from the start of the arena */
            bool refused;   /* fewer than were asked for */
        } reserved;
        struct peering_event *peers;
        struct driver_question *question; /* ALONE, LEAVE, HALT, STATUS, LEFT, CANCEL, WEIGHT, DRAIN, SETTLE */
    };
};

#endif
