/* driver.h: the engine's thread: takes messages from the inbox, steps the engine, carries its actions out.
 *
 * It owns the engine, the governor, and the tables of clients, jobs and pipelines. It waits for nothing
 * but its inbox: sessions and workers take what it gives without blocking. */
#ifndef LARDER_SERVER_DRIVER_DRIVER_H
#define LARDER_SERVER_DRIVER_DRIVER_H

#include "cache/memory/arena.h"
#include "common/mailbox.h"
#include "server/control/status.h"
#include "server/driver/inbox.h"
#include "server/engine/engine.h"
#include "server/session/session.h"
#include "server/workers/worker.h"

struct driver;

struct driver_config {
    struct engine_config engine;
    uint32_t jobs_max;
    uint32_t workers, loaders; /* the pool's, for the governor */
    struct mailbox *inbox;
    struct catalog *catalog;    /* borrowed: whose retired ids are forgotten; NULL: none are */
    void (*drained)(void *ctx); /* once, in the engine's thread: no job is left, and none is to come */
    void *ctx;
};

int driver_create(const struct driver_config *config, struct driver **out, struct error *err);
/* driver_start begins the thread; session and workers must outlive it. */
int driver_start(struct driver *driver, struct session *session, struct workers *workers, struct error *err);
/* driver_stop ends the thread after what is in the inbox; all clients are gone and the workers stopped before. */
void driver_stop(struct driver *driver);
void driver_destroy(struct driver *driver); /* accepts NULL */

/* driver_halt: from here on nothing is loaded, prepared or delivered, and the arena stays as it is, while clients are
 * told that the daemon stops, and leave. */
void driver_halt(struct driver *driver);
/* driver_settle waits until all that is in the inbox now has been dealt with. Not after driver_stop. */
void driver_settle(struct driver *driver);

/* Other threads may ask these; they wait for the answer, and not after driver_stop.
 *
 * driver_status fills what the engine's thread knows: draining, totals, jobs. */
void driver_status(struct driver *driver, struct daemon_status *status);
/* driver_cancel ends a job: nothing is prepared for it any more, and its clients get an error. What they hold is theirs
 * until they have left, and the job's name and that part of its quota with it. LARDER_ENOENT when there is no such job:
 * which is right too when the same request was carried out before. */
int driver_cancel(struct driver *driver, const char *name, struct error *err);
/* driver_set_weight gives a job another weight, from JOB_WEIGHT_MIN to JOB_WEIGHT_MAX. LARDER_ENOENT: no such job. */
int driver_set_weight(struct driver *driver, const char *name, double weight, struct error *err);

/* driver_drain: no new jobs from now on. Harmless when repeated. */
void driver_drain(struct driver *driver);
/* driver_takes_jobs is false from driver_drain and driver_halt on. It waits for nothing; any thread may call it until
 * driver_destroy. */
bool driver_takes_jobs(const struct driver *driver);

#endif
