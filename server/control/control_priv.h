/* control_priv.h: makes the answer to a request's bytes, without any socket (for control*.c, tests and the fuzzer). */
#ifndef LARDER_SERVER_CONTROL_CONTROL_PRIV_H
#define LARDER_SERVER_CONTROL_CONTROL_PRIV_H

#include "server/control/control.h"

#define CONTROL_ID_BYTES 64

/* The answers to the last requests that had an id. One thread uses it. It is zeroed to begin with, and
 * control_memory_clear frees what it holds. */
struct control_memory {
    struct {
        char id[CONTROL_ID_BYTES];
        char *answer;
    } entries[CONTROL_REMEMBERED];
    unsigned next;
};
void control_memory_clear(struct control_memory *memory);

/* control_answer returns the answer to any bytes: a malloc'ed JSON text, the caller's. NULL: out of memory. */
char *control_answer(const struct control_handlers *handlers, struct control_memory *memory, const void *request,
                     size_t len_bytes);

#endif
