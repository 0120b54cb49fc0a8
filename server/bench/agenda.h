/* agenda.h: what is to happen in virtual time, earliest first. Its rows are the user's: structs that begin with a
 * due. */
#ifndef LARDER_SERVER_BENCH_AGENDA_H
#define LARDER_SERVER_BENCH_AGENDA_H

#include <stddef.h>
#include <stdint.h>

struct due {
    uint64_t at_ns;
    uint64_t order; /* of two at one time the one put first goes first: agenda_put sets it */
};

/* A heap. The user sets row_bytes, the size of each of its rows, and zeroes the rest. */
struct agenda {
    size_t row_bytes, length, cap;
    char *rows;
    uint64_t order;
};

void agenda_free(struct agenda *agenda);
void agenda_put(struct agenda *agenda, const void *row); /* copies it */
void agenda_take(struct agenda *agenda, void *out);      /* the first row; length > 0 */
uint64_t agenda_next_ns(const struct agenda *agenda);    /* when that is due; UINT64_MAX: there is none */

#endif
