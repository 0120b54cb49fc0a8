#include "tests/simulation/away.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"

/* replace puts so many ranges in the place of those from `first` to `end`. */
static void replace(struct away *away, size_t first, size_t end, const struct away_range *with, size_t count)
{
    away->ranges = xgrow(away->ranges, sizeof *away->ranges, &away->cap, away->count + count + 1);
    memmove(&away->ranges[first + count], &away->ranges[end], (away->count - end) * sizeof *away->ranges);
    for (size_t i = 0; i < count; i++)
        away->ranges[first + i] = with[i];
    away->count = away->count - (end - first) + count;
}

void away_add(struct away *away, uint64_t from, uint64_t to)
{
    size_t first = 0;
    while (first < away->count && away->ranges[first].to < from)
        first++;
    size_t end = first;
    struct away_range whole = {from, to};
    for (; end < away->count && away->ranges[end].from <= to; end++) {
        whole.from = away->ranges[end].from < whole.from ? away->ranges[end].from : whole.from;
        whole.to = away->ranges[end].to > whole.to ? away->ranges[end].to : whole.to;
    }
    replace(away, first, end, &whole, from < to);
}

void away_remove(struct away *away, uint64_t from, uint64_t to)
{
    size_t first = 0, count = 0;
    struct away_range rest[2];
    while (first < away->count && away->ranges[first].to <= from)
        first++;
    size_t end = first;
    for (; end < away->count && away->ranges[end].from < to; end++) {
        if (away->ranges[end].from < from)
            rest[count++] = (struct away_range){away->ranges[end].from, from};
        if (away->ranges[end].to > to)
            rest[count++] = (struct away_range){to, away->ranges[end].to};
    }
    replace(away, first, end, rest, count);
}

bool away_overlaps(const struct away *away, uint64_t from, uint64_t to)
{
    for (size_t i = 0; i < away->count; i++)
        if (away->ranges[i].from < to && away->ranges[i].to > from)
            return true;
    return false;
}

uint64_t away_bytes_from(const struct away *away, uint64_t from)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < away->count; i++) {
        uint64_t first = away->ranges[i].from > from ? away->ranges[i].from : from;
        bytes += away->ranges[i].to > first ? away->ranges[i].to - first : 0;
    }
    return bytes;
}

uint64_t away_bytes(const struct away *away)
{
    return away_bytes_from(away, 0);
}

void away_free(struct away *away)
{
    free(away->ranges);
    *away = (struct away){0};
}
