#include "server/storage/curve.h"

#include <math.h>

#include "common/check.h"

#define FAR 8.0
enum { SEEN_MAX = 100 };

#define PART 0.1 /* the latest read's part, once there were some */

/* A knot is where its number of reads is the nearest by ratio. */
static uint32_t knot_of(double under_way)
{
    double knot = log2(under_way < 1 ? 1 : under_way) + 0.5;
    return knot < CURVE_KNOTS - 1 ? (uint32_t)knot : CURVE_KNOTS - 1;
}

void curve_note(struct curve *curve, double under_way, uint64_t bytes, double seconds)
{
    CHECK(under_way >= 1);
    if (bytes == 0 || !(seconds > 0))
        return;
    uint32_t knot = knot_of(under_way);
    double before = curve->cost[knot], cost = seconds / under_way / (double)bytes;
    if (before > 0)
        cost = fmin(fmax(cost, before / FAR), before * FAR);
    curve->seen[knot] += curve->seen[knot] < SEEN_MAX;
    curve->cost[knot] += (cost - before) * fmax(PART, 1.0 / curve->seen[knot]);
}

double curve_at(const struct curve *curve, double under_way)
{
    double low = 0, high = 0, low_rate = 0, high_rate = 0;
    for (uint32_t knot = 0; knot < CURVE_KNOTS; knot++) {
        if (!(curve->cost[knot] > 0))
            continue;
        double at = (double)(1u << knot), rate = 1 / curve->cost[knot];
        if (at <= under_way) {
            low = at;
            low_rate = rate;
        } else if (high == 0) {
            high = at;
            high_rate = rate;
        }
    }
    if (low == 0 || high == 0)
        return low == 0 ? high_rate : low_rate;
    return low_rate + (under_way - low) * (high_rate - low_rate) / (high - low);
}
