/* alarms.h: who is to be looked at next, of many of which each has one time: a heap. Pure. One thread owns it. */
#ifndef LARDER_SERVER_CLUSTER_ALARMS_H
#define LARDER_SERVER_CLUSTER_ALARMS_H

#include <stdbool.h>
#include <stdint.h>

#define ALARMS_NEVER UINT64_MAX
#define ALARMS_NONE UINT32_MAX

struct alarms {
    uint64_t next_ns;    /* the earliest time; ALARMS_NEVER: there is none */
    uint32_t count, max; /* in the heap, and places that may have an alarm */
    uint32_t *heap;      /* places; none has an earlier time than the one above it */
    uint32_t *at;        /* by place: where it is in the heap; ALARMS_NONE: it has no alarm */
    uint64_t *time_ns;   /* by place */
};

/* alarms_init makes room for places 0 to max − 1, none of which has an alarm. It returns false without memory.
 * alarms_free frees the room. */
bool alarms_init(struct alarms *alarms, uint32_t max);
void alarms_free(struct alarms *alarms);
/* alarms_set gives a place another time. ALARMS_NEVER: it has no alarm any more. */
void alarms_set(struct alarms *alarms, uint32_t place, uint64_t time_ns);
/* alarms_take returns the place with the earliest time, if that is not after now_ns, and takes its alarm away.
 * ALARMS_NONE: there is none. */
uint32_t alarms_take(struct alarms *alarms, uint64_t now_ns);

#endif
