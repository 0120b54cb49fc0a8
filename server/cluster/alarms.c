#include "server/cluster/alarms.h"

#include <stdlib.h>

#include "common/check.h"

bool alarms_init(struct alarms *alarms, uint32_t max)
{
    *alarms = (struct alarms){.next_ns = ALARMS_NEVER,
                              .max = max,
                              .heap = calloc(max, sizeof *alarms->heap),
                              .at = calloc(max, sizeof *alarms->at),
                              .time_ns = calloc(max, sizeof *alarms->time_ns)};
    if (!alarms->heap || !alarms->at || !alarms->time_ns) {
        alarms_free(alarms);
        return false;
    }
    for (uint32_t place = 0; place < max; place++)
        alarms->at[place] = ALARMS_NONE;
    return true;
}

void alarms_free(struct alarms *alarms)
{
    free(alarms->heap);
    free(alarms->at);
    free(alarms->time_ns);
    *alarms = (struct alarms){0};
}

static uint64_t time_at(const struct alarms *alarms, uint32_t i)
{
    return alarms->time_ns[alarms->heap[i]];
}

static void put(struct alarms *alarms, uint32_t i, uint32_t place)
{
    alarms->heap[i] = place;
    alarms->at[place] = i;
}

/* settle puts a place where its time belongs, from i on, where nothing stands. */
static void settle(struct alarms *alarms, uint32_t i, uint32_t place)
{
    uint64_t time_ns = alarms->time_ns[place];
    for (; i > 0 && time_at(alarms, (i - 1) / 2) > time_ns; i = (i - 1) / 2)
        put(alarms, i, alarms->heap[(i - 1) / 2]);
    for (uint32_t below; (below = 2 * i + 1) < alarms->count; i = below) {
        if (below + 1 < alarms->count && time_at(alarms, below + 1) < time_at(alarms, below))
            below++;
        if (time_at(alarms, below) >= time_ns)
            break;
        put(alarms, i, alarms->heap[below]);
    }
    put(alarms, i, place);
    alarms->next_ns = time_at(alarms, 0);
}

static void leave(struct alarms *alarms, uint32_t place)
{
    uint32_t i = alarms->at[place], last = alarms->heap[--alarms->count];
    alarms->at[place] = ALARMS_NONE;
    if (last != place)
        settle(alarms, i, last);
    else
        alarms->next_ns = alarms->count ? time_at(alarms, 0) : ALARMS_NEVER;
}

void alarms_set(struct alarms *alarms, uint32_t place, uint64_t time_ns)
{
    CHECK(place < alarms->max);
    bool there = alarms->at[place] != ALARMS_NONE;
    if (time_ns == ALARMS_NEVER) {
        if (there)
            leave(alarms, place);
        return;
    }
    alarms->time_ns[place] = time_ns;
    settle(alarms, there ? alarms->at[place] : alarms->count++, place);
}

uint32_t alarms_take(struct alarms *alarms, uint64_t now_ns)
{
    if (alarms->next_ns > now_ns || !alarms->count)
        return ALARMS_NONE;
    uint32_t place = alarms->heap[0];
    leave(alarms, place);
    return place;
}
