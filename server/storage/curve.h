/* curve.h: the bandwidth of an origin as a function of the reads under way there (HDMLP 3.5 to 3.7, 4.1). It is
 * piecewise linear between measured numbers of reads, and constant below the first and above the last.
 *
 * A curve is a value without pointers, zeroed to begin with. The caller holds the lock. Pure. */
#ifndef LARDER_SERVER_STORAGE_CURVE_H
#define LARDER_SERVER_STORAGE_CURVE_H

#include <stdint.h>

#define CURVE_KNOTS 8 /* 1, 2, 4 … 128 reads under way */

struct curve {
    double cost[CURVE_KNOTS]; /* seconds per byte, over all reads together; 0: not measured */
    uint32_t seen[CURVE_KNOTS];
};

/* curve_note notes that a read of `bytes` took `seconds`, while `under_way` (≥ 1) reads were under way on average. A
 * single read moves a knot by a little; one that took very much longer or shorter counts as 8 times. */
void curve_note(struct curve *curve, double under_way, uint64_t bytes, double seconds);
/* curve_at returns the bytes per second that `under_way` reads (≥ 1) bring together. 0: nothing is known. */
double curve_at(const struct curve *curve, double under_way);

#endif
