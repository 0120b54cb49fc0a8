/* explain_made.h: made statuses for the tests of `larder explain`. */
#ifndef LARDER_TESTS_UNIT_SERVER_CONTROL_EXPLAIN_MADE_H
#define LARDER_TESTS_UNIT_SERVER_CONTROL_EXPLAIN_MADE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

/* What a job did in the second between two statuses, and what is known of it. Each rank stood still for so long. */
struct made {
    double load_s, prepare_s, room_s, rank_s;
    double load_ms, prepare_ms, train_ms;
    double cpu_s; /* of the daemon, in that second */
    int delivered;
    int prefetch, ranks, ranks_there;
    bool fits;  /* memory.encoded could hold the dataset */
    bool moves; /* room moves between prepared and encoded samples */
    /* The settings, 0: the status does not have them; what the governor makes of them; 4 and 8 where it is 0. */
    int workers, loaders, preparers_now, loaders_now;
    double quota;
    int dealt; /* loaders of the job */
    bool packed, classed;
    int forms; /* decoded images in memory, of 8 kB each */
};

#define LOADS .prepare_ms = 4, .train_ms = 50, .cpu_s = 4, .prefetch = 8, .ranks = 1, .ranks_there = 1
#define NORMAL LOADS, .load_ms = 2
#define GIB (UINT64_C(1) << 30)
#define ROOMY .available_bytes = 64 * GIB

/* status_at returns the status before (0) or after (1) that second. */
json_t *status_at(const struct made *made, int after);

#endif
