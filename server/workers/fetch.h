/* fetch.h: the bytes of samples, from a storage class or from their source. */
#ifndef LARDER_SERVER_WORKERS_FETCH_H
#define LARDER_SERVER_WORKERS_FETCH_H

#include <stdatomic.h>

#include "cache/catalog/catalog.h"

struct origins;

#define FETCH_CLASSES_MAX 8 /* storage classes that there can be */

/* The part of a read that came from storage classes; the rest came from the source. */
struct fetch_classed {
    uint32_t class;   /* number of the class that brought most, from 1; 0: none brought anything */
    uint32_t samples; /* samples from all classes together */
    uint64_t took_ns;
};

/* State shared by all threads that read. The owner fills in the first two members, and zeroes the others. */
struct fetch {
    struct origins *origins;          /* borrowed; NULL: there are no storage classes */
    uint32_t delay_ms;                /* for tests: delay added to each read of a source */
    atomic_bool stopping;             /* set by the owner, read by threads that wait for descriptors */
    atomic_uint_least64_t starved_ns; /* when the log last said that such threads wait; relaxed, no partner */
};

/* The samples to read, each with its own outcome. */
struct fetch_read {
    const struct dataset *dataset;
    uint64_t device; /* device of the dataset's source; 0: not known */
    struct sample_read *reads;
    uint32_t count;
    /* after this time no read of the source begins, and its samples are left (sample_read.left); 0: no limit */
    uint64_t until_ns;
};

/* fetch_samples reads samples and returns the time that it spent waiting for descriptors. It leaves samples unread
 * (LARDER_ELIMIT) only when `stopping` is set. It blocks on the disk. Any thread. */
uint64_t fetch_samples(struct fetch *fetch, const struct fetch_read *wanted, struct fetch_classed *classed);

#endif
