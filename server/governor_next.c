/* governor_next.c: whom a free thread serves. */
#include <math.h>

#include "server/governor.h"

/* Threads that a job has for each one of its share. Its queues without waiting work are not among the candidates, and
 * lend their share to nobody: so a job with one late rank does not fall behind for that. */
static double job_part(const struct governor_candidate *candidates, size_t n, uint32_t group)
{
    double share = 0, busy = 1;
    for (size_t i = 0; i < n; i++) {
        if (candidates[i].group == group) {
            share += candidates[i].share;
            busy += candidates[i].busy;
        }
    }
    return busy / (share > 0 ? share : 0.5);
}

static bool better(const struct governor_candidate *a, const struct governor_candidate *b, double guaranteed)
{
    bool poor_a = a->busy < floor(a->share * guaranteed), poor_b = b->busy < floor(b->share * guaranteed);
    return poor_a != poor_b ? poor_a : a->ahead < b->ahead;
}

size_t governor_next_queue(const struct governor_candidate *candidates, size_t n, double guaranteed)
{
    size_t best = 0;
    double best_part = job_part(candidates, n, candidates[0].group);
    for (size_t i = 1; i < n; i++) {
        if (candidates[i].group == candidates[best].group) {
            if (better(&candidates[i], &candidates[best], guaranteed))
                best = i;
            continue;
        }
        double part = job_part(candidates, n, candidates[i].group);
        if (part < best_part) {
            best = i;
            best_part = part;
        }
    }
    return best;
}
