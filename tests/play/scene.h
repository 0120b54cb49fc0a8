/* scene.h: an engine and clients of many jobs, played by hand: what each job got, and samples and sources that fail. */
#ifndef LARDER_TESTS_PLAY_SCENE_H
#define LARDER_TESTS_PLAY_SCENE_H

#include "server/plan/play.h"

enum { SLOT = 1000, ENCODED = 100, IDS_MAX = 1024, SECOND = 1000000000, ROOM_TIMEOUT_S = 10 };

struct scene {
    struct play play;
    struct idset *view;       /* all samples */
    uint32_t held_max;        /* of the last JOB_ADDED */
    uint32_t ahead[JOBS_MAX]; /* batches of look-ahead, as last told */
    uint32_t changes;         /* times that it was told since */
    bool hold;                /* keep all loads back */
    bool slow;                /* keep the next load back */
    sample_id slow_id;        /* the one that was */
    bool bad[IDS_MAX];        /* these cannot be prepared */
    bool unfit[IDS_MAX];      /* pipeline 1 finds these too small */
    uint32_t in_part;         /* prepares that made some of their outputs and not others */
    uint32_t loads, prepares;
    const void *away;    /* a dataset whose source answers no load; NULL: all do */
    uint64_t away_ns;    /* how long such a load takes */
    uint32_t unanswered; /* loads */
    uint32_t got[JOBS_MAX][IDS_MAX];
    uint64_t last_batch[JOBS_MAX];
    uint32_t batches[JOBS_MAX], last_count[JOBS_MAX];
    bool last[JOBS_MAX];
    bool release; /* give batches back at once */
};

/* scene_new: ids from 0, `samples` of them, and an arena of slots of 1 KiB. */
struct scene *scene_new(uint64_t arena_slots, uint32_t samples);
struct scene *scene_new_with(struct engine_config config, uint32_t samples);
void scene_free(struct scene *scene); /* all jobs leave before */
/* scene_job: on all samples, in batches of 8, two ahead. The name is borrowed. */
struct engine_job_desc scene_job(const struct scene *scene, const char *name);
/* scene_sample_bytes: `dataset` is an array of sizes by id, or NULL. */
uint64_t scene_sample_bytes(const void *dataset, sample_id id);

/* A step checks the whole engine, and all that follows from it happens before it is over. */
void scene_step(struct scene *scene, struct engine_event event);
void scene_step_all(struct scene *scene, const struct engine_event *events, size_t n_events);
uint32_t scene_add(struct scene *scene, const struct engine_job_desc *desc); /* as play_add */
void scene_next(struct scene *scene, uint32_t job, uint32_t epoch, uint32_t credits);
void scene_release(struct scene *scene, uint32_t job, uint64_t batch);
void scene_gone(struct scene *scene, uint32_t job);

#endif
