#include "server/governor/pace.h"

#include <stdbool.h>

#include "common/clock.h"

/* A client was waiting if it acts within PROMPT_NS after a batch came, or within one PROMPT_PARTth of the time since it
 * last acted: large batches take long to copy. */
#define PROMPT_NS (2 * CLOCK_NS_PER_MS)
#define PROMPT_PART 8

void governor_pace_came(struct governor_pace *pace, uint64_t now_ns)
{
    if (!pace->came_ns)
        pace->came_ns = now_ns;
}

double governor_pace_acted(struct governor_pace *pace, uint64_t now_ns, uint32_t batches)
{
    uint64_t gap_ns = pace->acted_ns ? now_ns - pace->acted_ns : 0;
    uint64_t prompt_ns = gap_ns / PROMPT_PART > PROMPT_NS ? gap_ns / PROMPT_PART : PROMPT_NS;
    bool waited = pace->came_ns && now_ns - pace->came_ns <= prompt_ns;
    if (!waited)
        pace->busy_s += (double)gap_ns / (double)CLOCK_NS_PER_S;
    pace->acted_ns = now_ns;
    pace->came_ns = 0;
    if (!batches)
        return 0;
    double each = pace->busy_s / batches;
    pace->busy_s = 0;
    return each;
}
