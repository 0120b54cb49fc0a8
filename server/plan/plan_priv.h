/* plan_priv.h: a run of `larder plan` in virtual time: its threads, reads and clients (plan_*.c only). */
#ifndef LARDER_SERVER_PLAN_PLAN_PRIV_H
#define LARDER_SERVER_PLAN_PLAN_PRIV_H

#include "common/clock.h"
#include "server/plan/agenda.h"
#include "server/plan/plan.h"
#include "server/plan/plan_station.h"
#include "server/plan/play.h"

#define PLAN_CAME_MAX (2 * ENGINE_PREFETCH_MAX) /* batches of two epochs */

/* A client's training step is over. */
struct plan_timed {
    struct due due;
    uint32_t job;
};

/* One read: samples of one chunk. */
struct plan_read {
    uint64_t number; /* the engine's */
    sample_id *ids;
    size_t cap;
    uint32_t count;
    uint64_t class_bytes, source_bytes; /* set when it begins */
    double source_work;                 /* the source's bytes, if all samples were of mean size */
};

struct plan_reads {
    struct plan_read *all; /* oldest first */
    size_t cap;
    uint32_t count, begun;
};

struct plan_task {
    uint32_t number, outputs; /* number: the engine's */
    sample_id id;
    bool of_form;        /* it is made of a decoded form */
    uint64_t form_bytes; /* what it may take for a form that it makes; 0: it makes none */
};

struct plan_tasks {
    struct plan_task *all; /* oldest first */
    size_t cap;
    uint32_t count, begun;
};

/* Bytes that wait to be written to the class, and their limit. */
struct plan_behind {
    double waiting, room;
    uint64_t at_ns; /* when `waiting` was so much */
};

struct plan_batch {
    uint64_t number;
    uint32_t count;
    bool last;
};

struct plan_job {
    uint32_t place; /* the engine's job */
    uint32_t epoch, credits;
    bool training, last, done;             /* last: it trains on its epoch's last batch */
    uint64_t idle_ns, epoch_ns;            /* since when it waits, and when its epoch began */
    uint64_t had;                          /* samples */
    struct plan_batch came[PLAN_CAME_MAX]; /* a ring: what it was sent and has not taken */
    uint32_t head, n_came;
};

struct plan_run {
    const struct plan_case *plan;
    struct plan_row *row;
    struct play play;
    struct agenda agenda;
    struct idset *view;
    struct chunk_slot *places;
    bool *in_class;      /* indexed by sample */
    uint64_t class_room; /* bytes */
    struct plan_behind behind;
    uint64_t longest_bytes;
    double mean_bytes;
    uint32_t batch;
    double step_s;
    struct plan_station source, class, preparers;
    struct plan_reads reads;
    struct plan_tasks tasks;
    uint32_t reading; /* threads; the preparers' station counts those that prepare */
    struct plan_job jobs[PLAN_JOBS_MAX];
    struct plan_job *at[JOBS_MAX], *adding;
    uint32_t joined, running;
};

static inline double plan_to_s(uint64_t ns)
{
    return (double)ns / (double)CLOCK_NS_PER_S;
}

/* The part of the row that counts what happens now: with its last batch the first job asks for the next epoch. */
static inline struct plan_part *plan_part_now(struct plan_run *run)
{
    return run->jobs[0].epoch == 0 && !run->jobs[0].last ? &run->row->first : &run->row->later;
}

/* plan_reads.c. A LOAD becomes part of a waiting read; plan_read_start begins the oldest one. Then the class finishes
 * its part, if it has one, and the source its own. */
void plan_see_load(struct plan_run *run, const struct engine_action *action);
void plan_read_start(struct plan_run *run);
void plan_class_read(struct plan_run *run, uint32_t number);
void plan_source_read(struct plan_run *run, uint32_t number);

#endif
