/* driver_priv.h: the engine thread's state: driver.c takes messages in, registered.c makes jobs of registrations,
 * questions.c answers other threads, actions.c steps the engine and carries out what it asks for, news.c logs. */
#ifndef LARDER_SERVER_DRIVER_DRIVER_PRIV_H
#define LARDER_SERVER_DRIVER_DRIVER_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/log.h"
#include "server/driver/driver.h"
#include "server/driver/observer.h"
#include "server/driver/tables.h"
#include "server/governor/live.h"

enum { OBSERVERS = 2 };
enum { RETIRED_AT_ONCE = 16384 }; /* ids: about a millisecond */

/* Whether jobs are taken no more. */
struct driver_drain {
    atomic_bool asked; /* written by the engine's thread, read by driver_takes_jobs */
    bool told;         /* that the last job has gone */
};

/* What JOB_ADD is stepped for. reg is NULL at all other times, and once it is the job's. */
struct driver_adding {
    struct registration *reg;
    uint32_t pipeline;
};

/* The read that LOADs are being taken together for; load.count 0: none. */
struct driver_reading {
    struct worker_load load;
    size_t cap;      /* of its samples */
    uint64_t number; /* as its LOADs have it */
};

/* Ids that the engine is to forget. */
struct driver_retired {
    sample_id ids[RETIRED_AT_ONCE];
    uint64_t again_ns; /* None is asked for before. */
};

/* The batch being sent, as it goes over the wire; the driver's own, kept from batch to batch. */
struct driver_entries {
    uint8_t *bytes;
    size_t cap;
};

struct driver {
    struct driver_config config;
    struct engine *engine;
    struct session *session;
    struct workers *workers;
    struct governor_live *governor;
    pthread_t thread;
    bool running;
    struct driver_drain drain;

    struct driver_observer observers[OBSERVERS]; /* the governor, the log */
    struct tables tables;
    struct driver_adding adding;
    uint64_t named;            /* jobs that got a name from us */
    uint64_t reads;            /* that workers did */
    uint64_t short_told_bytes; /* of encoded memory that a line has said are needed; 0: none are missing */

    struct driver_reading reading;
    struct driver_retired retired;
    struct driver_entries entries;
    char names[WIRE_REPLY_MAX - 4096]; /* of a page of classes */
};

#define OBSERVERS_TELL(driver, what, ...)                                           \
    for (size_t o_ = 0; o_ < OBSERVERS; o_++) {                                     \
        if ((driver)->observers[o_].what)                                           \
            (driver)->observers[o_].what((driver)->observers[o_].ctx, __VA_ARGS__); \
    }

/* driver_registered takes a registration over that the registrar is through with (registered.c). */
void driver_registered(struct driver *driver, struct registration *reg);
/* driver_news is the log's on_action; driver_job_error gives what the rank of a JOB_ERROR is told (news.c). */
void driver_news(void *driver, const struct engine_action *action);
struct error driver_job_error(const struct driver *driver, const struct engine_action *action);
/* driver_step steps the engine and carries out what it asks for; no events, no step (actions.c). */
void driver_step(struct driver *driver, const struct engine_event *events, size_t count);
/* driver_answer answers a question, in the engine's thread (questions.c). */
void driver_answer(struct driver *driver, enum inbox_type type, struct driver_question *question);

#endif
