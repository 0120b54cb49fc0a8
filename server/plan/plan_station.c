#include "server/plan/plan_station.h"

#include <math.h>
#include <stdlib.h>

#include "common/check.h"
#include "common/clock.h"

void station_free(struct plan_station *station)
{
    free(station->under_way);
}

/* The rate of each piece under way. */
static double rate_of_each(const struct plan_station *station)
{
    return plan_curve_at(station->curve, station->count) / station->count;
}

static void advance(struct plan_station *station, uint64_t now_ns)
{
    if (station->count && now_ns > station->at_ns)
        station->done += rate_of_each(station) * (double)(now_ns - station->at_ns) / (double)CLOCK_NS_PER_S;
    station->at_ns = now_ns;
}

static uint32_t first(const struct plan_station *station)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < station->count; i++) {
        if (station->under_way[i].until < station->under_way[best].until)
            best = i;
    }
    return best;
}

void station_begin(struct plan_station *station, uint64_t now_ns, uint32_t number, double work)
{
    advance(station, now_ns);
    station->under_way = xgrow(station->under_way, sizeof *station->under_way, &station->cap,
                               (size_t)station->count + 1);
    station->under_way[station->count++] = (struct plan_work){station->done + work, number};
}

uint64_t station_next_ns(const struct plan_station *station)
{
    if (station->count == 0)
        return UINT64_MAX;
    double left = station->under_way[first(station)].until - station->done;
    return station->at_ns + (left > 0 ? (uint64_t)ceil(left / rate_of_each(station) * (double)CLOCK_NS_PER_S) : 0);
}

uint32_t station_end(struct plan_station *station)
{
    CHECK(station->count > 0);
    advance(station, station_next_ns(station));
    uint32_t at = first(station), number = station->under_way[at].number;
    station->under_way[at] = station->under_way[--station->count];
    return number;
}

double station_takes_s(const struct plan_station *station, double work)
{
    for (uint32_t i = 0; i < station->count; i++)
        work += station->under_way[i].until > station->done ? station->under_way[i].until - station->done : 0;
    return work / plan_curve_at(station->curve, station->count + 1.0);
}
