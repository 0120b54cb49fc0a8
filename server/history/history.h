/* history.h: records the batches that each rank of a job received in the running epoch, and makes tokens from them.
 * common/record.h explains the words base, turn, part, through and segment.
 *
 * A token says what all ranks together had received after their first n batches: the base, and the first n batches of
 * each rank. An epoch that was not restored has no base.
 *
 * A history has one owner, who calls from one thread. Nothing blocks. The time of history_token is linear in the
 * batches between the last token's n and this one's. They are few if no rank asks for less than history_kept: at most
 * those that the slowest rank holds. */
#ifndef LARDER_SERVER_HISTORY_HISTORY_H
#define LARDER_SERVER_HISTORY_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/record.h"

struct history;

/* One batch of a rank. `turns` is borrowed for the call. */
struct history_batch {
    uint64_t number;       /* the engine's number, which a RELEASE names */
    uint32_t delivered;    /* its samples */
    uint32_t through;      /* fixed orders: positions of the rank's part that are over after it */
    const uint32_t *turns; /* dependent: indices of the samples that its samples count as; repeats have none */
    uint32_t n_turns;
};

/* history_create makes a history for a job of world_size ranks, 1 … RECORD_RANKS_MAX, in which no epoch has begun. It
 * copies dataset, view, seed, shuffle, samples and part of `job`: if that has a part, these are the ranks of it, from 0
 * on, others of the job are at other nodes, and its tokens are parts. LARDER_ENOMEM. history_count_turns has it count
 * how often each sample's turn is over, for a dependent job whose epochs have samples more than once; it is called
 * before any epoch begins. Where each sample has so many copies, which go to different ranks, tokens say which ranks
 * had those of which not all have come; 0: it is not so. */
int history_create(uint32_t world_size, const struct record *job, struct history **out);
int history_count_turns(struct history *history, uint32_t copies);
void history_destroy(struct history *history); /* accepts NULL */

/* history_epoch_begin forgets all batches, and begins the epoch. `base` is a record of this job and epoch whose base
 * the epoch is restored from; it is borrowed for the call. NULL: the epoch begins whole. In a last segment of the job's
 * world size the ranks go on: their `through` counts from its beginning. LARDER_ENOMEM: the epoch has begun, and
 * history_token fails. */
int history_epoch_begin(struct history *history, uint32_t epoch, const struct record *base);
/* history_epoch returns the running epoch; false: none has begun. */
bool history_epoch(const struct history *history, uint32_t *epoch);

/* history_presented replaces the batches of rank `record->rank` by the record's history, when the rank comes to a
 * daemon that does not know it. These batches count as released. The record is borrowed for the call. LARDER_ENOMEM:
 * history_token fails in this epoch. */
int history_presented(struct history *history, const struct record *record);
/* history_delivered adds the rank's next batch of the running epoch. LARDER_ENOMEM as above. */
int history_delivered(struct history *history, uint32_t rank, const struct history_batch *batch);
/* history_released: the rank keeps this batch, even if its connection ends. An unknown number is ignored. */
void history_released(struct history *history, uint32_t rank, uint64_t number);
/* history_rank_through: the rank keeps all batches that it has received, because it asks for a later epoch. */
void history_rank_through(struct history *history, uint32_t rank);
/* history_rank_gone takes back the batches that the rank had not released. */
void history_rank_gone(struct history *history, uint32_t rank);

/* history_forget: the rank has begun anew, and has received nothing since the base. */
void history_forget(struct history *history, uint32_t rank);

/* history_epoch_over: the whole epoch has been received. The batches of some ranks are not known, because these came
 * with a record of a later epoch. `view` has the indices of the job's samples, and is borrowed for the call. From then
 * on a rank without batches counts as having received as many as any other, and a token says that all is over. */
void history_epoch_over(struct history *history, const uint32_t *view, uint32_t n_view);

/* history_has returns the number of batches that the rank has received since the base. */
uint32_t history_has(const struct history *history, uint32_t rank);
/* history_kept returns how many of these, from the first on, the rank has released, or keeps by history_rank_through or
 * history_presented. */
uint32_t history_kept(const struct history *history, uint32_t rank);

/* history_last: the rank has been given the last batch of its share. It is done when it has released all of them, and
 * then keeps them for good: history_is_done. history_told notes that others were told so, and tells whether they were
 * before. */
void history_last(struct history *history, uint32_t rank);
bool history_is_done(const struct history *history, uint32_t rank);
bool history_told(struct history *history, uint32_t rank);
/* history_write encodes the rank's batches since the base as the history of a record (record.h) of rank `as` of
 * `ranks`, in new memory that the caller frees. LARDER_ENOMEM. */
int history_write(const struct history *history, uint32_t rank, uint32_t as, uint32_t ranks, uint8_t **bytes,
                  size_t *len_bytes);

/* history_token makes `out` a record without history: the state after the first `batches` batches of each rank since
 * the base. Every rank must have received that many. `out` borrows from the history until the next call of a function
 * of this header. LARDER_ENOMEM: memory ran out earlier in this epoch. LARDER_EGONE: among these batches is one that a
 * rank left unreleased, while it had released a later one. LARDER_ELIMIT: the epoch was dealt anew too many times. Of
 * an epoch that is over as a whole, and whose turns were to be counted, or of which other nodes have parts, there is no
 * token: LARDER_EGONE. */
int history_token(struct history *history, uint32_t batches, struct record *out, struct error *err);

#endif
