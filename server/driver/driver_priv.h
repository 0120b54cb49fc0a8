/* driver_priv.h: the state of the engine's thread, which the driver's files share.
 *
 *   driver.c      the driver's life, the thread's loop, the messages
 *   registered.c  makes a job, or a rank of one, of each registration
 *   questions.c   answers other threads
 *   actions.c     steps the engine and carries out what it asks for
 *   deliver.c     sends batches
 *   reserve.c     what becomes of the arena's memory
 *   states.c      keeps what ranks were given, and answers who asks for it (states.h)
 *   news.c        logs what happens
 *   times.c       counts how long things take
 *   gives.c       counts who prepared what others got (gives.h)
 *   fates.c       tells the owner which jobs come and end
 *   columns.c     has the registrar make columns, and sends them */
#ifndef LARDER_SERVER_DRIVER_DRIVER_PRIV_H
#define LARDER_SERVER_DRIVER_DRIVER_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/log.h"
#include "server/driver/driver.h"
#include "server/driver/gives.h"
#include "server/driver/observer.h"
#include "server/driver/reserver.h"
#include "server/driver/tables.h"
#include "server/governor/live.h"

enum { OBSERVERS = 5 };
enum { RETIRED_AT_ONCE = 16384 }; /* ids; the engine forgets as many in about a millisecond */

/* Whether the daemon takes new jobs, and whether its owner knows that the last one is gone. */
#define DRIVER_BEYOND_MAX 16

/* The samples that last exceeded a limit of the daemon's, and which one: a ring. */
struct driver_beyond {
    struct {
        sample_id id;
        char *text; /* malloc'ed; NULL: none yet */
    } all[DRIVER_BEYOND_MAX];
    uint32_t next;
};

struct driver_drain {
    atomic_bool asked; /* no new jobs; written by the engine's thread, read by driver_takes_jobs */
    bool told;         /* config.drained was called */
};

/* Whether the daemon's owner waits until nobody is given anything, and knows that nobody is. */
struct driver_leave {
    bool asked, told;
};

/* The registration for which the engine is stepped with JOB_ADD. reg is NULL at all other times, and as soon as a job
 * owns the registration. */
struct driver_adding {
    struct registration *reg;
    uint32_t pipeline;
    bool last;  /* It is not tried again. */
    bool again; /* It is: there was no room, and guests may have it. */
};

/* The read whose LOADs are being gathered into one task. load.count 0: there is none. */
struct driver_reading {
    struct worker_load load;
    size_t cap;      /* samples that load.samples has room for */
    uint64_t number; /* the engine's number of the read, which its LOADs carry */
};

/* Ids of samples that no dataset has any more, and that the engine is to forget. */
struct driver_retired {
    sample_id ids[RETIRED_AT_ONCE];
    uint64_t again_ns; /* the catalog is not asked for ids before this time */
};

/* The batch being sent. The driver owns the memory and reuses it for each batch. */
struct driver_batch {
    uint8_t *entries; /* in the wire's format */
    uint8_t *turns;   /* turns that are not the samples' own, in the wire's format */
    uint32_t *over;   /* the indices whose turn is over with this batch */
    uint32_t n_turns, n_over;
    uint32_t cap; /* samples that there is room for */
};

/* The PREPAREs of a step, which go to the workers together. */
struct driver_preparing {
    struct worker_prepare *all;
    uint32_t count;
    size_t cap;
};

/* Copies that the engine's thread has done itself, and has not told the engine yet: the first `count` of
 * done[filling]. The other row is told in the step that fills this one. */
struct driver_copies {
    struct engine_event done[2][ENGINE_COPIES_MAX];
    size_t filling, count;
};

/* How much of the arena has memory. */
struct driver_reserve {
    struct reserver *reserver; /* NULL: all of the arena is there from the start */
    uint64_t there_bytes;      /* reserved from the arena's start; some memory beyond may be reserved too */
};

struct driver {
    struct driver_config config;
    struct sharing *sharing; /* NULL: this daemon is in no cluster */
    struct engine *engine;
    struct session *session;
    struct workers *workers;
    struct registrar *registrar;
    struct governor_live *governor;
    pthread_t thread;
    bool running;
    bool halted; /* driver_halt was called: clients leave because the daemon stops */
    struct driver_drain drain;
    struct driver_leave leave;

