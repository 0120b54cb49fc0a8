/* world.h: a job whose samples come from several homes: an engine gives some of them, other nodes the others. The nodes
 * here give any sample of theirs, the same one again, bad ones, ones that are not theirs, and none; they die, and their
 * samples come back. */
#ifndef LARDER_TESTS_PLAY_WORLD_H
#define LARDER_TESTS_PLAY_WORLD_H

#include "common/random.h"
#include "tests/play/restart.h"

enum { WORLD_NODES = 3, WORLD_HERE = 0, WORLD_OPEN_MAX = 512 };

struct world_expected {
    uint32_t task, node;
    sample_id id;
};

/* Odds, of 100, that a node does something else than giving one of its samples. */
struct world_faults {
    uint32_t none, again, foreign, dies, rank_leaves;
};

/* A job beside it, of one rank and without homes, that takes the same pixels. */
struct world_other {
    uint32_t job, epoch, had;
    uint32_t times[RUN_IDS_MAX];
};

struct world {
    struct run *run;
    struct world_other other;
    struct rng rng;
    struct world_faults faults;
    uint32_t home[RUN_IDS_MAX];     /* the node that has the sample */
    struct multiset *multiset;      /* what an epoch is; NULL: each sample once */
    uint32_t times[RUN_IDS_MAX];    /* how often each comes in this epoch */
    uint32_t received[RUN_IDS_MAX]; /* how often it came from another node, in this epoch */
    uint32_t given[RUN_IDS_MAX];    /* how often its node gave it, which does so no oftener than it comes */
    bool gone[WORLD_NODES];         /* has died in this epoch */
    uint32_t epoch, away;           /* away: the rank that is not there; UINT32_MAX: all are */
    struct world_expected open[WORLD_OPEN_MAX];
    uint32_t n_open, loads_of_others, arrivals;
    uint32_t displaced; /* arrivals that an entry without a place expected */
    bool (*see)(void *run, const struct engine_action *action);
};

/* world_begin makes a world of so many samples, whose homes are drawn from the seed, and a job of so many ranks. In a
 * third of the seeds the job's instances differ in length. The test may change world->run->desc, and call what follows,
 * before world_come. */
void world_begin(struct world *world, uint64_t seed, uint32_t samples, uint32_t ranks, struct world_faults faults);
/* world_draw makes the epochs of the world's job multisets: the seed says of which kind, and how large. */
void world_draw(struct world *world, uint64_t seed);
/* world_tighten gives the engine another arena, of so many slots of 1 KiB. */
void world_tighten(const struct world *world, uint64_t slots);
/* world_other_comes has the job beside come. */
void world_other_comes(struct world *world);

/* world_come has all ranks come. */
void world_come(struct world *world);
/* world_epoch goes on until each rank has had the last batch of the epoch. */
void world_epoch(struct world *world, uint32_t epoch);
/* world_end has all leave, checks the engine, and frees what the world has. */
void world_end(struct world *world);

#endif
