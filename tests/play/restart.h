/* restart.h: jobs that go on in an epoch where others left it. A run is one job in an engine of its own. What its ranks
 * took makes a checkpoint, from which another run goes on. A checkpoint here is made as client and daemon make it: from
 * what is delivered alone. */
#ifndef LARDER_TESTS_PLAY_RESTART_H
#define LARDER_TESTS_PLAY_RESTART_H

#include "server/plan/play.h"

enum { RUN_IDS_MAX = 128, RUN_WORLD_MAX = 4, RUN_BATCHES_MAX = 512, RUN_BATCH_MAX = 8, RUN_SEGMENTS_MAX = 8 };

/* A batch that a rank got. */
struct run_batch {
    uint32_t epoch, index, count, through;
    uint64_t lost;
    bool last;
    sample_id ids[RUN_BATCH_MAX], turns[RUN_BATCH_MAX];
};

struct run_rank {
    uint32_t epoch_told, batch_told; /* by JOB_ADDED */
    struct run_batch batches[RUN_BATCHES_MAX];
    uint64_t numbers[RUN_BATCHES_MAX]; /* that RELEASE names the batches by */
    uint32_t n_batches;
    int failed;
    char text[ERROR_TEXT_MAX];
};

/* What all ranks together had of an epoch. */
struct checkpoint {
    uint32_t epoch, batches;
    bool turns[RUN_IDS_MAX]; /* dependent: whose turn is over */
    uint32_t n_segments;
    uint32_t world_size[RUN_SEGMENTS_MAX], through[RUN_SEGMENTS_MAX][RUN_WORLD_MAX];
};

/* What a rank brings along, and the memory that engine_resume borrows. */
struct luggage {
    struct engine_resume resume;
    struct engine_segment segments[RUN_SEGMENTS_MAX];
    uint32_t through[RUN_SEGMENTS_MAX][RUN_WORLD_MAX];
};

struct run {
    struct play play;
    struct engine_job_desc desc; /* the test may change it before ranks come */
    uint32_t samples;
    struct idset *view;
    sample_id order[RUN_IDS_MAX];
    bool bad[RUN_IDS_MAX];
    bool keep;              /* batches are not released */
    struct checkpoint base; /* that the run goes on from; all zeros: none */
    struct run_rank ranks[RUN_WORLD_MAX];
    uint32_t prepared, ended; /* preparations that were begun, jobs that ended */
};

/* run_new makes an engine for a job of ids 0 … samples - 1, with an order that is neither ascending nor descending. */
struct run *run_new(enum shuffle_mode shuffle, uint32_t samples, uint32_t world_size, uint32_t batch_size);
void run_free(struct run *run);
/* run_length returns how long an instance of the sample is: shorter than a slot if the job is sized. run_most_bytes is
 * what engine_config.made_bytes says. */
uint32_t run_length(const struct run *run, sample_id id);
uint64_t run_most_bytes(const void *dataset, const void *program, sample_id id);

/* run_come has a rank come: from run->base and the first `batches` batches of the epoch that `before` gave the rank, if
 * there is one. run_come_without has it bring nothing along. */
void run_come(struct run *run, uint32_t rank, bool presented, const struct run *before, uint32_t batches);
void run_come_without(struct run *run, uint32_t rank);
/* run_come_with has it bring this along. */
void run_come_with(struct run *run, uint32_t rank, const struct luggage *luggage);
/* run_go_on has all ranks come from the checkpoint. */
void run_go_on(struct run *run, const struct checkpoint *from);
void run_leave(struct run *run, uint32_t rank);
void run_ask(struct run *run, uint32_t rank, uint32_t epoch, uint32_t credits);
void run_wait(struct run *run, double seconds);
/* run_all asks for so many batches for each rank, in turn. */
void run_all(struct run *run, uint32_t epoch, uint32_t batches);

/* run_pack packs what a rank brings along, of a job of the run's world size; run_unpack frees what is in it. */
void run_pack(const struct run *run, uint32_t rank, const struct run *before, uint32_t batches,
              struct luggage *luggage);
void run_unpack(struct luggage *luggage);
/* run_checkpoint returns what all ranks had when each had had so many batches of the epoch in this run. */
struct checkpoint run_checkpoint(const struct run *run, uint32_t epoch, uint32_t batches);
/* run_find returns the rank's batch number `at` of those of the epoch, from 0; NULL when it had fewer. Empty batches do
 * not count. */
const struct run_batch *run_find(const struct run *run, uint32_t rank, uint32_t epoch, uint32_t at);
uint32_t run_had(const struct run *run, uint32_t rank, uint32_t epoch); /* how many they are */
/* run_count adds to times[id] how often a sample had its turn in the first `batches` batches of the epoch of each rank;
 * it returns how many repeats there were. */
uint32_t run_count(const struct run *run, uint32_t epoch, uint32_t batches, uint32_t times[RUN_IDS_MAX]);

#endif
