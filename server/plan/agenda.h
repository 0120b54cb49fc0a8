/* agenda.h: what is to happen in virtual time, earliest first. Its rows are structs of the user's that begin with a
 * struct due. One thread uses it. */
#ifndef LARDER_SERVER_PLAN_AGENDA_H
#define LARDER_SERVER_PLAN_AGENDA_H

#include <stddef.h>
#include <stdint.h>

struct due {
    uint64_t at_ns;
    uint64_t order; /* set by agenda_put: of two rows at the same time, the one put first comes first */
};

/* A heap of rows. The user sets row_bytes, the size of each row, and zeroes the rest. */
struct agenda {
    size_t row_bytes, length, cap;
    char *rows;
    uint64_t order;
};

void agenda_free(struct agenda *agenda);
void agenda_put(struct agenda *agenda, const void *row); /* copies the row */
void agenda_take(struct agenda *agenda, void *out);      /* takes the first row out; length > 0 */
uint64_t agenda_next_ns(const struct agenda *agenda);    /* when the first row is due; UINT64_MAX: there is none */

#endif
