/* play.h: runs an engine in virtual time without a daemon around it. The player says what happens, and what the engine
 * asks for is answered. It serves the benches and tests; one thread makes all calls. */
#ifndef LARDER_SERVER_PLAN_PLAY_H
#define LARDER_SERVER_PLAN_PLAY_H

#include "server/engine/engine.h"
#include "server/plan/agenda.h"

enum { PLAY_SAMPLE_BYTES = 100 };

/* The events of one moment. */
struct play_events {
    struct engine_event *all;
    size_t count, cap;
};

struct play {
    struct engine *engine;
    uint64_t now_ns; /* the player may set it forward between steps */

    /* The player sets the following. It is NULL or zero to begin with. */

    /* see is shown each action of a step, in order. It returns true when it has answered the action, will answer it, or
     * never shall. It returns false for the usual answer: a load brings its sample, a preparation makes all its
     * outputs, a batch is released, memory that is asked for comes. It may push events, and must not step. NULL gives
     * all actions their usual answers. */
    bool (*see)(void *ctx, const struct engine_action *action);
    void *ctx;
    bool timed;           /* longest_ns is measured, which costs as much as a small step */
    uint32_t check_every; /* steps after which engine_check goes through the engine; 0: never */
    bool own_bytes;       /* each loaded sample is memory of its own: sanitizers find what is dropped twice, or never */

    /* The following says what has happened. */

    uint32_t job;               /* the job of the last JOB_ADDED */
    int refused, failed;        /* codes of the last JOB_REFUSED and of the last JOB_ERROR; 0: there was none */
    char text[ERROR_TEXT_MAX];  /* text of the last error of either */
    uint64_t steps, longest_ns; /* longest_ns: of the steps, in the thread's time; 0 unless timed */

    struct play_events at_hand, taken; /* events of the next step and of the running one */
    struct agenda later;               /* events after now_ns */
};

/* play_create begins with no job, at time 0. Without config.sample_bytes every sample has PLAY_SAMPLE_BYTES. Fails as
 * engine_create does; err may be NULL. play_end frees what it created. */
int play_create(struct engine_config config, struct play *out, struct error *err);
void play_end(struct play *play);

/* play_push makes the event part of the next step. play_push_at makes it part of a step at at_ns, which play_until
 * comes to. */
void play_push(struct play *play, struct engine_event event);
void play_push_at(struct play *play, uint64_t at_ns, struct engine_event event);
/* play_answer_at gives a LOAD, PREPARE, RESERVE or DELIVER its usual answer at at_ns. */
void play_answer_at(struct play *play, uint64_t at_ns, const struct engine_action *action);

/* play_step gives all events at hand to the engine as one step. False: there are none. play_settle steps until there
 * are none. */
bool play_step(struct play *play);
void play_settle(struct play *play);
/* play_until takes the engine through everything that happens until until_ns, moment by moment. */
void play_until(struct play *play, uint64_t until_ns);

/* Each of these happens at once, with everything that follows from it at this moment. */
void play_event(struct play *play, struct engine_event event);
/* play_add returns the job's number. UINT32_MAX: the job was refused. */
uint32_t play_add(struct play *play, const struct engine_job_desc *desc);
void play_next(struct play *play, uint32_t job, uint32_t rank, uint32_t epoch, uint32_t credits);
void play_release(struct play *play, uint32_t job, uint32_t rank, uint64_t batch);
void play_gone(struct play *play, uint32_t job, uint32_t rank);

#endif
