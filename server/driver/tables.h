/* tables.h: whom the engine's thread serves: its clients, the jobs they are ranks of, and their pipelines.
 *
 * The engine's thread's alone. Zeroed to begin with. */
#ifndef LARDER_SERVER_DRIVER_TABLES_H
#define LARDER_SERVER_DRIVER_TABLES_H

#include <sys/queue.h>

#include "server/driver/registration.h"

/* Whoever is a rank now, or was last. */
struct driver_rank {
    bool there;
    uint64_t client;
    uint32_t pid;
    char *client_name;
};

struct driver_job {
    struct registration *reg;  /* of the rank that made it; NULL: the place is free */
    uint32_t pipeline;         /* number */
    struct driver_rank *ranks; /* reg->world_size */
    uint32_t attached;         /* ranks that are there */
    double weight;             /* as registered, or as `larder weight` said since */
    bool cancelled;            /* ends with its last client, whatever ranks are to come */
    char *source_said;         /* what a read last failed with that its source did not answer; NULL: none has */
};

struct driver_pipeline {
    struct pipeline *pipeline; /* NULL: the number is unused */
    uint64_t seed;             /* first part of its random keys */
    uint32_t jobs;             /* that use it */
};

enum client_phase {
    CLIENT_COMING, /* its registration is with the registrar */
    CLIENT_LEFT,   /* so it is, but the client has gone */
    CLIENT_SEATED, /* it is a rank of a job */
};

/* A client that is coming or seated; there is no row of one that was refused. */
struct driver_client {
    uint64_t client;
    enum client_phase phase;
    uint32_t job, rank; /* SEATED */
    LIST_ENTRY(driver_client) link;
};

LIST_HEAD(driver_clients, driver_client);

enum { TABLES_BUCKETS = 4096 }; /* a few clients in each, when all connections are taken */

struct tables {
    struct driver_job jobs[JOBS_MAX]; /* by the engine's place */
    struct driver_pipeline pipelines[ENGINE_PIPELINES_MAX];
    struct driver_clients clients[TABLES_BUCKETS]; /* by a hash of their number */
    size_t n_coming;                               /* those that left among them */
};

/* tables_clear frees all; it may be used again. */
void tables_clear(struct tables *tables);

/* tables_client finds a client's row; NULL: it has none. */
struct driver_client *tables_client(const struct tables *tables, uint64_t client);
void tables_client_comes(struct tables *tables, uint64_t client);
/* tables_client_came: its registration is there. The row goes; gives whether the client has left meanwhile. */
bool tables_client_came(struct tables *tables, uint64_t client);

/* tables_job_begin takes reg over: the job has the place, which was free, and nobody is there yet. */
void tables_job_begin(struct tables *tables, uint32_t place, struct registration *reg, uint32_t pipeline);
/* tables_job_end frees the place, and the rows of those who are there. */
void tables_job_end(struct tables *tables, uint32_t place);
/* tables_seat: reg's client is the rank that it asked to be. tables_unseat: it is so no more; the row goes. */
void tables_seat(struct tables *tables, uint32_t place, const struct registration *reg);
void tables_unseat(struct tables *tables, struct driver_client *client);

/* tables_find_job gives the place of the job with that name; JOBS_MAX: there is none. */
uint32_t tables_find_job(const struct tables *tables, const char *name);
/* tables_count_jobs counts the jobs; with live, only those that were not cancelled: a cancelled job is over, though
 * some client may still hold batches of it. */
size_t tables_count_jobs(const struct tables *tables, bool live);
/* tables_note_source: what a source said instead of an answer, for the jobs that read from the dataset. Takes the text
 * over, which may be NULL. tables_source_said gives what one of these jobs was told last. */
void tables_note_source(struct tables *tables, const void *dataset, char *text);
const char *tables_source_said(const struct tables *tables, const void *dataset);

#endif
