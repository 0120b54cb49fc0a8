/* given.h: what the ranks of a job were given of its running epoch, and of the one before. All ranks have had the whole
 * of the earlier one, but a script may still be at its last batch and ask for the state there. */
#ifndef LARDER_SERVER_HISTORY_GIVEN_H
#define LARDER_SERVER_HISTORY_GIVEN_H

#include "server/history/history.h"

/* Both are there or none is: then nothing is known, and the functions do nothing. */
struct given {
    struct history *now, *before;
};

/* given_begin makes both, of a job as history_create wants it. LARDER_ENOMEM: none is there. given_clear frees them. */
int given_begin(struct given *given, uint32_t world_size, const struct record *job);
/* given_count_turns has both count turns (history_count_turns). LARDER_ENOMEM: none is there. */
int given_count_turns(struct given *given, uint32_t copies);
void given_clear(struct given *given);

/* given_running returns the running epoch; false: none has begun. */
bool given_running(const struct given *given, uint32_t *epoch);
/* given_find returns the history of an epoch; NULL: it is not known. */
struct history *given_find(const struct given *given, uint32_t epoch);
/* given_turn returns the history of an epoch of which a batch is delivered. A later one than the running one becomes
 * the running one. NULL: the epoch is over. */
struct history *given_turn(struct given *given, uint32_t epoch);
/* given_presented: a rank comes with what it had in an earlier daemon. The record fits the job. When another rank comes
 * with a later epoch, all of the earlier one is over. `view` has the indices of the job's samples. */
void given_presented(struct given *given, const struct record *record, const uint32_t *view, uint32_t n_view);
/* given_done: another rank, that has come, says what this one has had: all of its share of the epoch. */
void given_done(struct given *given, const struct record *record);
/* given_asked: the rank asks for batches of an epoch. By that it says that it has taken all it was given of those
 * before. */
void given_asked(struct given *given, uint32_t rank, uint32_t epoch);
/* given_released: the rank keeps this batch. given_gone takes back what the rank has not taken of the running epoch: of
 * the one before all is taken, or the running one would not have begun. */
void given_released(struct given *given, uint32_t rank, uint64_t batch);
void given_gone(struct given *given, uint32_t rank);
/* given_forgotten: the rank comes with nothing to a job that waits for what its ranks had. */
void given_forgotten(struct given *given, uint32_t rank);

#endif
