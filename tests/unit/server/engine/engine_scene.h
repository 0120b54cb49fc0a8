/* engine_scene.h: an engine by hand, for its unit tests: a small world that answers every action at once. */
#ifndef LARDER_TESTS_UNIT_SERVER_ENGINE_ENGINE_SCENE_H
#define LARDER_TESTS_UNIT_SERVER_ENGINE_ENGINE_SCENE_H

#include "server/engine/engine.h"

enum { SLOT = 1000, ENCODED = 100, IDS_MAX = 1024, SECOND = 1000000000, ROOM_TIMEOUT_S = 10 };

/* A played world: loads and prepares come back at once, those of samples in `bad` as failed. */
struct scene {
    struct engine *engine;
    uint64_t now;
    uint32_t job;            /* of the last JOB_ADDED */
    uint32_t held_max;
    int refused;             /* code of the last JOB_REFUSED, or 0 */
    char text[ERROR_TEXT_MAX]; /* and what it said */
    uint32_t ahead[JOBS_MAX];  /* batches of look-ahead, as last told */
    uint32_t changes;          /* times that it was told since */
    int failed;              /* code of the last JOB_ERROR, which says `text` too */
    bool hold;               /* keep tasks back */
    bool slow;               /* keep the next load back */
    sample_id slow_id;
    bool bad[IDS_MAX];
    bool unfit[IDS_MAX];     /* pipeline 1 finds them too small */
    uint32_t in_part;        /* prepares that made some of their outputs and not others */
    uint32_t loads, prepares, drops;
    const void *away;        /* a dataset whose source answers no load; NULL: all do */
    uint32_t unanswered;     /* loads */
    uint32_t got[JOBS_MAX][IDS_MAX];
    uint64_t last_batch[JOBS_MAX];
    uint32_t batches[JOBS_MAX], last_count[JOBS_MAX];
    bool last[JOBS_MAX];
    bool release;            /* give batches back at once */
};

struct scene *scene_new(uint64_t arena_slots); /* of 1 KiB */
void scene_free(struct scene *scene);
struct engine_job_desc scene_job(const char *name, const struct idset *view); /* batches of 8, two ahead; the view is borrowed */
/* scene_sample_bytes: `dataset` is an array of sizes by id, or NULL. */
uint64_t scene_sample_bytes(const void *dataset, sample_id id);

/* A step checks the whole engine, and all that follows from it happens before it is over. */
void scene_step(struct scene *scene, struct engine_event event);
void scene_step_all(struct scene *scene, const struct engine_event *events, size_t n_events);
void scene_add(struct scene *scene, const struct engine_job_desc *desc);
void scene_next(struct scene *scene, uint32_t job, uint32_t epoch, uint32_t credits);
void scene_gone(struct scene *scene, uint32_t job);
/* scene_leave_all: what the engine keeps for jobs is given back to be freed. */
void scene_leave_all(struct scene *scene);

#endif
