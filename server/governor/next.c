/* next.c: chooses the queue that a free thread serves. */
#include <math.h>

#include "server/governor/governor.h"

static bool better(const struct governor_candidate *a, const struct governor_candidate *b, double guaranteed)
{
    bool poor_a = a->busy < floor(a->share * guaranteed), poor_b = b->busy < floor(b->share * guaranteed);
    return poor_a != poor_b ? poor_a : a->ahead < b->ahead;
}

size_t governor_next_queue(const struct governor_candidate *candidates, size_t n, double guaranteed)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++) {
        if (candidates[i].job == candidates[best].job) {
            if (better(&candidates[i], &candidates[best], guaranteed))
                best = i;
            continue;
        }
        if (candidates[i].job_part < candidates[best].job_part)
            best = i;
    }
    return best;
}
