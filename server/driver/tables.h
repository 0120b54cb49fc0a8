/* tables.h: whom the engine's thread serves: the clients, the jobs of which they are ranks, and the jobs' pipelines.
 *
 * Only the engine's thread uses the tables. They are zeroed to begin with. */
#ifndef LARDER_SERVER_DRIVER_TABLES_H
#define LARDER_SERVER_DRIVER_TABLES_H

#include <sys/queue.h>

#include "common/histogram.h"
#include "server/history/given.h"
#include "server/registration/registration.h"

/* A rank has asked for a token of its job, and has no answer yet. */
struct driver_ask {
    bool open;
    uint64_t client;
    uint32_t job, rank, seq;
    uint32_t epoch, batches; /* the token covers each rank's first `batches` since the base */
    uint32_t timeout_ms;
    uint64_t deadline_ns;
    LIST_ENTRY(driver_ask) link; /* in driver->asks while it is open */
};

LIST_HEAD(driver_asks, driver_ask);

/* The client of one rank of a job: the present one, or the last one if none is there. */
struct driver_rank {
    bool there;             /* the client is connected */
    bool lost;              /* the client has gone without a BYE */
    bool hears_done, asked; /* DONE may be sent to it; it has asked for batches */
    uint64_t client;
    uint32_t pid;
    char *client_name;
    uint64_t delivered_ns; /* when it got its last batch with samples; 0: none yet */
    struct driver_ask ask;
};

struct driver_job {
    struct registration *reg;       /* the first rank's, owned; NULL: the place is free */
    uint32_t pipeline;              /* its number, an index of tables.pipelines */
    struct driver_rank *ranks;      /* reg->asked.world_size of them */
    uint32_t attached;              /* ranks that are there */
    double weight;                  /* the registered weight, or what `larder weight` set since */
    bool cancelled;                 /* the job ends with its last client, even if ranks have not come yet */
    struct given given;             /* what its ranks received; empty for a job of one rank */
    struct histogram waits;         /* times for which its clients stood still for a batch */
    struct histogram intervals;     /* times from one batch of a rank to its next */
    struct engine_job_status *last; /* what it had had when a client last left; NULL: none has */
    char *source_said; /* why storage last did not answer a read of the job's dataset; NULL: it always did */
};

struct driver_pipeline {
    struct pipeline *pipeline; /* NULL: the number is unused */
    uint64_t seed;             /* first part of the keys of its random draws */
    uint32_t jobs;             /* jobs that use it */
};

enum client_phase {
    CLIENT_COMING, /* the client's registration is with the registrar */
    CLIENT_LEFT,   /* the registration is with the registrar, but the client has gone */
    CLIENT_SEATED, /* the client is a rank of a job */
};

/* A client that is coming or seated. A client that was refused has no row. */
struct driver_client {
    uint64_t client;
    enum client_phase phase;
    uint32_t job, rank; /* valid when SEATED */
    LIST_ENTRY(driver_client) link;
};

LIST_HEAD(driver_clients, driver_client);

enum { TABLES_BUCKETS = 4096 }; /* a bucket has a few clients when all connections are taken */

struct tables {
    struct driver_job jobs[JOBS_MAX]; /* indexed by the engine's place */
    struct driver_pipeline pipelines[ENGINE_PIPELINES_MAX];
    struct driver_clients clients[TABLES_BUCKETS]; /* indexed by a hash of the client's number */
    size_t n_coming;                               /* clients in CLIENT_COMING or CLIENT_LEFT */
};

/* tables_clear ends all jobs and frees all rows. The tables may be used again. */
void tables_clear(struct tables *tables);

/* tables_client finds a client's row. NULL: the client has none. */
struct driver_client *tables_client(const struct tables *tables, uint64_t client);
/* tables_client_comes makes a row for a client whose registration goes to the registrar. */
void tables_client_comes(struct tables *tables, uint64_t client);
/* tables_client_came removes that row when the registration is back. It returns whether the client left meanwhile. */
bool tables_client_came(struct tables *tables, uint64_t client);

/* tables_job_begin gives a job the place, which must be free, and takes reg over. No rank is there yet. */
void tables_job_begin(struct tables *tables, uint32_t place, struct registration *reg, uint32_t pipeline);
/* tables_job_end frees the place, and the rows of the clients that are still ranks of the job. */
void tables_job_end(struct tables *tables, uint32_t place);
/* tables_seat makes reg's client the rank that it asked to be. tables_unseat ends that and removes the client's row.
 * bye: the client said that it leaves. */
void tables_seat(struct tables *tables, uint32_t place, const struct registration *reg);
void tables_unseat(struct tables *tables, struct driver_client *client, bool bye);

/* tables_find_job returns the place of the job with that name. JOBS_MAX: there is none. */
uint32_t tables_find_job(const struct tables *tables, const char *name);
/* tables_count_jobs counts the jobs of this node. With live it leaves out the cancelled ones: a cancelled job is over,
 * though some client may still hold batches of it. */
size_t tables_count_jobs(const struct tables *tables, bool live);
/* tables_note_source notes, for each job of the dataset, what storage said instead of an answer. It takes over the
 * text, which may be NULL: then nothing is noted. tables_source_said returns the text that was noted for one of these
 * jobs, "?" when there is none; the tables own it. */
void tables_note_source(struct tables *tables, const void *dataset, char *text);
const char *tables_source_said(const struct tables *tables, const void *dataset);

#endif
