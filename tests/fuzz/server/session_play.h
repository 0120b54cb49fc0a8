/* session_play.h: what the files of fuzz_session share: the connections of one input, as both sides know them. */
#ifndef LARDER_TESTS_FUZZ_SERVER_SESSION_PLAY_H
#define LARDER_TESTS_FUZZ_SERVER_SESSION_PLAY_H

#include "server/session/session.h"

#define PARTIES_MAX 40   /* connections in one input */
#define BATCHES_MAX 4096 /* in one input */

/* A connection. */
struct party {
    uint64_t id;
    int fd;           /* the client's end; -1: closed */
    uint16_t version; /* of the first message that it sends; the session holds it to that one */
    bool spoke;       /* it has sent something */
    /* what the owner knows */
    bool told, gone, answered, registered;
    bool begun, over, classes, state, column;
    uint32_t epoch, credits, classes_seq, state_seq, column_seq;
};

struct play {
    struct session *session;
    int memory_fd; /* whatever is passed is this one */
    struct party parties[PARTIES_MAX];
    uint32_t n_parties;
    uint32_t holder_of[BATCHES_MAX]; /* of a batch: the party that has it, from 1 */
    uint32_t n_batches;
};

/* play_handlers returns the callbacks of an owner that checks that what it is told is lawful. */
struct session_handlers play_handlers(struct play *play);
/* play_owner lets the owner do something for a client, which two bytes choose. */
void play_owner(struct play *play, struct party *party, uint8_t what, uint8_t how);

#endif
