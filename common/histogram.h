/* histogram.h: how long something took, counted by buckets. All histograms have the same buckets, from a tenth of a
 * millisecond to ten seconds, in seconds. A histogram is a value without pointers, zeroed to begin with. One thread
 * owns it. */
#ifndef LARDER_COMMON_HISTOGRAM_H
#define LARDER_COMMON_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BOUNDS 16

/* Bucket i < HISTOGRAM_BOUNDS counts what took at most histogram_bound_s(i), and more than the bound before. The last
 * one counts what took longer than all bounds. */
struct histogram {
    uint64_t counts[HISTOGRAM_BOUNDS + 1];
    double sum_s, longest_s;
};

double histogram_bound_s(unsigned bucket); /* bucket < HISTOGRAM_BOUNDS */
void histogram_add(struct histogram *histogram, double seconds);
uint64_t histogram_count(const struct histogram *histogram);

#endif