    struct driver_observer observers[OBSERVERS]; /* the governor, the log, the times, the gives, the fates */
    struct gives *gives;
    struct tables tables;
    struct engine_job_status *rows; /* JOBS_MAX, for what the engine says of all jobs */
    struct registrations placing;   /* registrations whose samples get their places before the engine adds their jobs */
    struct driver_adding adding;
    uint64_t named;                       /* jobs that the driver has given a name to */
    uint64_t reads;                       /* reads that workers have done */
    struct histogram loads, preparations; /* times of reads, and of preparations */
    struct histogram steps;               /* times of the engine's steps */
    struct driver_beyond beyond;
    uint64_t short_told_bytes; /* encoded memory that the log last said the jobs need; 0: there is enough */

    struct driver_reading reading;
    struct driver_preparing preparing;
    struct driver_copies copies;
    struct driver_retired retired;
    struct driver_reserve reserve;
    struct driver_batch batch;
    struct driver_asks asks;
    char names[WIRE_REPLY_MAX - 4096]; /* the names in one answer to CLASSES_GET */
};

/* OBSERVERS_TELL calls the function `what` of each observer that has it. */
#define OBSERVERS_TELL(driver, what, ...)                                           \
    for (size_t o_ = 0; o_ < OBSERVERS; o_++) {                                     \
        if ((driver)->observers[o_].what)                                           \
            (driver)->observers[o_].what((driver)->observers[o_].ctx, __VA_ARGS__); \
    }

/* All of these are called in the engine's thread.
 *
 * placing.c: driver_comes takes over a registration that comes from the registrar. driver_place_some gives places to
 * some samples of the first one that waits for it, and hands it on when all have theirs. */
void driver_comes(struct driver *driver, struct registration *reg);
void driver_place_some(struct driver *driver);
/* registered.c: driver_registered takes over a registration whose job may be added. */
void driver_registered(struct driver *driver, struct registration *reg);
/* news.c: driver_news is the log's on_action. driver_job_error returns the error that a JOB_ERROR tells its rank.
 * driver_placed returns an error whose text says where the settings stand that it names. */
void driver_news(void *driver, const struct engine_action *action);
void driver_note_beyond(struct driver *driver, sample_id id, char *text); /* takes the text over; NULL: nothing */
struct error driver_placed(const struct driver *driver, int code, const char *text);
struct error driver_job_error(const struct driver *driver, const struct engine_action *action);
/* times.c: an observer's on_action, on_read and on_prepared. */
void driver_times_action(void *driver, const struct engine_action *action);
void driver_times_read(void *driver, const struct worker_read *read);
void driver_times_prepared(void *driver, const struct worker_cost *cost);
/* fates.c: an observer's on_event and on_action. */
void driver_fates_event(void *driver, const struct engine_event *event);
void driver_fates_action(void *driver, const struct engine_action *action);
/* actions.c: driver_step steps the engine with the events and carries out its actions. Without events it does
 * nothing. */
void driver_step(struct driver *driver, const struct engine_event *events, size_t count);
/* actions.c: driver_step_copies tells the engine which copies are done. */
void driver_step_copies(struct driver *driver);
/* deliver.c: driver_deliver carries a DELIVER out. */
void driver_deliver(struct driver *driver, const struct engine_action *action);
/* reserve.c: driver_reserved and driver_pressure take what the reserver says. */
void driver_reserved(struct driver *driver, uint64_t bytes, bool refused);
void driver_pressure(struct driver *driver);
/* columns.c: driver_column_asked takes over what a client asks for, and driver_column_made what came of it. Clients
 * that have left meanwhile get nothing. */
void driver_column_asked(struct driver *driver, struct registration *asked);
void driver_column_made(struct driver *driver, struct registration *made);
/* questions.c: driver_answer answers a question and wakes the thread that asked it. */
void driver_answer(struct driver *driver, enum inbox_type type, struct driver_question *question);

#endif
