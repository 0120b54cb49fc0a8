/* control_priv.h: a request's bytes to its answer, without any socket (control*.c, tests, fuzzer). */
#ifndef LARDER_SERVER_CONTROL_CONTROL_PRIV_H
#define LARDER_SERVER_CONTROL_CONTROL_PRIV_H

#include "server/control/control.h"

#define CONTROL_ID_BYTES 64

/* The answers to the last requests that had an id. One thread. Zeroed at first; control_memory_clear frees. */
struct control_memory {
    struct {
        char id[CONTROL_ID_BYTES];
        char *answer;
    } entries[CONTROL_REMEMBERED];
    unsigned next;
};
void control_memory_clear(struct control_memory *memory);

/* control_answer gives a malloc'ed JSON text for any bytes; NULL when out of memory. */
char *control_answer(const struct control_handlers *handlers, struct control_memory *memory, const void *request,
                     size_t len_bytes);

#endif
