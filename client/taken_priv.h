/* taken_priv.h: what of an epoch this rank has taken, as the loader keeps it: batch by batch since the base, in the
 * form that record.h describes. A daemon that was started anew is given it, and a checkpoint is made of it.
 *
 * It is of one epoch: the one of the last batch that was taken. So a rank that has asked for the next epoch and got
 * nothing of it yet still stands in the one before, as the other ranks may.
 *
 * No threads, no I/O. Memory: 4 bytes for each sample taken in the epoch, 12 for each batch, and of a dependent job a
 * bit for each sample of the dataset. */
#ifndef LARDER_CLIENT_TAKEN_PRIV_H
#define LARDER_CLIENT_TAKEN_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/record.h"

struct bytes {
    uint8_t *at;
    size_t len, cap;
};

struct taken {
    struct record base; /* without history; base.epoch is the epoch */
    /* the memory that base borrows from: a copy of options.state without its check; NULL without a state */
    uint8_t *state;
    uint32_t world_size, rank;   /* the job's, this loader's */
    bool known;                  /* false: the loader came into this epoch after batches that it was not told of */
    uint32_t n_batches;          /* batches taken since the base */
    struct bytes batches, turns; /* these batches, and their turns */
    /* histories of ranks that have received their whole share of done_epoch, one after the other */
    struct bytes done;
    uint32_t done_epoch;
    uint8_t *over; /* dependent: the turns of base and batches, as a bit set; NULL before the first batch */
};

/* A batch that is about to be handed out. */
struct taken_batch {
    uint32_t epoch, delivered, through;
    const uint32_t *turns; /* dependent: n_turns indices */
    uint32_t n_turns;
};

/* taken_add notes a batch. LARDER_ENOMEM; LARDER_EFORMAT when a turn was already over, or `through` is impossible. On
 * failure the batch is not noted. */
int taken_add(struct taken *taken, const struct taken_batch *batch, struct error *err);

/* taken_next returns the index of the next batch of an epoch, which is the number of batches before it, base
 * included. */
static inline uint32_t taken_next(const struct taken *taken, uint32_t epoch)
{
    return epoch == taken->base.epoch ? taken->base.batches + taken->n_batches : 0;
}

/* taken_done notes the history of another rank that has received its whole share of the epoch. LARDER_ENOMEM;
 * LARDER_EFORMAT when the bytes are no such history. */
int taken_done(struct taken *taken, uint32_t epoch, const uint8_t *bytes, size_t len_bytes);

/* taken_epoch returns the epoch that a daemon is told of: that of the last batch, or a later one of which another rank
 * has received its share: then all ranks have begun it. */
static inline uint32_t taken_epoch(const struct taken *taken)
{
    return taken->done.len && taken->done_epoch > taken->base.epoch ? taken->done_epoch : taken->base.epoch;
}

/* taken_record returns all of it as a record that borrows from it. */
struct record taken_record(const struct taken *taken);

/* taken_token returns it as a record without history, for a job of one rank: what was taken is in the base. *through is
 * room that the record borrows, as it does from `taken`. LARDER_ELIMIT: too many world sizes in one epoch. */
int taken_token(const struct taken *taken, uint8_t through[static 4], struct record *out, struct error *err);

void taken_free(struct taken *taken);

#endif
