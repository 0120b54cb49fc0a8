/* driver_priv.h: the engine thread's state: driver.c takes messages in, driver_actions.c carries actions out,
 * driver_questions.c answers other threads. */
#ifndef LARDER_SERVER_DRIVER_DRIVER_PRIV_H
#define LARDER_SERVER_DRIVER_DRIVER_PRIV_H

#include <pthread.h>

#include "common/log.h"
#include "server/driver/driver.h"
#include "server/driver/chunks.h"
#include "server/governor/live.h"

/* Whoever is a rank now, or was last. */
struct driver_rank {
    bool there;
    uint64_t client;
    uint32_t pid;
    char *client_name;
};

struct driver_job {
    struct registration *reg; /* of the rank that made it; NULL: the place is free */
    uint32_t pipeline;        /* number */
    struct driver_rank *ranks; /* reg->world_size */
    double weight;             /* as registered, or as `larder weight` said since */
    bool cancelled;            /* ends with its last client, whatever ranks are to come */
    char *source_said;         /* what a read last failed with that its source did not answer; NULL: none has */
};

struct driver_pipeline {
    struct pipeline *pipeline; /* NULL: the number is unused */
    uint64_t seed;             /* first part of its random keys */
    uint32_t jobs;             /* that use it */
};

struct driver_coming {
    uint64_t client;
    bool gone;
};

enum { RETIRED_AT_ONCE = 16384 }; /* ids: about a millisecond */

struct driver {
    struct driver_config config;
    struct engine *engine;
    struct session *session;
    struct workers *workers;
    struct governor_live *governor;
    pthread_t thread;
    bool running;
    bool draining, drained; /* asked for; told */

    struct driver_job jobs[JOBS_MAX]; /* by the engine's place */
    struct driver_pipeline pipelines[ENGINE_PIPELINES_MAX];
    struct driver_coming *coming;
    size_t n_coming, coming_cap;
    struct chunk_numbers chunks;
    struct registration *adding; /* while JOB_ADD is stepped */
    uint32_t adding_pipeline;
    uint64_t named;              /* jobs that got a name from us */
    uint64_t reads;              /* that workers did */
    uint64_t short_told_bytes; /* of encoded memory that a line has said are needed; 0: none are missing */

    sample_id retired[RETIRED_AT_ONCE]; /* ids that the engine is to forget */
    uint64_t retired_again_ns;          /* none is asked for before */
    uint8_t *entries; /* of the batch being sent */
    size_t entries_cap;
    char names[WIRE_REPLY_MAX - 4096]; /* of a page of classes */
};

/* driver_find_job finds the job that the client is a rank of, and which; NULL: of none. */
struct driver_job *driver_find_job(struct driver *driver, uint64_t client, uint32_t *rank);
struct driver_job *driver_find_name(struct driver *driver, const char *name);
bool driver_has_client(const struct driver_job *job); /* a rank is there */
size_t driver_count_jobs(const struct driver *driver);
/* driver_job_clear makes the place free; it may be. */
void driver_job_clear(struct driver_job *job);
/* driver_step steps the engine and carries out what it asks for; no events, no step. */
void driver_step(struct driver *driver, const struct engine_event *events, size_t count);
/* driver_answer answers a question, in the engine's thread (driver_questions.c). */
void driver_answer(struct driver *driver, enum inbox_type type, struct driver_question *question);

#endif
