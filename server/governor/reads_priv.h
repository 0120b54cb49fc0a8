/* reads_priv.h: the reads of every queue (reads*.c only). */
#ifndef LARDER_SERVER_GOVERNOR_READS_PRIV_H
#define LARDER_SERVER_GOVERNOR_READS_PRIV_H

#include "server/governor/read_queue.h"
#include "server/governor/reads.h"

/* LEFT + a source's number is the queue of the reads that ended jobs have left there. */
enum { QUEUE_BITS = 10, SOURCE_BITS = 8, LEFT = GOVERNOR_QUEUES_MAX };

_Static_assert(GOVERNOR_TIERS_MAX == 1 + FETCH_CLASSES_MAX, "the source, and each class");
_Static_assert(JOBS_MAX <= GOVERNOR_QUEUES_MAX, "each job has a queue at least");
_Static_assert(GOVERNOR_QUEUES_MAX == 1 << QUEUE_BITS && GOVERNOR_SOURCES_MAX == 1 << SOURCE_BITS, "names have both");

/* A queue of the governor's. It serves one rank, or several ranks of a job where queues are scarce. */
struct queue {
    bool there;
    uint32_t owner; /* number of queues that had this place before */
    uint32_t job;
    uint32_t source;
    struct read_queue waiting;          /* reads that the readers have not been given */
    uint32_t samples;                   /* samples of the waiting reads and of those under way */
    uint32_t tiers[GOVERNOR_TIERS_MAX]; /* those of them that will probably come from storage classes, by class */
    uint32_t busy;                      /* reads under way */
    double stock;                       /* batches that are ready, or whose samples are being read */
};

/* A job's use of an origin. */
struct part {
    uint32_t busy; /* reads under way */
    double turn;   /* its virtual time: seconds of reading over its weight; a new job begins where the others are */
};

struct job {
    uint32_t *queues; /* indexed by rank; NULL: the place is free */
    uint32_t world_size, batch_size, n_queues;
    double weight;
    struct part parts[1 + FETCH_CLASSES_MAX]; /* for its source, and for each class */
};

struct origin {
    uint32_t reading; /* reads under way */
    double turn;      /* virtual time of the job that got the last read */
    struct part left; /* reads that ended jobs have left, as if these were one more job */
};

struct device {
    uint64_t number;
    uint64_t used; /* the value of reads.uses when a job of the device last began or ended */
};

struct reads {
    struct reads_config config;
    struct workers *workers;
    const struct governor_decision *decision; /* NULL before the first */
    uint32_t busy, n_jobs, n_queues;          /* busy: reads under way; n_queues: queues that are in use */
    uint32_t queues_end;                      /* no queue with this number or a higher one is in use */
    struct device devices[GOVERNOR_SOURCES_MAX];
    uint32_t n_devices;
    uint64_t uses;
    struct origin origins[READS_ORIGINS]; /* the sources, and behind them the storage classes */
    struct job jobs[JOBS_MAX];
    struct queue queues[GOVERNOR_QUEUES_MAX + GOVERNOR_SOURCES_MAX];
};

static inline uint32_t reads_source_in(uint64_t name)
{
    return name >> QUEUE_BITS & (GOVERNOR_SOURCES_MAX - 1);
}

/* reads_origin returns the origin of a read: its source, or the class that will bring all of it. */
static inline uint32_t reads_origin(const struct worker_load *task)
{
    return task->classed < task->count ? reads_source_in(task->queue) : GOVERNOR_SOURCES_MAX + task->class - 1;
}

/* reads_part returns the use that the queue's job makes of an origin. */
static inline struct part *reads_part(struct reads *reads, uint32_t queue, uint32_t origin)
{
    if (queue >= LEFT)
        return &reads->origins[origin].left;
    return &reads->jobs[reads->queues[queue].job]
                .parts[origin < GOVERNOR_SOURCES_MAX ? 0 : 1 + origin - GOVERNOR_SOURCES_MAX];
}

/* reads_next.c */
/* reads_full says whether an origin has as many reads as it may have. */
bool reads_full(const struct reads *reads, uint32_t origin);
/* reads_give gives the readers as many reads as they may have. */
void reads_give(struct reads *reads);

#endif
