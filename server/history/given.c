#include "server/history/given.h"

#include <stddef.h>

int given_begin(struct given *given, uint32_t world_size, const struct record *job)
{
    struct given made = {NULL, NULL};
    int rc = history_create(world_size, job, &made.now);
    if (!rc)
        rc = history_create(world_size, job, &made.before);
    if (rc)
        given_clear(&made);
    *given = made;
    return rc;
}

int given_count_turns(struct given *given, uint32_t copies)
{
    int rc = given->now ? history_count_turns(given->now, copies) : 0;
    if (!rc && given->before)
        rc = history_count_turns(given->before, copies);
    if (rc)
        given_clear(given);
    return rc;
}

void given_clear(struct given *given)
{
    history_destroy(given->now);
    history_destroy(given->before);
    *given = (struct given){NULL, NULL};
}

bool given_running(const struct given *given, uint32_t *epoch)
{
    return given->now && history_epoch(given->now, epoch);
}

struct history *given_find(const struct given *given, uint32_t epoch)
{
    uint32_t found;
    if (given_running(given, &found) && found == epoch)
        return given->now;
    return given->before && history_epoch(given->before, &found) && found == epoch ? given->before : NULL;
}

/* turn makes the running epoch the one before. */
static void turn(struct given *given)
{
    *given = (struct given){.now = given->before, .before = given->now};
}

struct history *given_turn(struct given *given, uint32_t epoch)
{
    uint32_t running;
    bool runs = given_running(given, &running);
    if (!given->now || (runs && epoch < running))
        return NULL;
    if (runs && epoch == running)
        return given->now;
    if (runs)
        turn(given);
    history_epoch_begin(given->now, epoch, NULL); /* a history without memory says so when it is asked */
    return given->now;
}

/* presented returns the history of the record's epoch. NULL: it is over, and a later one is as well. A history without
 * memory says so when it is asked. */
static struct history *presented(struct given *given, const struct record *record)
{
    uint32_t running, before;
    bool runs = given_running(given, &running);
    struct history *history = given_find(given, record->epoch);
    if (history)
        return history;
    if (runs && record->epoch > running)
        turn(given);
    bool late = runs && record->epoch < running;
    if (late && history_epoch(given->before, &before) && record->epoch < before)
        return NULL;
    history = late ? given->before : given->now;
    history_epoch_begin(history, record->epoch, record);
    return history;
}

void given_presented(struct given *given, const struct record *record, const uint32_t *view, uint32_t n_view)
{
    uint32_t before;
    struct history *history = given->now ? presented(given, record) : NULL;
    if (!history)
        return;
    if (record->world_size && (history == given->before || history_has(history, record->rank) == 0))
        history_presented(history, record);
    if (history_epoch(given->before, &before))
        history_epoch_over(given->before, view, n_view);
}

void given_done(struct given *given, const struct record *record)
{
    uint32_t running;
    if (!given_running(given, &running) || record->epoch != running)
        return;
    if (history_has(given->now, record->rank) == 0)
        history_presented(given->now, record);
    history_last(given->now, record->rank);
}

void given_asked(struct given *given, uint32_t rank, uint32_t epoch)
{
    uint32_t running;
    if (given_running(given, &running) && epoch > running)
        history_rank_through(given->now, rank);
}

void given_released(struct given *given, uint32_t rank, uint64_t batch)
{
    uint32_t epoch;
    if (given_running(given, &epoch))
        history_released(given->now, rank, batch);
}

void given_gone(struct given *given, uint32_t rank)
{
    uint32_t epoch;
    if (given_running(given, &epoch))
        history_rank_gone(given->now, rank);
}

void given_forgotten(struct given *given, uint32_t rank)
{
    uint32_t epoch;
    if (given_running(given, &epoch))
        history_forget(given->now, rank);
}
