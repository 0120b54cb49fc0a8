/* fetch.h: the bytes of samples, from a storage class or from their source. */
#ifndef LARDER_SERVER_WORKERS_FETCH_H
#define LARDER_SERVER_WORKERS_FETCH_H

#include <stdatomic.h>

#include "cache/catalog/catalog.h"

struct origins;

#define FETCH_CLASSES_MAX 8 /* storage classes that there can be */

/* What of a read came from storage classes; the rest came from the source. */
struct fetch_classed {
    uint32_t class;   /* that brought most of it, by its number from 1; 0: none brought anything */
    uint32_t samples; /* of all classes together */
    uint64_t took_ns;
};

/* What all threads that read share. The owner fills in the first two, and zeroes the others. */
struct fetch {
    struct origins *origins;          /* borrowed; NULL: there are no storage classes */
    uint32_t delay_ms;                /* for tests: each read of a source takes so much longer */
    atomic_bool stopping;             /* set by the owner, read by threads that wait for descriptors */
    atomic_uint_least64_t starved_ns; /* when the log last said that such threads wait; relaxed, no partner */
};

/* What to read, each sample with its own outcome. */
struct fetch_read {
    const struct dataset *dataset;
    uint64_t device; /* of the dataset's source; 0: not known */
    struct sample_read *reads;
    uint32_t count;
    uint64_t until_ns; /* what the source has not begun then is left (sample_read.left); 0: nothing is */
};

/* fetch_samples reads samples and gives the time that it spent waiting for descriptors. It leaves samples unread
 * (LARDER_ELIMIT) only when `stopping` is set. It blocks on the disk. Any thread. */
uint64_t fetch_samples(struct fetch *fetch, const struct fetch_read *wanted, struct fetch_classed *classed);

#endif
