/* balance_priv.h: what happens when in a run of `larder bench balance`, and what waits (bench_balance_*.c only).
 */
#ifndef LARDER_SERVER_BENCH_BALANCE_PRIV_H
#define LARDER_SERVER_BENCH_BALANCE_PRIV_H

#include "common/types.h"
#include "server/bench/balance.h"

enum happening { READ_DONE, PREPARE_DONE, STEP_DONE, DECIDE };

struct timed {
    uint64_t at_ns, order; /* order: of two at one time the one put first goes first */
    enum happening what;
    uint32_t queue, job, task;
    uint32_t busy; /* preparers, or reads of its source: this one included */
    sample_id id;
    uint64_t began_ns;
};

/* Earliest first: a heap. Zeroed to begin with; rows are freed by the owner. */
struct agenda {
    struct timed *rows;
    size_t length, cap;
    uint64_t order;
};

void agenda_put(struct agenda *agenda, struct timed timed);
struct timed agenda_take(struct agenda *agenda); /* length > 0 */

/* A read or a preparation that no thread has taken. */
struct waiting {
    uint64_t order;
    sample_id id;
    uint32_t task;
};

/* Oldest first: a ring that grows. As an agenda. */
struct line {
    struct waiting *rows;
    uint32_t head, length, cap;
};

void line_put(struct line *line, struct waiting row);
struct waiting line_take(struct line *line); /* length > 0 */

#endif
