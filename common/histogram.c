#include "common/histogram.h"

#include "common/check.h"

static const double bounds_s[HISTOGRAM_BOUNDS] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                  0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};

double histogram_bound_s(unsigned bucket)
{
    CHECK(bucket < HISTOGRAM_BOUNDS);
    return bounds_s[bucket];
}

void histogram_add(struct histogram *histogram, double seconds)
{
    unsigned bucket = 0;
    while (bucket < HISTOGRAM_BOUNDS && seconds > bounds_s[bucket])
        bucket++;
    histogram->counts[bucket]++;
    histogram->sum_s += seconds;
    histogram->longest_s = seconds > histogram->longest_s ? seconds : histogram->longest_s;
}

uint64_t histogram_count(const struct histogram *histogram)
{
    uint64_t count = 0;
    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++)
        count += histogram->counts[i];
    return count;
}
