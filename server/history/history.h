/* history.h: what a job of several ranks was given of its running epoch, rank by rank and batch by batch, and the
 * tokens that come of it. common/record.h says what the words mean: base, turn, part, through, segment.
 *
 * A token says what all ranks together had had after their first n batches: the base, and the first n batches of each
 * rank. An epoch that was not restored has no base.
 *
 * A history has one owner, who calls from one thread. Nothing blocks. The time of history_token is that of the batches
 * between the one asked for last and this one. They are few when no rank asks for less than history_kept: the slowest
 * rank may hold so many. */
#ifndef LARDER_SERVER_HISTORY_HISTORY_H
#define LARDER_SERVER_HISTORY_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/record.h"

struct history;

/* One batch of a rank. `turns` is borrowed for the call. */
struct history_batch {
    uint64_t number;       /* the engine's: what a RELEASE says */
    uint32_t delivered;    /* its samples */
    uint32_t through;      /* of a fixed order: numbers of the rank's part that are over with it */
    const uint32_t *turns; /* of a dependent job: indices whose turn is over with it; repeats have none */
    uint32_t n_turns;
};

/* history_create makes one for a job of world_size ranks, 1 … RECORD_RANKS_MAX. Of `job` it keeps the dataset, the
 * view, the seed, the shuffle and the samples. No epoch has begun. LARDER_ENOMEM. */
int history_create(uint32_t world_size, const struct record *job, struct history **out);
void history_destroy(struct history *history); /* accepts NULL */

/* history_epoch_begin forgets what there is, and begins the epoch. `base` is a record of this job and epoch whose base
 * the epoch is restored from; it is borrowed for the call. NULL: the epoch begins whole. In a last segment of the job's
 * world size the ranks go on: their `through` counts from its beginning. LARDER_ENOMEM: the epoch has begun, and
 * history_token fails. */
int history_epoch_begin(struct history *history, uint32_t epoch, const struct record *base);
/* history_epoch returns the running epoch; false: none has begun. */
bool history_epoch(const struct history *history, uint32_t *epoch);

/* history_presented says what the rank `record->rank` has had since the base when it comes to a daemon that does not
 * know it: the record's history. It replaces what the rank had. It counts as released. The record is borrowed for the
 * call. LARDER_ENOMEM: history_token fails in this epoch. */
int history_presented(struct history *history, const struct record *record);
/* history_delivered adds the rank's next batch of the running epoch. LARDER_ENOMEM as above. */
int history_delivered(struct history *history, uint32_t rank, const struct history_batch *batch);
/* history_released: the rank keeps this batch, whatever becomes of its connection. An unknown number is ignored. */
void history_released(struct history *history, uint32_t rank, uint64_t number);
/* history_rank_through: the rank keeps all batches that it has had. Who asks for a later epoch has taken them. */
void history_rank_through(struct history *history, uint32_t rank);
/* history_rank_gone takes back what the rank had not released. */
void history_rank_gone(struct history *history, uint32_t rank);

/* history_forget: the rank has begun anew, with nothing: it has had nothing since the base. */
void history_forget(struct history *history, uint32_t rank);

/* history_epoch_over: all of the epoch's samples are over, though the batches of some ranks are not known, because they
 * came with what they had of a later epoch. `view` has the indices of the job's samples, and is borrowed for the call.
 * From then on a rank without batches is taken to have had as many as any other, and a token says that all is over. */
void history_epoch_over(struct history *history, const uint32_t *view, uint32_t n_view);

/* history_has returns how many batches the rank has had since the base. */
uint32_t history_has(const struct history *history, uint32_t rank);
/* history_kept returns how many of these, from the first on, the rank has released, or keeps as history_rank_through
 * and history_presented say. A rank stands behind them. */
uint32_t history_kept(const struct history *history, uint32_t rank);

/* history_last: the rank has been given the last batch of its share. It is done when it has released all of them, and
 * then keeps them for good: history_is_done. history_told notes that others were told so, and tells whether they were
 * before. */
void history_last(struct history *history, uint32_t rank);
bool history_is_done(const struct history *history, uint32_t rank);
bool history_told(struct history *history, uint32_t rank);
/* history_write returns what the rank has had since the base as the history of a record (record.h), of rank `as` of
 * `ranks`, in new memory that the caller frees. LARDER_ENOMEM. */
int history_write(const struct history *history, uint32_t rank, uint32_t as, uint32_t ranks, uint8_t **bytes,
                  size_t *len_bytes);

/* history_token makes `out` a record without history of what there is after the first `batches` batches of each rank
 * since the base. Every rank must have had so many. `out` borrows from the history until the next call that changes it,
 * or asks it. LARDER_ENOMEM: what this epoch's tokens need is not known. LARDER_EGONE: a rank that left had released a
 * batch and not one before it, among those that are asked for. LARDER_ELIMIT: the epoch was dealt anew too many
 * times. */
int history_token(struct history *history, uint32_t batches, struct record *out, struct error *err);

#endif
