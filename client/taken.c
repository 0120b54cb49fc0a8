/* taken.c: see taken_priv.h. */
#include "client/taken_priv.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_LEAST 4096u

static bool dependent(const struct taken *taken)
{
    return taken->base.shuffle == SHUFFLE_DEPENDENT;
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

/* forget frees the base and all batches: nothing of `epoch` was taken. */
static void forget(struct taken *taken, uint32_t epoch)
{
    free(taken->state);
    free(taken->over);
    taken->state = taken->over = NULL;
    record_begin_epoch(&taken->base, epoch);
    taken->known = true;
    taken->n_batches = 0;
    taken->batches.len = taken->turns.len = 0;
}

static int make_set(struct taken *taken)
{
    const struct record *base = &taken->base;
    uint32_t bytes = record_set_bytes(base->samples);
    taken->over = calloc(1, bytes ? bytes : 1);
    if (!taken->over)
        return LARDER_ENOMEM;
    if (base->over_bytes)
        memcpy(taken->over, base->over, bytes); /* record_decode has checked its length */
    return 0;
}

/* check_turns also adds them to the set, and takes them out again when one is wrong. */
static int check_turns(struct taken *taken, const struct taken_batch *batch, struct error *err)
{
    for (uint32_t i = 0; i < batch->n_turns; i++) {
        uint32_t index = batch->turns[i];
        if (index < taken->base.samples && !record_set_has(taken->over, index)) {
            record_set_add(taken->over, index);
            continue;
        }
        while (i-- > 0)
            taken->over[batch->turns[i] / 8] &= (uint8_t) ~(1u << batch->turns[i] % 8);
        return error_set(err, LARDER_EFORMAT, "sample %u came %s in epoch %u", index,
                         index < taken->base.samples ? "a second time" : "that the dataset does not have",
                         batch->epoch);
    }
    return 0;
}

static int check_through(const struct taken *taken, const struct taken_batch *batch, struct error *err)
{
    uint32_t before = 0;
    if (taken->n_batches)
        before = get_u32(taken->batches.at + taken->batches.len - RECORD_BATCH_BYTES + 4);
    if (batch->through >= before && batch->through <= taken->base.samples)
        return 0;
    return error_set(err, LARDER_EFORMAT,
                     "a batch of epoch %u ends at place %u of the order, after one that ended at %u", batch->epoch,
                     batch->through, before);
}

int taken_add(struct taken *taken, const struct taken_batch *batch, struct error *err)
{
    if (batch->epoch != taken->base.epoch) {
        forget(taken, batch->epoch);
        taken->done.len = taken->done_epoch == batch->epoch ? taken->done.len : 0;
    }
    if (room(&taken->batches, RECORD_BATCH_BYTES) || room(&taken->turns, (size_t)batch->n_turns * 4) ||
        (dependent(taken) && !taken->over && make_set(taken)))
        return error_set(err, LARDER_ENOMEM, "no memory to note batch %u of epoch %u", taken->n_batches, batch->epoch);
    int rc = dependent(taken) ? check_turns(taken, batch, err) : check_through(taken, batch, err);
    if (rc)
        return rc;
    struct record_batch noted = {.delivered = batch->delivered};
    if (dependent(taken))
        noted.n_turns = batch->n_turns;
    else
        noted.through = batch->through;
    record_batch_put(taken->batches.at, taken->n_batches++, &noted);
    taken->batches.len += RECORD_BATCH_BYTES;
    for (uint32_t i = 0; i < noted.n_turns; i++, taken->turns.len += 4)
        put_u32(taken->turns.at + taken->turns.len, batch->turns[i]);
    return 0;
}

int taken_done(struct taken *taken, uint32_t epoch, const uint8_t *bytes, size_t len_bytes)
{
    struct record of = taken->base, known = taken->base, one;
    size_t end = 0, at = 0;
    of.done = bytes;
    of.done_bytes = len_bytes;
    if (!record_done_next(&of, &end, &of) || end != len_bytes || of.world_size != taken->world_size ||
        of.rank == taken->rank)
        return LARDER_EFORMAT;
    if (epoch != taken->done_epoch)
        taken->done.len = 0;
    taken->done_epoch = epoch;
    known.done = taken->done.at;
    known.done_bytes = taken->done.len;
    while (record_done_next(&known, &at, &one)) {
        if (one.rank == of.rank)
            return 0;
    }
    if (room(&taken->done, len_bytes))
        return LARDER_ENOMEM;
    memcpy(taken->done.at + taken->done.len, bytes, len_bytes);
    taken->done.len += len_bytes;
    return 0;
}

/* begun returns a record of the epoch with nothing taken. */
static struct record begun(const struct taken *taken, uint32_t epoch)
{
    struct record rec = taken->base;
    record_begin_epoch(&rec, epoch);
    return rec;
}

struct record taken_record(const struct taken *taken)
{
    uint32_t epoch = taken_epoch(taken);
    struct record rec = epoch == taken->base.epoch ? taken->base : begun(taken, epoch);
    if (taken->done.len && taken->done_epoch == epoch) {
        rec.done = taken->done.at;
        rec.done_bytes = taken->done.len;
    }
    rec.world_size = taken->world_size;
    rec.rank = taken->rank;
    if (epoch != taken->base.epoch)
        return rec;
    rec.n_batches = taken->n_batches;
    rec.n_turns = taken->turns.len / RECORD_TURN_BYTES;
    rec.history = taken->batches.at;
    rec.turns = taken->turns.at;
    return rec;
}

int taken_token(const struct taken *taken, uint8_t through[static 4], struct record *out, struct error *err)
{
    struct record rec = taken->base;
    rec.batches += taken->n_batches;
    if (taken->n_batches && dependent(taken)) {
        rec.over = taken->over;
        rec.over_bytes = record_set_bytes(rec.samples);
    } else if (taken->n_batches) {
        memcpy(through, taken->batches.at + taken->batches.len - RECORD_BATCH_BYTES + 4, 4);
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

void taken_free(struct taken *taken)
{
    forget(taken, 0);
    free(taken->batches.at);
    free(taken->turns.at);
    free(taken->done.at);
    taken->batches = taken->turns = taken->done = (struct bytes){0};
}
