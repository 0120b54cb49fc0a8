/* reads_priv.h: the reads of every queue (reads*.c only). */
#ifndef LARDER_SERVER_GOVERNOR_READS_PRIV_H
#define LARDER_SERVER_GOVERNOR_READS_PRIV_H

#include "server/governor/read_queue.h"
#include "server/governor/reads.h"

enum { QUEUE_BITS = 10, SOURCE_BITS = 4, LEFT = GOVERNOR_QUEUES_MAX };

_Static_assert(GOVERNOR_TIERS_MAX == 1 + FETCH_CLASSES_MAX, "the source, and each class");
_Static_assert(JOBS_MAX <= GOVERNOR_QUEUES_MAX, "each job has a queue at least");
_Static_assert(GOVERNOR_QUEUES_MAX == 1 << QUEUE_BITS && GOVERNOR_SOURCES_MAX == 1 << SOURCE_BITS, "names have both");

/* A queue of the governor's. It serves one rank, or several ranks of a job where queues are scarce. */
struct queue {
    bool there;
    uint32_t owner; /* how many queues have had the place before */
    uint32_t job;
    uint32_t source;
    struct read_queue waiting;          /* reads that the pool has not been given */
    uint32_t samples;                   /* samples of the waiting reads and of those that the pool has */
    uint32_t tiers[GOVERNOR_TIERS_MAX]; /* those of them that storage classes will probably bring, by class */
    uint32_t busy;                      /* reads that the pool has */
    double stock;                       /* batches that lie ready, or whose samples are being read */
};

struct job {
    uint32_t *queues; /* by rank; NULL: the place is free */
    uint32_t world_size, batch_size, n_queues;
    uint32_t busy; /* reads that the pool has */
    double weight;
};

struct device {
    uint64_t number;
    uint64_t used; /* the value of reads.uses when a job of the device last began or ended */
};

struct reads {
    struct reads_config config;
    struct workers *workers;
    const struct governor_decision *decision; /* NULL before the first */
    uint32_t preparing;                       /* preparations that the pool has */
    uint32_t busy, n_jobs, n_queues;          /* n_queues: queues that are in use */
    uint32_t queues_end;                      /* no queue with this number or a higher one is in use */
    struct device devices[GOVERNOR_SOURCES_MAX];
    uint32_t n_devices;
    uint64_t uses;
    uint32_t reading[GOVERNOR_SOURCES_MAX]; /* reads that the pool has, by source */
    struct job jobs[JOBS_MAX];
    struct queue queues[GOVERNOR_QUEUES_MAX + 1]; /* the last one, LEFT, has the reads whose jobs have ended */
};

static inline uint32_t reads_source_in(uint32_t name)
{
    return name >> QUEUE_BITS & (GOVERNOR_SOURCES_MAX - 1);
}

/* reads_is_sources tells whether a read counts for its source. One that classes will bring wholly does not. */
static inline bool reads_is_sources(uint32_t count, uint32_t classed)
{
    return classed < count;
}

/* reads_next.c: reads_give gives the pool as many reads as it may have. */
void reads_give(struct reads *reads);

#endif
