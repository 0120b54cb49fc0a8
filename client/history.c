/* history.c: see history_priv.h. */
#include "client/history_priv.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_LEAST 4096u

static bool dependent(const struct history *history)
{
    return history->base.shuffle == SHUFFLE_DEPENDENT;
}

/* room has `more` bytes fit behind those that are there. */
static int room(struct bytes *bytes, size_t more)
{
    size_t cap = bytes->cap ? bytes->cap : BYTES_LEAST;
    if (more <= bytes->cap - bytes->len)
        return 0;
    while (cap - bytes->len < more)
        cap *= 2;
    uint8_t *at = realloc(bytes->at, cap);
    if (!at)
        return LARDER_ENOMEM;
    bytes->at = at;
    bytes->cap = cap;
    return 0;
}

void history_forget(struct history *history, uint32_t epoch)
{
    struct record *base = &history->base;
    free(history->state);
    free(history->over);
    history->state = history->over = NULL;
    base->epoch = epoch;
    base->batches = 0;
    base->over = NULL;
    base->over_bytes = 0;
    base->n_segments = 0;
    history->known = true;
    history->n_batches = 0;
    history->batches.len = history->turns.len = 0;
}

static int make_set(struct history *history)
{
    const struct record *base = &history->base;
    uint32_t bytes = record_set_bytes(base->samples);
    history->over = calloc(1, bytes ? bytes : 1);
    if (!history->over)
        return LARDER_ENOMEM;
    if (base->over_bytes)
        memcpy(history->over, base->over, bytes); /* record_decode has checked its length */
    return 0;
}

/* check_turns also adds them to the set, and takes them out again when one is wrong. */
static int check_turns(struct history *history, const struct history_batch *batch, struct error *err)
{
    for (uint32_t i = 0; i < batch->n_turns; i++) {
        uint32_t index = batch->turns[i];
        if (index < history->base.samples && !record_set_has(history->over, index)) {
            record_set_add(history->over, index);
            continue;
        }
        while (i-- > 0)
            history->over[batch->turns[i] / 8] &= (uint8_t) ~(1u << batch->turns[i] % 8);
        return error_set(err, LARDER_EFORMAT, "sample %u came %s in epoch %u", index,
                         index < history->base.samples ? "a second time" : "that the dataset does not have",
                         batch->epoch);
    }
    return 0;
}

static int check_through(const struct history *history, const struct history_batch *batch, struct error *err)
{
    uint32_t before = 0;
    if (history->n_batches)
        before = get_u32(history->batches.at + history->batches.len - RECORD_BATCH_BYTES + 4);
    if (batch->through >= before && batch->through <= history->base.samples)
        return 0;
    return error_set(err, LARDER_EFORMAT,
                     "a batch of epoch %u ends at place %u of the order, after one that ended at %u", batch->epoch,
                     batch->through, before);
}

int history_take(struct history *history, const struct history_batch *batch, struct error *err)
{
    if (batch->epoch != history->base.epoch)
        history_forget(history, batch->epoch);
    if (room(&history->batches, RECORD_BATCH_BYTES) || room(&history->turns, (size_t)batch->n_turns * 4) ||
        (dependent(history) && !history->over && make_set(history)))
        return error_set(err, LARDER_ENOMEM, "no memory to note batch %u of epoch %u", history->n_batches,
                         batch->epoch);
    int rc = dependent(history) ? check_turns(history, batch, err) : check_through(history, batch, err);
    if (rc)
        return rc;
    struct record_batch noted = {.delivered = batch->delivered};
    if (dependent(history))
        noted.n_turns = batch->n_turns;
    else
        noted.through = batch->through;
    record_batch_put(history->batches.at, history->n_batches++, &noted);
    history->batches.len += RECORD_BATCH_BYTES;
    for (uint32_t i = 0; i < noted.n_turns; i++, history->turns.len += 4)
        put_u32(history->turns.at + history->turns.len, batch->turns[i]);
    return 0;
}

struct record history_record(const struct history *history)
{
    struct record rec = history->base;
    rec.world_size = history->world_size;
    rec.rank = history->rank;
    rec.n_batches = history->n_batches;
    rec.n_turns = history->turns.len / RECORD_TURN_BYTES;
    rec.history = history->batches.at;
    rec.turns = history->turns.at;
    return rec;
}

int history_token(const struct history *history, uint8_t through[static 4], struct record *out, struct error *err)
{
    struct record rec = history->base;
    rec.batches += history->n_batches;
    if (history->n_batches && dependent(history)) {
        rec.over = history->over;
        rec.over_bytes = record_set_bytes(rec.samples);
    } else if (history->n_batches) {
        memcpy(through, history->batches.at + history->batches.len - RECORD_BATCH_BYTES + 4, 4);
        if (record_add_segment(&rec, 1, 1, through))
            return error_set(
                err, LARDER_ELIMIT,
                "within epoch %u the job went on with other numbers of ranks %d times, as often as a state "
                "can tell: save the next one after the epoch",
                rec.epoch, RECORD_SEGMENTS_MAX);
    }
    *out = rec;
    return 0;
}

void history_free(struct history *history)
{
    history_forget(history, 0);
    free(history->batches.at);
    free(history->turns.at);
    history->batches = history->turns = (struct bytes){0};
}
