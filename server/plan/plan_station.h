/* plan_station.h: a station does work side by side: a disk that reads, processors that prepare. The pieces under way
 * share its present rate evenly. One thread; times are virtual. */
#ifndef LARDER_SERVER_PLAN_PLAN_STATION_H
#define LARDER_SERVER_PLAN_PLAN_STATION_H

#include "server/plan/plan.h"

struct plan_work {
    double until; /* the station's `done` at which it is over */
    uint32_t number;
};

/* The user sets curve and zeroes the rest; station_free frees what it took. */
struct plan_station {
    const struct plan_curve *curve; /* work a second, by how much of it is under way */
    struct plan_work *under_way;
    size_t cap;
    uint32_t count;
    double done; /* work done of a piece that has been under way from the start */
    uint64_t at_ns;
};

void station_free(struct plan_station *station);
/* station_begin puts so much work (≥ 0) under way, under a number of the user's. */
void station_begin(struct plan_station *station, uint64_t now_ns, uint32_t number, double work);
/* station_next_ns returns when the next piece of work is over, if none begins before; UINT64_MAX: none is under way. */
uint64_t station_next_ns(const struct plan_station *station);
/* station_end takes the number of the piece that is over next. Call it at station_next_ns. */
uint32_t station_end(struct plan_station *station);
/* station_takes_s returns how long work that begins now would take beside what is under way, if that stayed so. */
double station_takes_s(const struct plan_station *station, double work);

#endif
