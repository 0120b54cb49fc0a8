/* ranks.h: one job of several ranks, whose clients are played by hand: what each rank got, and preparations that
 * take as long as the test says. */
#ifndef LARDER_TESTS_PLAY_RANKS_H
#define LARDER_TESTS_PLAY_RANKS_H

#include "server/plan/play.h"

enum { RANKS_IDS_MAX = 256, RANKS_WORLD_MAX = 4, RANKS_AT_ONCE_MAX = 64, RANKS_TIMEOUT_S = 10 };

/* A rank's client. */
struct seat {
    bool there;
    uint32_t epoch_told, n_batches; /* by JOB_ADDED */
    sample_id got[RANKS_IDS_MAX];
    uint32_t n_got, batches, loads;
    bool last;
    int failed;
    char text[ERROR_TEXT_MAX];
};

struct preparation {
    uint32_t rank, task;
    sample_id id;
};

struct ranks {
    struct play play;
    struct engine_job_desc desc; /* the test may change it before ranks_attach */
    struct idset *view;
    sample_id order[RANKS_IDS_MAX];
    struct seat seats[RANKS_WORLD_MAX];
    bool keep;      /* batches */
    bool ended;     /* the job */
    bool by_hand;   /* all preparations end with ranks_finish, not only that of `slow` */
    sample_id slow; /* SAMPLE_NONE: none */
    struct preparation preparing[RANKS_AT_ONCE_MAX]; /* those, by age */
    uint32_t n_preparing;
    uint32_t rank_of[RANKS_IDS_MAX]; /* that a sample was prepared for */
    uint32_t others;                 /* samples delivered to another rank than they were prepared for */
};

/* ranks_new: ids from 0, in an order that counts down. `at_once`: so many preparations may be under way. */
struct ranks *ranks_new(uint32_t samples, uint32_t world_size, uint32_t batch_size, uint32_t at_once);
void ranks_free(struct ranks *ranks); /* whoever is there leaves, and the job must end */

void ranks_attach(struct ranks *ranks, uint32_t rank);
void ranks_ask(struct ranks *ranks, uint32_t rank, uint32_t epoch, uint32_t credits);
void ranks_leave(struct ranks *ranks, uint32_t rank);
void ranks_wait(struct ranks *ranks, double seconds);
void ranks_finish(struct ranks *ranks, uint32_t at); /* ends preparing[at] */
/* ranks_repeats: how many samples came more than once to all ranks together; each of the view must have come. */
uint32_t ranks_repeats(const struct ranks *ranks, uint32_t samples);
/* ranks_count: how often each sample came to any rank. */
void ranks_count(const struct ranks *ranks, uint32_t counts[RANKS_IDS_MAX]);

#endif
