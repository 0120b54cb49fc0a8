/* sharing_priv.h: a run of `larder_bench sharing`: its jobs and what they got (sharing*.c only). */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_SHARING_PRIV_H
#define LARDER_TESTS_BENCH_VIRTUAL_SHARING_PRIV_H

#include "server/plan/play.h"
#include "tests/bench/virtual/sharing.h"
#include "tests/bench/virtual/spread.h"

/* Every sample has as many bytes as a photograph. */
enum { SHARING_SLOT_BYTES = 64, SHARING_SAMPLE_BYTES = 100000 };

/* What lies in a slot of the arena. */
struct sharing_slot {
    sample_id id;
    uint64_t instance; /* its number */
};

/* What one job got. All counts are of samples, but for `reads`. */
struct sharing_tally {
    uint64_t delivered, prepared, reads, loaded, missing, duplicates, repeats;
};

/* What one job is and got. */
struct sharing_player {
    const struct sharing_job *desc;
    struct idset *view;
    struct idset *share; /* of the view, in this epoch; NULL: all of it */
    uint64_t view_count;
    bool running, done, ended_epoch;
    uint32_t place, epoch;
    double due;
    uint64_t trains_until_ns; /* with costs: when the batches that it has are trained on */
    uint8_t *got;             /* times in this epoch, by sample */
    uint64_t position;        /* in this epoch */
    uint64_t loaded;          /* samples that had been loaded when it began, for all jobs */
    struct spread spread;
    struct sharing_tally tally;
};

struct sharing_bench {
    const struct sharing_scenario *scenario;
    uint64_t slot_bytes; /* of the arena that an instance takes */
    struct play play;
    struct sharing_player *adding; /* the player whose JOB_ADD is on its way */
    struct sharing_player players[SHARING_JOBS_MAX];
    struct sharing_player *at[JOBS_MAX];
    uint32_t *chunk_of, *slot_of; /* by sample */
    uint64_t *loaded_at;          /* by sample: how many had been loaded when it was, itself included */
    uint32_t n_chunks;
    struct sharing_slot *slots;
    uint64_t *had;     /* by instance: the trainings that had it */
    struct deal *deal; /* of all samples */
    struct deal *home; /* the same, at home */
    size_t had_cap;
    sharing_got got;
    void *got_ctx;
    uint64_t instances, delivered, prepared, decoded, reads, loaded;
    uint64_t last_read[SHARING_NODES_MAX]; /* one more than the read of each node's last LOAD */
    uint64_t peak_prepared, peak_encoded;
};

/* sharing_sees counts what an action does, which the engine is then to be answered. */
void sharing_sees(struct sharing_bench *bench, const struct engine_action *action);
/* sharing_peaks notes how much is in memory. */
void sharing_peaks(struct sharing_bench *bench);
/* sharing_join adds the player's job to the engine, and settles at play.now_ns. */
void sharing_join(struct sharing_bench *bench, uint32_t number);
/* sharing_timed.c: plays the scenario's jobs, with its costs. machine: what was done. */
void sharing_timed(struct sharing_bench *bench, struct costs_machine *machine);

/* sharing_slots and sharing_encoded return how many instances and samples as read memory has room for. */
uint64_t sharing_slots(const struct sharing_scenario *scenario);
uint64_t sharing_encoded(const struct sharing_scenario *scenario);

/* sharing_begin makes what a run counts with: the places of the samples, and the players. sharing_end frees it. */
void sharing_begin(struct sharing_bench *bench);
void sharing_end(struct sharing_bench *bench);
/* sharing_takes counts a sample that the player gets, and sharing_epoch_done ends its epoch. */
void sharing_takes(struct sharing_bench *bench, struct sharing_player *player, sample_id id, uint64_t instance);
void sharing_epoch_done(struct sharing_bench *bench, struct sharing_player *player);
/* sharing_epoch_begins sets what the player is to get in its present epoch. */
void sharing_epoch_begins(struct sharing_bench *bench, struct sharing_player *player);
/* sharing_share makes a new set of what a rank of a training gets in an epoch, and sharing_home of what it has at home,
 * of one that is dealt so. The results are as deal_share's. */
int sharing_home(const struct sharing_bench *bench, const struct sharing_job *job, struct idset **out);
int sharing_share(const struct sharing_bench *bench, const struct sharing_job *job, uint32_t epoch, struct idset **out);
/* sharing_works counts a node's LOAD or PREPARE for a player; NULL: for another one's. */
void sharing_works(struct sharing_bench *bench, uint32_t node, struct sharing_player *player,
                   const struct engine_action *action);

/* sharing_report returns the report on a run. The caller owns it. */
json_t *sharing_report(const struct sharing_bench *bench);

#endif
