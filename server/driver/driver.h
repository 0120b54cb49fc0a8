/* driver.h: the engine's thread. It takes messages from the inbox, steps the engine and carries out its actions.
 *
 * The thread owns the engine, the governor, and the tables of clients, jobs and pipelines. It waits for nothing but its
 * inbox: the session and the workers take what it gives them without blocking. */
#ifndef LARDER_SERVER_DRIVER_DRIVER_H
#define LARDER_SERVER_DRIVER_DRIVER_H

#include "cache/memory/arena.h"
#include "common/mailbox.h"
#include "server/config/config.h"
#include "server/control/status.h"
#include "server/driver/inbox.h"
#include "server/engine/engine.h"
#include "server/session/session.h"
#include "server/sharing/sharing.h"
#include "server/workers/worker.h"

struct driver;

/* What becomes of one of this node's own jobs. The engine's thread tells it, and who is told may not block. */
enum driver_fate { DRIVER_CAME, DRIVER_FAILED, DRIVER_ENDED };
/* How a job ended: all its clients said BYE; an operator cancelled it; a client was gone without a BYE; or that was so
 * because the daemon stops. */
enum driver_end { DRIVER_SAID_BYE, DRIVER_CANCELLED, DRIVER_LOST, DRIVER_STOPPED };
struct driver_told {
    enum driver_fate fate;
    uint32_t place; /* the job's number */
    uint64_t now_ns;
    const char *text;                     /* CAME: its name; FAILED: why */
    enum driver_end end;                  /* ENDED */
    const struct engine_job_status *last; /* ENDED: what it had had when its last client left; NULL: not known */
};

struct driver_config {
    struct engine_config engine;
    /* A number that no other daemon has. Random draws that a seed alone does not decide depend on it. */
    uint64_t boot;
    uint32_t jobs_max;
    const struct config *settings; /* borrowed: errors say where what they name is set. NULL: they do not */
    uint32_t workers, reads;       /* threads that prepare, and reads at once that a source may have */
    struct mailbox *inbox;         /* borrowed */
    struct catalog *catalog;       /* borrowed; the engine forgets the ids that it has retired. NULL: there are none */
    struct arena *arena;           /* borrowed; copies go there. NULL: engine.reserve_bytes and copy_bytes are 0 */
    const char *memory_root;       /* borrowed; put before the paths that tell how memory is, "" outside tests */
    struct origins *origins;       /* borrowed; it is told whose samples jobs want. NULL: there are none */
    const char *rates;             /* the file that keeps preparing rates; NULL: none does. Borrowed by driver_create */
    const struct sharing_node *node; /* NULL: this daemon is in no cluster. Borrowed by driver_create */
    /* called once, in the engine's thread: no job is left, of this node or another, and none can come */
    void (*drained)(void *ctx);
    /* called once after driver_leave_then, in the engine's thread: no guest of another node is waited for */
    void (*left)(void *ctx);
    void (*told)(void *ctx, const struct driver_told *told); /* NULL: nobody is told */
    void *ctx;
};

/* driver_create makes the engine and the governor and copies config. The caller destroys the driver. Fails as
 * engine_create and governor_live_create do. */
int driver_create(const struct driver_config *config, struct driver **out, struct error *err);
/* driver_start begins the thread, and the reserver's. session, workers and registrar are borrowed and must outlive
 * them. LARDER_ELIMIT, LARDER_ENOMEM. */
int driver_start(struct driver *driver, struct session *session, struct workers *workers, struct registrar *registrar,
                 struct error *err);
/* driver_share lends the driver the peering, to share with other nodes, and the registrar, to register their jobs. It
 * is called before driver_start. The peering's events go to the inbox. driver_alone ends the sharing: when it returns,
 * no node is asked or answered any more, and jobs of other nodes end. */
void driver_share(struct driver *driver, struct peering *peering, struct registrar *registrar);
void driver_alone(struct driver *driver);
/* driver_stop ends the thread once it has dealt with what is in the inbox. The owner calls it when all clients are gone
 * and the workers have stopped. */
void driver_stop(struct driver *driver);
void driver_destroy(struct driver *driver); /* stops first; accepts NULL */

/* driver_halt makes the engine load, prepare and deliver nothing any more, and waits until the engine knows. From then
 * on the arena stays as it is, while clients are told that the daemon stops, and leave. */
void driver_halt(struct driver *driver);
/* driver_settle waits until the thread has dealt with all that is in the inbox at the call. Not to be called after
 * driver_stop. */
void driver_settle(struct driver *driver);

/* Any thread but the engine's may call the following seven until driver_stop. Each waits for its answer.
 *
 * driver_status fills what the engine's thread knows: whether the daemon is draining, the totals, the jobs, and what
 * the governor decided. */
void driver_status(struct driver *driver, struct daemon_status *status);
/* driver_tree fills the dependent sampling tree of the dependent jobs. It is worked out in the caller's thread, from
 * copies that the engine's thread makes. */
void driver_tree(struct driver *driver, struct status_tree *tree);
/* driver_cancel ends a job: nothing is prepared for it any more, and its clients get an error. The clients keep what
 * they hold until they have left; until then the job keeps its name and that part of its quota. LARDER_ENOENT: there is
 * no such job, perhaps because the same request was carried out before. */
int driver_cancel(struct driver *driver, const char *name, struct error *err);
/* driver_set_weight gives a job another weight, from JOB_WEIGHT_MIN to JOB_WEIGHT_MAX. LARDER_ENOENT: no such job. */
int driver_set_weight(struct driver *driver, const char *name, double weight, struct error *err);
/* driver_leave has a node of a cluster give nothing more to others: no other guest is attached, and those that are
 * there end with their epoch, or after GUESTS_LEAVE_NS. Its own jobs go on, and other nodes give to them. A second call
 * does nothing. LARDER_ENOENT: this daemon is in no cluster. */
int driver_leave(struct driver *driver, struct error *err);
/* driver_leave_then does the same for a daemon that is to end, and has config.left called when no guest is waited for.
 * If the daemon is in no cluster, config.left is called at once. */
void driver_leave_then(struct driver *driver);
/* driver_drain makes the engine refuse new jobs from this moment on. A node of a cluster leaves it. A second call does
 * nothing. */
void driver_drain(struct driver *driver);

/* driver_takes_jobs tells whether jobs may still come: false from driver_drain or driver_halt on. It waits for nothing.
 * Any thread may call it until driver_destroy. */
bool driver_takes_jobs(const struct driver *driver);

#endif
