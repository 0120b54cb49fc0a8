/* state.h: what a client knows of the epoch that it trains on, as it keeps and presents it, and what the daemon's
 * registrar makes of that. The real codec makes the bytes; what they mean is worked out here in the plainest way. */
#ifndef LARDER_SIMULATION_STATE_H
#define LARDER_SIMULATION_STATE_H

#include "common/record.h"
#include "server/engine/engine.h"
#include "tests/simulation/scenario.h"

/* A record in bytes of its own. */
struct state {
    uint8_t *bytes;
    size_t len_bytes;
    struct record record; /* borrows from the bytes */
};

/* state_keep encodes a record and reads it back. state_free accepts a zeroed one. */
void state_keep(const struct record *record, struct state *out);
void state_free(struct state *state);
/* state_about returns a record of the plan's training with nothing in it: what all its records have in common. */
struct record state_about(const struct scenario *scenario, const struct client_plan *plan, uint32_t epoch);

/* What a client has taken: batches of one epoch, since its base. */
struct memory {
    uint32_t epoch;
    const struct state *base; /* NULL: the epoch began whole; borrowed */
    struct record_batch *batches;
    uint32_t n_batches;
    uint32_t *turns; /* dataset indices, of all batches */
    uint32_t n_turns;
    size_t cap_batches, cap_turns;
};

void memory_begin(struct memory *memory, uint32_t epoch, const struct state *base);
/* memory_take notes a batch that the loop gets. The turns are indices. */
void memory_take(struct memory *memory, const struct record_batch *batch, const uint32_t *turns);
void memory_free(struct memory *memory);
/* memory_record: what the client presents. memory_token: what one that is a job's only rank saves. */
void memory_record(const struct memory *memory, const struct scenario *scenario, const struct client_plan *plan,
                   struct state *out);
void memory_token(const struct memory *memory, const struct scenario *scenario, const struct client_plan *plan,
                  struct state *out);

/* What JOB_ADD says of a record; it borrows from nothing. */
struct state_resume {
    struct engine_resume desc;
    struct idset *base, *turns;
    struct engine_segment segments[RECORD_SEGMENTS_MAX];
    uint32_t throughs[RECORD_SEGMENTS_MAX * RECORD_RANKS_MAX];
};

/* state_resume_make: `presented` as in engine_resume. The record is of the plan's training. */
void state_resume_make(const struct scenario *scenario, const struct client_plan *plan, const struct record *record,
                       bool presented, struct state_resume *out);
void state_resume_free(struct state_resume *resume);

/* state_order returns the samples of an epoch in a fixed order, n_view of them; the caller frees. */
sample_id *state_order(const struct scenario *scenario, const struct client_plan *plan, uint32_t epoch);

/* What a record's base says. */
struct base_read {
    uint8_t *over;                    /* by sample id: 1 where its turn is over */
    sample_id *rest;                  /* of a fixed order: what the ranks of the next job share, with what they are */
    uint32_t n_rest;                  /* through; of a set: NULL, and the samples that are not over */
    uint32_t first[RECORD_RANKS_MAX]; /* so many numbers of rank r's part are behind it at the beginning */
    uint32_t n_left;                  /* samples that are not over */
};

/* base_read works out the base of the record, or of none (NULL) of that epoch, for a job with the plan's ranks. */
void base_read(const struct scenario *scenario, const struct client_plan *plan, const struct record *record,
               uint32_t epoch, struct base_read *out);
void base_free(struct base_read *base);

#endif
